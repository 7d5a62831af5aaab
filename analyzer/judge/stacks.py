"""The newest stack of every thread, and which are alike: 25,000 threads have a few dozen different ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

from flatline.bundle.facts import Frame

from ..frames import TOLD, Frames
from ..merge import newest_sample
from .stack import StackPattern

_in_pattern = attrgetter("function", "qualname", "file")


class Stacks:
    """Python and native frames, outermost first; a pattern is held against each shape once."""

    def __init__(self, frames: Frames, threads: Sequence[Any]) -> None:
        self._frames = frames
        self._threads = threads
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._stack_of_shape: list[list[Frame]] = []
        """Of each shape one stack."""
        self._with_function: dict[str, set[int]] = defaultdict(set)
        self._places: dict[tuple[StackPattern, int], Sequence[int] | None] = {}
        self._no_stack = self._shape([])
        one = {kind: thread for thread, kind in frames.kind_of.items()}
        stacks = [frames.of[one[kind]] for kind in range(len(frames.kinds))]
        self._newest = [_newest(rows) for rows in stacks]
        """Of each kind of thread: where among its frames those of its newest stack are."""
        self._shape_of_kind = [
            self._shape([rows[place] for place in places]) for rows, places in zip(stacks, self._newest, strict=True)
        ]

    def of(self, thread: str) -> list[Frame]:
        """[] when there is none."""
        kind = self._kind_of(thread)
        if kind is None:
            return []
        rows = self._frames.of[thread]
        return [rows[place] for place in self._newest[kind]]

    def has(self, process: str) -> bool:
        """Whether any thread of a process has one."""
        return process in self._processes

    def is_known(self, thread: str) -> bool:
        """Whether a thread has one."""
        return self._shape_of(thread) != self._no_stack

    def numbers(self, field: str) -> Counter[Any]:
        """How many frames have each value of one of the fields that are `TOLD`."""
        at = TOLD.index(field)
        numbers: Counter[Any] = Counter()
        for told, number in self._times_told.items():
            numbers[told[at]] += number
        return numbers

    def having(self, field: str, values: Collection[Any]) -> list[Frame]:
        """The frames with one of some values of a field that is `TOLD`, thread by thread."""
        at = TOLD.index(field)
        places = [[n for n, told in enumerate(kind) if told[at] in values] for kind in self._frames.kinds]
        kind_of = self._frames.kind_of
        return [rows[place] for thread, rows in self._frames.of.items() for place in places[kind_of[thread]]]

    def places(self, pattern: StackPattern, thread: str) -> Sequence[int] | None:
        """Where in the thread's stack the frames of a pattern are; None when it does not fit."""
        return self._places_in(pattern, self._shape_of(thread))

    def fitting(self, pattern: StackPattern) -> list[Any]:
        """The threads that have a stack which fits, in the order of their table."""
        shapes = self._threads_by_shape
        named = {shape for name in pattern.needs for shape in self._with_function.get(name, ())}
        found: list[int] = []
        for shape in named if pattern.needs else shapes:
            numbers = shapes.get(shape, ())
            if numbers and self._places_in(pattern, shape) is not None:
                found += numbers
        return [self._threads[number] for number in sorted(found)]

    def _places_in(self, pattern: StackPattern, shape: int) -> Sequence[int] | None:
        key = pattern, shape
        if key not in self._places:
            self._places[key] = pattern.places(self._stack_of_shape[shape])
        return self._places[key]

    @cached_property
    def _processes(self) -> frozenset[str]:
        return frozenset(
            thread.rpartition("/")[0]
            for thread, kind in self._frames.kind_of.items()
            if thread not in (None, "unknown") and self._newest[kind]
        )

    @cached_property
    def _times_told(self) -> Counter[tuple[Any, ...]]:
        """How many frames are told of alike."""
        threads = Counter(self._frames.kind_of.values())
        told: Counter[tuple[Any, ...]] = Counter()
        for kind, frames in enumerate(self._frames.kinds):
            for frame, times in Counter(frames).items():
                told[frame] += times * threads[kind]
        return told

    @cached_property
    def _threads_by_shape(self) -> dict[int, list[int]]:
        shapes: dict[int, list[int]] = {}
        for number, thread in enumerate(self._threads):
            shapes.setdefault(self._shape_of(thread.id), []).append(number)
        return shapes

    def _shape_of(self, thread: str) -> int:
        kind = self._kind_of(thread)
        return self._no_stack if kind is None else self._shape_of_kind[kind]

    def _kind_of(self, thread: str) -> int | None:
        """None: there are no frames of it, or nobody named it."""
        return None if thread == "unknown" else self._frames.kind_of.get(thread)

    def _shape(self, stack: list[Frame]) -> int:
        """The number of the shape of a stack: what a pattern can ask of it."""
        number = self._shapes.setdefault(tuple(map(_in_pattern, stack)), len(self._shapes))
        if number == len(self._stack_of_shape):
            self._stack_of_shape.append(stack)
            for frame in stack:
                self._with_function[frame.function.rpartition(".")[2]].add(number)
        return number


def _newest(frames: Sequence[Frame]) -> list[int]:
    """Where among all frames of a thread those of its newest stack are, outermost first; none of them the kernel's."""
    samples = {frame.sample for frame in frames if frame.kind != "kernel"}
    newest = newest_sample(samples) if samples else None
    places = [place for place, f in enumerate(frames) if f.kind != "kernel" and f.sample == newest]
    return sorted(places, key=lambda place: -frames[place].depth)
