"""/proc/locks: who holds a file lock, and who waits for it (proc_locks(5))."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_KINDS = {"FLOCK": "flock", "POSIX": "posix", "OFDLCK": "ofd", "LEASE": "lease", "DELEG": "lease"}
_MODES = {"READ": "read", "WRITE": "write"}


@dataclass(frozen=True)
class LockLine:
    """One line of /proc/locks, or of the ``lock:`` lines in an fdinfo."""

    kind: str
    mode: str
    waiting: bool
    pid: int | None
    """None: the kernel names nobody (an OFD lock), or somebody outside our PID namespace."""
    device: str
    """``maj:min``, decimal as in mountinfo; the kernel prints it in hexadecimal here."""
    inode: int
    start: int
    end: int | None
    """None: to the end of the file."""

    @property
    def file(self) -> tuple[str, int]:
        """What it locks: device and inode."""
        return self.device, self.inode


def parse(text: str) -> Iterator[LockLine]:
    """Every line that can be understood, in order.

    >>> next(parse("2: -> POSIX  ADVISORY  READ 12 fe:00:44 0 EOF"))
    LockLine(kind='posix', mode='read', waiting=True, pid=12, device='254:0', inode=44, start=0, end=None)
    """
    for line in text.splitlines():
        words = line.split()[1:]
        waiting = words[:1] == ["->"]
        try:
            yield _understood(words[1:] if waiting else words, waiting=waiting)
        except ValueError:  # a torn line, or a kind with another shape
            continue


def _understood(words: list[str], *, waiting: bool) -> LockLine:
    kind, _, mode, pid, file, start, end = words
    major, minor, inode = file.split(":")
    return LockLine(
        kind=_KINDS.get(kind, "unknown"),
        mode=_MODES.get(mode, "unknown"),
        waiting=waiting,
        pid=int(pid) if int(pid) > 0 else None,
        device=f"{int(major, 16)}:{int(minor, 16)}",
        inode=int(inode),
        start=int(start),
        end=None if end == "EOF" else int(end),
    )
