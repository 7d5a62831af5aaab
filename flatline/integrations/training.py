"""The phases of one training, as its framework's call-backs tell of it: the training, the epoch, the last whole step.

Nothing in here raises, and nothing is done where the recorder does not run.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import flatline

EVERY_S = 10.0
"""Between two marks of a step, at the least: each takes the place of the two oldest events."""


def harmless(handler: Callable[..., None]) -> Callable[..., None]:
    """A handler that a framework calls: an error of ours is dropped, for the training must not end by it."""

    @functools.wraps(handler)
    def told(*args: Any, **kwargs: Any) -> None:
        try:
            handler(*args, **kwargs)
        except Exception:  # noqa: BLE001, S110 - as said
            pass

    return told


class Training:
    """What is open of a training; every phase that was entered is left when the one around it is."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._open: dict[str, flatline.phase] = {}
        self._marked_at = 0.0

    def begins(self, step: int) -> None:
        """With so many steps done before, where it goes on from a checkpoint."""
        self.ends()
        self._enter("training", "training")
        self._mark(step)

    def epoch_begins(self, epoch: int, step: int) -> None:
        self._leave("step")
        self._enter("epoch", f"epoch {epoch}")
        self._mark(step)

    def epoch_ends(self, step: int) -> None:
        self._leave("step")
        self._leave("epoch")
        self._mark(step)

    def step_ends(self, step: int) -> None:
        """So many steps are done; told again when one takes long in parts."""
        if time.monotonic() - self._marked_at >= self._every_s:
            self._mark(step)

    def ends(self) -> None:
        for kind in ("step", "epoch", "training"):
            self._leave(kind)

    def _mark(self, step: int) -> None:
        """The last to be entered, so that a report names it as the innermost."""
        self._marked_at = time.monotonic()
        self._enter("step", f"after step {step}")

    def _enter(self, kind: str, name: str) -> None:
        self._leave(kind)
        if getattr(flatline.phase, "listener", None) is not None:
            self._open[kind] = flatline.phase(name)
            self._open[kind].__enter__()

    def _leave(self, kind: str) -> None:
        phase = self._open.pop(kind, None)
        if phase is not None:
            phase.__exit__()
