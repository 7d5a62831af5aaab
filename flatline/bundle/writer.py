"""Writes a bundle so that a kill at any instant leaves the final name absent or complete, and the rest salvageable."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Callable

from flatline.errors import FlatlineError

from . import container
from .container import Member
from .format import (
    BUNDLE_JSON,
    DEFAULT_MAX_SIZE,
    MAX_MEMBERS,
    MAX_RATIO,
    MAX_UNPACKED,
    RATIO_FREE_MEMBER,
    RATIO_FREE_TOTAL,
    FileEntry,
)
from .shelf import Disk, Shelf
from .spool import sweep

__all__ = ["BundleFull", "BundleWriter", "file_entry", "sweep"]

Closing = Callable[[tuple[FileEntry, ...]], Sequence[tuple[str, bytes]]]
"""Builds the last members (README.txt, redaction.json, manifest.json) from the entries as they are published."""
Replace = Callable[[str, bytes], "bytes | None"]
"""What a member shall hold instead; None: it stays as it is."""
Rename = Callable[[str], str]
"""The name a member shall have instead, or its own; no two may get the same."""

_RESERVE = 96 * 1024
_RESERVE_PER_MEMBER = 512
"""Central directory (46 bytes and the name) and manifest entry (a sha256 does not compress)."""
_RESERVE_MEMBERS = 200


class BundleFull(FlatlineError):
    """The member does not fit into the size the bundle may have. What was added before stays."""


def file_entry(path: str, data: bytes, **known: object) -> FileEntry:
    """The manifest's entry for a member; `known` are further fields of `FileEntry`."""
    return FileEntry(path=path, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), **known)  # type: ignore[arg-type]


