"""The kernel's own stack of a thread, /proc/PID/task/TID/stack (proc_pid_stack(5)): where it waits in a driver, a file
system, a lock of the kernel. Reading it stops nothing. Only root may, or who has CAP_SYS_ADMIN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flatline.bundle.facts import KERNEL_SAMPLE, Frame, thread_id

from ..linux.procfs import ProcFS, Unread

MOST_THREADS = 400
_LINE = re.compile(r"\[<\w{1,16}>\] (?P<name>[\w.]{1,200})\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(?P<module>[\w-]{1,60})\])?")


@dataclass(frozen=True)
class KernelStack:
    """One thread's stack as printed."""

    pid: int
    tid: int
    text: str


def read(proc: ProcFS, pids: Sequence[int]) -> tuple[list[KernelStack], int]:
    """Stacks of all main threads, and of every thread in state D; and how many threads we may not look at."""
    found, denied = [], 0
    for pid, tid in _worth_reading(proc, pids):
        text = proc.text(pid, "task", tid, "stack")
        if isinstance(text, Unread):
            denied += text.reason == "denied"
        elif text.strip():
            found.append(KernelStack(pid, tid, text))
    return found, denied


def rows(stack: KernelStack, mono_ns: int) -> Iterator[Frame]:
    """One row per line; lines that do not parse are left out."""
    lines = [line for text in stack.text.splitlines() if (line := _LINE.match(text))]
    for depth, line in enumerate(lines):
        yield Frame(
            thread=thread_id(stack.pid, stack.tid),
            sample=KERNEL_SAMPLE,
            depth=depth,
            function=line["name"],
            module=line["module"],
            kind="kernel",
            mono_ns=mono_ns,
        )


def _worth_reading(proc: ProcFS, pids: Sequence[int]) -> list[tuple[int, int]]:
    """Those in D first: they are what only the kernel can explain."""
    waiting = [(pid, tid) for pid in pids for tid in _tids(proc, pid) if _state(proc, pid, tid) == "D"]
    main = [(pid, pid) for pid in pids]
    return list(dict.fromkeys([*waiting, *main]))[:MOST_THREADS]


def _tids(proc: ProcFS, pid: int) -> list[int]:
    tids = proc.numbers(pid, "task")
    return [] if isinstance(tids, Unread) else tids


def _state(proc: ProcFS, pid: int, tid: int) -> str:
    stat = proc.stat(pid, tid)
    return "unknown" if isinstance(stat, Unread) else stat.state
