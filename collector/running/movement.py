"""Whether a tree of processes does anything: processor time, reads and writes, its logs, and marks of its recorders.

Counters only, from files of /proc that never wait for the process. What the counters cannot tell, a job that spins or
one that waits as designed, is for the analysis of a bundle to say.
"""

from __future__ import annotations

import os
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..recorder import places, ring
from ..supervision import descendants
from .log_growth import LogGrowth

BUSY_SHARE = 0.02
"""Of one processor, between two looks: a loop that polls stays below it."""
BUSY_BYTES_S = 4096
MOST_RINGS = 256
_RING_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Usage:
    """What all processes of the tree together have used, and hold."""

    processes: int = 0
    cpu_s: float = 0.0
    read: int = 0
    written: int = 0
    rss: int = 0
    logged: int = 0
    """Bytes in the files that are its logs."""


@dataclass(frozen=True)
class Seen:
    """What is new since the look before."""

    has_moved: bool
    """Processor time, reads or writes."""
    is_marked: bool
    """A recorder has a new mark."""
    has_logged: bool
    """A log that is a file has grown."""


class Movement:
    """The difference between looks at one tree. `logs`: paths that the job was told to write its log to."""

    def __init__(self, root: int, rings: Path | None = None, logs: Sequence[str] = ()) -> None:
        self.root = root
        self.pids: list[int] = [root]
        self.usage = Usage()
        self._rings = rings
        self._logs = LogGrowth(logs)
        self._marks: dict[str, int] = {}
        self._at = 0.0
        self.look()

    def look(self) -> Seen:
        """What is new, and `usage` and `pids` as they are now."""
        now, self.pids = time.monotonic(), descendants.tree(self.root)
        before, self.usage = self.usage, self._use()
        cpu_s, size = self.usage.cpu_s - before.cpu_s, _moved_bytes(self.usage) - _moved_bytes(before)
        seconds = max(now - self._at, 0.01)
        # Less than before: a process with its sum has gone, and that is a change too.
        has_moved = not 0 <= cpu_s <= BUSY_SHARE * seconds + 2 * _TICK_S
        has_moved = has_moved or not 0 <= size <= BUSY_BYTES_S * seconds
        marks = self._read_marks()
        is_marked, self._marks, self._at = marks != self._marks, marks, now
        return Seen(has_moved, is_marked, self.usage.logged != before.logged)

    def open_phases(self) -> list[str]:
        """What the job's processes are in now, as far as their recorders say."""
        names: list[str] = []
        for path in self._ring_paths():
            try:
                names += [one.text for one in ring.decode(ring_bytes(path)).open if one.kind == "phase"]
            except (OSError, ValueError):
                continue
        return names

    def _use(self) -> Usage:
        io = [_read_and_written(pid) for pid in self.pids]
        return Usage(
            processes=len(self.pids),
            cpu_s=sum(map(_cpu_s, self.pids)),
            read=sum(read for read, _ in io),
            written=sum(written for _, written in io),
            rss=sum(map(_rss, self.pids)),
            logged=self._logs.size(self.pids),
        )

    def _read_marks(self) -> dict[str, int]:
        return {path.name: _mark(path) for path in self._ring_paths()}

    def _ring_paths(self) -> Iterator[Path]:
        """Of the rings that are named for processes of the tree; the folder is the job's, and may hold anything."""
        if self._rings is None:
            return
        for one in map(descendants.standing, self.pids[:MOST_RINGS]):
            if one is not None:
                yield self._rings / places.kept_name(one.pid, one.start_ticks)


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


def _rss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _read_and_written(pid: int) -> tuple[int, int]:
    try:
        lines = dict(line.split(b": ") for line in Path(f"/proc/{pid}/io").read_bytes().splitlines())
        return int(lines[b"rchar"]), int(lines[b"wchar"])
    except (OSError, ValueError, KeyError):
        return 0, 0


def _moved_bytes(usage: Usage) -> int:
    return usage.read + usage.written
