"""One look at one process and its threads: what can be read without ever blocking, in one go."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from .procfs import ProcFS, Stat, Unread, parse_fields, parse_last_pid
from .syscalls import RUNNING, decode

_CALL_IN_STACK = re.compile(r"__(?:do|se|x64|arm64|ia32)_sys_(\w+)\+")


@dataclass(frozen=True)
class TaskLook:
    """One thread at one moment. None: refused, or it ended meanwhile."""

    stat: Stat
    mono_ns: int
    wchan: str | None = None
    syscall: str | None = None
    """The raw line."""
    voluntary: int | None = None
    involuntary: int | None = None
    ns_tid: int | None = None

    @property
    def on_cpu(self) -> bool:
        return self.stat.state == "R" or self.syscall == RUNNING


@dataclass(frozen=True)
class ProcessLook:
    """One process at one moment."""

    stat: Stat
    mono_ns: int
    status: dict[str, str] = field(default_factory=dict)
    io: dict[str, int] = field(default_factory=dict)
    tasks: tuple[TaskLook, ...] = ()
    tids_total: int = 0
    denied: frozenset[str] = frozenset()
    """The files that were refused: ``syscall``, ``wchan``, ``io`` …"""


def look_at(proc: ProcFS, pid: int, max_tasks: int, until_ns: int | None = None) -> ProcessLook | Unread:
    """At most `max_tasks` threads: the main one, then evenly chosen; and no more of them after `until_ns`."""
    stat = proc.stat(pid)
    if isinstance(stat, Unread):
        return stat
    mono_ns = time.monotonic_ns()
    status = proc.status(pid)
    tids = proc.numbers(pid, "task")
    tids = [] if isinstance(tids, Unread) else tids
    looks: list[tuple[TaskLook | None, frozenset[str]]] = []
    for tid in spread(tids, pid, max_tasks):
        if looks and until_ns is not None and time.monotonic_ns() > until_ns:
            break
        looks.append(task_look(proc, pid, tid))
    io, denied = _io(proc, pid)
    refused = {name for _, names in looks for name in names} | denied
    return ProcessLook(
        stat=stat,
        mono_ns=mono_ns,
        status={} if isinstance(status, Unread) else status,
        io=io,
        tasks=tuple(look for look, _ in looks if look is not None),
        tids_total=len(tids),
        denied=frozenset(refused),
    )


def task_look(proc: ProcFS, pid: int, tid: int) -> tuple[TaskLook | None, frozenset[str]]:
    """The thread, None when it is gone; and what was refused."""
    stat = proc.stat(pid, tid)
    if isinstance(stat, Unread):
        return None, frozenset()
    mono_ns = time.monotonic_ns()
    syscall, wchan = proc.text(pid, "task", tid, "syscall"), proc.text(pid, "task", tid, "wchan")
    status = proc.status(pid, tid)
    fields = {} if isinstance(status, Unread) else status
    refused = isinstance(syscall, Unread) and syscall.reason == "denied"
    # Without ptrace rights wchan reads "0", and gives no error; with them "0" means: not waiting.
    hidden = isinstance(wchan, Unread) or not wchan or (refused and wchan == "0")
    look = TaskLook(
        stat=stat,
        mono_ns=mono_ns,
        wchan=None if hidden else str(wchan).strip(),
        syscall=None if isinstance(syscall, Unread) else syscall.strip(),
        voluntary=_number(fields.get("voluntary_ctxt_switches")),
        involuntary=_number(fields.get("nonvoluntary_ctxt_switches")),
        ns_tid=parse_last_pid(fields.get("NSpid")),
    )
    return look, frozenset({"syscall", "wchan"}) if refused else frozenset()


def call_met(proc: ProcFS, pid: int, tid: int) -> str | None:
    """The call a thread is in, ``running`` when none can be told. A thread that runs has no syscall line, and a loop
    over sched_yield never sleeps; but its kernel stack, for root, tells where it was when the CPU was last taken."""
    line = proc.text(pid, "task", tid, "syscall")
    call = None if isinstance(line, Unread) else decode(line)
    if call is None or call.name != RUNNING:
        return None if call is None else call.name
    stack = proc.text(pid, "task", tid, "stack")
    match = None if isinstance(stack, Unread) else _CALL_IN_STACK.search(stack)
    return match[1] if match else RUNNING


def spread(tids: Sequence[int], main: int, most: int) -> list[int]:
    """At most `most` of the threads: the main one first, the others evenly over the list."""
    others = [tid for tid in tids if tid != main]
    first = [main] if main in tids else []
    room = max(0, most - len(first))
    if len(others) > room:
        others = [others[index * len(others) // room] for index in range(room)]
    return (first + others)[: max(0, most)]


def _io(proc: ProcFS, pid: int) -> tuple[dict[str, int], frozenset[str]]:
    text = proc.text(pid, "io")
    if isinstance(text, Unread):
        return {}, frozenset({"io"}) if text.reason == "denied" else frozenset()
    numbers = {name: _number(value) for name, value in parse_fields(text).items()}
    return {name: number for name, number in numbers.items() if number is not None}, frozenset()


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
