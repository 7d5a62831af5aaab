"""One look into the memory of one process: at the futexes its threads sleep on, and at the locks behind them."""

from __future__ import annotations

import os
from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from flatline.bundle.facts import Syscall

from ..linux.procfs import Mapping, ProcFS, Stat, Unread
from ..linux.syscalls import decode, timeout_address
from ..probes.interface import Target
from ..probes.process_rows import python_version
from ..stacks.thread_ids import TID_OFFSETS, numbering
from . import glibc, python_locks
from .glibc import AFTER, BEFORE, PRIVATE, Primitive
from .memory import Memory
from .poll_sets import read_watched, watches
from .python_locks import LockObject
from .shared import mapping_at
from .timeouts import Left, read_timeout

_SELF = 16
"""Of header.self in glibc's struct pthread on x86_64: its own address."""


@dataclass(frozen=True)
class Sleeper:
    """A thread that was in the same call, with the same stack pointer, in two looks."""

    pid: int
    tid: int
    line: str
    call: Syscall

    @property
    def address(self) -> int:
        return self.call.args[0]

    @property
    def op(self) -> int:
        return self.call.args[1] & 0xFFFFFFFF

    @property
    def value(self) -> int:
        return self.call.args[2] & 0xFFFFFFFF

    @property
    def is_in_futex(self) -> bool:
        return self.call.name == "futex" and self.op & glibc.COMMAND in glibc.WAITS

    @property
    def is_private(self) -> bool:
        return bool(self.op & PRIVATE)

    @cached_property
    def may_be_python_lock(self) -> bool:
        """A wait for a semaphore without a timeout: what a lock is taken with."""
        return self.op & ~PRIVATE == glibc.JOIN and self.value == 0 and self.call.timed is False


