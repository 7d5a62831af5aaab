"""CPython's own unwinder, ``_remote_debugging.RemoteUnwinder`` (3.14 and newer): for where py-spy is not at hand.

It reads the other process's memory and stops nothing, but knows the layout of its own minor version only. Its
neighbour `sys.remote_exec` runs code in the other process, and is never used. 3.14 gives the threads of all
interpreters in one list, and without the outermost frames of threads that Python started; 3.15 a list for each.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

from flatline.texts.stack_lines import RawFrame, RawThread

from .native import numbered_thread

FIRST = (3, 14)


def why_not(python: str | None) -> str:
    """Why it cannot be used on a process of this Python (``3.14``); empty when it can."""
    ours = sys.version_info[:2]
    if ours < FIRST:
        return f"CPython's unwinder came with 3.14, and this is {ours[0]}.{ours[1]}"
    if python != f"{ours[0]}.{ours[1]}":
        return f"CPython's unwinder of {ours[0]}.{ours[1]} does not know the layout of {python or 'an unknown Python'}"
    return ""


def read(pid: int) -> list[RawThread]:
    """The Python stacks of a process. OSError without rights, or when it is gone or moves; may be slow: bound it."""
    try:
        unwinder = importlib.import_module("_remote_debugging").RemoteUnwinder(pid, all_threads=True)
        found = unwinder.get_stack_trace()
    except (ImportError, RuntimeError, UnicodeDecodeError) as error:  # what it raises for memory that changes
        raise OSError(f"CPython's unwinder: {error}") from error
    threads = [thread for one in found for thread in getattr(one, "threads", (one,))]
    return [numbered_thread(thread.thread_id, list(_frames(thread))) for thread in threads]


def _frames(thread: Any) -> Iterator[RawFrame]:
    for frame in thread.frame_info:
        location = getattr(frame, "location", None)  # 3.15; a plain line number before
        line = getattr(location, "lineno", None) if location is not None else getattr(frame, "lineno", None)
        yield RawFrame(frame.funcname, frame.filename, line)
