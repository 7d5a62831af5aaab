"""Which descriptors a poll or a select watches: an array of pollfd, or sets of bits, behind its arguments."""

from __future__ import annotations

import struct

from flatline.bundle.facts import Syscall

from .memory import Memory

POLLS = ("poll", "ppoll")
SELECTS = ("select", "pselect6")
MOST = 1024
"""Descriptors of one call; FD_SETSIZE of glibc."""
_POLLFD = struct.Struct("=ihh")


def watches(call: Syscall) -> bool:
    """Whether its set stands in memory."""
    return call.name in (*POLLS, *SELECTS) and len(call.args) == 6 and 0 < _count(call) <= MOST


def read_watched(memory: Memory, call: Syscall) -> tuple[int, ...] | None:
    """The descriptors in ascending order, see poll(2), select(2); None: it has no such set, or it cannot be read."""
    if not watches(call):
        return None
    return _of_poll(memory, call) if call.name in POLLS else _of_select(memory, call)


def _count(call: Syscall) -> int:
    return call.args[1 if call.name in POLLS else 0]


def _of_poll(memory: Memory, call: Syscall) -> tuple[int, ...] | None:
    raw = memory.read(call.args[0], _POLLFD.size * _count(call))
    if raw is None:
        return None
    return tuple(sorted({fd for fd, _, _ in _POLLFD.iter_unpack(raw) if fd >= 0}))


def _of_select(memory: Memory, call: Syscall) -> tuple[int, ...] | None:
    """The kernel writes its answer into the sets when the call is over, not before."""
    count, found = _count(call), 0
    for address in filter(None, call.args[1:4]):
        raw = memory.read(address, (count + 63) // 64 * 8)
        if raw is None:
            return None
        found |= int.from_bytes(raw, "little")
    return tuple(fd for fd in range(count) if found >> fd & 1)
