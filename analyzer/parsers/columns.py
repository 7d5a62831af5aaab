"""Lines in columns under a headline: which words belong to which column, also where a column holds blanks."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WEEKDAY = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)$")
_MONTH = re.compile(r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)$")
_DAY = re.compile(r"\d{1,2}$")
FREE = frozenset({"COMMAND", "CMD", "ARGS", "NAME", "CGROUP"})
"""Columns that may hold blanks."""


def split_row(text: str, columns: Sequence[str], head: str = "") -> dict[str, str] | None:
    """The fields by the names of their columns; None when there are fewer words than columns. The last column takes
    the rest. `head` is the headline as it stands: it tells where a column with blanks ends that is not the last."""
    words = [(found.start(), found[0]) for found in re.finditer(r"\S+", text)]
    row: dict[str, str] = {}
    at = 0
    for number, name in enumerate(columns):
        if at >= len(words):
            return row if number and name in FREE else None
        if number == len(columns) - 1:
            row[name] = text[words[at][0] :].rstrip()
            return row
        count = _count(text, words, at, name, columns[number + 1], head)
        row.setdefault(name, " ".join(word for _, word in words[at : at + count]))
        at += count
    return row


def _count(text: str, words: Sequence[tuple[int, str]], at: int, name: str, following: str, head: str) -> int:
    """How many words a column takes."""
    word = words[at][1]
    if name in ("STARTED", "START", "STIME", "LSTART"):
        if _WEEKDAY.match(word):
            return 5
        if _MONTH.match(word) and at + 1 < len(words) and _DAY.match(words[at + 1][1]):
            return 2
    if name in FREE and head:
        place = head.find(f" {following}", head.find(name)) + 1
        inside = [1 for start, _ in words[at:] if start < place]
        if place > 0 and inside and len(text) > place and text[place - 1] == " ":
            return len(inside)
    return 1
