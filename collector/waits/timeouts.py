"""How long a call waits at most, where that stands in memory: a timespec or a timeval behind one of its arguments."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from typing import Literal

from flatline.bundle.facts import Syscall

from ..linux.syscalls import timeout_address
from .glibc import CLOCK_REALTIME, COMMAND, LOCK_PI, WAIT
from .memory import Memory

TIMER_ABSTIME = 1
MOST_S = 10**9
"""What is further away than thirty years is no timeout but another call's memory."""

_REALTIME, _MONOTONIC, _BOOTTIME = 0, 1, 7
_CLOCKS = frozenset({_REALTIME, _MONOTONIC, _BOOTTIME})


@dataclass(frozen=True)
class Left:
    """Seconds, and whether they are the length that was asked for or what was left until a moment."""

    seconds: float
    until: Literal["length", "moment"]


def read_timeout(memory: Memory, call: Syscall) -> Left | None:
    """None: it has none, or its memory cannot be read, or is none."""
    address = timeout_address(call)
    raw = memory.read(address, 16) if address else None
    if raw is None:
        return None
    seconds, fraction = struct.unpack("=qq", raw)
    parts = 10**6 if call.name == "select" else 10**9
    if not 0 <= fraction < parts:
        return None
    total, clock = seconds + fraction / parts, _clock_of_moment(call)
    if clock is None:
        return Left(round(total, 6), "length") if 0 <= total < MOST_S else None
    left = total - time.clock_gettime(clock) if clock in _CLOCKS else None
    return Left(round(left, 3), "moment") if left is not None and abs(left) < MOST_S else None


def _clock_of_moment(call: Syscall) -> int | None:
    """The clock on which the call names a moment; None: it names a length. See futex(2), clock_nanosleep(2)."""
    if call.name == "clock_nanosleep":
        return call.args[0] if call.args[1] & TIMER_ABSTIME else None
    if call.name == "futex":
        command = call.args[1] & COMMAND
        if command == WAIT:
            return None
        return _REALTIME if command == LOCK_PI or call.args[1] & CLOCK_REALTIME else _MONOTONIC
    if call.name == "futex_waitv":
        return call.args[4]
    if call.name == "futex_wait":
        return call.args[5]
    return _REALTIME if call.name.startswith("mq_timed") else None
