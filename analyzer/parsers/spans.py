"""What the parsers of whole listings share: the run of lines that is one, and rows put at their lines in the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .interface import Line, Lines

Row = TypeVar("Row")
MAX_BLANKS = 3
"""Blank lines inside a listing: its own, doubled by the paste."""


@dataclass(frozen=True)
class Span:
    """Lines that belong together, without the blank ones among them."""

    end: int
    """Index after the last one."""
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        """Without indentation."""
        return "\n".join(line.bare for line in self.lines)

    @property
    def indented(self) -> str:
        """As it stands."""
        return "\n".join(line.text.rstrip() for line in self.lines)

    def placed(self, rows: Iterable[Any], *, before: int = 0) -> tuple[Any, ...]:
        """Rows whose `line` counts the lines of `text`, moved to where those stand in the input; a row without one is
        put at the first line. `before`: how many lines were put before the text."""
        return tuple(replace(row, line=self.number((row.line or 1) - before)) for row in rows)

    def number(self, line: int) -> int:
        """Where line `line` (1-based) of `text` stands in the input."""
        return self.lines[min(max(line, 1), len(self.lines)) - 1].number


def next_shown(lines: Lines, start: int, within: int = 2) -> int | None:
    """Index of the line below that is not blank: what a command printed, that a person had asked for one thing."""
    below = range(start + 1, min(start + 1 + within, len(lines)))
    return next((index for index in below if lines[index].bare), None)


def span(lines: Lines, start: int, is_own: Callable[[str], object], *, blanks: int = MAX_BLANKS) -> Span:
    """From `start` to before the first line that is not one of its own. `is_own` is asked with the bare text."""
    own: list[Line] = []
    end, skipped = start, 0
    for index in range(start, len(lines)):
        bare = lines[index].bare
        if not bare:
            skipped += 1
            if skipped > blanks:
                break
            continue
        if not is_own(bare):
            break
        own.append(lines[index])
        end, skipped = index + 1, 0
    return Span(end, tuple(own))


def rows_of(lines: Lines, start: int, one: Callable[[Line], Row | None]) -> tuple[int, list[Row]]:
    """A row of each line, up to the first that gives none; blank ones between are passed over. The index after the last
    row (`start` when there is none), and the rows."""
    rows: list[Row] = []
    end = start
    for index in range(start, len(lines)):
        row = one(lines[index]) if lines[index].bare else None
        if row is not None:
            rows.append(row)
            end = index + 1
        elif lines[index].bare:
            break
    return end, rows


def stands_alone(lines: Lines, start: int, end: int) -> bool:
    """Whether blank lines, or nothing, stand before and after."""
    before = start == 0 or not lines[start - 1].bare
    return before and (end >= len(lines) or not lines[end].bare)


def is_all(lines: Lines, start: int, end: int) -> bool:
    """Whether there is nothing else in the input, but for a few blank lines."""
    if start > MAX_BLANKS or len(lines) - end > MAX_BLANKS:
        return False
    return not any(line.bare for line in [*lines[:start], *lines[end:]])
