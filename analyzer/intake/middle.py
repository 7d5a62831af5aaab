"""What is kept of a long text between its head and its tail: where a rule's pattern is, and what complains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from ..scan.interface import Compiled, Line, Text
from ..scan.scanner import Block, Scanner

try:
    import re2  # pyright: ignore[reportMissingImports]
except ImportError:
    re2 = None

COMPLAINT_BYTES = 2 * 1024**2
FOUND_BYTES = 6 * 1024**2
MOST = 200
"""Lines of one pattern: a rule is told of no more."""
MAX_LINE = 64 * 1024
SAME_SHAPE = 20
"""Complaints that differ in their numbers only, of which more say nothing new."""
_TELLING = (re2 or re).compile(  # RE2 looks for all of them at once; `re` tries one after the other, ten times slower
    rb"rror|xception|Traceback|raceback \(most|imeout|imed out|TIMEOUT|atchdog|illed|[Ff]atal|FATAL|WARN|enied|refused|"
    rb"nreachable|not responding|o space left|ut of memory|Xid|[Hh]ang|stuck|eadlock|[Aa]bort|ismatch|retry|[Ww]aiting"
)
_NUMBER = re.compile(rb"0x[0-9a-fA-F]+|\d+")

Patterns = Callable[[], Sequence[tuple[str, Compiled]]]
"""What rules look for: asked when a text is long enough to have a middle."""


def no_patterns() -> Sequence[tuple[str, Compiled]]:
    """Nothing is looked for but complaints."""
    return ()


class Middle:
    """The lines that are kept, in their order. Memory is bounded whatever comes."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes that were read."""
        self._complaints: dict[int, bytes] = {}
        self._found: dict[int, Line] = {}
        self._complaint_bytes = self._found_bytes = 0
        self._shapes = Counter[bytes]()

    def read(self, pieces: Iterator[bytes], patterns: Patterns) -> None:
        """All of it, once."""
        first = next(pieces, None)
        if first is None:
            return
        scanner = Scanner(patterns(), most=MOST, tail_lines=0)
        for block in scanner.blocks(Text(chain([first], pieces))):
            self.size += len(block.text)
            self._keep_found(block)
            self._keep_complaints(block)

    def lines(self) -> list[bytes]:
        """Each with its end."""
        kept = {number: line.text.encode("utf-8", "replace") for number, line in self._found.items()} | self._complaints
        for number, line in self._found.items():
            before, after = line.near.before, line.near.after
            for place, text in chain(enumerate(before, number - len(before)), enumerate(after, number + 1)):
                kept.setdefault(place, text.encode("utf-8", "replace"))
        return [kept[number] + b"\n" for number in sorted(kept)]

    def _keep_found(self, block: Block) -> None:
        for found in block.found:
            line = found.line
            if line.number not in self._found and self._found_bytes + len(line.text) <= FOUND_BYTES:
                self._found[line.number] = line
                self._found_bytes += len(line.text)

    def _keep_complaints(self, block: Block) -> None:
        """Those that tell something new."""
        text, number, counted, end = block.text, block.first, 0, 0
        while self._complaint_bytes < COMPLAINT_BYTES and (found := _TELLING.search(text, end)):
            begin = text.rfind(b"\n", 0, found.start()) + 1
            end = text.find(b"\n", found.end()) + 1 or len(text)
            line = text[begin : min(end, begin + MAX_LINE)].removesuffix(b"\n")
            if self._is_new(line):
                number, counted = number + text.count(b"\n", counted, begin), begin
                self._complaints[number] = line
                self._complaint_bytes += len(line)

    def _is_new(self, line: bytes) -> bool:
        shape = _NUMBER.sub(b"0", line[:400])
        self._shapes[shape] += 1
        count = self._shapes[shape]
        if len(self._shapes) > 50_000:
            self._shapes.clear()
        return count <= SAME_SHAPE
