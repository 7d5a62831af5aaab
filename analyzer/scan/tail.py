"""The last lines of a text, as they turn out to be when its end comes."""

from __future__ import annotations

from collections import deque

from .interface import MAX_LINE
from .near import NEAR, Near, near_in


class Tail:
    """Blank lines at the very end do not count, those before do; none of them is kept."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept = count + NEAR
        self._lines: deque[tuple[int, bytes]] = deque(maxlen=self._kept)
        self.last = 0
        """Number of the last line that is not blank; 0: there is none."""

    def add(self, block: bytes, last: int) -> None:
        """The next block of whole lines; `last` is the number of its last one."""
        end = _end_of_text(block)
        if not end:
            return
        begin = end
        for _ in range(self._kept):
            begin = block.rfind(b"\n", 0, begin)
            if begin < 0:
                break
        lines = block[begin + 1 : end].split(b"\n")
        self.last = last - max(block.count(b"\n", end) - block.endswith(b"\n"), 0)
        for at, line in enumerate(lines, start=self.last - len(lines) + 1):
            if line.strip():
                self._lines.append((at, line))

    @property
    def first(self) -> int:
        """Number of the first of the last lines."""
        return self.last - self._count + 1

    def near(self, number: int) -> Near:
        """What is beside one of the last lines."""
        return near_in(dict(self._lines), number)

    def lines(self) -> list[tuple[int, bytes]]:
        """Numbers and lines, without those that are blank."""
        return [(number, line) for number, line in self._lines if number >= self.first]


def _end_of_text(block: bytes) -> int:
    """Where the last line that is not blank ends; 0: all are blank."""
    size, length = MAX_LINE, len(block)
    while True:
        begin = max(length - size, 0)
        kept = begin + len(block[begin:].rstrip())
        if kept > begin or not begin:
            break
        size *= 8
    if not kept:
        return 0
    end = block.find(b"\n", kept)
    return length if end < 0 else end
