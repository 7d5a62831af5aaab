"""From what was read to rows: who owns each lock, under our numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from flatline.bundle.facts import Futex, PollSet, Timeout, process_id, thread_id

from ..linux.procfs import ProcFS
from ..stacks.thread_ids import numbering
from .glibc import BEFORE, Primitive
from .python_locks import LockObject
from .reading import Reading, Sleeper
from .shared import File, Mappers, device_number, mapping_at

State = Literal["alive", "self", "not-a-thread-of-the-process", "none", "unknown"]
_PYTHON = {
    "_thread.lock": "python-lock",
    "_thread.RLock": "python-rlock",
    "_multiprocessing.SemLock": "python-semaphore",
}


@dataclass(frozen=True)
class Owner:
    """Who has a lock. `thread` is set where it lives."""

    state: State = "unknown"
    tid: int | None = None
    """As memory has it."""
    thread: str | None = None
    pthread: int | None = None


def file_of(reading: Reading, sleeper: Sleeper) -> File | None:
    """What a shared futex lies in; None: in memory of its own process."""
    mapping = None if sleeper.is_private else mapping_at(reading.maps, sleeper.address)
    shared = mapping is not None and mapping.permissions.endswith("s")
    return (mapping.device, mapping.inode) if mapping is not None and shared else None


def timeout_rows(reading: Reading) -> Iterator[Timeout]:
    for sleeper in reading.sleepers:
        left = reading.timeouts.get(sleeper.tid)
        if left is not None:
            thread = thread_id(sleeper.pid, sleeper.tid)
            yield Timeout(thread, sleeper.call.name, left.seconds, left.until)


def poll_sets(reading: Reading) -> Iterator[PollSet]:
    for sleeper in reading.sleepers:
        fds = reading.watched.get(sleeper.tid)
        if fds is not None:
            yield PollSet(thread_id(sleeper.pid, sleeper.tid), sleeper.call.name, fds)


def futex_row(
    proc: ProcFS, reading: Reading, sleeper: Sleeper, mappers: Mappers, held_by: tuple[str, ...] | None
) -> Futex:
    """The row of one thread that sleeps on a futex."""
    file, lock, primitive = file_of(reading, sleeper), reading.lock(sleeper), reading.primitive(sleeper)
    mapping = mapping_at(reading.maps, sleeper.address) if file else None
    owner = _owner(proc, reading, sleeper, primitive, lock, None if file is None else mappers.of.get(file, {}), mappers)
    around = reading.around.get(sleeper.tid)
    depth = lock.depth if lock is not None and lock.type == "_thread.RLock" else primitive.depth
    return Futex(
        thread_id(sleeper.pid, sleeper.tid),
        process_id(sleeper.pid),
        sleeper.address,
        sleeper.op,
        sleeper.value,
        sleeper.is_private,
        timed=sleeper.call.timed,
        word=None if around is None else _word(around),
        primitive=_PYTHON[lock.type] if lock is not None else primitive.kind,  # type: ignore[arg-type]
        owner_tid=owner.tid,
        owner_pthread=owner.pthread,
        owner_thread=owner.thread,
        owner_state=owner.state,
        depth=depth,
        waiters=primitive.waiters,
        mapping=None if mapping is None else mapping.path,
        device=None if file is None else device_number(file[0]),
        inode=None if file is None else file[1],
        mapped_by=_others(sleeper, file, mappers),
        all_asked=None if file is None else mappers.is_complete,
        held_by=held_by,
        note="; ".join(note for note in (primitive.note, reading.note) if note),
    )


def _word(around: bytes) -> int:
    return int.from_bytes(around[BEFORE : BEFORE + 4], sys.byteorder)


def _others(sleeper: Sleeper, file: File | None, mappers: Mappers) -> tuple[str, ...] | None:
    if file is None:
        return None
    return tuple(process_id(pid) for pid in mappers.of.get(file, {}) if pid != sleeper.pid)


def _owner(
    proc: ProcFS,
    reading: Reading,
    sleeper: Sleeper,
    primitive: Primitive,
    lock: LockObject | None,
    sharing: Mapping[int, object] | None,
    mappers: Mappers,
) -> Owner:
    if lock is not None:
        return _python_owner(reading, sleeper, lock)
    if primitive.owner is None:
        return Owner("none" if primitive.has_owner is False else "unknown")
    if primitive.kind == "join" or sharing is None:
        return _in_process(reading.ours, sleeper, primitive.owner)
    return _in_some_process(proc, sleeper, primitive.owner, sharing, complete=mappers.is_complete)


def _python_owner(reading: Reading, sleeper: Sleeper, lock: LockObject) -> Owner:
    """Only an RLock has one. Between two owners it has none, and its waiter is about to wake."""
    if lock.type != "_thread.RLock" or not lock.owner:
        return Owner("none")
    tid = reading.pthreads.get(lock.owner, -1)
    if tid == -1:
        return Owner(pthread=lock.owner)
    found = _in_process(reading.ours, sleeper, tid)
    return Owner(found.state, tid or None, found.thread, lock.owner)


def _in_process(ours: Mapping[int, int], sleeper: Sleeper, owner: int) -> Owner:
    """Among the threads of the sleeper's own process: after fork() the number of a thread of the parent is left in the
    child's memory, and may well live, in the parent."""
    if not ours:
        return Owner(tid=owner)
    tid = ours.get(owner)
    if tid is None:
        return Owner("not-a-thread-of-the-process", owner)
    return Owner("self" if tid == sleeper.tid else "alive", owner, thread_id(sleeper.pid, tid))


def _in_some_process(
    proc: ProcFS, sleeper: Sleeper, owner: int, sharing: Mapping[int, object], *, complete: bool
) -> Owner:
    """Among the threads of all processes that have the lock mapped. Two of that number, in two namespaces: unknown."""
    found = [(pid, tid) for pid in sharing if (tid := numbering(proc, pid).get(owner)) is not None]
    if not found:
        return Owner("not-a-thread-of-the-process" if complete else "unknown", owner)
    if len(found) > 1:
        return Owner(tid=owner)
    pid, tid = found[0]
    return Owner("self" if tid == sleeper.tid else "alive", owner, thread_id(pid, tid))
