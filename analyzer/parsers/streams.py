"""Follows what several ranks print at the same time into one log: every rank's lines are read for themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .interface import Line, Lines

MAX_FOREIGN = 8
"""Lines of other ranks, in a row, that may stand between those of a block."""
MAX_UNSURE = 15
"""Lines, in a row, of which only what follows tells whether they belong to the block."""


class Reader(Protocol):
    """Reads the lines of one rank."""

    def take(self, line: Line) -> bool | None:
        """True: the line is part of it. False: neither it nor what follows is. None: that depends on what follows."""
        ...


def follow(lines: Lines, start: int, make: Callable[[Line], Reader]) -> tuple[int, list[Reader]]:
    """The index after the last line that any reader took, and the readers in the order in which they began."""
    readers: dict[int | None, Reader] = {}
    closed: set[int | None] = set()
    end, foreign, unsure = start, 0, 0
    for index in range(start, len(lines)):
        line = lines[index]
        taken = _taken(readers, closed, line, make)
        if taken:
            end, foreign, unsure = index + 1, 0, 0
        elif taken is None:
            unsure += 1
        else:
            foreign += 1
            if line.rank is None or set(readers) <= closed:
                break
        if foreign > MAX_FOREIGN or unsure > MAX_UNSURE:
            break
    return end, list(readers.values())


def _taken(
    readers: dict[int | None, Reader], closed: set[int | None], line: Line, make: Callable[[Line], Reader]
) -> bool | None:
    if line.rank in closed:
        return False
    reader = readers.get(line.rank) or make(line)
    taken = reader.take(line)
    if line.rank not in readers:
        if taken:
            readers[line.rank] = reader
        return bool(taken)
    if taken is False:
        closed.add(line.rank)
    return taken
