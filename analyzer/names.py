"""How a sentence names a process and a thread. One that no text names has a negative pid: it is "the process"."""

from __future__ import annotations

from collections.abc import Sequence

from flatline.bundle.facts import Thread

_TIMES = {1: "", 2: "second ", 3: "third "}
_MAX_TID = 2**31


def process_named(pid: int, rank: int | None = None, *, thing: str = "process") -> str:
    """``pid 12``, ``rank 3 (pid 12)``; without a pid ``rank 3``, ``the process``, ``the second process``."""
    if pid > 0:
        return f"pid {pid}" if rank is None else f"rank {rank} (pid {pid})"
    if rank is not None:
        return f"rank {rank}"
    return f"the {_TIMES.get(-pid, f'{-pid}th ')}{thing}" if pid < 0 else f"the {thing}"


def process_of_id(process: str) -> str:
    """The same of ``h1/12``."""
    pid = process.rpartition("/")[2]
    return process_named(int(pid)) if pid.removeprefix("-").isdigit() else f"pid {pid}"


def thread_named(thread: Thread) -> str:
    """Its name, else its number: the kernel's, or the pthread in hexadecimal digits."""
    return thread.name or (str(thread.tid) if thread.tid < _MAX_TID else f"{thread.tid:#x}")


def command_line(argv: Sequence[str]) -> str:
    """In one line: the lines of a ``python -c`` and a shell's script stand side by side."""
    return " ".join(" ".join(argv).split())
