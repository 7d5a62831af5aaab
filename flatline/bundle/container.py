"""The ZIP container, as much of it as a bundle needs: records packed, parsed and checked, nothing interpreted.

Written from PKWARE's APPNOTE 6.3: deflate or stored, ZIP64 where a field is too small, no data descriptors.
What is read may be hostile: every length is bounded before it is used. See `Inflater` for the members' data.
"""

from __future__ import annotations

import struct
import threading
import time
import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Callable

from .format import MAX_MEMBERS

STORED, DEFLATED = 0, 8
UTF8, ENCRYPTED, DESCRIPTOR = 0x800, 0x1, 0x8
"""Bits of the general purpose flag."""

LOCAL_MAGIC, CENTRAL_MAGIC, END_MAGIC = b"PK\3\4", b"PK\1\2", b"PK\5\6"
END64_MAGIC, LOCATOR64_MAGIC = b"PK\6\6", b"PK\6\7"

ZIP64_FROM = 0xFFFFFFFF
"""A size or offset from here on goes into the ZIP64 extra field."""
ZIP64_COUNT = 0xFFFF
CHUNK = 64 * 1024
MAX_NAME = 1024
MAX_DIRECTORY = 32 * 1024**2
"""A central directory of MAX_MEMBERS long names is a tenth of this."""

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_REGULAR_0600 = 0o100600 << 16
_MADE_ON_UNIX = 3 << 8


class ContainerError(ValueError):
    """The bytes break the format, or a rule of the bundle; the message is half a sentence about the file."""


@dataclass(frozen=True)
class Member:
    """One member: what its headers say. Times are DOS times in UTC."""

    name: str
    offset: int
    """Of the local header, from the beginning of the file."""
    method: int
    crc: int
    packed: int
    size: int
    date: int = 0x21
    time: int = 0
    flags: int = UTF8
    attributes: int = _REGULAR_0600
    data_at: int = 0
    """Where the compressed bytes begin; 0: not looked up yet."""
    partial: bool = False
    """The stream ends early: `packed` and `size` are what is there, `expected` what was announced."""
    expected: int = 0


@dataclass(frozen=True)
class End:
    """The end record: where the central directory lies and how many members it names."""

    count: int
    directory_at: int
    directory_size: int


# --- names ---


def unsafe_reason(name: str) -> str:
    """Why a member may not be called `name`; empty when it may."""
    if not name or len(name.encode("utf-8", "surrogatepass")) > MAX_NAME:
        return "an empty or very long name"
    if "\\" in name:
        return "a backslash in its name"
    if name.startswith("/"):
        return "an absolute path"
    if len(name) > 1 and name[1] == ":":
        return "a drive letter"
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        return "control characters in its name"
    if any(part in ("", ".", "..") for part in name.rstrip("/").split("/")) or name.endswith("//"):
        return "a '.', '..' or empty step in its path"
    return ""


