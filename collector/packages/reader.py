"""Bounded reads of the job's files that answer with a value or with nothing, and tell outside where they stand."""

from __future__ import annotations

import mmap
import os
import posixpath
import stat
import time
from collections.abc import Collection

from ..confine import Confined, kind_of

MOST_NAMES = 20_000
MOST_BYTES = 20 * 1024**2


class Whereabouts:
    """The path a child reads, in memory it shares with its parent: when it hangs, the parent knows where."""

    _SIZE = 4096

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, self._SIZE)

    def tell(self, path: str) -> None:
        raw = os.fsencode(path)[: self._SIZE - 2]
        self._page[: len(raw) + 1] = raw + b"\0"

    def path(self) -> str:
        return self._page[:].split(b"\0")[0].decode("utf-8", "backslashreplace")


class Reader:
    """Reads with the eyes of one target. Nothing raises for what is not there; what was cut is in `cut`."""

    def __init__(
        self, confined: Confined, whereabouts: Whereabouts, *, end: float, avoid: Collection[str] = ()
    ) -> None:
        self._confined = confined
        self._whereabouts = whereabouts
        self._end = end
        self._avoid = tuple(avoid)
        self._bytes_left = MOST_BYTES
        self.cut: set[str] = set()

    def has_time(self) -> bool:
        """False from `end` (time.monotonic()) on; then everything is left out."""
        if time.monotonic() < self._end:
            return True
        self.cut.add("no time was left for the rest")
        return False

    def absolute(self, path: str) -> str:
        """Normalised, below the job's working directory when it is relative."""
        return posixpath.normpath(self._confined.absolute(path))

    def file(self, path: str) -> tuple[int, int] | None:
        """Device and inode of what the path leads to."""
        found = self._stat(path)
        return (found.st_dev, found.st_ino) if found else None

    def kind(self, path: str) -> str:
        """``file``, ``directory`` …, ``""`` for what is not there."""
        found = self._stat(path)
        return kind_of(found.st_mode) if found else ""

    def size(self, path: str) -> int | None:
        found = self._stat(path)
        return found.st_size if found else None

    def link(self, path: str) -> str | None:
        """What a link says; None when it is none."""
        try:
            return self._confined.readlink(path) if self._may(path) else None
        except OSError:
            return None

    def names(self, folder: str) -> list[str]:
        """The names in a folder, in its own order, which is the order in which Python looks at them."""
        try:
            found = self._confined.listdir(folder, MOST_NAMES) if self._may(folder) else []
        except OSError:
            return []
        if len(found) == MOST_NAMES:
            self.cut.add(f"{folder} has more than {MOST_NAMES} names")
        return found

    def sizes(self, folder: str) -> dict[str, int | None] | None:
        """Name -> size of all in a folder; None as size of what is no ordinary file. Empty when there is no such
        folder; None when it cannot be said what is in it."""
        try:
            found = self._confined.scan(folder, MOST_NAMES) if self._may(folder) else None
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError:
            return None
        if found is None or len(found) == MOST_NAMES:
            return None
        return {name: one.st_size if stat.S_ISREG(one.st_mode) else None for name, one in found.items()}

    def text(self, path: str, most: int = 65536) -> str | None:
        """The beginning of an ordinary file."""
        raw = self.raw(path, most)
        return None if raw is None else raw.decode("utf-8", "replace")

    def raw(self, path: str, most: int = 65536) -> bytes | None:
        if not self._may(path):
            return None
        if self._bytes_left < most:
            most = self._bytes_left
            self.cut.add(f"more than {MOST_BYTES >> 20} MiB")
        if most <= 0:
            return None
        try:
            raw = self._confined.read(path, 0, most)
        except OSError:
            return None
        self._bytes_left -= len(raw)
        return raw

    def _stat(self, path: str) -> os.stat_result | None:
        try:
            return self._confined.stat(path) if self._may(path) else None
        except OSError:
            return None

    def _may(self, path: str) -> bool:
        if not self.has_time() or any(path == one or path.startswith(one.rstrip("/") + "/") for one in self._avoid):
            return False
        self._whereabouts.tell(path)
        return True
