"""Reads a text of any length and keeps what a diagnosis needs: its head, its tail, and telling lines between.

Memory is bounded whatever comes; every byte is looked at once.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

try:
    import re2  # pyright: ignore[reportMissingImports]
except ImportError:
    re2 = None

HEAD_BYTES = 2 * 1024**2
TAIL_BYTES = 8 * 1024**2
MIDDLE_BYTES = 2 * 1024**2
CHUNK = 1024**2
MAX_LINE = 64 * 1024
SAME_SHAPE = 20
"""Lines between head and tail that differ in their numbers only, of which more say nothing new."""
_TELLING = (re2 or re).compile(  # RE2 looks for all of them at once; `re` tries one after the other, ten times slower
    rb"rror|xception|Traceback|raceback \(most|imeout|imed out|TIMEOUT|atchdog|illed|[Ff]atal|FATAL|WARN|enied|refused|"
    rb"nreachable|not responding|o space left|ut of memory|Xid|[Hh]ang|stuck|eadlock|[Aa]bort|ismatch|retry|[Ww]aiting"
)
MAX_CONTROLS = 0.06
"""Share of a text that may be control characters."""
_CONTROLS = bytes({*range(32)} - set(b"\a\b\t\n\v\f\r\x1b"))
_NUMBER = re.compile(rb"0x[0-9a-fA-F]+|\d+")
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class ByteStream(Protocol):
    """What is read from: a file, a pipe, a member of an archive."""

    def read(self, size: int = -1, /) -> bytes: ...


Progress = Callable[[int], None]
"""Told how many bytes were read since it was told last."""


@dataclass(frozen=True)
class Kept:
    """What was kept of one text."""

    lines: tuple[str, ...]
    omitted_bytes: int = 0
    size: int = 0
    """Bytes that were read."""
    looks_binary: bool = False


def sieve(stream: ByteStream, progress: Progress = lambda _: None) -> Kept:
    """All of a text that is short enough; else head, telling lines and tail. Raises OSError as the stream does."""
    first = stream.read(CHUNK)
    encoding, skip = _encoding(first)
    if encoding != "utf-8":
        return _kept([_as_utf8(first[skip:] + stream.read(TAIL_BYTES), encoding)], [], [], 0, len(first))
    if _looks_binary(first[:4096]):
        return Kept((), size=len(first), looks_binary=True)
    return _sifted(_chunks(first[skip:], stream, progress))


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


def _sifted(chunks: Iterator[bytes]) -> Kept:
    head: list[bytes] = []
    tail: deque[bytes] = deque()
    between = _Between()
    head_size = tail_size = size = 0
    for chunk in chunks:
        size += len(chunk)
        if head_size < HEAD_BYTES:
            head.append(chunk)
            head_size += len(chunk)
            continue
        tail.append(chunk)
        tail_size += len(chunk)
        while tail_size - len(tail[0]) >= TAIL_BYTES:
            tail_size -= len(tail[0])
            between.add(tail.popleft())
    return _kept(head, between.lines, tail, between.omitted, size)


class _Between:
    """The telling lines of what is neither head nor tail."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.omitted = 0
        self._size = 0
        self._shapes = Counter[bytes]()

    def add(self, chunk: bytes) -> None:
        """Keep the lines that tell something new."""
        kept, end = 0, 0
        while self._size < MIDDLE_BYTES and (found := _TELLING.search(chunk, end)):
            begin = chunk.rfind(b"\n", 0, found.start()) + 1
            end = chunk.find(b"\n", found.end()) + 1 or len(chunk)
            kept += self._keep(chunk[begin : min(end, begin + MAX_LINE)])
        self.omitted += len(chunk) - kept

    def _keep(self, line: bytes) -> int:
        shape = _NUMBER.sub(b"0", line[:400])
        self._shapes[shape] += 1
        if self._shapes[shape] > SAME_SHAPE:
            return 0
        if len(self._shapes) > 50_000:
            self._shapes.clear()
        self.lines.append(line if line.endswith(b"\n") else line + b"\n")
        self._size += len(line)
        return len(line)


def _kept(head: list[bytes], middle: list[bytes], tail: deque[bytes] | list[bytes], omitted: int, size: int) -> Kept:
    text = b"".join([*head, *middle, *tail]).decode("utf-8", "replace")
    return Kept(tuple(text.removesuffix("\n").split("\n")) if text else (), omitted, size)
