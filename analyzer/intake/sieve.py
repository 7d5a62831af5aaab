"""Reads a text of any length and keeps what a diagnosis needs: its head, its tail, between them what rules look for.

Memory is bounded whatever comes; every byte is looked at once.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from .middle import Middle, Patterns, no_patterns

HEAD_BYTES = 2 * 1024**2
TAIL_BYTES = 8 * 1024**2
CHUNK = 1024**2
MAX_LINE = 64 * 1024
MAX_CONTROLS = 0.06
"""Share of a text that may be control characters."""
_CONTROLS = bytes({*range(32)} - set(b"\a\b\t\n\v\f\r\x1b"))
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class ByteStream(Protocol):
    """What is read from: a file, a pipe, a member of an archive."""

    def read(self, size: int = -1, /) -> bytes: ...


Progress = Callable[[int], None]
"""Told how many bytes were read since it was told last."""


def nothing(_: int) -> None:
    """Progress that nobody looks at."""


@dataclass(frozen=True)
class Reading:
    """How texts are read."""

    progress: Progress = nothing
    patterns: Patterns = no_patterns
    """What is looked for in the middle of those that are too long to be kept."""


PLAIN = Reading()


@dataclass(frozen=True)
class Kept:
    """What was kept of one text."""

    lines: tuple[str, ...]
    omitted_bytes: int = 0
    size: int = 0
    """Bytes that were read."""
    looks_binary: bool = False


def sieve(stream: ByteStream, reading: Reading = PLAIN) -> Kept:
    """All of a text that is short enough; else head, tail, and between them the lines that have one of the patterns or
    complain. Raises OSError as the stream does."""
    first = stream.read(CHUNK)
    encoding, skip = _encoding(first)
    if encoding != "utf-8":
        return _kept([_as_utf8(first[skip:] + stream.read(TAIL_BYTES), encoding)], [], [], 0, len(first))
    if _looks_binary(first[:4096]):
        return Kept((), size=len(first), looks_binary=True)
    return _sifted(_chunks(first[skip:], stream, reading.progress), reading.patterns)


def _looks_binary(head: bytes) -> bool:
    """A log that a machine wrote when its power failed holds a few NULs, and is text; a file of numbers holds many."""
    return b"\0" in head and len(head) - len(head.translate(None, _CONTROLS)) > len(head) * MAX_CONTROLS


def _encoding(first: bytes) -> tuple[str, int]:
    """The encoding that the text begins by declaring (a shell of Windows writes UTF-16), and the length of the mark."""
    return next(((name, len(bom)) for bom, name in _BOMS if first.startswith(bom)), ("utf-8", 0))


def _as_utf8(data: bytes, encoding: str) -> bytes:
    return data.decode(encoding, "replace").encode("utf-8", "replace")


def _chunks(first: bytes, stream: ByteStream, progress: Progress) -> Iterator[bytes]:
    """Pieces that end with a line's end, or are longer than any line should be."""
    rest, chunk = b"", first
    while chunk:
        progress(len(chunk))
        end = chunk.rfind(b"\n") + 1
        if end or len(rest) > MAX_LINE:
            yield rest + chunk[:end]
            rest = chunk[end:]
        else:
            rest += chunk
        chunk = stream.read(CHUNK)
    if rest:
        yield rest


def _sifted(chunks: Iterator[bytes], patterns: Patterns) -> Kept:
    ends, middle = _Ends(), Middle()
    middle.read(ends.between(chunks), patterns)
    lines = middle.lines()
    omitted = max(0, middle.size - sum(map(len, lines)))
    return _kept(ends.head, lines, ends.tail, omitted, ends.size)


class _Ends:
    """Head and tail."""

    def __init__(self) -> None:
        self.head: list[bytes] = []
        self.tail: deque[bytes] = deque()
        self.size = 0
        """Bytes that were read."""

    def between(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """What is neither, as it turns out."""
        tail_size = 0
        for chunk in chunks:
            if self.size < HEAD_BYTES:
                self.head.append(chunk)
                self.size += len(chunk)
                continue
            self.size += len(chunk)
            self.tail.append(chunk)
            tail_size += len(chunk)
            while tail_size - len(self.tail[0]) >= TAIL_BYTES:
                tail_size -= len(self.tail[0])
                yield self.tail.popleft()


def _kept(head: list[bytes], middle: list[bytes], tail: deque[bytes] | list[bytes], omitted: int, size: int) -> Kept:
    text = b"".join([*head, *middle, *tail]).decode("utf-8", "replace")
    return Kept(tuple(text.removesuffix("\n").split("\n")) if text else (), omitted, size)
