"""Which lock a futex belongs to, and who owns it: the layouts of glibc 2.25 and newer on 64-bit machines.

They are part of its ABI (bits/pthreadtypes-arch.h, nptl) and were checked against 2.36. Random memory must not look
like a lock: a primitive is named only when everything that is known of its bytes fits.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..linux.procfs import Mapping

PRIVATE, COMMAND = 0x80, 0x7F
WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2 = 0, 6, 9, 11, 13
WAITS = frozenset({WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2})
CLOCK_REALTIME = 0x100
JOIN = WAIT_BITSET | CLOCK_REALTIME
"""pthread_join waits on a shared futex, because the kernel wakes it; its value is the thread's id."""
BEFORE, AFTER = 48, 64
"""Bytes before and after a futex that tell what it is part of."""
MAX_TID = 1 << 22
"""PID_MAX_LIMIT of the kernel."""

Kind = Literal["mutex", "rwlock", "condition", "semaphore", "barrier", "join", "pi-mutex", "unknown"]

_KIND_SHARED, _KIND_ROBUST, _KIND_INHERIT = 128, 16, 32
_KIND_KNOWN = 0x3 | _KIND_SHARED | _KIND_ROBUST | _KIND_INHERIT | 0x300
"""Type (normal, recursive, error-checking, adaptive), attributes, and lock elision on or off."""
_RECURSIVE = 1
_TID_BITS = 0x3FFFFFFF
_MAX_USERS = 1 << 16
_LIBC = re.compile(r"/(libc\.so\.6|libc-2\.(\d+)\.so)( \(deleted\))?$")


@dataclass(frozen=True)
class Primitive:
    """What a futex is part of. `owner` is a thread's id in the numbering of the owner's PID namespace."""

    kind: Kind
    owner: int | None = None
    has_owner: bool | None = None
    """False: this primitive has no owner, or nobody owns it now; None: unknown."""
    depth: int | None = None
    waiters: int | None = None
    note: str = ""


UNKNOWN = Primitive("unknown")


def is_known(maps: Sequence[Mapping], machine: str) -> bool:
    """Whether the process runs on a C library whose layouts these are. From 2.34 on the file is called libc.so.6
    itself; before, the name in maps has the version, as libc.so.6 was a link."""
    if machine not in ("x86_64", "aarch64") or not any(mapping.start >> 32 for mapping in maps):
        return False
    names = {match for mapping in maps if (match := _LIBC.search(mapping.path))}
    return bool(names) and all(match[2] is None or int(match[2]) >= 25 for match in names)


def by_call(op: int, value: int) -> Primitive:
    """What the call alone says, without looking at memory."""
    if op == JOIN and 3 < value <= MAX_TID:  # 0, 2 and 3 are values of semaphores and rwlocks between processes
        return Primitive("join", value, True)
    if op & COMMAND in (LOCK_PI, LOCK_PI2):
        return Primitive("pi-mutex")
    return UNKNOWN


def decode(op: int, value: int, around: bytes) -> Primitive:
    """`around` is memory from `BEFORE` bytes before the futex to `AFTER` bytes behind it."""
    word = _int(around, 0)
    command, shared = op & COMMAND, not op & PRIVATE
    if command in (LOCK_PI, LOCK_PI2):
        return _inheriting(around, shared=shared)
    if command == WAIT:
        return _mutex(around, value, shared=shared) or _barrier(around, value, shared=shared) or UNKNOWN
    if command != WAIT_BITSET or word != value:
        return UNKNOWN
    if value == 0:
        return _semaphore_or_condition(around)
    found = _rwlock(around, value, shared=shared)
    if found is None and op == JOIN and 0 < value <= MAX_TID:
        return Primitive("join", value, True)
    return found or UNKNOWN


def _int(around: bytes, offset: int) -> int:
    return struct.unpack_from("=i", around, BEFORE + offset)[0]


def _long(around: bytes, offset: int) -> int:
    return struct.unpack_from("=Q", around, BEFORE + offset)[0]


# --- mutexes: lock@0 count@4 owner@8 nusers@12 kind@16 spins@20 list@24, @32 ---
# Of a robust or an inheriting one `lock` is the owner's id, and `count` counts whatever its type; a robust one sleeps
# on a shared futex even when it is private.


def _mutex(around: bytes, value: int, *, shared: bool) -> Primitive | None:
    lock, count, owner, users, kind = (_int(around, offset) for offset in (0, 4, 8, 12, 16))
    robust = bool(kind & _KIND_ROBUST)
    if value & 0xFFFFFFFF != lock & 0xFFFFFFFF or (robust or bool(kind & _KIND_SHARED)) is not shared:
        return None
    waited_for = (lock & _TID_BITS) == owner if robust else lock == 2
    if not waited_for or not _is_owned(kind, owner, users, count):
        return None
    if not robust and (_long(around, 24) or _long(around, 32)):
        return None
    return Primitive("mutex", owner, True, _depth(kind, count))


