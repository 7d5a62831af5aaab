"""Matching a thread's stack: ``["dataloader.py:_try_get_data", "...", "connection.py:poll"]``, outermost frame first.

A file is given by its end (``torch/utils/file_baton.py``), a function by its short or qualified name, since Python 3.11
prints ``Queue.get`` where older ones print ``get``. ``|`` separates alternatives, ``*`` is any function.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from flatline.bundle.facts import Frame

GAP = "..."
_SLEEPS = re.compile(
    r"_*(?:GI_)?_*(?:(?:do_)?futex_|new_sem_|sem_(?:timed|clock)?wait|pthread_cond_(?:timed|clock)?wait|lll_lock_wait"
    r"|PyThread_acquire_lock|lock_PyThread_acquire_lock|acquire_timed|rlock_acquire|PyMutex_Lock|PyParkingLot_Park"
    r"|PySemaphore_|semlock_acquire|SemLock_acquire)"
)
"""How a lock of Python sleeps, as dumps with native frames show it below the function that takes the lock."""


@dataclass(frozen=True)
class FramePattern:
    """One frame of a pattern; None is any."""

    file: str | None
    functions: tuple[str, ...] | None

    def fits(self, frame: Frame) -> bool:
        return self._file_fits(frame.file) and (
            self.functions is None or any(_function_fits(name, frame) for name in self.functions)
        )

    def _file_fits(self, path: str | None) -> bool:
        if self.file is None:
            return True
        path = (path or "").replace("\\", "/")
        return path == self.file or path.endswith("/" + self.file)


@dataclass(frozen=True, eq=False)
class StackPattern:
    """A compiled pattern: runs of neighbouring frames, with any frames between the runs."""

    runs: tuple[tuple[FramePattern, ...], ...]
    anchored: bool = False
    """The last run must end at the innermost frame; native ones in which Python itself sleeps may follow it."""

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Short names of which a fitting stack has at least one; () when no frame of the pattern is named."""
        named = [frame.functions for run in self.runs for frame in run if frame.functions]
        return tuple(name.rpartition(".")[2] for name in named[-1]) if named else ()

    def match(self, stack: Sequence[Frame]) -> tuple[Frame, ...] | None:
        """The frames that fit, outermost first, of a stack given outermost first; None when it does not fit."""
        places = self.places(stack)
        return None if places is None else tuple(stack[place] for place in places)

    def places(self, stack: Sequence[Frame]) -> list[int] | None:
        """Where those frames are."""
        found = self._places(stack)
        if found is None and self.anchored:
            awake = _without_sleep(stack)
            found = self._places(awake) if len(awake) < len(stack) else None
        return found

    def _places(self, stack: Sequence[Frame]) -> list[int] | None:
        """Every run is taken at its first place, so the work is runs times frames whatever the pattern says."""
        found: list[int] = []
        at = 0
        for number, run in enumerate(self.runs, start=1):
            start = max(at, len(stack) - len(run)) if self.anchored and number == len(self.runs) else at
            place = _first_place(run, stack, start)
            if place is None:
                return None
            at = place + len(run)
            found += range(place, at)
        return found


def compile_stack(parts: Sequence[str], *, anchored: bool = False) -> StackPattern:
    """``file.py:function``, ``function``, ``file.py:*`` or ``...``, outermost first."""
    runs: list[list[FramePattern]] = [[]]
    for part in parts:
        if part == GAP:
            runs.append([])
        else:
            runs[-1].append(_frame_pattern(part))
    return StackPattern(tuple(tuple(run) for run in runs if run), anchored and parts[-1] != GAP)


def _without_sleep(stack: Sequence[Frame]) -> Sequence[Frame]:
    end = len(stack)
    while end and stack[end - 1].kind == "native" and _SLEEPS.match(stack[end - 1].function):
        end -= 1
    return stack[:end]


def _first_place(run: Sequence[FramePattern], stack: Sequence[Frame], start: int) -> int | None:
    last = len(stack) - len(run)
    return next(
        (place for place in range(start, last + 1) if all(p.fits(stack[place + n]) for n, p in enumerate(run))), None
    )


def _frame_pattern(part: str) -> FramePattern:
    file, colon, function = part.rpartition(":")
    names = None if function == "*" else tuple(function.split("|"))
    return FramePattern(file.replace("\\", "/") if colon else None, names)


def _function_fits(name: str, frame: Frame) -> bool:
    if name == frame.function or name == frame.qualname:
        return True
    if frame.qualname:
        return frame.qualname.endswith("." + name)
    return ("." in frame.function and frame.function.endswith("." + name)) or name.rpartition(".")[2] == frame.function
