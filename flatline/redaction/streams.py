"""The redactor as a filter for texts of any length, in bounded memory.

What is read is redacted piece by piece. A value may show only later that it is a secret, so pieces are held back,
compressed, as long as there is room for them; what has been learnt until then is replaced in them before they go out.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterator

from .encodings import ByteSource
from .redactor import Redactor

PIECE = 1 << 20
LONGEST_PIECE = 8 << 20
"""A piece that ends in the middle of something grows up to this."""
TAIL = 128 << 10
"""What is looked at first to find the place for a cut."""
HELD = 64 << 20
"""Compressed bytes that are held back; an ordinary log of a gigabyte takes less."""
PLAIN = 48 << 20
"""Bytes that are held back as they are, beside them: compressing costs as much as redacting."""


def redact_stream(
    source: ByteSource, write: Callable[[bytes], object], redactor: Redactor, *, held: int = HELD
) -> bool:
    """Redact all of `source`; whether some of it had to go out before something was learnt that may stand in it."""
    waiting: deque[tuple[int, bytes, bool]] = deque()
    size, plain, gone_at = 0, 0, None

    def let_go() -> None:
        nonlocal size
        revision, held_back, is_packed = waiting.popleft()
        data = zlib.decompress(held_back) if is_packed else held_back
        size -= len(held_back) if is_packed else 0
        if revision < redactor.revision:
            text = data.decode("utf-8", "surrogateescape")
            again = redactor.rewrite(text)
            data = data if again is None else again.encode("utf-8", "surrogateescape")
        write(data)

    for piece in whole_pieces(source, redactor):
        data = redactor.text(piece).encode("utf-8", "surrogateescape")
        is_packed = plain + len(data) > PLAIN
        data = zlib.compress(data, 1) if is_packed else data
        size, plain = (size + len(data), plain) if is_packed else (size, plain + len(data))
        waiting.append((redactor.revision, data, is_packed))
        while size > held:
            gone_at = redactor.revision if gone_at is None else gone_at
            let_go()
    while waiting:
        let_go()
    return gone_at is not None and gone_at < redactor.revision


def whole_pieces(source: ByteSource, redactor: Redactor) -> Iterator[str]:
    """The source in pieces that end where nothing that may be a secret goes on."""
    buffer, wanted = b"", PIECE
    while True:
        more = source.read(wanted)
        buffer += more
        if not more:
            break
        end = _end_of_lines(buffer)
        if len(buffer) < LONGEST_PIECE:
            end = _settled_end(buffer, end, redactor)
        if end:
            yield buffer[:end].decode("utf-8", "surrogateescape")
            buffer = buffer[end:]
        wanted = max(PIECE, len(buffer))
    if buffer:
        yield buffer.decode("utf-8", "surrogateescape")


def _settled_end(buffer: bytes, end: int, redactor: Redactor) -> int:
    """As `Redactor.settled_end` says of the last lines, unless what they hold begins before them."""
    tail = buffer.find(b"\n", max(0, end - TAIL), end) + 1
    for start in (tail, 0):
        text = buffer[start:end].decode("utf-8", "surrogateescape")
        settled = text[: redactor.settled_end(text)]
        if settled:
            return start + len(settled.encode("utf-8", "surrogateescape"))
    return 0


def _end_of_lines(buffer: bytes) -> int:
    """Where to cut: behind a line, else, when there is no end of one in sight, behind a word."""
    end = buffer.rfind(b"\n") + 1
    if end or len(buffer) < LONGEST_PIECE:
        return end
    return (buffer.rfind(b" ") + 1) or len(buffer)
