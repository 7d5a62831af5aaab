"""CPython's lock objects, found by the semaphore they sleep on.

Every lock of CPython 3.8 to 3.13 points to a semaphore. Semaphores have no owner; an RLock writes down its own. After
an object's head (reference count @0, type @8) stand: the semaphore @16; of an RLock the owner (pthread_self) @24, the
depth @32; of a SemLock of multiprocessing the last thread @24, count @32, most @36 (Modules/_threadmodule.c,
Modules/_multiprocessing/semaphore.c).

From 3.14 on a lock is a byte in its object, @16; owner and depth of an RLock stand where they did, the depth less one.
Who waits for it is parked on a semaphore on its own stack, and the byte's address stands right before that (struct
wait_entry, Python/parking_lot.c). A SemLock is as it was. Objects of free-threaded builds have a longer head, and are
not recognised.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..linux.procfs import Mapping
from .memory import Memory

VERSIONS = frozenset({"3.8", "3.9", "3.10", "3.11", "3.12", "3.13"})
PARKING = frozenset({"3.14", "3.15"})
"""Those whose waiters are parked."""
SCAN_BYTES = 256 << 20
SCAN_S = 0.5
MAX_SOUGHT = 64

LockType = Literal["_thread.lock", "_thread.RLock", "_multiprocessing.SemLock"]
_TYPES: dict[str, LockType] = {
    "_thread.lock": "_thread.lock",
    "_thread.RLock": "_thread.RLock",
    "_multiprocessing.SemLock": "_multiprocessing.SemLock",
}
_REFERENCES, _TYPE, _SEMAPHORE, _OWNER, _DEPTH = 0, 8, 16, 24, 32
_BYTE = _SEMAPHORE
_MOST_REFERENCES = 1 << 30
_TYPE_NAME = 24
"""tp_name in PyTypeObject."""


@dataclass(frozen=True)
class LockObject:
    """One lock object of Python, as it is now."""

    type: LockType
    owner: int = 0
    """Of an RLock pthread_self of its owner, 0: nobody has it."""
    depth: int = 0
    """Of an RLock; of a SemLock how often this very process has taken it."""
    is_mutex: bool = True
    """Of a SemLock: it lets one in at a time. Of a counting one the depth says nothing."""


@dataclass
class Search:
    """Semaphore -> its lock object, and how far memory was looked through."""

    found: dict[int, LockObject] = field(default_factory=dict)
    bound: str = ""
    """Why the search ended before the end of memory; empty: it did not."""


def find(
    memory: Memory, maps: Sequence[Mapping], semaphores: Collection[int], hints: dict[int, int], deadline: float
) -> Search:
    """Look for the lock objects of some semaphores. `hints` (semaphore -> address of the object) is tried first and
    added to: forked processes have theirs at the same place. `deadline` is on the clock of time.monotonic."""
    search, sought = Search(), dict.fromkeys(list(semaphores)[:MAX_SOUGHT])
    for semaphore in [one for one in sought if one in hints]:
        if (lock := _lock_at(memory, hints[semaphore], semaphore)) is not None:
            search.found[semaphore] = lock
            del sought[semaphore]
    seen = 0
    for address, chunk in memory.chunks(_arenas(maps)):
        if not sought:
            break
        if seen >= SCAN_BYTES or time.monotonic() > deadline:
            search.bound = f"looked through {seen >> 20} MB of its memory, and no further"
            break
        seen += len(chunk)
        for semaphore in list(sought):
            for place in _places(chunk, semaphore):
                if (lock := _lock_at(memory, address + place - _SEMAPHORE, semaphore)) is not None:
                    search.found[semaphore] = lock
                    hints[semaphore] = address + place - _SEMAPHORE
                    del sought[semaphore]
                    break
    return search


def parked(memory: Memory, semaphore: int) -> LockObject | None:
    """The lock that a thread is parked for, by the semaphore on its stack; None: it is parked for something else."""
    byte = memory.number(semaphore - 8)
    raw = memory.read(byte - _BYTE, _DEPTH + 8) if byte and byte % 8 == 0 else None
    if raw is None or struct.unpack_from("=I", raw, _REFERENCES)[0] == 0:  # the upper half has flags now
        return None
    kind = _type(memory, raw)
    if kind == "_thread.RLock":
        owner, depth = struct.unpack_from("=QQ", raw, _OWNER)
        return LockObject(kind, owner, depth + 1 if owner else 0)
    return LockObject(kind) if kind == "_thread.lock" else None


def _arenas(maps: Sequence[Mapping]) -> list[Mapping]:
    """Where Python's objects may be, nearest first: its arenas are small anonymous mappings or merged from such, and
    what is large is somebody's data."""
    writable = [m for m in maps if m.permissions.startswith("rw") and m.permissions.endswith("p")]
    return sorted((m for m in writable if m.path in ("", "[heap]") or m.path.startswith("[anon:")), key=_size)


def _size(mapping: Mapping) -> int:
    return mapping.end - mapping.start


def _places(chunk: bytes, semaphore: int) -> Iterator[int]:
    """Offsets of the pointer. Its upper bytes are NUL, of which memory is full: what is sought ends before them."""
    pointer = struct.pack("=Q", semaphore)
    needle = pointer.rstrip(b"\0")
    place = chunk.find(needle)
    while place >= 0:
        if place % 8 == 0 and chunk[place : place + 8] == pointer:
            yield place
        place = chunk.find(needle, place + 1)


def _lock_at(memory: Memory, address: int, semaphore: int) -> LockObject | None:
    """The lock object at an address; None when there is none, or it has another semaphore.

    Of an object that is no more everything else is left, and malloc gives its semaphore's place to the next lock: its
    count of references is 0, or overwritten with the address of the next free block.
    """
    raw = memory.read(address, _DEPTH + 8)
    if raw is None or struct.unpack_from("=Q", raw, _SEMAPHORE)[0] != semaphore:
        return None
    if not 0 < struct.unpack_from("=q", raw, _REFERENCES)[0] < _MOST_REFERENCES:
        return None
    kind = _type(memory, raw)
    if kind is None:
        return None
    owner, depth = struct.unpack_from("=QQ", raw, _OWNER)
    if kind == "_thread.RLock":
        return LockObject(kind, owner, depth)
    count, most = struct.unpack_from("=ii", raw, _DEPTH)
    return LockObject(kind, depth=count, is_mutex=most == 1) if kind == "_multiprocessing.SemLock" else LockObject(kind)


def _type(memory: Memory, raw: bytes) -> LockType | None:
    """Of the object that these bytes begin; None: it is no lock."""
    name_at = memory.number(struct.unpack_from("=Q", raw, _TYPE)[0] + _TYPE_NAME)
    return _TYPES.get(memory.text(name_at) or "") if name_at else None
