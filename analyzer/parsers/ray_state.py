"""What Ray says of its cluster: ``ray status``, ``ray list actors`` (tasks, nodes, placement-groups).

    ======== Autoscaler status: 2026-11-29 15:39:43.425575 ========
    Pending Demands:
     {'CPU': 1.0, 'GPU': 1.0}: 1+ pending tasks/actors

A demand that nobody fulfils is a job that waits; the text stays in the log too, where rules look for it.
"""

from __future__ import annotations

import re

from flatline.bundle.facts import Scheduler

from .interface import Line, Lines, Parsed, Parser, any_of
from .spans import Span, span

_STATUS = re.compile(r"=+ Autoscaler status: .{4,60}=+$")
_OWN = re.compile(
    r"[=-]{10,}|Node status$|Resources$|(?:Active|Idle|Pending|Recent failures|Usage|Total Usage|Demands|"
    r"(?:Total |Pending )?Demands|Constraints|(?:Total )?Constraints|From request_resources|Launching|Healthy|"
    r"GCS request time|Node Provider non_terminated_nodes time|Node: \S{1,80}|Activity|Autoscaler):?|\(\w[\w ]{2,80}\)|"
    r"\d{1,6} \S{1,120}$|node_\S{1,120}|\S{1,120}: (?:NodeTerminated|\S{0,60}Fail)|"
    r"[\d.]{1,20}[KMGT]?i?B?/[\d.]{1,20}[KMGT]?i?B? \S"
    r"|\{.{1,1000}\}: \d{1,9}\+? |\{.{0,1000}\} \* \d|No (?:activity|cluster)"
)
_USAGE = re.compile(
    r"[\d.]{1,20}[KMGT]?i?B?/[\d.]{1,20}[KMGT]?i?B? (?:CPU|GPU|TPU|memory|object_store_memory|node:|accelerator_type)"
)
_DEMAND = re.compile(r"(?P<what>\{.{1,1000}\}(?: \* \d{1,6})?(?: \(\w{1,30}\))?): (?P<count>\d{1,9}\+? .{0,100})")
_NODE_FAILED = re.compile(
    r"(?P<node>\S{1,120}): (?P<reason>NodeTerminated|\S{0,60}Fail\S{0,60}|LaunchFailed.{0,200})(?: \(ip: \S{1,45}\))?$"
)
_LIST = re.compile(r"={4,} List: \d{4}-\d\d-\d\d .{4,40}={4,}$")
_STATES = (
    "DEPENDENCIES_UNREADY|PENDING_CREATION|ALIVE|RESTARTING|DEAD|PENDING|PREPARED|CREATED|REMOVED|RESCHEDULING|INFEASIBLE|RUNNING|"
    "FINISHED|FAILED|SUCCEEDED|STOPPED|PENDING_NODE_ASSIGNMENT|PENDING_ARGS_AVAIL|PENDING_OBJ_STORE_MEM_AVAIL|"
    "SUBMITTED_TO_WORKER|RUNNING_IN_RAY_GET|RUNNING_IN_RAY_WAIT|PENDING_ACTOR_TASK_ARGS_FETCH|"
    "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY|NIL"
)
_ROW = re.compile(
    rf"\d{{1,6}}\s+(?P<id>[0-9a-f]{{8,64}})\s+(?:(?P<name>\S.{{0,120}}?)\s+)?(?P<state>{_STATES})\b(?P<rest>.{{0,2000}})$"
)
_NODE = re.compile(r"\b[0-9a-f]{56}\b")
_LIST_OWN = re.compile(
    rf"{_LIST.pattern}|Stats:$|-{{10,}}$|Total: \d|Table:$|[A-Z_]{{2,30}}(?:\s+[A-Z_]{{2,30}}){{1,30}}$"
    r"|\d{1,6}\s+[0-9a-f]{8,64}\s"
)


def parse_status(lines: Lines, start: int) -> Parsed | None:
    """Nodes, resources, and the demands that wait for some; people paste the lower half alone."""
    has_head = bool(_STATUS.match(lines[start].bare))
    found = span(lines, start + has_head, _OWN.match)
    rows = [row for line in found.lines if (row := _told(line))]
    if not has_head and not rows and not any(_USAGE.match(line.bare) for line in found.lines):
        return None
    end = max(found.end, start + 1)
    nodes = sum(bool(re.match(r"\d{1,6} node_", line.bare)) for line in found.lines)
    waiting = sum(row.state == "PENDING" for row in rows)
    return Parsed(end, tuple(rows), about=f"ray status: {nodes} kinds of nodes, {waiting} demands wait")


def _told(line: Line) -> Scheduler | None:
    if demand := _DEMAND.match(line.bare):
        if "pending" not in demand["count"]:
            return None
        reason = f"{demand['what']}: {demand['count']}"
        return Scheduler("ray", state="PENDING", reason=reason, source="tool", line=line.number)
    if failed := _NODE_FAILED.match(line.bare):
        return Scheduler("ray", state="FAILED", reason=failed["reason"], node=failed["node"], source="tool",
                         line=line.number)  # fmt: skip
    return None


def parse_list(lines: Lines, start: int) -> Parsed | None:
    """``ray list``: a row for each actor, task, node or placement group."""
    found = span(lines, start, _LIST_OWN.match)
    rows = tuple(row for line in found.lines if (row := _listed(line)))
    return Parsed(found.end, rows, about=_about(found, len(rows)))


def _about(found: Span, count: int) -> str:
    head = next((line.bare.split()[0] for line in found.lines if re.match(r"[A-Z_]{2,30}_ID\s", line.bare)), "")
    return f"ray list: {count} {head.removesuffix('_ID').lower().replace('_', ' ') or 'row'}s"


def _listed(line: Line) -> Scheduler | None:
    found = _ROW.match(line.bare)
    if found is None:
        return None
    node = _NODE.search(found["rest"])
    return Scheduler("ray", found["name"] or found["id"], found["state"], node=node[0] if node else None, source="tool",
                     line=line.number)  # fmt: skip


_PART = re.compile(r"Node status$|(?:Total )?(?:Usage|Demands):$|Pending Demands:$")
PARSERS = (
    Parser("ray-status", any_of(_STATUS, _PART), parse_status, is_log=True),
    Parser("ray-list", _LIST, parse_list, is_log=True),
)
