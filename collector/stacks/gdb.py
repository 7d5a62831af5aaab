"""gdb as the last of the tools that stop a process: C frames of every thread, with not one call made in the target.

``-nx`` and ``auto-load off``: no script of the user, the system or the target's libraries is run. No values of
arguments are printed: they would be read from memory only to be hidden. Verified with gdb 13.
"""

from __future__ import annotations

from collections.abc import Sequence

from flatline.texts.stack_lines import RawThread, gdb_frame, gdb_head

from . import native

MOST_FRAMES = 40
_SETTINGS = (
    "set auto-load off",
    "set debuginfod enabled off",
    "set pagination off",
    "set width 0",
    "set print frame-arguments none",
    "set print entry-values no",
)


def argv(program: str, pid: int | str) -> list[str]:
    """One look at a process: see attach."""
    return [program, "-batch", "-nx", *_settings(), "-p", str(pid), *_look(), "-ex", "detach"]


def core_argv(program: str, exe: str, core: str) -> list[str]:
    """One look at a core dump; nothing is running any more. `exe` may be empty: then only addresses are printed."""
    return [program, "-batch", "-nx", *_settings(), *_look(), *([exe] if exe else []), "-c", core]


def parse(stdout: bytes) -> list[RawThread]:
    """The threads of ``thread apply all bt``, innermost frame first. Empty for any other text."""
    threads = native.frames_by_thread(stdout, gdb_head, gdb_frame)
    return [native.numbered_thread(tid, stack) for tid, stack in threads.items()]


def _settings() -> Sequence[str]:
    # -iex: before anything of the target is read. A setting that an older gdb does not know costs only itself.
    return [word for setting in _SETTINGS for word in ("-iex", setting)]


def _look() -> Sequence[str]:
    return ["-ex", f"thread apply all bt {MOST_FRAMES}"]
