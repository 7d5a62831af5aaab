"""Where a bundle's bytes lie while it grows: a spool beside the final name, and how a copy takes that name."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Protocol

from . import spool
from .container import LOCAL_MAGIC
from .format import BUNDLE_JSON, MANIFEST

_NAME_AT = 30
"""Where a zip's first member has its name."""
_HEAD = 64


class Shelf(Protocol):
    """What the writer of a bundle asks of the file system. Every method raises OSError, with all as it was before."""

    final: Path
    spool: Path

    @property
    def file(self) -> BinaryIO:
        """All that was appended, to read."""
        ...

    def append(self, offset: int, blob: bytes) -> None:
        """Write at the end, which is `offset`; when this returns, a kill cannot lose it."""
        ...

    def publish(self, final: Path, pieces: Iterable[bytes]) -> None:
        """Make a file of the pieces under the name `final`, in one rename."""
        ...

    def finish(self) -> None:
        """Remove the spool."""
        ...

    def abandon(self) -> None:
        """Close the spool, and leave it to be salvaged."""
        ...


class Disk:
    """The shelf that is written to directly; the spool is held with flock(2) while this process lives."""

    def __init__(self, final: Path) -> None:
        self.final = Path(final)
        descriptor, self.spool = spool.create(self.final)
        self.file: BinaryIO = open(descriptor, "r+b", buffering=0)  # noqa: SIM115 - closed by finish or abandon

    def append(self, offset: int, blob: bytes) -> None:
        """See `Shelf`."""
        self.file.seek(offset)
        try:
            _write_all(self.file, blob)
        except BaseException:
            self.file.truncate(offset)
            raise

    def publish(self, final: Path, pieces: Iterable[bytes]) -> None:
        """See `Shelf`."""
        descriptor, copy = spool.create(final, spool.NEW_SUFFIX)
        try:
            with open(descriptor, "wb") as out:
                for piece in pieces:
                    out.write(piece)
                out.flush()
                os.fsync(descriptor)
                os.replace(copy, final)
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        _sync_folder(final.parent)

    def finish(self) -> None:
        """See `Shelf`."""
        if not self.file.closed:
            self.spool.unlink(missing_ok=True)
            self.file.close()

    def abandon(self) -> None:
        """See `Shelf`."""
        self.file.close()


def why_refused(final: Path) -> str:
    """Why `final` must not be replaced: only a bundle may be, since the rename would destroy anything else."""
    try:
        mode = os.lstat(final).st_mode
    except OSError:
        return ""
    if stat.S_ISLNK(mode):
        return f"{final} is a link; name the place it leads to"
    if not stat.S_ISREG(mode):
        return f"{final} is no regular file"
    with open(final, "rb") as file:
        start = file.read(_HEAD)
    return "" if not start or _begins_a_bundle(start) else f"{final} exists and is no bundle; it would be lost"


def what_is_there(final: Path) -> str:
    """What a bundle under the name `final` will replace: ``the bundle of 2026-11-29T03:15:02Z``; empty when nothing."""
    try:
        found = os.lstat(final)
    except OSError:
        return ""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime))
    return f"the bundle of {when}" if found.st_size else ""


def _begins_a_bundle(start: bytes) -> bool:
    """Every bundle has this as its first member: any other zip is somebody's."""
    name = start[_NAME_AT:]
    return start.startswith(LOCAL_MAGIC) and name.startswith((BUNDLE_JSON.encode(), MANIFEST.encode()))


def _write_all(file: BinaryIO, blob: bytes) -> None:
    left = memoryview(blob)
    while left:
        left = left[file.write(left) :]


def _sync_folder(folder: Path) -> None:
    """Make the rename last through a power cut, where folders can be synced; elsewhere it is good enough."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
