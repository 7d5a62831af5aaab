"""Open a file or folder of the job so that nobody is told of it and its access time stays (fcntl(2), open(2)).

Two things send a signal to a process when somebody else reads, SIGIO unless it chose another, and SIGIO ends a process
that has not provided for it:

- a write lease (F_SETLEASE): broken by whoever opens the file. /proc/locks names leases by inode.
- a dnotify watch (F_NOTIFY): tells of each read of the folder, and of a file directly in it. No file of /proc shows
  one; but it belongs to an open descriptor of the folder, and F_NOTIFY gives that an owner, which a copy of the
  descriptor tells (pidfd_getfd(2), F_GETOWN). Where no copy can be had, every open folder counts as watched.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import time
from collections.abc import Iterable
from typing import Any

from . import descriptors, locks, mounts
from .procfs import ProcFS, Unread, parse_signals

try:
    import ctypes as _ctypes
except ImportError:
    _ctypes = None

try:
    import fcntl as _fcntl
except ImportError:  # no Unix
    _fcntl = None

ctypes: Any = _ctypes
fcntl: Any = _fcntl

READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
LISTING = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
PER_PROCESS = 2_000
"""Descriptors looked at of one process."""

_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
"""Since Linux 5.3 and 5.6, the same number on every architecture."""
_F_GETSIG = 11
_FRESH_S = 0.1
_MOST_LOCKS = 4 << 20
"""Bytes of /proc/locks."""
_O_PATH = getattr(os, "O_PATH", 0o10000000)

watched: frozenset[int] = frozenset()
"""Inodes of folders that are not to be read; set once in the child of a probe. Inodes alone, as the device that stat(2)
tells is another one than the kernel's on btrfs and overlay: to spare one folder too many costs less than a job."""
_leases: tuple[float, frozenset[int]] = (-_FRESH_S, frozenset())


class NoticedError(OSError):
    """Left closed: reading it would send a signal to a process."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EBUSY, why)
        self.why = why


def open_file(found: int, *, folder: int | None = None) -> int:
    """Open for reading the regular file that an O_PATH descriptor stands for, whatever its name means by now; `folder`
    is the inode of the folder it lies in. NoticedError, OSError."""
    if folder in watched:
        raise NoticedError("its folder has a watch: reading it would signal the watcher")
    if os.fstat(found).st_ino in _leased():
        raise NoticedError("has a lease: opening it would signal its holder")
    return _open(found, READING)


def open_folder(found: int) -> int:
    """Open for listing the folder that an O_PATH descriptor stands for. NoticedError, OSError."""
    if watched and os.fstat(found).st_ino in watched:
        raise NoticedError("has a watch: listing it would signal the watcher")
    return _open(found, LISTING)


def open_path(path: str) -> int:
    """Open for reading what a person named; nothing but a regular file is ever opened. NoticedError, OSError."""
    found = os.open(path, _O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.EINVAL, "is no regular file")
        return open_file(found, folder=folder_of(path))
    finally:
        os.close(found)


def folder_of(path: str) -> int | None:
    """The inode of the folder in which `path` lies, where that may matter."""
    return os.stat(os.path.dirname(os.path.realpath(path))).st_ino if watched else None


def is_watched(folder: str | os.PathLike[str]) -> bool:
    """Whether a file that is made or read there would signal the watcher."""
    try:
        return bool(watched) and os.stat(folder).st_ino in watched
    except OSError:
        return False


def is_leased(found: os.stat_result) -> bool:
    """Whether opening it would signal the holder of a lease."""
    return found.st_ino in _leased()


def _open(found: int, flags: int) -> int:
    path = f"/proc/self/fd/{found}"
    try:
        return os.open(path, flags | getattr(os, "O_NOATIME", 0))
    except PermissionError:  # it is not ours
        return os.open(path, flags)


def _leased() -> frozenset[int]:
    """Inodes with a lease that is broken by a reader."""
    global _leases
    now = time.monotonic()
    if now - _leases[0] >= _FRESH_S:
        text = ProcFS().text("locks", limit=_MOST_LOCKS)
        lines = locks.parse(text) if isinstance(text, str) else ()
        _leases = now, frozenset(line.inode for line in lines if line.kind == "lease" and line.mode != "read")
    return _leases[1]


# --- whose folders are watched ---


def find_watched(proc: ProcFS, pids: Iterable[int]) -> frozenset[int]:
    """Inodes of the folders that these have open and watch, or may watch, with a signal that would end them."""
    return frozenset(inode for pid in pids for inode in _watched_by(proc, pid))


def _watched_by(proc: ProcFS, pid: int) -> Iterable[int]:
    links = descriptors.links(proc, pid)
    paths = [] if isinstance(links, Unread) else [one for one in links if one[1].startswith("/")]
    if not paths:
        return
    seen = mounts.by_id(proc, pid)
    for fd, link in paths[:PER_PROCESS]:
        if link.startswith(("/dev/", "/memfd:")):
            continue
        one = descriptors.describe(proc, pid, fd, link, seen)
        if one.kind == "directory" and one.inode and _would_end(proc, pid, _signal_of(pid, fd)):
            yield one.inode


def _would_end(proc: ProcFS, pid: int, number: int) -> bool:
    status = proc.status(pid) if number else {}
    masks = () if isinstance(status, Unread) else (status.get(name, "0") for name in ("SigCgt", "SigIgn", "SigBlk"))
    return bool(number) and not any(number in parse_signals(mask) for mask in masks)


def _signal_of(pid: int, fd: int) -> int:
    """The signal that the owner of a descriptor gets; 0: it has no owner, and so no watch."""
    copy = _copy(pid, fd)
    if copy is None:
        return signal.SIGIO
    try:
        return (fcntl.fcntl(copy, _F_GETSIG) or signal.SIGIO) if fcntl.fcntl(copy, fcntl.F_GETOWN) else 0
    except OSError:
        return signal.SIGIO
    finally:
        os.close(copy)


def _copy(pid: int, fd: int) -> int | None:
    """Our own descriptor of what another process has open as `fd`; None: not to be had."""
    if ctypes is None:
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    process = call(_PIDFD_OPEN, pid, 0)
    if process < 0:
        return None
    copy = call(_PIDFD_GETFD, process, fd, 0)
    os.close(process)
    return None if copy < 0 else copy
