"""All outlines as alternatives of one RE2 pattern; in the lines that it finds, an RE2 set says which they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from .outline import outline

try:
    import re2  # pyright: ignore[reportMissingImports]
except ImportError:
    re2 = None

MAX_BYTES = 32 * 1024**2
"""For an automaton: it is built as texts need it, and begun anew when it is full."""


class Re2Finder:
    """Built in some ten milliseconds."""

    is_quick = False
    wasteful_from = 3_000

    def __init__(self, patterns: tuple[str, ...]) -> None:
        assert re2 is not None
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        options.max_mem = MAX_BYTES
        self._which = re2.Set.SearchSet(options)
        outlines = [f"(?m:{outline(pattern)})" for pattern in patterns]
        for each in outlines:
            self._which.Add(each.encode())
        self._which.Compile()
        self._any = re2.compile("|".join(dict.fromkeys(outlines)).encode(), options)

    def places(self, block: bytes, /) -> Iterator[tuple[int, Sequence[int]]]:
        at = 0
        while match := self._any.search(block, at):
            found = match.start()
            begin = block.rfind(b"\n", 0, found) + 1
            at = block.find(b"\n", found) + 1 or len(block)
            yield found, self._which.Match(block[begin:at].removesuffix(b"\n")) or ()


def build(patterns: tuple[str, ...]) -> Re2Finder | None:
    """None when RE2 is not installed."""
    return _built(patterns) if re2 is not None and patterns else None


@lru_cache(maxsize=8)
def _built(patterns: tuple[str, ...]) -> Re2Finder:
    return Re2Finder(patterns)
