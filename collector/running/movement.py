"""Whether a tree of processes does anything: processor time, reads and writes, and marks of its recorders.

Counters only, from files of /proc that never wait for the process. What the counters cannot tell, a job that spins or
one that waits as designed, is for the analysis of a bundle to say.
"""

from __future__ import annotations

import os
import stat
import time
import zlib
from pathlib import Path

from ..recorder import places, ring
from ..supervision import descendants

BUSY_SHARE = 0.02
"""Of one processor, between two looks: a loop that polls stays below it."""
BUSY_BYTES_S = 4096
MOST_RINGS = 256
_RING_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Movement:
    """The difference between looks at one tree."""

    def __init__(self, root: int, rings: Path | None = None) -> None:
        self.root = root
        self._rings = rings
        self._cpu_s = self._bytes = 0.0
        self._marks: dict[str, int] = {}
        self._at = 0.0
        self.look()

    def look(self) -> tuple[bool, bool]:
        """Whether it has moved since the last look, and whether its recorders have a new mark."""
        now, pids = time.monotonic(), descendants.tree(self.root)
        cpu_s, size = sum(map(_cpu_s, pids)), sum(map(_bytes, pids))
        seconds = max(now - self._at, 0.01)
        # Less than before: a process with its sum has gone, and that is a change too.
        has_moved = not 0 <= cpu_s - self._cpu_s <= BUSY_SHARE * seconds + 2 * _TICK_S
        has_moved = has_moved or not 0 <= size - self._bytes <= BUSY_BYTES_S * seconds
        marks = self._read_marks(pids)
        is_marked, self._marks = marks != self._marks, marks
        self._at, self._cpu_s, self._bytes = now, cpu_s, size
        return has_moved, is_marked

    def _read_marks(self, pids: list[int]) -> dict[str, int]:
        """Of the rings that are named for processes of the tree; the folder is the job's, and may hold anything."""
        if self._rings is None:
            return {}
        found = [descendants.standing(pid) for pid in pids[:MOST_RINGS]]
        names = [places.kept_name(one.pid, one.start_ticks) for one in found if one is not None]
        return {name: _mark(self._rings / name) for name in names}


def ring_bytes(path: Path) -> bytes:
    """A ring of our own user; OSError for a link, a pipe, a device, or another's file."""
    descriptor = os.open(path, _RING_FLAGS)
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.geteuid():
            raise PermissionError(f"{path} is no file of ours")
        return os.read(descriptor, ring.SIZE)
    finally:
        os.close(descriptor)


def _mark(path: Path) -> int:
    try:
        return zlib.crc32(ring_bytes(path)[ring.HEAD :])
    except OSError:
        return 0


def _cpu_s(pid: int) -> float:
    """Its own and that of the children it has collected."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return sum(int(field) for field in fields[11:15]) * _TICK_S
    except (OSError, ValueError):
        return 0.0


def _bytes(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/io").read_bytes().splitlines()
        return float(sum(int(line.split()[1]) for line in lines if line.startswith((b"rchar", b"wchar"))))
    except (OSError, ValueError, IndexError):
        return 0.0
