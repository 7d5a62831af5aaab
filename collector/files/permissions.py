"""Why a path may not be written: access(2) as the job's user, its mode, and its access list (acl(5))."""

from __future__ import annotations

import errno
import os
import struct
from typing import Literal

from ..confine import Confined

Why = Literal["read-only", "mode", "acl", "immutable", "hidden", "other", "unknown"]

ACL_XATTR = "system.posix_acl_access"
_VERSION = 2
_TAGS = {0x01: "user:", 0x02: "user", 0x04: "group:", 0x08: "group", 0x10: "mask:", 0x20: "other:"}
"""include/uapi/linux/posix_acl.h; those without a colon are followed by an id."""
_BITS = ((4, "r"), (2, "w"), (1, "x"))
_MOST_ENTRIES = 100


def access_list(confined: Confined, path: str) -> tuple[str, ...] | None:
    """The list in force. (): there is none, and the mode says all. None: this file system has no such lists."""
    try:
        return decode(confined.getxattr(path, ACL_XATTR))
    except OSError as error:
        return () if error.errno == errno.ENODATA else None
    except ValueError:
        return None


def decode(raw: bytes) -> tuple[str, ...]:
    """The extended attribute as getfacl would print it. ValueError when it is not one."""
    if len(raw) < 4 or len(raw) % 8 != 4 or struct.unpack_from("<I", raw)[0] != _VERSION:
        raise ValueError("not an access list")
    return tuple(_entry(*fields) for fields in struct.iter_unpack("<HHI", raw[4 : 4 + 8 * _MOST_ENTRIES]))


def _entry(tag: int, bits: int, number: int) -> str:
    name = _TAGS.get(tag)
    if name is None:
        raise ValueError(f"an entry of kind {tag}")
    who = name if name.endswith(":") else f"{name}:{number}"
    return f"{who}:{''.join(letter if bits & bit else '-' for bit, letter in _BITS)}"


def why_not(refused: int, wanted: int, found: os.stat_result, acl: tuple[str, ...] | None) -> Why:
    """What stands behind the errno of access(2), asked for `wanted` (os.W_OK …) by this very process."""
    if refused == errno.EROFS:
        return "read-only"
    if refused == errno.EPERM:
        return "immutable"
    if refused != errno.EACCES:
        return "unknown"
    if acl:
        return "acl"
    return "mode" if wanted & ~_granted(found) else "other"


def _granted(found: os.stat_result) -> int:
    """The three bits of the mode that count for us."""
    if found.st_uid == os.geteuid():
        return found.st_mode >> 6 & 7
    if found.st_gid == os.getegid() or found.st_gid in os.getgroups():
        return found.st_mode >> 3 & 7
    return found.st_mode & 7