def _inheriting(around: bytes, *, shared: bool) -> Primitive:
    lock, count, owner, users, kind = (_int(around, offset) for offset in (0, 4, 8, 12, 16))
    fits = kind & _KIND_INHERIT and bool(kind & _KIND_SHARED) is shared and (lock & _TID_BITS) == owner
    if not fits or not _is_owned(kind, owner, users, count):
        return Primitive("pi-mutex")
    return Primitive("pi-mutex", owner, True, _depth(kind, count))


def _is_owned(kind: int, owner: int, users: int, count: int) -> bool:
    known = kind >= 0 and not kind & ~_KIND_KNOWN and 0 < owner <= MAX_TID and 0 < users <= _MAX_USERS
    if kind & (_KIND_ROBUST | _KIND_INHERIT):
        return known and count > 0
    return known and (count > 0 if kind & 3 == _RECURSIVE else count == 0)


def _depth(kind: int, count: int) -> int | None:
    return count if kind & 3 == _RECURSIVE else None


# --- rwlocks: readers@0 writers@4 wrphase@8 writers_futex@12 pad@16, @20 cur_writer@24 shared@28 … flags@48 ---


def _rwlock(around: bytes, value: int, *, shared: bool) -> Primitive | None:
    """A reader sleeps on wrphase, a writer on writers_futex or, while readers have the lock, on wrphase too."""
    if value not in (2, 3):
        return None
    fits = [base for base in (-8, -12) if _is_rwlock(around, base, shared=shared)]
    if len(fits) != 1:
        return None
    writer = _int(around, fits[0] + 24)
    if value == 3 and 0 < writer <= MAX_TID:
        return Primitive("rwlock", writer, True)
    readers = _int(around, fits[0]) >> 3
    return Primitive("rwlock", note=f"{readers} readers have it or want it: whom it does not record")


def _is_rwlock(around: bytes, base: int, *, shared: bool) -> bool:
    readers, writers = _int(around, base) & 0xFFFFFFFF, _int(around, base + 4) & 0xFFFFFFFF
    phases = (_int(around, base + 8), _int(around, base + 12))
    empty = _int(around, base + 16) == _int(around, base + 20) == 0 and _long(around, base + 40) == 0
    busy = readers & 3 == 3 or readers >> 3 > 0
    small = readers >> 3 < _MAX_USERS and writers & 0x7FFFFFFF < _MAX_USERS and all(0 <= p <= 3 for p in phases)
    writer = _int(around, base + 24)
    return (
        empty and busy and small and 0 <= writer <= MAX_TID and _int(around, base + 28) == int(shared)
        and 0 <= _int(around, base + 48) <= 2
    )  # fmt: skip


# --- what has no owner ---


def _semaphore_or_condition(around: bytes) -> Primitive:
    """sem_t: value@0 waiters@4 private@8 pad@12. A condition's futex is one of two signal counters, @40 and @44."""
    waiters, private = _int(around, 4), _int(around, 8)
    semaphore = 0 < waiters < _MAX_USERS and private in (0, PRIVATE) and _int(around, 12) == 0
    condition = any(_is_condition(around, base) for base in (-40, -44))
    if semaphore is condition:
        return Primitive("unknown", has_owner=False)
    kind: Kind = "semaphore" if semaphore else "condition"
    return Primitive(kind, has_owner=False, waiters=waiters if semaphore else None)


def _is_condition(around: bytes, base: int) -> bool:
    """wseq@0 g1_start@8 g_refs@16, @20 g_size@24, @28 g1_orig_size@32 wrefs@36."""
    sequence, first = _long(around, base), _long(around, base + 8)
    references, sleepers = (_int(around, base + 16), _int(around, base + 20)), _int(around, base + 36) >> 3
    return (
        0 < sleepers < _MAX_USERS and 0 < sequence >> 1 < 1 << 48 and first >> 1 <= sequence >> 1
        and all(0 <= number >> 1 < _MAX_USERS for number in references) and any(number >> 1 for number in references)
        and all(0 <= _int(around, base + offset) < _MAX_USERS for offset in (24, 28))
    )  # fmt: skip


def _barrier(around: bytes, value: int, *, shared: bool) -> Primitive | None:
    """in@-4 current_round@0 count@4 shared@8 out@12: the round it sleeps for is the one that began last."""
    entered, current, count = (_int(around, offset) & 0xFFFFFFFF for offset in (-4, 0, 4))
    fits = current == value & 0xFFFFFFFF and 0 < (entered - current) < count < _MAX_USERS
    return Primitive("barrier", has_owner=False) if fits and _int(around, 8) == (PRIVATE if shared else 0) else None
