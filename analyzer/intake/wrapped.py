"""Lines of a log that a terminal has broken at its width, before somebody copied them.

[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqN
um=417, OpType=ALLREDUCE) ran for 600042 milliseconds before timing out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

NARROWEST, WIDEST = 72, 400
USUAL = frozenset({80, 100, 120, 132, 160})
"""Widths of terminals: one line of such a length is enough, of another it takes two."""
_BEGINS = re.compile(
    r"\d{4}[-/]|\d\d:\d\d|[\[>$|+#]|\(\w{1,40} |[A-Z]{4,}\b|[IWEF]\d{4} |File |Traceback|Thread|Process |[-*=_]{3}"
    r"|[a-z][a-z-]{0,30}\d{1,5}: "
    r"|(?:\w{1,60}\.)*\w{0,60}(?:Error|Exception|Warning|Interrupt)\b"
)
"""How a line begins that is one of its own; ``node07: `` is what pdsh puts before those of a host."""
_SAME = 4
"""Lines of one kind, which are cut at a width and not broken, begin with the same letters."""
_DIGIT = re.compile(r"\d")


def width_of(lines: Sequence[str]) -> int:
    """The width at which a terminal has broken lines of this text; 0: none can be told."""
    lengths = [len(line) for line in lines]
    width = max(lengths, default=0)
    if not NARROWEST <= width <= WIDEST or lengths.count(width) < (1 if width in USUAL else 2):
        return 0
    return width


def rejoined(lines: Sequence[str], width: int) -> list[str]:
    """As many lines: what was broken is whole where its last piece stands, and blank before."""
    found = list(lines)
    begins = {_word(lines[index]) for index in range(len(lines)) if index == 0 or len(lines[index - 1]) != width}
    for index in range(1, len(found)):
        broken = len(lines[index - 1]) == width and _word(lines[index]) not in begins
        if broken and _goes_on(lines[index - 1], lines[index]):
            found[index] = found[index - 1] + found[index]
            found[index - 1] = ""
    return found


def _word(line: str) -> str:
    """The first, by which a kind of line is known again."""
    return line[:100].partition(" ")[0]


def _goes_on(line: str, following: str) -> bool:
    """Whether the next line may be the rest of one: it is not indented, and does not begin as others do."""
    if not following.strip() or following[:2].isspace():
        return False
    same = _DIGIT.sub("0", line[:_SAME]) == _DIGIT.sub("0", following[:_SAME])
    return not same and _BEGINS.match(following) is None
