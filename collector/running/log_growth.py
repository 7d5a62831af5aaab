"""How much a job has written into the files that are its logs: by the positions of its descriptors.

What the kernel tells of a descriptor (fdinfo) is asked, never the file: that may lie on a mount which does not answer.
Its logs are standard output and error where these are files, and files that its command line names as its log.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

LOOK_FOR_S = 10.0
"""How often a job's descriptors are gone through; in between those that were found are asked."""
MOST_PROCESSES, MOST_DESCRIPTORS = 64, 256
_NO_LOGS = ("/dev/", "/proc/", "/sys/", "/memfd:")


class LogGrowth:
    """The sum of the sizes of a tree's logs; `named` are those that were named on its command line."""

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._named = frozenset(named)
        self._known: Mapping[int, list[int]] = {}
        self._due = 0.0

    def size(self, pids: Sequence[int]) -> int:
        """Each file once, as far as any descriptor of it has come."""
        now = time.monotonic()
        pids = pids[:MOST_PROCESSES]
        if now >= self._due or set(pids) != set(self._known):
            self._known = {pid: self._descriptors(pid) for pid in pids}
            self._due = now + LOOK_FOR_S
        sizes: dict[str, int] = {}
        for pid, descriptors in self._known.items():
            for fd in descriptors:
                path, size = _link(pid, fd), _position(pid, fd)
                sizes[path] = max(size, sizes.get(path, 0))
        return sum(sizes.values())

    def _descriptors(self, pid: int) -> list[int]:
        try:
            numbers = sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
        except OSError:  # another user's, or gone
            return []
        return [fd for fd in numbers[:MOST_DESCRIPTORS] if self._is_log(fd, _link(pid, fd))]

    def _is_log(self, fd: int, path: str) -> bool:
        return path in self._named or (fd in (1, 2) and path.startswith("/") and not path.startswith(_NO_LOGS))


def _link(pid: int, fd: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""


def _position(pid: int, fd: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/fdinfo/{fd}").read_bytes().split(None, 2)[1])
    except (OSError, ValueError, IndexError):
        return 0
