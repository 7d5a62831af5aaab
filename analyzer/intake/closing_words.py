"""What a person writes below a pasted log, without a fence between: no line of the log, least of all its last one."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_LINES = 6
"""A longer paragraph is not told from a program's."""
_PERSON = re.compile(
    r"\b(?:I|I'm|I've|I'd|[Mm]y|me)\b|(?i:\bany(?:one|body| idea| ideas)\b|\bthanks?\b|\bthx\b|\bpls\b|\bplz\b)"
    r"|我|请问|谢谢|求助|大佬|怎么办|为什么|麻烦"
)
"""Words that a person says of themselves or to others. A program says "you" and "please", and some say "we"."""
_PRINTED = re.compile(
    r"\s*(?:[\[({<\"'#|>$*=\-\d]|[\w.\-/]{1,80}(?:\[\d+\])?: |(?:INFO|WARN|WARNING|ERROR|DEBUG)\b)|.*[=/\\{}]"
)
"""A line of a program, a shell or a table."""
_ASKS = re.compile(r"(?:[:>]|[\])])\s*$")
"""How a prompt ends."""


def closing_words(lines: Sequence[str]) -> int:
    """The index of the first line of a last paragraph that a person wrote; the number of lines when there is none."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    first = end
    while first and end - first <= MOST_LINES and lines[first - 1].strip():
        first -= 1
    words = lines[first:end]
    if not 0 < len(words) <= MOST_LINES or not any(line.strip() for line in lines[:first]):
        return len(lines)
    if any(_PRINTED.match(line) for line in words) or _ASKS.search(words[-1]):
        return len(lines)
    return first if any(_PERSON.search(line) for line in words) else len(lines)
