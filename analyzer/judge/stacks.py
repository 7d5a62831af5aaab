"""The newest stack of every thread, and which are alike: 25,000 threads have a few dozen different ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

from flatline.bundle.facts import Frame

from ..merge import newest_sample
from .stack import StackPattern

TOLD = ("function", "qualname", "file", "kind", "depth", "sample")
"""What is read of every frame, once: which stack is the newest, what a pattern asks, what rules look frames up by."""

_told = attrgetter(*TOLD)
_in_pattern = attrgetter("function", "qualname", "file")


class Stacks:
    """Python and native frames, outermost first; a pattern is held against each shape once.

    `frames` are those of each thread, of all looks and in any order; None: of threads nobody named.
    """

    def __init__(self, frames: Mapping[str | None, Sequence[Frame]], threads: Sequence[Any]) -> None:
        self._frames = frames
        self._threads = threads
        self._all_looks: dict[tuple[Any, ...], int] = {}
        """What is told of all frames of a thread -> its number; threads of one number differ in nothing told."""
        self._places_of_newest: list[list[int]] = []
        self._shape_of_looks: list[int] = []
        self._number_of: dict[str | None, int] = {}
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._stack_of_shape: list[list[Frame]] = []
        """Of each shape one stack."""
        self._with_function: dict[str, set[int]] = defaultdict(set)
        self._places: dict[tuple[int, int], Sequence[int] | None] = {}
        self._no_stack = self._shape([])
        for thread, rows in frames.items():
            looks = tuple(map(_told, rows))
            number = self._all_looks.setdefault(looks, len(self._all_looks))
            if number == len(self._places_of_newest):
                places = _newest(rows)
                self._places_of_newest.append(places)
                self._shape_of_looks.append(self._shape([rows[place] for place in places]))
            self._number_of[thread] = number

    def of(self, thread: str) -> list[Frame]:
        """[] when there is none."""
        number = self._number_of.get(thread)
        if number is None:
            return []
        rows = self._frames[thread]
        return [rows[place] for place in self._places_of_newest[number]]

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
        key = id(pattern), shape
        if key not in self._places:
            self._places[key] = pattern.places(self._stack_of_shape[shape])
        return self._places[key]

    @cached_property
    def _processes(self) -> frozenset[str]:
        return frozenset(
            thread.rpartition("/")[0]
            for thread, number in self._number_of.items()
            if thread is not None and self._places_of_newest[number]
        )

    @cached_property
    def _times_told(self) -> Counter[tuple[Any, ...]]:
        """How many frames are told of alike."""
        threads = Counter(self._number_of.values())
        told: Counter[tuple[Any, ...]] = Counter()
        for looks, number in self._all_looks.items():
            for frame, times in Counter(looks).items():
                told[frame] += times * threads[number]
        return told

    @cached_property
    def _threads_by_shape(self) -> dict[int, list[int]]:
        shapes: dict[int, list[int]] = {}
        for number, thread in enumerate(self._threads):
            shapes.setdefault(self._shape_of(thread.id), []).append(number)
        return shapes

    def _shape_of(self, thread: str) -> int:
        number = self._number_of.get(thread)
        return self._no_stack if number is None else self._shape_of_looks[number]

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
