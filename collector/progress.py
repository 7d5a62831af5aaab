"""What the person sees while we collect: what is slow, and why. Drawn by the supervisor's loop; there is no thread.

A terminal gets a block of lines that is drawn over; anything else gets a line for each probe that is really slow.
Plain ANSI, so that nothing is imported late. A stderr that takes no more bytes (a stopped terminal, a full pipe) is
skipped, never waited for.
"""

from __future__ import annotations

import os
import select
import shutil
import time
from collections.abc import Sequence
from typing import Protocol, TextIO

from flatline.visible import visible

from .supervision.child import Running

SLOW_S = 1.0
"""A terminal names a probe after this long, anything else after three times as long."""
BLOCK_LINES = 6
_CLEAR_BELOW = "\x1b[J"
_PIPE_BUF = 4096


class Progress(Protocol):
    """A context manager; `update` is what the supervisor calls while it waits."""

    def __enter__(self) -> Progress: ...
    def __exit__(self, *_: object) -> None: ...
    def update(self, running: Sequence[Running]) -> None:
        """Show how these stand."""
        ...


def progress_for(stream: TextIO | None, *, quiet: bool = False) -> Progress:
    """The kind that suits the stream; there is none where the caller has closed it."""
    if quiet or stream is None:
        return Silent()
    try:
        is_terminal = stream.isatty()
    except ValueError:  # closed
        return Silent()
    return Block(stream) if is_terminal and os.environ.get("TERM", "dumb") != "dumb" else Lines(stream)


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, running: Sequence[Running]) -> None:
        """Nothing to see."""


class Lines(Silent):
    """One line, once, for each probe that has been slow for a while."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told: set[int] = set()

    def update(self, running: Sequence[Running]) -> None:
        """Name those that have become slow since the last call."""
        now = time.monotonic_ns()
        for one in running:
            if one.pid not in self._told and slow_s(one, now) > 3 * SLOW_S:
                self._told.add(one.pid)
                write(self._stream, f"flatline: {describe(one, now)}\n")


class Block(Silent):
    """A few lines that are drawn over, gone at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began_ns = time.monotonic_ns()
        self._drawn = 0

    def __exit__(self, *_: object) -> None:
        self._draw([])

    def update(self, running: Sequence[Running]) -> None:
        """Draw what runs now."""
        width = shutil.get_terminal_size().columns
        self._draw([line[: width - 1] for line in block(running, self._began_ns, time.monotonic_ns())])

    def _draw(self, lines: Sequence[str]) -> None:
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        text = f"\r{up}{_CLEAR_BELOW}" + "".join(line + "\n" for line in lines)
        if (lines or self._drawn) and write(self._stream, text):
            self._drawn = len(lines)


def block(running: Sequence[Running], began_ns: int, now: int) -> list[str]:
    """The lines for a terminal: what is at work, then the slow ones, slowest first."""
    slow = sorted((one for one in running if slow_s(one, now) > SLOW_S), key=lambda one: -slow_s(one, now))
    names = ", ".join(one.probe for one in running)
    lines = [f"collecting, {(now - began_ns) / 1e9:.0f} s: {names}"]
    lines += [f"  {describe(one, now)}" for one in slow[:BLOCK_LINES]]
    return lines + ([f"  and {len(slow) - BLOCK_LINES} more that are slow"] if len(slow) > BLOCK_LINES else [])


def slow_s(one: Running, now: int) -> float:
    """Seconds it has been at the same thing; 0 for one that only watches until the window is over."""
    return 0.0 if one.spans_window and not one.stuck() else (now - one.doing_since_ns) / 1e9


def describe(one: Running, now: int) -> str:
    """``stacks: waiting for py-spy on pid 123, 3.2 s of 8.0 s; pid 99 (py-spy) is in state D in …``."""
    took, limit = (now - one.began_ns) / 1e9, (one.limit_ns - one.began_ns) / 1e9
    stuck = one.stuck()
    doing = one.doing or "at work"
    return visible(f"{one.probe}: {doing}, {took:.1f} s of {limit:.1f} s" + (f"; {stuck}" if stuck else ""))


def write(stream: TextIO, text: str) -> bool:
    """Write it whole and at once, or not at all: False where that would mean waiting, or nobody reads."""
    data = text.encode(stream.encoding or "utf-8", "replace")[:_PIPE_BUF]
    try:
        number = stream.fileno()
        ready = select.poll()
        ready.register(number, select.POLLOUT)
        if not any(event & select.POLLOUT for _, event in ready.poll(0)):
            return False
        return os.write(number, data) == len(data)
    except (OSError, ValueError):
        return False
