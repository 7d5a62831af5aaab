"""Outlines as alternatives of RE2 patterns; in the lines that one of these finds, an RE2 set says which they are.

RE2 makes the states of an automaton as a text needs them, and each costs time in proportion to all that is looked for:
for a text in which every line is of another kind, a few small automata are quicker than one. For a long one it is
Hyperscan that is (see `choice`).
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from .interface import Sought
from .outline import outline

try:
    import re2  # pyright: ignore[reportMissingImports]
except ImportError:
    re2 = None

MAX_BYTES = 8 * 1024**2
"""For an automaton: it is built as texts need it, and begun anew when it is full."""
MOST_TOGETHER = 60
"""Outlines in one automaton: of tickets with something else in each line, all 344 together took 14 s for a megabyte, in
sixties 3.6 s; twenties take no less, and a log of steps takes twice as long with them."""
_GAP = re.compile(r"\[\^[^]]*\]\{\d,\}")
"""Of an outline: what may be anything of any length. It is begun in some lines and not in others, with every other one,
so those that have one are kept apart."""


class Re2Finder:
    """Built in some ten milliseconds."""

    is_quick = False
    wasteful_from = 3_000

    def __init__(self, patterns: tuple[Sought, ...]) -> None:
        outlines = {index: outline(*sought) for index, sought in enumerate(patterns)}
        with_gap = [index for index, each in outlines.items() if _GAP.search(each)]
        plain = sorted(outlines.keys() - set(with_gap))
        self._automata = [
            _Automaton({index: outlines[index] for index in kind[at : at + MOST_TOGETHER]})
            for kind in (plain, with_gap)
            for at in range(0, len(kind), MOST_TOGETHER)
        ]

    def places(self, block: bytes, /) -> Iterator[tuple[int, Sequence[int]]]:
        return heapq.merge(*(each.places(block) for each in self._automata))


class _Automaton:
    """For some of the outlines, by their numbers."""

    def __init__(self, outlines: dict[int, str]) -> None:
        assert re2 is not None
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        options.max_mem = MAX_BYTES
        self._numbers = list(outlines)
        self._which = re2.Set.SearchSet(options)
        every = [f"(?m:{each})" for each in outlines.values()]
        for each in every:
            self._which.Add(each.encode())
        self._which.Compile()
        self._any = re2.compile("|".join(dict.fromkeys(every)).encode(), options)

    def places(self, block: bytes) -> Iterator[tuple[int, Sequence[int]]]:
        at = 0
        while match := self._any.search(block, at):
            found = match.start()
            begin = block.rfind(b"\n", 0, found) + 1
            at = block.find(b"\n", found) + 1 or len(block)
            which = self._which.Match(block[begin:at].removesuffix(b"\n"))
            # A set without room for its states says that there is nothing, though one of them is there.
            yield found, [self._numbers[each] for each in which] if which else self._numbers


def build(patterns: tuple[Sought, ...]) -> Re2Finder | None:
    """None when RE2 is not installed."""
    return _built(patterns) if re2 is not None and patterns else None


@lru_cache(maxsize=8)
def _built(patterns: tuple[Sought, ...]) -> Re2Finder:
    return Re2Finder(patterns)
