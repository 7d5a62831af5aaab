"""A piece of a text that must be hidden, and how to put the mark in its place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .marks import marks_in

Hide = Callable[[str, str], str]
"""(kind, value) -> the mark to write instead."""


@dataclass(frozen=True)
class Span:
    """``text[start:end]`` is a secret."""

    start: int
    end: int
    kind: str
    value: str
    """The secret itself, its escapes undone; what is chased elsewhere."""
    quote: str = ""
    """Written around the mark: a bare number in JSON must become a string."""


def outside_marks(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Without what is a piece of a mark: its letters are no secret. A span that holds a whole mark stays."""
    marks = marks_in(text)
    if not marks:
        yield from spans
        return
    starts = [start for start, _ in marks]
    for span in spans:
        start, end = _behind(marks, starts, span.start), _before(marks, starts, span.end)
        if start >= end:
            continue
        whole = (start, end) == (span.start, span.end)
        yield span if whole else Span(start, end, span.kind, text[start:end], span.quote)


def _behind(marks: Sequence[tuple[int, int]], starts: Sequence[int], at: int) -> int:
    """`at`, or the end of the mark in whose middle it is."""
    before = bisect_left(starts, at) - 1
    return max(at, marks[before][1]) if before >= 0 else at


def _before(marks: Sequence[tuple[int, int]], starts: Sequence[int], at: int) -> int:
    """`at`, or the beginning of the mark in whose middle it is."""
    before = bisect_left(starts, at) - 1
    return marks[before][0] if before >= 0 and at < marks[before][1] else at


def replace_spans(text: str, spans: Iterable[Span], hide: Hide) -> str:
    """The text with a mark for every span; spans that overlap become one."""
    ordered = sorted(spans, key=lambda span: (span.start, -span.end))
    if not ordered:
        return text
    out, done = [], 0
    for span in _merged(text, ordered):
        out += [text[done : span.start], span.quote, hide(span.kind, span.value), span.quote]
        done = span.end
    out.append(text[done:])
    return "".join(out)


def _merged(text: str, ordered: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in ordered:
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(span)
        elif span.end > last.end:
            merged[-1] = Span(last.start, span.end, last.kind, text[last.start : span.end])
    return merged
