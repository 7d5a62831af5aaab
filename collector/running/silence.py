"""How long a job has been silent: looks at its counters, its output and the marks of its recorders.

Two clocks: `quiet` since it has said anything (output, a log, a mark), `still` since it has done anything at all
(processor time, reads and writes, work of its GPUs as well).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import phases
from .accelerators import BUSY_PERCENT, Accelerators, GpuUse, may_be_here
from .history import POINT_S, History
from .movement import Movement
from .relay import Relay

QUIET_FACTOR = 3
"""A job that is silent but busy is looked at after so many times the silence: it may spin."""


@dataclass(frozen=True)
class Silent:
    """It is, and for what it was: a phase gets its own patience."""

    phase: str = ""
    factor: float = 1.0

    def __str__(self) -> str:
        return f" in phase “{self.phase}”, which gets {self.factor:g} times --silence" if self.phase else ""


class Silence:
    """`on_child` is told of a helper of ours that runs as long as the job."""

    def __init__(self, movement: Movement, relays: Sequence[Relay], on_child: Callable[[int], None]) -> None:
        self.movement, self.history, self.accelerators = movement, History(), Accelerators()
        self._relays, self._on_child = relays, on_child
        self._began = self._still = self._quiet = self._looked = time.monotonic()
        self._count = 0
        self._gpu = GpuUse()
        self._has_asked = False
        self.history.note(movement.usage, 0, self._gpu)

    def look(self, *, was_away: bool = False) -> None:
        """Once more. `was_away`: nobody could look for a while, so that nothing is known of it."""
        self._looked = now = time.monotonic()
        self._start_asking_gpus(now)
        seen, count = self.movement.look(), self._printed()
        self._gpu = self.accelerators.look(self.movement.pids)
        if count != self._count or seen.is_marked or seen.has_logged or was_away:
            self._quiet = now
        if self._quiet == now or seen.has_moved or (self._gpu.utilisation or 0.0) >= BUSY_PERCENT:
            self._still = now
        self._count = count
        if self.history.is_due():
            self.history.note(self.movement.usage, count, self._gpu)

    def still_s(self) -> float:
        """How long nothing has moved."""
        return time.monotonic() - self._still

    def quiet_s(self) -> float:
        """How long nothing has been said."""
        return time.monotonic() - self._quiet

    def over(self, silence_s: float) -> Silent | None:
        """Whether it has been silent for longer than it may in the phase it is in."""
        still, quiet = self.still_s() / silence_s, self.quiet_s() / silence_s / QUIET_FACTOR
        if max(still, quiet) < 1:
            return None
        factor, name = phases.longest(self.movement.open_phases())
        return Silent(name, factor) if max(still, quiet) >= factor else None

    def has_gone_on(self) -> tuple[bool, bool]:
        """Whether it has said something since the last look, and whether it has moved."""
        self.look()
        return self._quiet == self._looked, self._still == self._looked

    def _printed(self) -> int:
        return sum(relay.count for relay in self._relays)

    def _start_asking_gpus(self, now: float) -> None:
        """Not for a job of a few seconds."""
        if not self._has_asked and now - self._began >= POINT_S:
            self._has_asked = True
            pid = self.accelerators.start() if may_be_here() else 0
            if pid:
                self._on_child(pid)
