"""Finds the few pieces of a long text that need the detectors; the rest has been looked at once and passes.

A log repeats itself: its lines differ in their numbers. So lines are told apart by their outline, in which every digit
is a 5, and an outline without a hint (see `hints`) is looked at once. What this costs an ordinary line is the making
of its outline, a dictionary's look-up and nothing else.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from .hints import Hint, hints, shape_hints
from .outlines import Lines
from .unseen import seen, view_of

MOST_REMEMBERED = 200_000
LONGEST_REMEMBERED = 1000
"""Characters of an outline that is kept."""
LONGEST_JUDGED = 65_536
"""Longer ones are looked at without asking: there is none like them."""
DENSE = 1000
"""New outlines in a text, most of its lines, of which a sample is asked first."""
_SAMPLED = 10
_DENSE_SHARE = 0.25
"""Of a sample, what must have a hint for the whole text to be looked at: lines around hints would cover it anyway."""

_LINES_BEFORE, _LINES_BEHIND = 2, 8
_CHARS_BEHIND = 500
_MOST_BEHIND = 1200
"""Lines: a list below a name has a thousand items at most."""
_TABLE = 3001
_KEY_CHARS = 21_000
_ONLY_NAMES = re.compile(b"[%c]+" % Hint.LINE)
_MORE = re.compile(b"[^%c%c]" % (Hint.NONE, Hint.LINE))
_HOLDS = re.compile(b"\x01+")
_GOES_ON = tuple(one.encode() for one in (" ", "\t", "-", "'", '"', "|", "+", ">", "]", "}", ")", "│"))


@dataclass(frozen=True)
class Piece:
    """``text[start:end]``: whole lines that must be looked at together."""

    start: int
    end: int
    hint: Hint


SEPARATOR = "\x1e"
BETWEEN = f"\n{SEPARATOR}\n"
"""No detector goes beyond such a line, and none changes it."""


class Sieve:
    """Remembers which outlines have a hint."""

    def __init__(self) -> None:
        self._hints: dict[bytes, Hint] = {}
        self._last: tuple[Lines, list[Piece]] | None = None
        self._plain: set[str] = set()
        """Words that are no token, whatever their digits."""

    def pieces(self, lines: Lines) -> list[Piece]:
        """What must be looked at, in order; pieces do not overlap. The last line is always among it: it may be cut."""
        if self._last is None or self._last[0] is not lines:
            self._last = (lines, self._pieces(lines))
        return self._last[1]

    def _pieces(self, lines: Lines) -> list[Piece]:
        hinted = self._hinted(lines.outlines)
        return [Piece(0, len(lines.text), Hint.SECRET)] if hinted is None else _pieces(lines, hinted)

    def _hinted(self, outlines: Sequence[bytes]) -> bytearray | None:
        """The hint of each line, one byte each: what thousands of lines have is found and cut at the speed of bytes.

        None: so many have one that the whole text is to be looked at.
        """
        known = self._hints
        new = set(outlines).difference(known)
        if DENSE <= len(new) > len(outlines) // 2 and self._is_dense(list(new)[::_SAMPLED]):
            return None
        fresh = self._judge(list(new)) if new else {}
        if len(known) + len(fresh) > MOST_REMEMBERED:
            known.clear()
            fresh = {**fresh, **self._judge(list(set(outlines).difference(fresh)))}
        known.update(fresh)
        found = bytearray(map(known.__getitem__, outlines))
        for outline in fresh:
            if len(outline) > LONGEST_REMEMBERED:
                del known[outline]
        return found

    def _is_dense(self, sample: list[bytes]) -> bool:
        hinted = sum(hint is not Hint.NONE for hint in self._judge(sample).values())
        return hinted > _DENSE_SHARE * len(sample)

    def _judge(self, every: list[bytes]) -> dict[bytes, Hint]:
        outlines = [outline for outline in every if len(outline) <= LONGEST_JUDGED]
        verdicts = {outline: Hint.NONE if len(outline) <= LONGEST_JUDGED else Hint.SECRET for outline in every}
        texts = [outline.decode("utf-8", "surrogatepass") for outline in outlines]
        starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        for at, hint in hints("\n".join([*texts, ""])):  # a line behind each: the head of a table has one
            outline = outlines[bisect_right(starts, at) - 1]
            verdicts[outline] = max(verdicts[outline], hint)
        for number in self._with_tokens(texts):
            verdicts[outlines[number]] = max(verdicts[outlines[number]], Hint.SECRET)
        return verdicts

    def _with_tokens(self, texts: list[str]) -> Iterator[int]:
        joined, shown = "\n".join(texts), texts
        if view_of(joined):
            shown = [seen(text) for text in texts]
            joined = "\n".join([joined, *shown])
        words = set(joined.split()) - self._plain
        tokens, beginnings = shape_hints().words("\n".join(words))
        if len(self._plain) > MOST_REMEMBERED:
            self._plain.clear()
        self._plain.update(word for word in words - tokens - beginnings if len(word) <= LONGEST_REMEMBERED)
        if tokens or beginnings:
            for number, (text, as_seen) in enumerate(zip(texts, shown)):
                in_it = text.split() if text == as_seen else [*text.split(), *as_seen.split()]
                if not tokens.isdisjoint(in_it) or (in_it and in_it[-1] in beginnings):
                    yield number


class Follower:
    """Remembers which outlines hold something that is known, as long as nothing else becomes known."""

    def __init__(self, places: Callable[[str], Iterable[int]]) -> None:
        """`places`: where in a text of outlines something begins that may be known."""
        self._places = places
        self._revision = -1
        self._holds: dict[bytes, bool] = {}

    def pieces(self, lines: Lines, revision: int) -> list[Piece]:
        """Runs of lines in which something known must be looked for, with the line before and the one behind."""
        if revision != self._revision or len(self._holds) > MOST_REMEMBERED:
            self._revision = revision
            self._holds.clear()
        new = list(set(lines.outlines).difference(self._holds))
        texts = [outline.decode("utf-8", "surrogatepass") for outline in new]
        starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        self._holds.update(dict.fromkeys(new, False))
        for at in self._places("\n".join(texts)):
            self._holds[new[bisect_right(starts, at) - 1]] = True
        runs: list[tuple[int, int]] = []
        for run in _HOLDS.finditer(bytes(map(self._holds.__getitem__, lines.outlines))):
            first = max(0, run.start() - 1)
            begin = runs.pop()[0] if runs and first <= runs[-1][1] else first
            runs.append((begin, min(run.end() + 1, len(lines.outlines))))
        return [Piece(lines.starts[first], lines.starts[end], Hint.SECRET) for first, end in runs]


def replace_pieces(text: str, pieces: Sequence[Piece], change: Callable[[str], str]) -> str:
    """The text with its pieces changed: all of them in one go, a line that nothing goes beyond between each two."""
    return put_pieces(text, pieces, changed_pieces(text, pieces, change))


def changed_pieces(text: str, pieces: Sequence[Piece], change: Callable[[str], str]) -> list[str]:
    """What becomes of each."""
    before = [text[piece.start : piece.end] for piece in pieces]
    if not before or SEPARATOR in text:
        return list(map(change, before))
    return change(BETWEEN.join(before)).split(BETWEEN)


def put_pieces(text: str, pieces: Sequence[Piece], after: Sequence[str]) -> str:
    """The text with its pieces as they are now."""
    out, done = [], 0
    for piece, new in zip(pieces, after):
        out += [text[done : piece.start], new]
        done = piece.end
    return "".join([*out, text[done:]])


def _pieces(lines: Lines, hinted: bytearray) -> list[Piece]:
    """Runs of lines that are looked at together, and between them single ones in which only names are looked for."""
    wide = _wide(lines, hinted)
    for first, end in wide:
        hinted[first:end] = bytes(end - first)
    runs = [(first, end, Hint.SECRET) for first, end in wide]
    runs += [(*run.span(), Hint.LINE) for run in _ONLY_NAMES.finditer(hinted)]
    starts = lines.starts
    return [Piece(starts[first], starts[end], hint) for first, end, hint in sorted(runs)]


def _wide(lines: Lines, hinted: bytearray) -> list[tuple[int, int]]:
    """[first, end) of the lines around each that may hold a secret; those that meet are one.

    The last line is always among them: it may be cut.
    """
    found = [(at.start(), Hint(hinted[at.start()])) for at in _MORE.finditer(hinted)]
    runs: list[tuple[int, int]] = []
    for number, hint in [*found, (len(hinted) - 1, Hint.SECRET)]:
        first, end = _around(lines, number, hint, runs[-1][1] if runs else 0)
        while runs and first <= runs[-1][1]:
            first, end = min(first, runs[-1][0]), max(end, runs.pop()[1])
        runs.append((first, end))
    return runs


def _around(lines: Lines, number: int, hint: Hint, known_to: int) -> tuple[int, int]:
    outlines, starts = lines.outlines, lines.starts
    if hint is Hint.KEY:
        first = bisect_right(starts, starts[number] - _KEY_CHARS) - 1
        return max(0, first), min(len(outlines), bisect_right(starts, starts[number] + _KEY_CHARS) + 1)
    end = max(known_to, number + _LINES_BEHIND, bisect_right(starts, starts[number] + _CHARS_BEHIND))
    end = min(end, len(outlines))
    if hint is Hint.TABLE:
        while end < len(outlines) and end - number < _TABLE and outlines[end]:
            end += 1
    while end < min(len(outlines), number + _MOST_BEHIND) and (not outlines[end] or outlines[end].startswith(_GOES_ON)):
        end += 1
    return max(0, number - _LINES_BEFORE), end
