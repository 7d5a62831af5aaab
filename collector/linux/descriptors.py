"""The open descriptors of a process, without touching what they point at.

The link's text and fdinfo come from the kernel alone. fstat of a file on a dead FUSE or NFS mount can sleep for ever,
so attributes are only asked for on mounts that answer by themselves.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from flatline.bundle.facts import FdKind
from flatline.texts.descriptor_links import kind_of_link

from . import locks
from .mounts import MountLine
from .procfs import ProcFS, Unread

DELETED = " (deleted)"
_FDINFO = 1 << 20
"""An eventpoll that watches ten thousand sockets."""
_MODES = {os.O_RDONLY: "read", os.O_WRONLY: "write", os.O_RDWR: "both"}
_BY_FORMAT: Mapping[int, FdKind] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


@dataclass(frozen=True)
class Descriptor:
    """One open descriptor as /proc/PID/fd and fdinfo show it."""

    fd: int
    link: str
    kind: FdKind = "unknown"
    inode: int | None = None
    mount_id: int | None = None
    device: str | None = None
    flags: int | None = None
    mode: str = "unknown"
    pos: int | None = None
    deleted: bool | None = None
    watches: tuple[int, ...] | None = None
    tty_index: int | None = None
    """Of a pty's controlling end: the N of the /dev/pts/N at the other end."""
    locks: tuple[locks.LockLine, ...] = ()
    """What this open file description holds: also OFD locks, and flocks of a parent that is gone."""

    @property
    def file(self) -> tuple[str, int] | None:
        """Device and inode, when both are known."""
        return (self.device, self.inode) if self.device and self.inode else None


def links(proc: ProcFS, pid: int) -> Iterator[tuple[int, str]] | Unread:
    """Descriptor and link text of all that a process has open, in order; those closed in between are left out."""
    numbers = proc.numbers(pid, "fd")
    return numbers if isinstance(numbers, Unread) else _links(proc, pid, numbers)


def _links(proc: ProcFS, pid: int, numbers: list[int]) -> Iterator[tuple[int, str]]:
    for fd in numbers:
        link = proc.link(pid, "fd", fd)
        if not isinstance(link, Unread):
            yield fd, link


def describe(proc: ProcFS, pid: int, fd: int, link: str, mounts: Mapping[int, MountLine]) -> Descriptor:
    """All that can be known about one descriptor of a process without a chance to hang."""
    info = proc.text(pid, "fdinfo", fd, limit=_FDINFO)
    seen = _with_info(Descriptor(fd, link), "" if isinstance(info, Unread) else info)
    kind, number = kind_of_link(link)
    # All anonymous inodes of a kernel are one: the number that fdinfo gives tells none of them from another.
    seen = replace(seen, kind=kind, inode=None if link.startswith("anon_inode:") else number or seen.inode)
    if not link.startswith("/") or seen.kind == "memfd":
        return seen
    mount = mounts.get(seen.mount_id) if seen.mount_id is not None else None
    seen = replace(seen, device=mount.device if mount else None, deleted=link.endswith(DELETED))
    if mount and mount.is_local:
        return _with_attributes(seen, proc.path(pid, "fd", fd))
    if seen.kind == "unknown" and seen.flags is not None:
        return replace(seen, kind="directory" if seen.flags & os.O_DIRECTORY else "file")
    return seen


def _with_info(seen: Descriptor, text: str) -> Descriptor:
    """Fill in what fdinfo says (proc_pid_fdinfo(5))."""
    values: dict[str, str] = {}
    watched: list[int] = []
    held: list[str] = []
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == "tfd":
            watched += [int(number) for number in value.split()[:1] if number.isdigit()]
        elif key == "lock":
            held.append(value)
        else:
            values[key] = value.strip()
    flags = _number(values.get("flags"), 8)
    return replace(
        seen,
        flags=flags,
        mode=_mode(flags),
        pos=_number(values.get("pos")),
        mount_id=_number(values.get("mnt_id")),
        inode=_number(values.get("ino")),  # Linux 5.14
        tty_index=_number(values.get("tty-index")),
        watches=tuple(watched) or None,
        locks=tuple(locks.parse("\n".join(held))),
    )


def _number(text: str | None, base: int = 10) -> int | None:
    try:
        return int(text, base) if text else None
    except ValueError:
        return None


def _mode(flags: int | None) -> str:
    return "unknown" if flags is None else _MODES.get(flags & os.O_ACCMODE, "unknown")


def _with_attributes(seen: Descriptor, path: str) -> Descriptor:
    """fstat through the link: kind, inode, and whether a name is left. The device stays mountinfo's, which is what
    /proc/locks prints: on btrfs and overlay st_dev is another one."""
    try:
        found = os.stat(path)
    except OSError:
        return seen
    kind = seen.kind if seen.kind != "unknown" else _BY_FORMAT.get(stat.S_IFMT(found.st_mode), "other")
    return replace(seen, kind=kind, inode=seen.inode or found.st_ino, deleted=found.st_nlink == 0)
