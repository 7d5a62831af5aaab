"""One JSON value that begins at a line, by its brackets: also one that was cut."""

from __future__ import annotations

import re

from .interface import Line, Lines
from .spans import Span

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]]')
MAX_LINES = 50_000


def json_span(lines: Lines, start: int) -> Span:
    """The lines to the one on which the value that begins at `start` ends, or to where the text is cut."""
    depth = 0
    own: list[Line] = []
    for line in lines[start : start + MAX_LINES]:
        own.append(line)
        for token in _TOKEN.findall(line.text):
            depth += (token in "{[") - (token in "}]")
            if depth < 0:
                break
        if depth <= 0:
            break
    return Span(start + len(own), tuple(own))
