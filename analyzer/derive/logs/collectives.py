"""Collectives that a log names: watchdogs' time-outs, fingerprints that do not match, how far each rank has come."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from flatline.bundle.facts import Collective

from ...parsers.interface import Line
from .reading import LogText

State = Literal["scheduled", "started", "completed", "unknown"]

_WORK = re.compile(
    r"Work[A-Z]\w{1,11}\((?:SeqNum=(?P<seq>\d{1,18}), )?OpType=(?P<op>\w{1,60})"
    r"(?P<rest>[^()]{0,300}(?:\(ms\)=\d{1,12})?)"
)
"""``WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000)``; older ones lack SeqNum."""
_LIMIT = re.compile(r"Timeout\(ms\)=(\d{1,12})|timed out after (\d{1,12}) ?ms|Timed out waiting (\d{1,12}) ?ms")
_NUMEL = re.compile(r"Numel(?:In|Out)=(\d{1,18})")
_SHAPE = re.compile(r"TensorShape=\[([\d, ]{0,200})\]")
_RANK = re.compile(r"\b[Rr]ank[ :]?(\d{1,6})\]")
_GROUP = re.compile(r"PG GUID ([\w.:-]{1,80}(?:\([^()]{1,80}\))?)")
_OLD_GROUP = re.compile(r"\[PG (?:ID )?(\d{1,9})\b")
_REACHED = re.compile(
    r"last enqueued(?: NCCL)? work: (?P<enqueued>-?\d{1,18}), last completed(?: NCCL)? work: (?P<completed>-?\d{1,18})"
)
_FINGERPRINT = re.compile(
    r"[Rr]ank (?P<rank>\d{1,6}) is running (?:collective|inconsistent collective): CollectiveFingerPrint\("
    r"(?:SequenceNumber=(?P<seq>\d{1,18}), ?)?OpType=(?P<op>\w{1,60})"
    r"(?P<rest>.{0,200}?)(?=, but|\bRank \d|$|\)\. ?|TensorDeviceTypes)"
)
_DTYPE = re.compile(r"TensorDtypes=(\w{1,40})")


@dataclass(frozen=True)
class Watched:
    """A collective that a watchdog has given up."""

    seq: int | None
    limit_s: float | None


def watched(line: Line) -> Watched:
    """What a line about a time-out says of it."""
    work, limit = _WORK.search(line.text), _LIMIT.search(line.text)
    seq = int(work["seq"]) if work and work["seq"] else None
    return Watched(seq, float(next(filter(None, limit.groups()))) / 1000 if limit else None)


def collectives_of(text: LogText) -> list[Collective]:
    """One row for each collective of each rank, however often the log repeats it."""
    rows: dict[tuple[object, ...], Collective] = {}
    for line in text.lines:
        if "OpType=" in line.text or "last enqueued" in line.text:
            for row in _rows(line):
                key = (row.rank, row.seq, row.op if row.state != "completed" else None, row.state)
                rows.setdefault(key, replace(row, artefact=text.log.text, line=line.number))
    return _without_repeats(list(rows.values()))


def _rows(line: Line) -> Iterator[Collective]:
    yield from (_fingerprint(found) for found in _FINGERPRINT.finditer(line.text))
    found = _RANK.search(line.text)
    rank = int(found[1]) if found else line.rank
    group = _group(line.text)
    if work := _WORK.search(line.text):
        yield Collective(
            rank=rank, group=group, seq=int(work["seq"]) if work["seq"] else None, op=work["op"].upper(),
            sizes=_sizes(work["rest"]), state="started",
        )  # fmt: skip
    if reached := _REACHED.search(line.text):
        yield from _reached(reached, rank, group)


def _reached(found: re.Match[str], rank: int | None, group: str | None) -> Iterator[Collective]:
    """The last that was given to the device, and the last that it has done; -1: none yet."""
    states: tuple[tuple[str, State], ...] = (("enqueued", "scheduled"), ("completed", "completed"))
    for name, state in states:
        if int(found[name]) >= 0:
            yield Collective(rank=rank, group=group, seq=int(found[name]), state=state)


def _fingerprint(found: re.Match[str]) -> Collective:
    dtype = _DTYPE.search(found["rest"])
    return Collective(
        rank=int(found["rank"]), seq=int(found["seq"]) if found["seq"] else None, op=found["op"].upper(),
        sizes=_sizes(found["rest"]), dtype=dtype[1] if dtype else None, state="started",
    )  # fmt: skip


def _sizes(text: str) -> tuple[tuple[int, ...], ...] | None:
    """Counts of elements in and out, each as a shape of its own; or the shapes that are printed."""
    numel = tuple((int(number),) for number in _NUMEL.findall(text))
    if numel:
        return numel
    shapes = tuple(tuple(int(part) for part in shape.split(",") if part.strip()) for shape in _SHAPE.findall(text))
    return shapes or None


def _group(text: str) -> str | None:
    found = _GROUP.search(text) or _OLD_GROUP.search(text)
    return found[1] if found else None


def _without_repeats(rows: list[Collective]) -> list[Collective]:
    """Without "last enqueued" of a collective that is named in full."""
    full = {(row.rank, row.seq) for row in rows if row.op is not None}
    return [row for row in rows if row.state != "scheduled" or row.op is not None or (row.rank, row.seq) not in full]
