"""Texts, each read once and searched once for all patterns together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from . import choice
from .blocks import blocks
from .interface import Compiled, Finder, Found, Line, Sought, Text
from .near import Near, Neighbours
from .tail import Tail

FIRST_BLOCK, LARGEST_BLOCK = 256 * 1024, 4 * 1024**2
"""Small ones first: what is in every other line is soon known, and not looked for any more."""
MOST_IN_VAIN = 500
"""Lines with the piece that is looked for, and without the pattern, until all of the pattern is looked for."""
COST_IN_VAIN = 10
"""To ask a pattern of a line costs as much as so many places that nobody asks for."""


@dataclass
class Scanned:
    """What was found in one text, in the order of its lines."""

    first: list[Found] = field(default_factory=list)
    """Of each pattern not more than were still wanted."""
    tail: list[Found] = field(default_factory=list)
    """All that is in the last lines."""
    last: int = 0
    """Number of the last line that is not blank; 0: there is none."""


class Block(NamedTuple):
    """Whole lines of a text, and what was found in them."""

    text: bytes
    first: int
    """Number of the first line."""
    last: int
    found: list[Found]
    """What is beside the lines at its end is known with the next block."""


@dataclass(frozen=True)
class _Using:
    """A finder, and which of all patterns it looks for, by its own numbers."""

    wanted: tuple[int, ...]
    finder: Finder
    whole: frozenset[int] = frozenset()
    """Those of all patterns that are looked for whole."""


class Scanner:
    """Looks for patterns, each as it is written and compiled, in one text after the other.

    A pattern that was found `most` times, in all texts together, is from then on looked for in the last `tail_lines` of
    each text only; those of `tail_only`, by their numbers, never elsewhere. Nothing is looked for in blank lines.
    """

    def __init__(
        self,
        patterns: Sequence[tuple[str, Compiled]],
        *,
        most: int,
        tail_lines: int,
        tail_only: frozenset[int] = frozenset(),
    ) -> None:
        self._patterns = tuple(pattern for pattern, _ in patterns)
        self._compiled = [compiled for _, compiled in patterns]
        self._most, self._tail_lines, self._tail_only = most, tail_lines, tail_only
        self.counts = [0] * len(patterns)
        """In how many lines each was found; `most` means at least so many."""
        self._using = _Using((), choice.finder_for(()))
        self._coming: tuple[tuple[int, ...], frozenset[int], Future[Finder | None]] | None = None
        """A quicker finder that is being built, with the patterns that it will look for, and which whole."""
        self._may_be_quicker = True
        self._in_vain = [0] * len(patterns)
        """In how many lines each was asked for and was not."""
        self._whole: frozenset[int] = frozenset()
        self._wasted = 0
        """Lines in which the finder found only what is not looked for any more, or in vain."""
        self._seen = 0

    def scan(self, text: Text) -> Scanned:
        """Find them in one text. Raises what reading it raises."""
        scanned, tail = Scanned(), Tail(self._tail_lines)
        for block in self.blocks(text):
            scanned.first += block.found
            tail.add(block.text, block.last)
        scanned.tail = self._in_tail(tail, scanned.first)
        scanned.last = tail.last
        return scanned

    def blocks(self, text: Text) -> Iterator[Block]:
        """One text, piece by piece, with the first of what is found: for who keeps only some of it."""
        number, begun, neighbours = 0, self._seen, Neighbours()
        for block in blocks(text.pieces, lambda: min(max(self._seen - begun, FIRST_BLOCK), LARGEST_BLOCK)):
            left = text.size - (self._seen - begun)
            first, number = number + 1, number + block.count(b"\n") + (not block.endswith(b"\n"))
            neighbours.begin(block)
            found = list(self._found_in(block, first, self._finder(left), neighbours))
            neighbours.end(block)
            self._seen += len(block)
            yield Block(block, first, number, found)

    def _finder(self, left: int) -> _Using:
        """The finder there is, or a better one: a quicker one, or one without what was found often enough."""
        if self._coming is not None and self._coming[-1].done():
            wanted, whole, future = self._coming
            finder = future.result()
            self._coming, self._may_be_quicker = None, finder is not None
            if finder is not None:
                self._using, self._wasted = _Using(wanted, finder, whole), 0
        using = self._using
        is_wasteful = self._wasted >= using.finder.wasteful_from or not self._seen
        if is_wasteful and not using.finder.is_quick:
            wanted = self._still_wanted()
            self._using, self._wasted = _Using(wanted, choice.finder_for(self._sought(wanted)), self._whole), 0
        if (
            self._coming is None
            and self._may_be_quicker
            and (is_wasteful if using.finder.is_quick else choice.is_long(seen=self._seen, left=left))
        ):
            wanted = self._still_wanted()
            self._coming = wanted, self._whole, choice.quick_finder_for(self._sought(wanted))
        return self._using

    def _still_wanted(self) -> tuple[int, ...]:
        return tuple(
            index for index, count in enumerate(self.counts) if count < self._most and index not in self._tail_only
        )

    def _sought(self, indices: Iterable[int]) -> tuple[Sought, ...]:
        return tuple(Sought(self._patterns[index], index in self._whole) for index in indices)

    def _found_in(self, block: bytes, number: int, using: _Using, neighbours: Neighbours) -> Iterator[Found]:
        """`number` is that of the block's first line."""
        counted = 0
        for begin, end, which in _lines_with(using.finder, block):
            wanted = [index for own in which if self.counts[index := using.wanted[own]] < self._most]
            self._wasted += not wanted
            if not wanted:
                continue
            number, counted = number + block.count(b"\n", counted, begin), begin
            here = list(self._look(wanted, number, block[begin:end]))
            if here:
                neighbours.tell(here[0].line.near, block, begin, end)
            for found in here:
                self.counts[found.index] += 1
            if len(here) < len(wanted):
                self._note_in_vain(set(wanted).difference(found.index for found in here), using)
            yield from here

    def _note_in_vain(self, indices: Iterable[int], using: _Using) -> None:
        for index in indices:
            self._in_vain[index] += 1
            if self._in_vain[index] >= MOST_IN_VAIN and index not in using.whole:
                self._whole |= {index}
                self._wasted += COST_IN_VAIN

    def _look(self, indices: Sequence[int], number: int, raw: bytes, near: Near | None = None) -> Iterator[Found]:
        """Those of the patterns that are in one line."""
        if not raw.strip():
            return
        line = Line(number, raw.removesuffix(b"\r").decode("utf-8", "replace"), near or Near())
        for index in indices:
            match = self._compiled[index].search(line.text)
            if match is not None:
                yield Found(index, line, match.groupdict())

    def _in_tail(self, tail: Tail, found: Sequence[Found]) -> list[Found]:
        """All that is in the last lines, also of what was found often enough before."""
        capped = max(self.counts, default=0) >= self._most
        wanted = tuple(range(len(self._patterns))) if capped else tuple(sorted(self._tail_only))
        here = [] if capped else [each for each in found if each.line.number >= tail.first]
        lines = tail.lines() if wanted else []
        block = b"\n".join(line for _, line in lines)
        for begin, end, which in _lines_with(choice.finder_for(self._sought(wanted)), block):
            number, _ = lines[block.count(b"\n", 0, begin)]
            here += self._look([wanted[own] for own in which], number, block[begin:end], tail.near(number))
        return sorted(here, key=lambda each: (each.line.number, each.index))


def _lines_with(finder: Finder, block: bytes) -> Iterator[tuple[int, int, list[int]]]:
    """Begin and end of each line in which something may be, and what; each once."""
    begin = end = -1
    which: list[int] = []
    for at, here in finder.places(block):
        if at < end:
            which += here
            continue
        if which:
            yield begin, end, sorted(set(which))
        begin = block.rfind(b"\n", 0, at) + 1
        end = block.find(b"\n", at)
        end = len(block) if end < 0 else end
        which = list(here)
    if which:
        yield begin, end, sorted(set(which))
