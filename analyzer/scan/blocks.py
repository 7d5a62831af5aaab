"""A stream of bytes as blocks of whole lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from .interface import MAX_LINE


def blocks(pieces: Iterable[bytes], size: Callable[[], int]) -> Iterator[bytes]:
    """Blocks of about `size` bytes, asked anew for each, that end where a line does.

    What is longer than `MAX_LINE` without a newline is cut there, and the part is a block of its own: so each block
    begins and ends with a line, and holds no line that is too long.
    """
    waiting: list[bytes] = []
    length = 0
    for piece in pieces:
        waiting.append(piece)
        length += len(piece)
        if length < size():
            continue
        end = piece.rfind(b"\n") + 1
        if end:
            # a text is copied once, into its blocks, and no more
            yield from _without_long_lines(b"".join((*waiting[:-1], memoryview(piece)[:end])))
            waiting, length = [piece[end:]], len(piece) - end
        elif length > MAX_LINE:
            data = b"".join(waiting)
            end = data.rfind(b"\n") + 1
            if not end:
                end = length // MAX_LINE * MAX_LINE
                end -= 0 if end < length else MAX_LINE  # a newline may be what comes next
            yield from _without_long_lines(data[:end])
            waiting, length = [data[end:]], length - end
    yield from _without_long_lines(b"".join(waiting))


def _without_long_lines(data: bytes) -> Iterator[bytes]:
    """The parts of it, of which most often there is one."""
    begun = at = 0
    while len(data) - at > MAX_LINE:
        newline = data.rfind(b"\n", at, at + MAX_LINE + 1)
        if newline >= 0:
            at = newline + 1
            continue
        if at > begun:
            yield data[begun:at]
        yield data[at : at + MAX_LINE]
        begun = at = at + MAX_LINE
    if begun < len(data):
        yield data[begun:] if begun else data
