"""Opens a file that was named, without waiting for anybody: FIFOs, devices and some files of /proc never end."""

from __future__ import annotations

import io
import os
import shlex
import stat
from pathlib import Path
from typing import BinaryIO

from flatline.errors import UnreadableBundleError

MAX_OF_PROC = 64 * 1024**2
"""Bytes read of a file in /proc, which has no size: the page map of one process alone goes on for hundreds of GB."""


def open_regular(path: Path) -> BinaryIO:
    """The file. UnreadableBundleError for what is none and may have no end, OSError when it cannot be opened."""
    refuse_endless(path, path.stat().st_mode)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        refuse_endless(path, os.fstat(descriptor).st_mode)  # another may have taken its place
    except UnreadableBundleError:
        os.close(descriptor)
        raise
    file = io.FileIO(descriptor)
    if _is_of_proc(descriptor):
        return io.BytesIO(_what_is_there(file))
    return io.BufferedReader(file)


def refuse_endless(path: Path, mode: int) -> None:
    """Raises UnreadableBundleError for a FIFO, a device or a socket."""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return
    kind = "a FIFO" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    how = f"cat {shlex.quote(str(path))} | flatline analyze -" if stat.S_ISFIFO(mode) else "name a file"
    raise UnreadableBundleError(f"{path} is {kind}, no file: it may never end", next_step=how)


def handed_over(path: Path) -> BinaryIO | None:
    """The pipe behind a path that the shell made for it (``<(kubectl logs trainer-0)``, /dev/stdin): its other end is
    there already, and it is read once, as standard input is. None for all else."""
    if not path.is_fifo() or not os.path.basename(os.path.realpath(path)).startswith("pipe:["):
        return None
    return path.open("rb")


def _is_of_proc(descriptor: int) -> bool:
    """Whether a file is one that the kernel makes up while it is read."""
    try:
        return os.fstat(descriptor).st_dev == os.stat("/proc/self/").st_dev
    except OSError:
        return False


def _what_is_there(file: io.FileIO) -> bytes:
    """What can be read now; some of these files, such as kmsg, go on for ever."""
    pieces, left = [], MAX_OF_PROC
    with file:
        while left > 0 and (piece := file.read(min(left, 1024**2))):  # None: nothing now
            pieces.append(piece)
            left -= len(piece)
    return b"".join(pieces)
