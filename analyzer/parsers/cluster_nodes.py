"""Slurm's nodes and what its accounting prints for programs: sinfo, scontrol show node, sacct -P."""

from __future__ import annotations

import re

from flatline.bundle.facts import Scheduler

from .columns import split_row
from .interface import LOOKAHEAD, Lines, Parsed, Parser

_SINFO = re.compile(
    r"(?:PARTITION\s+AVAIL\s+TIMELIMIT\s+|NODELIST\s+NODES\s+PARTITION\s+STATE\b|REASON\s+USER\s+TIMESTAMP\s)"
)
_NODE = re.compile(r"NodeName=(?P<node>\S{1,200})\s")
_STATE = re.compile(r"\bState=(?P<state>[A-Z][A-Z_+*~#!%$@^-]{1,80})")
_PARTITION = re.compile(r"\bPartitions=(?P<queue>\S{1,200})")
_REASON = re.compile(r"(?:^|\s)Reason=(?P<reason>\S.{0,400}?)(?: \[[^\]]{1,80}\])?$")
_PAIRS = re.compile(r"[A-Z]\w{1,40}=")
_SACCT = re.compile(r"(?:\w{2,30}\|){1,80}\w{0,30}$")
_BY = re.compile(r"\s{1,10}by \d{1,10}$")


def parse_sinfo(lines: Lines, start: int) -> Parsed | None:
    """``sinfo``, ``sinfo -N -l``, ``sinfo -R``: a row for each group of nodes."""
    head = lines[start].text
    columns = head.split()
    rows: list[Scheduler] = []
    end = start + 1
    for index in range(start + 1, len(lines)):
        line = lines[index]
        row = _by_place(head, line.text) if columns[0] == "REASON" else split_row(line.bare, columns, line.text)
        if not row or not row.get("NODELIST") or not (row.get("STATE") or columns[0] == "REASON"):
            break
        reason = row.get("REASON")
        rows.append(Scheduler(
            "slurm", state=row.get("STATE"), reason=None if reason in ("none", "(null)") else reason,
            node=row["NODELIST"], queue=(row.get("PARTITION") or "").rstrip("*") or None, source="tool",
            line=line.number,
        ))  # fmt: skip
        end = index + 1
    return Parsed(end, tuple(rows), about=f"{len(rows)} groups of nodes") if rows else None


def _by_place(head: str, text: str) -> dict[str, str]:
    """A reason holds blanks and is cut at its column's end: the places of the headline tell where the others are."""
    places = [(found[0], found.start()) for found in re.finditer(r"\S+", head)]
    ends = [place for _, place in places[1:]] + [len(text)]
    return {name: text[first:last].strip() for (name, first), last in zip(places, ends, strict=True)}


def parse_node(lines: Lines, start: int) -> Parsed | None:
    """``scontrol show node``, in lines or in one (-o)."""
    head = _NODE.match(f"{lines[start].bare} ")
    if head is None:
        return None
    end = start + 1
    while end < min(len(lines), start + LOOKAHEAD) and _PAIRS.match(lines[end].bare):
        if _NODE.match(f"{lines[end].bare} "):
            break
        end += 1
    bares = [line.bare for line in lines[start:end]]
    found = {name: match[name] for name, pattern in (("state", _STATE), ("queue", _PARTITION), ("reason", _REASON))
             for bare in bares if (match := pattern.search(bare))}  # fmt: skip
    if "state" not in found:
        return None
    row = Scheduler("slurm", state=found["state"], reason=found.get("reason"), node=head["node"],
                    queue=found.get("queue"), source="tool", line=lines[start].number)  # fmt: skip
    return Parsed(end, (row,), about=f"node {row.node}: {row.state}")


def parse_sacct(lines: Lines, start: int) -> Parsed | None:
    """``sacct -P`` and ``-p``: fields between bars, named by the first line."""
    names = lines[start].bare.split("|")
    if not {"JobID", "JobIDRaw"} & set(names) or "State" not in names:
        return None
    rows: list[Scheduler] = []
    end = start + 1
    for index in range(start + 1, len(lines)):
        values = lines[index].bare.split("|")
        row = dict(zip(names, values, strict=False))
        job = row.get("JobID") or row.get("JobIDRaw") or ""
        if len(values) < len(names) or not re.match(r"\d{1,12}", job):
            break
        end = index + 1
        if "." not in job:
            rows.append(Scheduler(
                "slurm", job, _BY.sub("", row["State"]) or None, row.get("Reason") or None,
                node=row.get("NodeList") or None, queue=row.get("Partition") or None, source="tool",
                line=lines[index].number,
            ))  # fmt: skip
    return Parsed(end, tuple(rows), about=f"{len(rows)} jobs") if rows else None


PARSERS = (
    Parser("sinfo", _SINFO, parse_sinfo),
    Parser("scontrol-node", _NODE, parse_node),
    Parser("sacct", _SACCT, parse_sacct),
)
