"""Ranks that a log tells of, and those of its world that it does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from flatline.bundle.facts import Rank

from ...parsers.interface import Line
from .reading import LogText

MAX_WORLD = 4096
_MEMBER = re.compile(r"(?i)GLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d{1,6}/(?P<world>\d{1,6})")
_TOLD = re.compile(
    r"""['"]?\bRANK['"]?\s?[:=]\s?['"]?(?P<rank>\d{1,6})['"]?.{0,200}?['"]?\bWORLD_SIZE['"]?\s?[:=]\s?['"]?(?P<world>\d{1,6})"""
)
_NCCL = re.compile(r"\brank (?P<rank>\d{1,6}) n[rR]anks (?P<world>\d{1,6})\b")
_DISTRIBUTED = re.compile(r"(?i)distributed init \(rank (?P<rank>\d{1,6})(?:, world[ _]size (?P<world>\d{1,6}))?")
_ALL_HERE = re.compile(r"All distributed processes registered|\bInit COMPLETE\b")
_JOINS = (_MEMBER, _TOLD, _DISTRIBUTED, _NCCL)
"""Lines that every rank prints once when it joins: who has not printed one has not come so far."""


@dataclass
class _World:
    size: int = 0
    lines: dict[int, Line] = field(default_factory=dict)
    complete: bool = False


def ranks_of(text: LogText) -> list[Rank]:
    """Every rank of the world that joins in this log; `present` is False for those that have not come.

    Absence is only told of a log that several ranks share: that of one rank knows nothing of the others.
    """
    world = _World()
    for line in text.lines:
        if _ALL_HERE.search(line.text):
            world.complete = True
        for rank, size in _joining(line):
            world.lines.setdefault(rank, line)
            world.size = max(world.size, size)
    return list(_rows(text, world))


def _joining(line: Line) -> Iterator[tuple[int, int]]:
    if "ank" not in line.text and "RANK" not in line.text:
        return
    for pattern in _JOINS:
        if pattern is _TOLD and "WORLD_SIZE" not in line.text:
            continue
        if found := pattern.search(line.text):
            yield int(found["rank"]), int(found["world"] or 0)
            return


def _rows(text: LogText, world: _World) -> Iterator[Rank]:
    for rank, line in sorted(world.lines.items()):
        yield Rank(rank, present=True, artefact=text.log.text, line=line.number)
    shared = len(world.lines) > 1
    if not shared or world.complete or not 1 < world.size <= MAX_WORLD:
        return
    last = max(line.number for line in world.lines.values())
    for rank in range(world.size):
        if rank not in world.lines:
            yield Rank(rank, present=False, artefact=text.log.text, line=last)
