"""The lines beside those in which something was found, also where a block of the text ends between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NEAR = 2
"""So many lines before and after."""
MAX_BYTES = 400
"""Of each of them: a hundred thousand may be kept."""


@dataclass
class Near:
    """What stands directly before a line and directly after it, without blank lines at the far ends. A line that
    holds nothing but blanks is empty."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Neighbours:
    """Gives lines their neighbours, block after block."""

    def __init__(self) -> None:
        self._last: list[bytes] = []
        """Of the blocks before."""
        self._open: list[tuple[Near, list[bytes]]] = []
        """Of lines near the end of the blocks before: what is known of the lines after them."""

    def begin(self, block: bytes) -> None:
        """The next block of whole lines; lines that were near the end of the last one get what follows them."""
        first = _after(block, -1)
        for near, after in self._open:
            after += first[: NEAR - len(after)]
            near.after = _shown(after, far=-1)
        self._open = [one for one in self._open if len(one[1]) < NEAR]

    def tell(self, near: Near, block: bytes, begin: int, end: int) -> None:
        """What is beside the line from `begin` to `end` of the block that was begun."""
        near.before = _shown([*self._last, *_before(block, begin)][-NEAR:], far=0)
        after = _after(block, end)
        near.after = _shown(after, far=-1)
        if len(after) < NEAR:
            self._open.append((near, after))

    def end(self, block: bytes) -> None:
        """All of the block was looked at."""
        last = _before(block, len(block)) if block.endswith(b"\n") else _before(block + b"\n", len(block) + 1)
        self._last = [*self._last, *last][-NEAR:]


def near_in(lines: Mapping[int, bytes], number: int) -> Near:
    """What is beside the line of this number; those that are not there are blank."""
    before = [lines.get(at, b"") for at in range(number - NEAR, number)]
    after = [lines.get(at, b"") for at in range(number + 1, number + 1 + NEAR)]
    return Near(_shown(before, far=0), _shown(after, far=-1))


def _before(block: bytes, begin: int) -> list[bytes]:
    """The lines that end before a place in which a line begins."""
    found: list[bytes] = []
    while begin > 0 and len(found) < NEAR:
        end, begin = begin - 1, block.rfind(b"\n", 0, begin - 1) + 1
        found.insert(0, block[begin:end])
    return found


def _after(block: bytes, end: int) -> list[bytes]:
    """The lines that begin after a place in which a line ends."""
    found: list[bytes] = []
    begin = end + 1
    while begin < len(block) and len(found) < NEAR:
        end = block.find(b"\n", begin)
        end = len(block) if end < 0 else end
        found.append(block[begin:end])
        begin = end + 1
    return found


def _shown(lines: Sequence[bytes], *, far: int) -> tuple[str, ...]:
    """As texts, without blank ones at the `far` end: 0 or -1."""
    texts = [_text(line) for line in lines]
    while texts and not texts[far]:
        del texts[far]
    return tuple(texts)


def _text(line: bytes) -> str:
    if not line.strip():
        return ""
    if len(line) <= MAX_BYTES:
        return line.removesuffix(b"\r").decode("utf-8", "replace")
    return line[:MAX_BYTES].decode("utf-8", "replace").rstrip("\ufffd") + "…"
