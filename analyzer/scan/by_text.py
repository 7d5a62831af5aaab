"""The texts that patterns need, each looked for with `bytes.find`: slow, and it needs nothing installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from .interface import Sought
from .needed import needed_texts


class TextFinder:
    """Built at once."""

    is_quick = False
    wasteful_from = 1

    def __init__(self, patterns: tuple[Sought, ...]) -> None:
        self._needing: dict[bytes, list[int]] = {}
        self._always: list[int] = []
        for index, (pattern, _) in enumerate(patterns):
            texts = needed_texts(pattern)
            if not texts or not all(map(str.isascii, texts)):  # only ASCII is compared without its case
                self._always.append(index)
                continue
            for text in (text for text in texts if "\n" not in text):
                self._needing.setdefault(text.encode(), []).append(index)

    def places(self, block: bytes, /) -> list[tuple[int, Sequence[int]]]:
        lower = block.lower()
        found = [(at, which) for text, which in self._needing.items() for at in _found(lower, text)]
        if self._always:
            found += [(at, self._always) for at in _lines(block)]
        return sorted(found, key=lambda place: place[0])


def _found(block: bytes, text: bytes) -> Iterator[int]:
    """A place in each line that has the text."""
    at = block.find(text)
    while at >= 0:
        yield at
        end = block.find(b"\n", at)
        at = block.find(text, end) if end >= 0 else -1


def _lines(block: bytes) -> Iterator[int]:
    at = 0
    while 0 <= at < len(block):
        yield at
        at = block.find(b"\n", at) + 1 or len(block)


@lru_cache(maxsize=8)
def build(patterns: tuple[Sought, ...]) -> TextFinder:
    """Always to be had."""
    return TextFinder(patterns)
