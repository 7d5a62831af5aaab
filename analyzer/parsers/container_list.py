"""Lists of containers: ``docker ps``, ``podman ps``, ``nerdctl ps``, also with columns that were chosen.

    CONTAINER ID   IMAGE     COMMAND                  CREATED       STATUS                        PORTS     NAMES
    9f3c1b7a2d4e   redis:7   "docker-entrypoint.s…"   9 days ago    Exited (137) 25 minutes ago             redis

A row of the table `scheduler` per container: whose state it is, and what is wrong with it. Which of them is the job,
the list does not say.
"""

from __future__ import annotations

import re

from flatline.bundle.facts import Scheduler

from .interface import Line, Lines, Parsed, Parser, any_of
from .prompts import command_before
from .spans import rows_of

_COLUMNS = (
    "CONTAINER ID|IMAGE|COMMAND|CREATED AT|CREATED|RUNNING FOR|STATUS|STATE|PORTS|NAMES|SIZE|LABELS|MOUNTS|NETWORKS|"
    "LOCAL VOLUMES|POD ID|PODNAME"
)
_HEAD = re.compile(rf"(?=.*\bSTATUS\b)(?=.*\b(?:NAMES|CONTAINER ID)\b)(?:(?:{_COLUMNS})(?:\s{{2,}}|$)){{2,14}}")
_NAME = re.compile(_COLUMNS)
_STATUS = re.compile(
    r"(?P<what>Up|Exited|Created|Restarting|Removal In Progress|Dead|Paused|Stopping|Initialized|Configured|Stopped)\b"
    r"(?: \((?P<code>\d{1,3})\))?(?P<rest>.{0,200})$"
)
_ROW = re.compile(
    r"(?P<name>[\w][\w.-]{1,127})(?:\t| {2,}).{0,300}?\b(?P<status>Up (?:\d{1,4}|About|Less) \S.{0,60}"
    r"|Exited \(\d{1,3}\) .{1,40}|Restarting \(\d{1,3}\) .{1,40}|Created|Dead|Paused)(?:(?:\t| {2,}).{0,200})?$"
)
"""A row of columns that ``--format`` chose, without a headline: the name comes first."""
_CHOSEN = re.compile(r"(?:docker|podman|nerdctl)(?: container)? (?:ps|ls)\b.{0,200}--format")
_WORD = {"Up": "running", "Removal In Progress": "removing"}


def parse(lines: Lines, start: int) -> Parsed | None:
    """The headline measures the columns."""
    head = lines[start].text.rstrip()
    if not _HEAD.match(head.strip()):
        return None
    begins = [(found[0], found.start()) for found in _NAME.finditer(head)]
    ends = [*(at for _, at in begins[1:]), None]
    spans = {name: slice(at, end) for (name, at), end in zip(begins, ends, strict=True)}
    end, rows = rows_of(lines, start + 1, lambda line: _listed(line, spans))
    return Parsed(max(end, start + 1), tuple(rows), about=f"{len(rows)} containers")


def parse_chosen(lines: Lines, start: int) -> Parsed | None:
    """What ``docker ps --format`` printed, where the command stands above."""
    asked = command_before(lines, start)
    if asked is None or not _CHOSEN.match(asked.text):
        return None
    end, rows = rows_of(lines, start, _chosen)
    return Parsed(end, tuple(rows), about=f"{len(rows)} containers") if rows else None


def _chosen(line: Line) -> Scheduler | None:
    found = _ROW.match(line.text.strip())
    status = _STATUS.match(found["status"]) if found else None
    return _row(found["name"], found["status"], status, line) if found and status else None


def _listed(line: Line, spans: dict[str, slice]) -> Scheduler | None:
    row = {name: line.text[place].strip() for name, place in spans.items()}
    found = _STATUS.match(row["STATUS"])
    name = row.get("NAMES") or row.get("CONTAINER ID")
    if found is None or not name:
        return None
    return _row(name, row["STATUS"], found, line)


def _row(name: str, status: str, found: re.Match[str], line: Line) -> Scheduler:
    state = _WORD.get(found["what"], found["what"].lower())
    state = "paused" if "(Paused)" in found["rest"] else state
    is_well = state == "running" and "(unhealthy)" not in found["rest"]
    return Scheduler("other", name, state, None if is_well else status, source="tool", line=line.number)


PARSERS = (
    Parser("container-list", _HEAD, parse),
    Parser("container-list-chosen", any_of(_ROW), parse_chosen),
)
