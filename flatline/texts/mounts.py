"""The lines of /proc/PID/mountinfo (proc_pid_mountinfo(5)), and which kinds of file systems can stop answering."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LOCAL = frozenset({
    "bcachefs", "bpf", "btrfs", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
    "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fusectl", "hugetlbfs", "iso9660", "jfs", "mqueue", "msdos",
    "nsfs", "ntfs3", "overlay", "pipefs", "proc", "pstore", "ramfs", "reiserfs", "rootfs", "rpc_pipefs",
    "securityfs", "selinuxfs", "sockfs", "squashfs", "sysfs", "tmpfs", "tracefs", "udf", "vfat", "xfs", "zfs",
})  # fmt: skip
"""Kinds that answer by themselves: asking for attributes cannot hang on somebody else."""

REMOTE = frozenset({
    "9p", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "mmfs",
    "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "virtiofs", "vboxsf", "wekafs",
})  # fmt: skip
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class MountLine:
    """One mount."""

    mount_id: int
    device: str
    """``maj:min``, decimal."""
    root: str
    """The folder of the file system that is mounted."""
    path: str
    """Where it is mounted, below the process's root."""
    kind: str
    source: str
    options: str

    @property
    def is_local(self) -> bool:
        """Asking about a file on it cannot hang. False also for kinds nobody knows."""
        return self.kind in LOCAL

    @property
    def is_network(self) -> bool | None:
        """A server or a daemon answers for it. None: an unknown kind."""
        if self.kind in REMOTE or self.kind.split(".")[0] in ("fuse", "fuseblk"):
            return True
        return False if self.is_local else None


def parse(text: str) -> Iterator[MountLine]:
    """Every line that can be understood, in order: a later mount on the same path hides the earlier one."""
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        fields, described = before.split(" "), after.split(" ")
        if not dash or len(fields) < 6 or len(described) < 2 or not fields[0].isdigit():
            continue
        options = ",".join([fields[5], *described[2:3]])
        yield MountLine(
            int(fields[0]),
            fields[2],
            _unescaped(fields[3]),
            _unescaped(fields[4]),
            described[0],
            _unescaped(described[1]),
            options,
        )


def mount_of(path: str, mounts: Iterable[MountLine]) -> MountLine | None:
    """The mount that an absolute, normalised `path` lies on: the longest prefix, the last one among equals."""
    best: MountLine | None = None
    for mount in mounts:
        inside = path == mount.path or path.startswith(mount.path.rstrip("/") + "/")
        if inside and (best is None or len(mount.path) >= len(best.path)):
            best = mount
    return best


def _unescaped(text: str) -> str:
    """Blank, tab, newline and backslash are printed in octal."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
