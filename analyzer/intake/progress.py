"""How much of a long text was read, on a terminal only."""

from __future__ import annotations

import sys
import time

from .sieve import Progress

AFTER_S, EVERY_S = 1.0, 0.5


def progress_on_terminal() -> Progress:
    """Tells on standard error, when a person looks at it, and the reading takes longer than a moment."""
    if not sys.stderr.isatty():
        return lambda _: None
    return _Told()


class _Told:
    def __init__(self) -> None:
        self._read = 0
        self._next = time.monotonic() + AFTER_S

    def __call__(self, count: int) -> None:
        self._read += count
        if (now := time.monotonic()) >= self._next:
            self._next = now + EVERY_S
            sys.stderr.write(f"\rread {self._read / 1e6:,.0f} MB \r")
            sys.stderr.flush()
