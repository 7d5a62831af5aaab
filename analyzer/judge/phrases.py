"""What only the texts of rules show: a few words worked out from a row and what belongs to it.

``{t.at}`` where a thread is in the program's own code, ``{t.breakpoint}`` where it was halted, ``{t.prompt}`` what it
asks, ``{t.stream}`` what it writes to, ``{p.command}`` a short command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from flatline.bundle.facts import Frame, Log, Process, Thread

from .evidence import clean
from .fields import COUNT_TABLE, Count, value_of
from .index import FactIndex

MAX_COMMAND = 80
QUESTION = re.compile(r"(?i)(\[y/n\]|\(y/n\)|[(\[]yes/no[)\]]|[?:>])\s*$")
"""How the last line of an output ends when it asks something."""
_HALTS = re.compile(r"\b(breakpoint|set_trace|wait_for_client|embed)\s*\(")
_LINES_BEFORE = 2
"""A debugger shows the line that would run next: its call is the one before, or two before with a blank between."""
_STREAMS = {0: "standard input", 1: "standard output", 2: "standard error"}


def at(thread: Thread, index: FactIndex) -> str | None:
    """``train.py:12 in main``: the innermost frame of the program's own code, else the innermost one."""
    frame = _own_frame(thread, index)
    return None if frame is None else _place(frame, frame.line_no)


def breakpoint_of(thread: Thread, index: FactIndex) -> str | None:
    """``at train.py:12 in main``: the line that halts; ``just before`` the line shown, where that is all we have."""
    frame = _own_frame(thread, index)
    if frame is None:
        return None
    lines = [line for line in frame.source if 0 <= (frame.line_no or 0) - line.line <= _LINES_BEFORE]
    halting = [line.line for line in lines if _HALTS.search(line.text)]
    if halting:
        return f"at {_place(frame, halting[-1])}"
    steps = any((other.file or "").endswith("bdb.py") for other in index.stack(thread.id))
    return f"{'just before' if steps else 'at'} {_place(frame, frame.line_no)}"


def prompt(thread: Thread, index: FactIndex) -> str | None:
    """What it asks: the last line of its output, which has no end yet; else the text in the line that asks."""
    for log in index.rows("logs"):
        if thread.process in log.writers and _asks(log):
            return f'"{log.last_line}"'
    literals = (value_of(frame, "prompt") for frame in reversed(index.stack(thread.id)))
    literal = next((text for text in literals if text), None)
    return f'"{literal}"' if literal else None


def stream(thread: Thread, _: FactIndex) -> str | None:
    """``standard error``, of a call on descriptor 2."""
    number = thread.syscall.fd if thread.syscall else None
    return None if number is None else _STREAMS.get(number, f"descriptor {number}")


def command(process: Process, _: FactIndex) -> str | None:
    """The command line, short."""
    return clean(" ".join(process.argv) if process.argv else process.name or "", MAX_COMMAND)


def number(count: Count, _: FactIndex) -> str:
    """``3``; ``at least 200`` where there may be more."""
    return f"at least {count.count}" if count.at_least else str(count.count)


PHRASES: Mapping[str, Mapping[str, Callable[[Any, FactIndex], str | None]]] = {
    "processes": {"command": command},
    "threads": {"at": at, "breakpoint": breakpoint_of, "prompt": prompt, "stream": stream},
    COUNT_TABLE: {"count": number},
}
"""table -> field -> function."""


def _own_frame(thread: Thread, index: FactIndex) -> Frame | None:
    stack = index.stack(thread.id)
    own = [frame for frame in stack if frame.is_user] or stack
    return own[-1] if own else None


def _place(frame: Frame, line: int | None) -> str:
    return f"{(frame.file or '?').rpartition('/')[2]}:{line or '?'} in {frame.function}"


def _asks(log: Log) -> bool:
    return log.ends_with_newline is False and bool(log.last_line) and QUESTION.search(log.last_line or "") is not None