class BundleWriter:
    """Members go to a spool beside the final name, one write each; `publish` makes a bundle of them, atomically.

    The spool is ``<final>.part`` (mode 0600). OSError when the folder takes no file. One thread, one process: a forked
    child must not use it.
    """

    def __init__(
        self,
        final: Path,
        *,
        max_size: int = DEFAULT_MAX_SIZE,
        clock: Callable[[], float] = time.time,
        shelf: Shelf | None = None,
    ) -> None:
        self._max_size = max_size
        self._clock = clock
        self._shelf = shelf or Disk(final)
        self._end = 0
        self._unpacked = 0
        self._members: list[Member] = []
        self._entries: list[FileEntry] = []
        self._index: dict[str, int] = {}
        self.published_bytes = 0
        """Size of the bundle that was published last."""

    @property
    def final(self) -> Path:
        """The name that the bundle will have."""
        return self._shelf.final

    @property
    def spool(self) -> Path:
        """Where the members are until then."""
        return self._shelf.spool

    @property
    def members(self) -> Sequence[FileEntry]:
        """What was added, in order."""
        return tuple(self._entries)

    @property
    def size(self) -> int:
        """Bytes in the spool; a published bundle is larger by its closing members and its directory."""
        return self._end

    def add(
        self,
        path: str,
        data: bytes,
        *,
        media_type: str = "",
        probe: str = "",
        original_path: str = "",
        original_bytes: int | None = None,
        truncated: tuple[tuple[int, int], ...] = (),
        redactions: int = 0,
    ) -> FileEntry:
        """Append one member; when this returns, a kill cannot lose it.

        ValueError for a name that is taken or unsafe, `BundleFull` when it does not fit (ledger entries may use the
        reserve kept for closing), OSError (ENOSPC …) with the spool as it was before.
        """
        key = self._claim(path)
        member, blob = container.pack_member(path, data, offset=self._end, stamp=self._stamp())
        self._check_room(member, len(blob))
        self._append(blob)
        entry = file_entry(
            path, data, media_type=media_type or "application/octet-stream", probe=probe,
            original_path=original_path, original_bytes=original_bytes, truncated=truncated, redactions=redactions,
        )  # fmt: skip
        self._index[key] = len(self._members)
        self._members.append(member)
        self._entries.append(entry)
        self._unpacked += member.size
        return entry

    def read(self, path: str) -> bytes:
        """What was added under `path`. KeyError for an unknown one."""
        return self._data(self._members[self._index[container.name_key(path)]])

    def publish(self, closing: Closing, *, replace: Replace | None = None, rename: Rename | None = None) -> Path:
        """Put a complete bundle of all members so far under the final name, in one rename.

        May be called again; the spool goes on growing. Members that `replace` changes or `rename` gives another name
        are compressed anew, the others copied as they are. `closing` gets the entries as published; what it returns
        ends the bundle.
        OSError when the copy cannot be written: final name and spool stay as they were.
        """
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for piece in self._bundle(closing, replace, rename):
                size += len(piece)
                yield piece

        self._shelf.publish(self.final, counted())
        self.published_bytes = size
        return self.final

    def move(self, shelf: Shelf) -> None:
        """Go on upon another shelf, with all that was added. OSError when that one does not take it."""
        shelf.append(0, self._raw(0, self._end))
        old, self._shelf = self._shelf, shelf
        old.finish()

    def finish(self) -> None:
        """Remove the spool: what was published last is the bundle."""
        self._shelf.finish()

    def abandon(self) -> None:
        """Close, and leave the spool to be salvaged."""
        self._shelf.abandon()

    def _stamp(self) -> tuple[int, int]:
        return container.dos_time(self._clock())

    def _claim(self, path: str) -> str:
        reason = container.unsafe_reason(path)
        if reason or path.endswith("/"):
            raise ValueError(f"{path!r} cannot be a member's name: {reason or 'a folder'}")
        key = container.name_key(path)
        if key in self._index:
            raise ValueError(f"{path!r} is already in the bundle")
        return key

    def _check_room(self, member: Member, length: int) -> None:
        own_book = member.name.startswith("ledger/") or member.name == BUNDLE_JSON
        reserve = 0 if own_book else _RESERVE + _RESERVE_PER_MEMBER * (len(self._members) + 1)
        spare = 0 if own_book else _RESERVE_MEMBERS
        unpacked = self._unpacked + member.size
        if self._end + length + reserve > self._max_size:
            raise BundleFull(f"{member.name} needs {length} bytes; the bundle's limit of {self._max_size} is reached")
        if len(self._members) + spare + 8 >= MAX_MEMBERS or unpacked > MAX_UNPACKED:
            raise BundleFull(f"{member.name} would take the bundle beyond what readers accept")
        if container.exceeds_ratio(member.size, member.packed, free=RATIO_FREE_MEMBER, ratio=MAX_RATIO) or (
            container.exceeds_ratio(unpacked, self._end + length, free=RATIO_FREE_TOTAL, ratio=MAX_RATIO)
        ):
            raise BundleFull(f"{member.name} would look like a decompression bomb to readers")

    def _append(self, blob: bytes) -> None:
        self._shelf.append(self._end, blob)
        self._end += len(blob)

    def _raw(self, start: int, length: int) -> bytes:
        self._shelf.file.seek(start)
        return self._shelf.file.read(length)

    def _data(self, member: Member) -> bytes:
        source = container.Source(self._shelf.file)
        return b"".join(container.Inflater(source, member.method, member.data_at, member.data_at + member.packed))

    def _bundle(self, closing: Closing, replace: Replace | None, rename: Rename | None) -> Iterator[bytes]:
        members: list[Member] = []
        entries: list[FileEntry] = []
        at = 0
        for member, entry, blob in self._published(replace, rename):
            members.append(changed(member, offset=at))
            entries.append(entry)
            at += len(blob)
            yield blob
        for name, data in closing(tuple(entries)):
            member, blob = container.pack_member(name, data, offset=at, stamp=self._stamp())
            members.append(member)
            at += len(blob)
            yield blob
        yield container.pack_directory(members, at)

    def _published(
        self, replace: Replace | None, rename: Rename | None
    ) -> Iterator[tuple[Member, FileEntry, bytes]]:
        for member, entry in zip(self._members, self._entries):
            data = replace(member.name, self._data(member)) if replace else None
            name = rename(member.name) if rename else member.name
            if data is None and name != member.name:
                data = self._data(member)
            if data is None:
                length = member.data_at + member.packed - member.offset
                yield member, entry, self._raw(member.offset, length)
                continue
            fresh, blob = container.pack_member(name, data, offset=0, stamp=(member.date, member.time))
            known = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            yield fresh, changed(entry, path=name, **known), blob