def name_key(name: str) -> str:
    """Names with equal keys are one file on some file system (case, Unicode normalisation)."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def exceeds_ratio(size: int, packed: int, *, free: int, ratio: int) -> bool:
    """True for more than `ratio` bytes out of one, counted only above `free` bytes."""
    return size > free and size > ratio * max(packed, 1)


# --- packing ---


def dos_time(seconds: float) -> tuple[int, int]:
    """(date, time) in UTC, 2 s resolution, 1980 to 2107."""
    year, month, day, hour, minute, second = time.gmtime(min(max(seconds, 315532800), 4354819198))[:6]
    return (year - 1980) << 9 | month << 5 | day, hour << 11 | minute << 5 | second // 2


def pack_member(name: str, data: bytes, *, offset: int, stamp: tuple[int, int], level: int = 1) -> tuple[Member, bytes]:
    """The member and its local header with the data behind it, to be written at `offset` in one go.

    The header is right from the start: no one has to come back and patch it. `stamp` is a `dos_time`.
    """
    deflater = zlib.compressobj(level, zlib.DEFLATED, -15)
    packed = deflater.compress(data) + deflater.flush()
    method = DEFLATED
    if len(packed) >= len(data):
        packed, method = data, STORED
    member = Member(name, offset, method, zlib.crc32(data), len(packed), len(data), *stamp)
    header = _local_header(member)
    return replace(member, data_at=offset + len(header)), header + packed


def _local_header(member: Member) -> bytes:
    name = member.name.encode()
    large = member.size >= ZIP64_FROM or member.packed >= ZIP64_FROM
    extra = struct.pack("<2H2Q", 1, 16, member.size, member.packed) if large else b""
    packed, size = (ZIP64_FROM, ZIP64_FROM) if large else (member.packed, member.size)
    return _LOCAL.pack(
        LOCAL_MAGIC, 45 if large else 20, member.flags, member.method, member.time, member.date,
        member.crc, packed, size, len(name), len(extra),
    ) + name + extra  # fmt: skip


def pack_directory(members: list[Member], at: int) -> bytes:
    """The central directory and the end record for a file whose members end at `at`."""
    directory = b"".join(_central_header(member) for member in members)
    count, size = len(members), len(directory)
    end64 = b""
    if count >= ZIP64_COUNT or size >= ZIP64_FROM or at >= ZIP64_FROM:
        end64 = _END64.pack(END64_MAGIC, _END64.size - 12, 45, 45, 0, 0, count, count, size, at)
        end64 += _LOCATOR64.pack(LOCATOR64_MAGIC, 0, at + size, 1)
    short = min(count, ZIP64_COUNT)
    end = _END.pack(END_MAGIC, 0, 0, short, short, min(size, 0xFFFFFFFF), min(at, ZIP64_FROM), 0)
    return directory + end64 + end


def _central_header(member: Member) -> bytes:
    name = member.name.encode()
    wide = [value for value in (member.size, member.packed, member.offset) if value >= ZIP64_FROM]
    extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    version = 45 if wide else 20
    return _CENTRAL.pack(
        CENTRAL_MAGIC, _MADE_ON_UNIX | version, version, member.flags, member.method, member.time, member.date,
        member.crc, min(member.packed, ZIP64_FROM), min(member.size, ZIP64_FROM), len(name), len(extra), 0, 0, 0,
        member.attributes, min(member.offset, ZIP64_FROM),
    ) + name + extra  # fmt: skip


# --- parsing ---


class Source:
    """A file read by position, by several threads if need be. Short answers mean its end, never an exception."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self._turn = threading.Lock()
        self.size = file.seek(0, 2)

    def at(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`."""
        if offset >= self.size or length <= 0:
            return b""
        with self._turn:
            self.file.seek(offset)
            return self.file.read(length)


def find_end(source: Source) -> End | None:
    """The end record; None when the file does not end in one (it is cut off, or no zip)."""
    start = max(0, source.size - _END.size - 0xFFFF)
    tail = source.at(start, source.size - start)
    where = tail.rfind(END_MAGIC)
    while where >= 0:
        record = tail[where : where + _END.size]
        if len(record) == _END.size and where + _END.size + _END.unpack(record)[7] == len(tail):
            return _end_record(source, start + where, record)
        where = tail.rfind(END_MAGIC, 0, where)
    return None


def _end_record(source: Source, at: int, record: bytes) -> End:
    _, disk, first_disk, here, count, size, offset, _ = _END.unpack(record)
    if (count, size, offset) != (min(count, 0xFFFE), min(size, 0xFFFFFFFE), min(offset, 0xFFFFFFFE)):
        return _end64_record(source, at - _LOCATOR64.size)
    return _checked_end(End(count, offset, size), at, one_disk=disk == first_disk == 0 and here == count)


def _end64_record(source: Source, at: int) -> End:
    locator = source.at(at, _LOCATOR64.size) if at >= 0 else b""
    if not locator.startswith(LOCATOR64_MAGIC) or len(locator) != _LOCATOR64.size:
        raise ContainerError("its end record points to a ZIP64 record that is not there")
    end_at = _LOCATOR64.unpack(locator)[2]
    record = source.at(end_at, _END64.size)
    if not record.startswith(END64_MAGIC) or len(record) != _END64.size:
        raise ContainerError("its end record points to a ZIP64 record that is not there")
    _, _, _, _, disk, first_disk, here, count, size, offset = _END64.unpack(record)
    return _checked_end(End(count, offset, size), end_at, one_disk=disk == first_disk == 0 and here == count)


def _checked_end(end: End, at: int, *, one_disk: bool) -> End:
    if not one_disk:
        raise ContainerError("it is one part of a zip that spans several files")
    if end.count > MAX_MEMBERS:
        raise ContainerError(f"it has {end.count} members; a bundle has at most {MAX_MEMBERS}")
    if end.directory_size > MAX_DIRECTORY or end.directory_at + end.directory_size != at:
        raise ContainerError("its central directory is not where its end record says")
    return end


def read_directory(source: Source, end: End) -> list[Member]:
    """The members as the central directory names them, each checked against its local header."""
    text = source.at(end.directory_at, end.directory_size)
    members, at = [], 0
    for _ in range(end.count):
        member, at = _parse_central(text, at)
        members.append(_locate(source, member))
    if at != len(text):
        raise ContainerError("its central directory does not match its end record")
    return members


def _parse_central(text: bytes, at: int) -> tuple[Member, int]:
    record = text[at : at + _CENTRAL.size]
    if len(record) != _CENTRAL.size or not record.startswith(CENTRAL_MAGIC):
        raise ContainerError("its central directory is damaged")
    _, _, _, flags, method, clock, date, crc, packed, size, n_name, n_extra, n_comment, _, _, attributes, offset = (
        _CENTRAL.unpack(record)
    )
    name_at = at + _CENTRAL.size
    name = decode_name(text[name_at : name_at + n_name], flags)
    extra = text[name_at + n_name : name_at + n_name + n_extra]
    size, packed, offset = _widen(extra, [size, packed, offset])
    member = Member(name, offset, method, crc, packed, size, date, clock, flags, attributes)
    return member, name_at + n_name + n_extra + n_comment


def _widen(extra: bytes, values: list[int]) -> list[int]:
    """`values` with every 0xFFFFFFFF replaced from the ZIP64 extra field, in its order."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{min(length, len(extra) - at - 4) // 8}Q", extra, at + 4))
            return [next(wide, value) if value == 0xFFFFFFFF else value for value in values]
        at += 4 + length
    return values


def decode_name(raw: bytes, flags: int) -> str:
    """UTF-8 when flagged, else the DOS code page, as the format has it."""
    return raw.decode("utf-8" if flags & UTF8 else "cp437", "replace")


def parse_local(source: Source, offset: int) -> Member | None:
    """The member whose local header is at `offset`, by that header alone; None when there is no whole header."""
    record = source.at(offset, _LOCAL.size)
    if len(record) != _LOCAL.size or not record.startswith(LOCAL_MAGIC):
        return None
    _, _, flags, method, clock, date, crc, packed, size, n_name, n_extra = _LOCAL.unpack(record)
    rest = source.at(offset + _LOCAL.size, n_name + n_extra)
    if len(rest) != n_name + n_extra:
        return None
    size, packed = _widen(rest[n_name:], [size, packed])
    name = decode_name(rest[:n_name], flags)
    data_at = offset + _LOCAL.size + n_name + n_extra
    return Member(name, offset, method, crc, packed, size, date, clock, flags, data_at=data_at)


def _locate(source: Source, member: Member) -> Member:
    local = parse_local(source, member.offset)
    if local is None:
        raise ContainerError(f"{member.name!r} is not where the central directory says")
    same = (local.name, local.method, local.flags) == (member.name, member.method, member.flags)
    sizes = (local.crc, local.packed, local.size) == (member.crc, member.packed, member.size)
    if not same or not (sizes or local.flags & DESCRIPTOR):
        raise ContainerError(f"the two headers of {member.name!r} contradict each other")
    return replace(member, data_at=local.data_at)


@dataclass(frozen=True)
class Codec:
    """Who inflates and checks: zlib, or what does the same quicker."""

    decompressobj: Callable[[int], Any]
    crc32: Callable[[bytes, int], int]
    error: type[Exception]
    block: int = CHUNK
    """Compressed bytes that are read at once."""
    piece: int = CHUNK
    """Bytes that are held at most, whatever the stream promises."""


ZLIB = Codec(zlib.decompressobj, zlib.crc32, zlib.error)


class Inflater:
    """One member's data, piece by piece.

    After the iteration `finished` says whether the stream came to its own end, and `consumed` how many
    compressed bytes it took.
    """

    def __init__(self, source: Source, method: int, start: int, stop: int, codec: Codec = ZLIB) -> None:
        self._source, self._method, self._start, self._stop, self._codec = source, method, start, stop, codec
        self.finished = False
        self.consumed = 0

    def __iter__(self) -> Iterator[bytes]:
        return self._stored() if self._method == STORED else self._inflated()

    def _blocks(self) -> Iterator[bytes]:
        at = self._start
        while at < self._stop:
            block = self._source.at(at, min(self._codec.block, self._stop - at))
            if not block:
                return
            at += len(block)
            yield block

    def _stored(self) -> Iterator[bytes]:
        for block in self._blocks():
            self.consumed += len(block)
            yield block
        self.finished = self._start + self.consumed == self._stop

    def _inflated(self) -> Iterator[bytes]:
        stream, most = self._codec.decompressobj(-15), self._codec.piece
        for block in self._blocks():
            self.consumed += len(block)
            pending = block
            while pending and not stream.eof:
                try:
                    piece = stream.decompress(pending, most)
                except self._codec.error:
                    return
                pending = stream.unconsumed_tail
                if piece:
                    yield piece
            if stream.eof:
                self.consumed -= len(stream.unused_data)
                break
        while not stream.eof:  # what zlib still holds after the last block
            try:
                piece = stream.decompress(b"", most)
            except self._codec.error:
                return
            if not piece:
                return
            yield piece
        self.finished = True
