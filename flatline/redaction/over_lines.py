"""An option and its value on two lines: ``/proc``'s command line with a break between the words, kubectl's, YAML's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .assignments import judged_name, telling_names
from .blocks import shows_itself
from .grammar import QUOTE
from .spans import Span

_BREAK = r"(?:\r?\n|\\{1,3}n|\\{1,3}r\\{1,3}n)"
_BELOW = re.compile(
    rf"""{QUOTE}? ,? [ \t]{{0,9}} \\?{_BREAK} [ \t]{{0,80}} (?:-[ ]{{1,8}})?
    (?:{QUOTE})? (?P<value>[^\s"'`\\,\x00\x1b<>&-][^\s"'`\\\x00\x1b]{{5,4000}}?)
    (?={QUOTE}?,?[ \t]{{0,9}}\\?(?:{_BREAK}|["'`\x00\x1b]|\Z))""",
    re.X,
)


def find_values_below(text: str) -> Iterator[Span]:
    """``--api-key`` and below, alone in its line, the value."""
    for _, start, end in telling_names(text):
        below = _BELOW.match(text, end) if text[start] == "-" else None
        name = judged_name(text, start, end) if below else None
        if below and name and name.end == end and shows_itself(name.promise, below["value"]):
            yield Span(*below.span("value"), name.promise.kind, below["value"])
