"""The kernel's own log, read without ever waiting: syslog(2), Documentation/ABI/testing/dev-kmsg."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import Any

from .procfs import Unread, text_of

try:
    import ctypes as _ctypes
except ImportError:  # a Python built without libffi reads /dev/kmsg instead
    _ctypes = None

ctypes: Any = _ctypes
DEVICE = "/dev/kmsg"
CAP_SYSLOG = 34
MOST_LINE = 8192
"""No record of /dev/kmsg is longer."""
_READ_ALL, _SIZE_BUFFER = 3, 10


def read_buffer() -> str | Unread:
    """All that the kernel still has, by syslog(2). Never blocks."""
    if ctypes is None:
        return Unread("absent", "this Python has no ctypes")
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "klogctl"):
        return Unread("absent", "this C library has no klogctl")
    size = libc.klogctl(_SIZE_BUFFER, None, 0)
    if size <= 0:
        return _refused(ctypes.get_errno())
    buffer = ctypes.create_string_buffer(size)
    length = libc.klogctl(_READ_ALL, buffer, size)
    return _refused(ctypes.get_errno()) if length < 0 else text_of(buffer.raw[:length])


def read_device(path: str = DEVICE, most: int = 200_000) -> str | Unread:
    """The same from /dev/kmsg, a record at a time, in the form of syslog(2)."""
    try:
        device = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return _refused(error.errno or errno.EIO)
    try:
        return "".join(_records(device, most))
    finally:
        os.close(device)


def _records(device: int, most: int) -> Iterator[str]:
    for _ in range(most):
        try:
            record = os.read(device, MOST_LINE)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno == errno.EPIPE:  # it was overwritten while we read; the next one is there
                continue
            return
        if not record:
            return
        yield _printed(text_of(record))


def _printed(record: str) -> str:
    """``6,1,2780390483,-;text`` as ``[ 2780.390483] text``; lines that begin with a blank are its dictionary."""
    head, _, body = record.partition(";")
    fields = head.split(",")
    stamp = int(fields[2]) if len(fields) > 2 and fields[2].isdecimal() else 0
    text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), body.split("\n", 1)[0])
    return f"[{stamp // 1_000_000:5}.{stamp % 1_000_000:06}] {text}\n"


_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


def _refused(number: int) -> Unread:
    if number in (errno.EPERM, errno.EACCES):
        return Unread("denied", os.strerror(number))
    return Unread("absent" if number in (errno.ENOENT, errno.ENOSYS, errno.ENXIO) else "error", os.strerror(number))


def tail(text: str, most_lines: int, most_bytes: int) -> tuple[str, int]:
    """The last whole lines, without their ``<6>``, and how many bytes stood before them."""
    plain = _LEVEL.sub("", text).encode("utf-8", "replace")
    lines = plain.rstrip(b"\n").split(b"\n")[-most_lines:]
    kept = b"".join(line + b"\n" for line in lines)
    if len(kept) > most_bytes:
        kept = kept[-most_bytes:].partition(b"\n")[2]
    return kept.decode("utf-8", "replace"), max(0, len(plain) - len(kept))


_LEVEL = re.compile(r"^<\d{1,3}>", re.MULTILINE)
