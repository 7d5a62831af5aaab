"""Where pasted text comes from: files, folders, archives of loose files, standard input. Read in bounded memory."""

from __future__ import annotations

import gzip
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from flatline.bundle.container import END_MAGIC, MAX_DIRECTORY
from flatline.bundle.looks import what_it_looks_like
from flatline.errors import UnreadableBundleError

from ..reports.recognise import is_text_of_report
from .regular import handed_over, open_regular
from .sieve import PLAIN, ByteStream, Kept, Reading, sieve

MAX_FILES = 1000
"""Of one folder or archive."""
MAX_UNPACKED = 4 * 1024**3
"""Bytes read of one member of an archive: beyond, it was made to hurt."""
_SKIPPED = (
    ".zip",
    ".png",
    ".jpg",
    ".jpeg",
    ".gif",
    ".pdf",
    ".pyc",
    ".so",
    ".safetensors",
    ".pt",
    ".pth",
    ".bin",
    ".ckpt",
)
OWN_REPORT = "it is a report of flatline: what it quotes is no evidence; give the bundle that it was made of"
"""The note of a text that an analysis wrote."""
_END = struct.Struct("<4s4H2LH")
"""A zip's last record; its sixth field is the size of the directory."""
_BROKEN = (
    OSError,
    EOFError,
    zlib.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
    ValueError,
)


@dataclass(frozen=True)
class Source:
    """One input text."""

    name: str
    """As people know it: the path below the folder, ``stdin``."""
    kept: Kept
    note: str = ""
    """Why it, or the rest of it, was not read."""


def read_path(path: Path, reading: Reading = PLAIN) -> Iterator[Source]:
    """The texts of a file, a folder or an archive, by name. Raises UnreadableBundleError when `path` cannot be read."""
    try:
        if path.is_dir():
            yield from _folder(path, reading)
        elif (pipe := handed_over(path)) is not None:
            with pipe:
                yield _text(pipe, str(path), reading)
        else:
            with open_regular(path) as file:
                yield from _regular(file, path, reading)
    except OSError as error:
        raise UnreadableBundleError(
            f"{path} cannot be read: {error.strerror or error}", next_step="check the path, and who may read it"
        ) from None


def _regular(file: BinaryIO, path: Path, reading: Reading) -> Iterator[Source]:
    if _is_tar(file):
        yield from _tar(file, path, reading)
    elif zipfile.is_zipfile(file):
        yield from _zip(file, path, reading)
    else:
        yield _one(file, path, reading)


def names_too_many(file: BinaryIO) -> bool:
    """Whether a zip's end names so large a directory that `zipfile` would take a gigabyte to read it."""
    tail_at = max(0, file.seek(0, os.SEEK_END) - _END.size - 0xFFFF)
    file.seek(tail_at)
    tail = file.read()
    end = tail[max(0, tail.rfind(END_MAGIC)) :][: _END.size]
    return end.startswith(END_MAGIC) and len(end) == _END.size and _END.unpack(end)[5] > MAX_DIRECTORY


def read_stream(stream: ByteStream, name: str = "stdin", reading: Reading = PLAIN) -> Source:
    """One text from an open stream."""
    return _text(stream, name, reading)


def text_of(stream: ByteStream, name: str, reading: Reading) -> Source:
    """One text. Raises OSError as the stream does."""
    kept = sieve(stream, reading)
    if is_text_of_report(kept.lines):
        return Source(name, Kept(()), OWN_REPORT)
    return Source(name, kept)


def _folder(path: Path, reading: Reading) -> Iterator[Source]:
    files = sorted(p for p in path.rglob("*") if p.is_file() and not p.is_symlink() and not _is_skipped(p.name))
    for file in files[:MAX_FILES]:
        name = str(file.relative_to(path))
        try:
            yield _file(file, reading, name)
        except UnreadableBundleError as error:
            yield Source(name, Kept(()), error.what)
        except OSError as error:
            yield Source(name, Kept(()), f"it cannot be read: {error.strerror}")
    yield from _too_many(path.name, len(files))


def _file(path: Path, reading: Reading, name: str) -> Source:
    with open_regular(path) as file:
        return _one(file, path, reading, name)


def _one(file: BinaryIO, path: Path, reading: Reading, name: str = "") -> Source:
    name = name or path.name
    file.seek(0)
    head = file.read(4096)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        with gzip.open(file) as unpacked:
            return _text(_Capped(unpacked), name, reading)
    source = _text(file, name, reading)
    if source.kept.looks_binary:
        raise UnreadableBundleError(f"{path} is neither a bundle nor text; it looks like {what_it_looks_like(head)}")
    return source


def _tar(file: BinaryIO, path: Path, reading: Reading) -> Iterator[Source]:
    """The texts of an archive; one that breaks off holds what came until then."""
    file.seek(0)
    with tarfile.open(fileobj=file) as archive:
        members = enumerate(archive)
        while True:
            try:
                count, member = next(members)
                unpacked = archive.extractfile(member) if member.isfile() else None
            except StopIteration:
                return
            except _BROKEN as error:
                yield Source(path.name, Kept(()), f"the rest cannot be unpacked: {error}")
                return
            if count >= MAX_FILES:
                yield from _too_many(path.name, count + 1)
                return
            if unpacked is not None and not _is_skipped(member.name):
                yield _text(_Capped(unpacked), member.name, reading)


def _zip(file: BinaryIO, path: Path, reading: Reading) -> Iterator[Source]:
    try:
        opened = zipfile.ZipFile(file)
    except _BROKEN:  # a text in which a zip's mark stands, or what is left of a zip
        yield _one(file, path, reading)
        return
    with opened as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        for member in members[:MAX_FILES]:
            if _is_skipped(member.filename):
                continue
            try:
                with archive.open(member) as unpacked:
                    yield _text(_Capped(unpacked), member.filename, reading)
            except _BROKEN as error:
                yield Source(member.filename, Kept(()), f"it cannot be unpacked: {error}")
    yield from _too_many(path.name, len(members))


def _is_tar(file: BinaryIO) -> bool:
    try:
        return tarfile.is_tarfile(file)
    except _BROKEN:  # a gzip that is cut, or is none
        return False


def _is_skipped(name: str) -> bool:
    """Whether a file is none of the loose texts: a bundle is opened as one, a picture or a model says nothing."""
    return name.lower().endswith(_SKIPPED)


def _text(stream: ByteStream, name: str, reading: Reading) -> Source:
    """The text; what breaks off in the middle is what came until then."""
    try:
        return text_of(stream, name, reading)
    except _BROKEN as error:
        return Source(name, Kept(()), f"it cannot be read: {error}")


def _too_many(name: str, count: int) -> Sequence[Source]:
    more = count - MAX_FILES
    return [Source(name, Kept(()), f"{more} more files were not read")] if more > 0 else []


class _Capped:
    """A stream that ends after `MAX_UNPACKED` bytes, or where it breaks."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream, self._left = stream, MAX_UNPACKED

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; b"" at the end."""
        try:
            data = self._stream.read(min(size, self._left) if size >= 0 else self._left)
        except _BROKEN:
            return b""
        self._left -= len(data)
        return data
