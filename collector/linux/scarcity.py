"""Forking on a host that has no process or descriptor left: the next moment may have one.

A job near its limit (``ulimit -u``, a group's pids.max) is a common cause of a hang, so it must not blind us.
"""

from __future__ import annotations

import errno
import os
import time

SCARCE = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""What fork(2) and pipe(2) say where something is used up; each may pass."""
WAIT_S = 0.5
_AGAIN_S = 0.02


def fork(wait_s: float = WAIT_S) -> int:
    """os.fork, tried again for `wait_s` seconds while the host has nothing left; then its OSError."""
    give_up = time.monotonic() + wait_s
    while True:
        try:
            return os.fork()
        except OSError as refused:
            if refused.errno not in SCARCE or time.monotonic() > give_up:
                raise
        time.sleep(_AGAIN_S)


def fork_with_pipe(wait_s: float = WAIT_S) -> tuple[int, int, int]:
    """`fork`, with a fresh pipe that both have: (pid, end to read, end to write). OSError leaves nothing open."""
    reading, writing = os.pipe()
    try:
        return fork(wait_s), reading, writing
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
