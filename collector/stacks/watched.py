"""What is remembered of a process from one look at its stacks to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from flatline.texts.stack_lines import RawThread

from ..probes.interface import Target
from .pyspy import Failure
from .source import is_user

EXTRA_SAMPLE = 100
"""Samples from here on are extra looks between the rounds: at busy threads, and at the locals of polling ones."""

_RETRY = ("moving", "not-python", "error", "timeout")
_HOPELESS = ("permission", "gone", "unsupported")

Place = tuple[str, str, Optional[int]]
"""function, file, line."""


@dataclass(frozen=True)
class Look:
    """What one dump of one process showed: py-spy's threads by their id, and when."""

    threads: dict[str, RawThread]
    mono_ns: int


@dataclass
class Watched:
    """One process and what is known of it from one look to the next."""

    target: Target
    namespaced: bool
    standpoint: tuple[str, ...] | None
    looks: int = 0
    """Rounds that brought a stack."""
    extra: int = EXTRA_SAMPLE
    """Number of the next extra look."""
    failure: Failure | None = None
    """Of the last round, None when it brought a stack."""
    tids: dict[int, int] = field(default_factory=dict)
    """pthread -> our thread id, as read from memory."""
    stacks: dict[str, tuple[Place, ...]] = field(default_factory=dict)
    """Thread -> its stack in the last round."""
    staying: dict[str, int] = field(default_factory=dict)
    """Thread -> how many rounds before the last one showed it in the same functions."""
    busy: set[str] = field(default_factory=set)
    """Threads that were on a CPU at the same innermost line in every round so far."""
    left_running: bool = False
    """A py-spy that looks at it could not be killed: no second one is sent after it."""

    @property
    def is_hopeless(self) -> bool:
        return self.left_running or (self.failure is not None and self.failure.reason in _HOPELESS)

    @property
    def is_worth_a_retry(self) -> bool:
        return not self.is_hopeless and self.failure is not None and self.failure.reason in _RETRY

    @property
    def has_timed_out(self) -> bool:
        return self.failure is not None and self.failure.reason == "timeout"

    def compare(self, look: Look) -> None:
        """Take in a round's look, held against the one before."""
        self.looks += 1
        stacks = {key: stack_of(thread) for key, thread in look.threads.items()}
        stay = {key for key, stack in stacks.items() if _functions(self.stacks.get(key)) == _functions(stack)}
        self.staying = {key: self.staying.get(key, 0) + 1 if key in stay else 0 for key in stacks}
        busy = {key for key, thread in look.threads.items() if thread.active or thread.owns_gil}
        if self.looks > 1:
            busy = {key for key in busy & self.busy if stacks[key][:1] == self.stacks.get(key, ())[:1]}
        self.busy = busy
        self.stacks = stacks


def stack_of(thread: RawThread) -> tuple[Place, ...]:
    """What makes two stacks the same one."""
    return tuple((frame.name, frame.file, frame.line) for frame in thread.frames)


def _functions(stack: tuple[Place, ...] | None) -> list[tuple[str, str]] | None:
    """The user's functions in a stack: one that polls is met now in its sleep, now in a library that looks for it."""
    if stack is None:
        return None
    return [(name, file) for name, file, _ in stack if is_user(file)] or [(name, file) for name, file, _ in stack]
