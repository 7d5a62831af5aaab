"""UTF-16, as shells of Windows write it, read as UTF-8: no secret is recognised between its NULs."""

from __future__ import annotations

import codecs
from typing import Optional, Protocol

_LOOK = 4096
_MARKED, _PLAIN = 0.2, 0.4
"""Of all second bytes that are NUL, a share that only UTF-16 with Latin letters has: behind its mark, and without."""


class ByteSource(Protocol):
    """What a text is read from: standard input, a file."""

    def read(self, size: int = -1, /) -> bytes: ...


class Utf8Reader:
    """A stream's bytes as they are, or as UTF-8 when they begin as UTF-16 does, with its mark or without."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._begin = source.read(_LOOK)
        name = _utf_16(self._begin)
        self._decoder = codecs.getincrementaldecoder(name)("replace") if name else None

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, about `size` of them; all that are left without it; b"" at the end."""
        while True:
            begin, self._begin = self._begin, b""
            data = begin + self._source.read(size) if size < 0 else begin or self._source.read(size)
            if self._decoder is None:
                return data
            text = self._decoder.decode(data, final=not data)
            if text or not data:
                return text.encode("utf-8")


def _utf_16(begin: bytes) -> Optional[str]:
    even, odd = begin[::2].count(0), begin[1::2].count(0)
    words = len(begin) // 2
    for mark, most, least in ((codecs.BOM_UTF16_LE, odd, even), (codecs.BOM_UTF16_BE, even, odd)):
        if begin.startswith(mark):  # as any other bytes may
            return "utf-16" if most > max(least, words * _MARKED) else None
    enough = words * _PLAIN
    if len(begin) < 4 or (even > enough) == (odd > enough):
        return None
    return "utf-16-le" if odd > enough else "utf-16-be"
