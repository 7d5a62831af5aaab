"""The frames of every thread, and which threads are alike: 25,000 threads have a million frames and a few dozen stacks.

Who derives and who judges share this: nothing else walks all frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any

from flatline.bundle.facts import HEAVY_SAMPLE, NATIVE_SAMPLE, Frame

TOLD = ("function", "qualname", "file", "kind", "depth", "sample", "owns_gil")
"""What tells stacks apart: which is the newest, in which order its frames are, what a pattern asks, who has the GIL."""
_KIND, _DEPTH, _SAMPLE = map(TOLD.index, ("kind", "depth", "sample"))

Told = tuple[tuple[Any, ...], ...]
"""What is told of all frames of a thread, in their order."""
Stack = tuple[Frame, ...]
"""One stack, innermost frame first."""

_told = attrgetter(*TOLD)
_mono = attrgetter("mono_ns")


class Frames:
    """Rows of the table by thread, of all looks and in any order."""

    def __init__(self, of: Mapping[str, Sequence[Frame]]) -> None:
        self.of = of
        kinds: dict[Told, int] = {}
        self.kind_of = {thread: kinds.setdefault(tuple(map(_told, rows)), len(kinds)) for thread, rows in of.items()}
        """Threads of one kind differ in nothing that is told: what is worked out for one goes for all."""
        self.kinds = tuple(kinds)

    @cached_property
    def stacks(self) -> dict[str, tuple[Stack, ...]]:
        """Of each thread, in the order they were taken. Samples from 100 on are extra looks in between; the deeper ones
        count only where there is no other."""
        looks = [_looks(told) for told in self.kinds]
        return {
            thread: _taken(rows, looks[self.kind_of[thread]])
            for thread, rows in self.of.items()
            if looks[self.kind_of[thread]]
        }

    def of_language(self, name: str) -> dict[str, list[Frame]]:
        """By thread, those that are ``native``, or the ``kernel``'s."""
        having = {kind for kind, told in enumerate(self.kinds) if any(frame[_KIND] == name for frame in told)}
        return {
            thread: [frame for frame in rows if frame.kind == name]
            for thread, rows in self.of.items()
            if self.kind_of[thread] in having
        }


def _looks(told: Told) -> list[list[int]]:
    """Of each look at a thread that counts, where its frames are, innermost first."""
    kept = [place for place, frame in enumerate(told) if frame[_SAMPLE] < HEAVY_SAMPLE]
    kept = kept or [place for place, frame in enumerate(told) if frame[_SAMPLE] == NATIVE_SAMPLE]
    kept.sort(key=lambda place: (told[place][_SAMPLE], told[place][_DEPTH]))
    return [list(look) for _, look in groupby(kept, key=lambda place: told[place][_SAMPLE])]


def _taken(frames: Sequence[Frame], looks: Sequence[Sequence[int]]) -> tuple[Stack, ...]:
    """The looks at one thread: what the clock said goes before their numbers."""
    stacks = [tuple([frames[place] for place in look]) for look in looks]
    times = [set(map(_mono, stack)) for stack in stacks]
    if all(len(time) == 1 for time in times):
        if len(set().union(*times)) > 1:
            stacks.sort(key=lambda stack: stack[0].mono_ns or 0)
        return tuple(stacks)
    rows = sorted((frame for stack in stacks for frame in stack), key=lambda f: (f.mono_ns or 0, f.sample, f.depth))
    return tuple({sample: tuple(stack) for sample, stack in groupby(rows, key=attrgetter("sample"))}.values())
