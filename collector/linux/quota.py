"""What a user may store and has stored, as the kernel counts it: quotactl_fd(2), Linux 5.14, and quota(1) for NFS."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

from flatline.bundle.facts import Quota

try:
    import ctypes as _ctypes
except ImportError:  # a Python built without libffi: what the user may store stays unknown
    _ctypes = None

ctypes: Any = _ctypes
_NR_QUOTACTL_FD = 443
"""The same on every architecture."""
_GET_USER_QUOTA = 0x800007 << 8
_BLOCK = 1024
"""QIF_DQBLKSIZE, in which limits are counted; the space used is in bytes."""
_DQBLK = struct.Struct("=QQQQQQQQI4x")
_LINE = re.compile(r"\s*(\S+)\s+(\d+)\*?\s+(\d+)\s+(\d+)\s+\d+\s+(\d+)\*?\s+(\d+)\s+(\d+)\s+\d+\s*$")


def of_user(descriptor: int, uid: int, path: str) -> Quota | None:
    """The user's quota on the file system that `descriptor` (O_PATH will do) lies on. None: none is kept, or asked in
    vain. Everybody may ask for their own."""
    if ctypes is None:
        return None
    answer = ctypes.create_string_buffer(_DQBLK.size)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_NR_QUOTACTL_FD, descriptor, _GET_USER_QUOTA, uid, answer) != 0:
        return None
    return decoded(answer.raw, uid, path)


def decoded(raw: bytes, uid: int, path: str) -> Quota:
    """struct if_dqblk of linux/quota.h as a row. A limit of 0 is none."""
    hard, soft, used, inodes_hard, inodes_soft, inodes, *_ = _DQBLK.unpack(raw)
    return Quota(
        uid,
        path,
        used=used,
        soft=soft * _BLOCK or None,
        hard=hard * _BLOCK or None,
        inodes_used=inodes,
        inodes_soft=inodes_soft or None,
        inodes_hard=inodes_hard or None,
    )


def printed(text: str, uid: int) -> Iterator[Quota]:
    """What ``quota -w -p`` prints: file system, then blocks and files, each used, soft, hard, grace. Nothing: none."""
    for line in text.splitlines():
        found = _LINE.match(line)
        if found:
            used, soft, hard, inodes, inodes_soft, inodes_hard = (int(number) for number in found.groups()[1:])
            yield Quota(
                uid, found[1], used * _BLOCK, soft * _BLOCK or None, hard * _BLOCK or None, inodes,
                inodes_soft or None, inodes_hard or None,
            )  # fmt: skip