@dataclass
class Reading:
    """What was read of one process. Only what was the same before and after is in it."""

    sleepers: Sequence[Sleeper]
    maps: list[Mapping] = field(default_factory=list)
    ours: dict[int, int] = field(default_factory=dict)
    """Thread ids as the process numbers them -> as we do."""
    around: dict[int, bytes] = field(default_factory=dict)
    """tid -> memory around its futex."""
    locks: dict[int, LockObject] = field(default_factory=dict)
    """Semaphore -> the Python lock that sleeps on it."""
    pthreads: dict[int, int] = field(default_factory=dict)
    """pthread_self -> thread id in the process's numbering, 0 for one that has ended."""
    timeouts: dict[int, Left] = field(default_factory=dict)
    watched: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Of a thread in poll or select: the descriptors."""
    denied: bool = False
    is_known_libc: bool = False
    note: str = ""
    """Why something is missing."""

    def primitive(self, sleeper: Sleeper) -> Primitive:
        """What a thread sleeps on, as far as its call and the memory around it tell."""
        around = self.around.get(sleeper.tid)
        if around is None or not self.is_known_libc:
            return glibc.by_call(sleeper.op, sleeper.value)
        return glibc.decode(sleeper.op, sleeper.value, around)

    def lock(self, sleeper: Sleeper) -> LockObject | None:
        return self.locks.get(sleeper.address) if sleeper.tid in self.around else None


def sleeping_lines(proc: ProcFS, targets: Sequence[Target]) -> tuple[dict[tuple[int, int], str], list[Target]]:
    """(pid, tid) -> raw syscall line; and the processes that would not show theirs."""
    lines: dict[tuple[int, int], str] = {}
    refused: list[Target] = []
    for target in targets:
        tids = proc.numbers(target.pid, "task")
        for tid in tids if isinstance(tids, list) else []:
            line = proc.text(target.pid, "task", tid, "syscall")
            if not isinstance(line, Unread):
                lines[target.pid, tid] = line.strip()
            elif line.reason == "denied":
                refused.append(target)
                break
    return lines, refused


def sleeper_of(pid: int, tid: int, line: str) -> Sleeper | None:
    """None: it is in no call whose memory tells something."""
    call = decode(line)
    found = Sleeper(pid, tid, line, call) if call is not None and len(call.args) == 6 else None
    tells = found is not None and (found.is_in_futex or timeout_address(found.call) or watches(found.call))
    return found if tells else None


def read(proc: ProcFS, target: Target, sleepers: Sequence[Sleeper], hints: dict[int, int], deadline: float) -> Reading:
    """May block on the mmap lock and on pages of a dead mount: call it behind a limit. `hints` and `deadline` as in
    `python_locks.find`."""
    reading = Reading(sleepers)
    try:
        memory = Memory(proc, target.pid)
    except OSError as error:
        reading.denied = isinstance(error, PermissionError)
        reading.note = "its memory may not be read" if reading.denied else f"its memory: {error.strerror}"
        return reading
    with memory:
        stat = proc.stat(target.pid)
        if not isinstance(stat, Stat) or stat.start_ticks != target.start_ticks:
            reading.note = "the process has ended"
            return reading
        _read_all(proc, memory, target, reading, hints, deadline)
    return reading


def _read_all(
    proc: ProcFS, memory: Memory, target: Target, reading: Reading, hints: dict[int, int], deadline: float
) -> None:
    in_futex = [sleeper for sleeper in reading.sleepers if sleeper.is_in_futex]
    before = {s.tid: memory.around(s.address, BEFORE, AFTER) for s in in_futex}
    timeouts = {s.tid: read_timeout(memory, s.call) for s in reading.sleepers}
    watched = {s.tid: read_watched(memory, s.call) for s in reading.sleepers}
    reading.ours = numbering(proc, target.pid)
    maps = proc.maps(target.pid) if in_futex else []
    reading.maps = maps if isinstance(maps, list) else []
    reading.is_known_libc = glibc.is_known(reading.maps, os.uname().machine)
    if in_futex and not reading.is_known_libc:
        reading.note = "owner unknown: C library not recognised"
    locks = _python_locks(proc, memory, target, reading, hints, deadline)
    for sleeper in reading.sleepers:
        if proc.text(sleeper.pid, "task", sleeper.tid, "syscall") not in (sleeper.line, f"{sleeper.line}\n"):
            continue
        left = timeouts[sleeper.tid]
        if left is not None:
            reading.timeouts[sleeper.tid] = left
        fds = watched[sleeper.tid]
        if fds is not None:
            reading.watched[sleeper.tid] = fds
        around = before.get(sleeper.tid)
        if around is not None and memory.around(sleeper.address, BEFORE, AFTER) == around:
            reading.around[sleeper.tid] = around
    reading.locks = locks
    owners = {lock.owner for lock in locks.values() if lock.owner}
    reading.pthreads = {pthread: _tid_of(memory, pthread) for pthread in owners}


def _python_locks(
    proc: ProcFS, memory: Memory, target: Target, reading: Reading, hints: dict[int, int], deadline: float
) -> dict[int, LockObject]:
    sought = {s.address: s for s in reading.sleepers if s.is_in_futex and s.may_be_python_lock}
    exe = proc.link(target.pid, "exe") if sought else ""
    version = python_version(exe if isinstance(exe, str) else None, reading.maps) if sought else None
    if not sought or version is None or not reading.is_known_libc:
        return {}
    on_stack = {address for address, sleeper in sought.items() if _is_on_stack(reading.maps, sleeper)}
    objects = sought.keys() - on_stack  # a semaphore on a thread's own stack is no object's
    if version not in python_locks.VERSIONS | python_locks.PARKING:
        reading.note = f"owner unknown: the locks of Python {version} are not known" if objects else ""
        return {}
    parked = {}
    if version in python_locks.PARKING:
        parked = {address: python_locks.parked(memory, address) for address in on_stack}
    search = python_locks.find(memory, reading.maps, objects, hints, deadline)
    reading.note = search.bound
    return {**search.found, **{address: lock for address, lock in parked.items() if lock is not None}}


def _is_on_stack(maps: Sequence[Mapping], sleeper: Sleeper) -> bool:
    """The last but one field of the line is the stack pointer."""
    pointer = int(sleeper.line.split()[-2], 16)
    mapping = mapping_at(maps, pointer)
    return (
        mapping is not None
        and mapping.start <= pointer <= sleeper.address < mapping.end
        and (sleeper.address - pointer < 1 << 16)
    )


def _tid_of(memory: Memory, pthread: int) -> int:
    """The thread's id in the structure that pthread_self points to; 0: it has ended, or this is none; -1: unknown."""
    machine = os.uname().machine
    offset = TID_OFFSETS.get(machine)
    if offset is None:
        return -1
    if machine == "x86_64" and memory.number(pthread + _SELF) != pthread:
        return 0
    return memory.number(pthread + offset, "=i") or 0


def held_count(proc: ProcFS, pid: int, semaphore: int, hints: dict[int, int], deadline: float) -> int | None:
    """How often a process says that it has taken a lock of multiprocessing: 0 also when it has no object for it. None:
    it could not be asked. May block like `read`."""
    maps = proc.maps(pid)
    if isinstance(maps, Unread):
        return None
    try:
        with Memory(proc, pid) as memory:
            search = python_locks.find(memory, maps, [semaphore], hints, deadline)
    except OSError:
        return None
    found = search.found.get(semaphore)
    if found is None:
        return None if search.bound else 0
    return found.depth


def by_process(sleepers: Sequence[Sleeper]) -> Map[int, list[Sleeper]]:
    """pid -> its sleepers."""
    grouped: dict[int, list[Sleeper]] = {}
    for sleeper in sleepers:
        grouped.setdefault(sleeper.pid, []).append(sleeper)
    return grouped
