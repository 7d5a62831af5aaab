"""Lines that differ in their numbers and in who or where: ``node-7:812:830 [3] NCCL INFO …``, by the thousand.

Where names stand is learnt once for each outline. Another line of it is done when what stands in these places is
hidden there anyway: because it is followed everywhere, or because just that has been hidden in just this place.
Nothing else may be in the line that could depend on its digits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from .hints import hints
from .marks import MARK, OPEN
from .personal import MarkOf, pseudonym
from .pseudonyms import KnownNames
from .sieve import BETWEEN, SEPARATOR

ROUNDS = 3
"""One line of each outline; one for each name in it; then what is left."""
MOST, LONGEST = 100_000, 1000
"""Outlines that are remembered, and their characters."""
MOST_IN_PLACE = 5000
_FIVES = bytes.maketrans(b"012346789", b"555555555")
_MASK = "⟪host·5⟫"


class Place(NamedTuple):
    """``line[start:end]`` is hidden in all lines of one outline."""

    start: int
    end: int
    marks: dict[str, str]
    """What has stood here, and what stands for it."""


class Repeats:
    """Remembers where in an outline names and addresses stand."""

    def __init__(
        self,
        look: Callable[[str], str],
        mark_of: MarkOf,
        meaning: Mapping[str, str],
        count: Callable[[str, int], None],
    ) -> None:
        """`look` hides names in any text and counts them, `count` counts a mark, `meaning` is what marks stand for."""
        self._look = look
        self._mark_of = mark_of
        self._meaning = meaning
        self._count = count
        self._places: dict[bytes, tuple[Place, ...]] = {}
        self._shapes = 0

    def hide(self, text: str, names: KnownNames) -> str:
        """What `look` would make of the text, of whose lines each stands for itself."""
        lines = text.split("\n")
        outlines = text.encode("utf-8", "surrogatepass").translate(_FIVES).split(b"\n")
        left = [at for at, line in enumerate(lines) if line and line != SEPARATOR]
        often: set[bytes] = set()
        for last in (False,) * (ROUNDS - 1) + (True,):
            self._forget_if_changed(names)
            left = self._all_but_done(lines, outlines, left, names)
            if not left:
                break
            often = often or {outline for outline, times in Counter(outlines).items() if times > 1}
            chosen = left if last else self._one_of_each(lines, outlines, left)
            looked_at = self._look(BETWEEN.join(lines[at] for at in chosen)).split(BETWEEN)
            both = zip(chosen, looked_at)
            self._learn([(lines[at], outlines[at], after) for at, after in both if outlines[at] in often], names)
            for at, after in zip(chosen, looked_at):
                lines[at] = after
            left = sorted(set(left).difference(chosen))
        return "\n".join(lines)

    def _forget_if_changed(self, names: KnownNames) -> None:
        """A name of a new form may stand where there was none so far."""
        if self._shapes != len(names.shapes) or len(self._places) > MOST:
            self._shapes = len(names.shapes)
            self._places.clear()

    def _all_but_done(
        self, lines: list[str], outlines: Sequence[bytes], numbers: Iterable[int], names: KnownNames
    ) -> list[int]:
        known, left = self._places, list[int]()
        marks: list[str] = []
        for at in numbers:
            places = known.get(outlines[at])
            if places and len(places) == 1:
                start, end, in_place = places[0]
                line = lines[at]
                mark = in_place.get(line[start:end])
                if mark is not None:
                    lines[at] = line[:start] + mark + line[end:]
                    marks.append(mark)
                    continue
            out = self._with_marks(lines[at], places, names) if places else None
            if out is None:
                left.append(at)
                continue
            marks += out[1::2]
            lines[at] = "".join(out)
        for mark, times in Counter(marks).items():
            self._count(mark, times)
        return left

    def _with_marks(self, line: str, places: tuple[Place, ...], names: KnownNames) -> list[str] | None:
        """Pieces of the line and marks by turns; None when something unknown stands in a place."""
        out, done = [], 0
        for start, end, marks in places:
            value = line[start:end]
            mark = marks.get(value) or self._followed(value, marks, names)
            if mark is None:
                return None
            out += (line[done:start], mark)
            done = end
        out.append(line[done:])
        return out

    def _followed(self, value: str, marks: dict[str, str], names: KnownNames) -> str | None:
        known = names.known(value)
        if known is None:
            return None
        mark = pseudonym(*known, self._mark_of)
        _put(marks, value, mark)
        return mark

    def _one_of_each(self, lines: Sequence[str], outlines: Sequence[bytes], left: Iterable[int]) -> list[int]:
        """The first line of each outline, or where the places are known, of each name in them."""
        chosen: dict[tuple[bytes, tuple[str, ...]], int] = {}
        for at in left:
            places = self._places.get(outlines[at], ())
            chosen.setdefault((outlines[at], tuple(lines[at][place.start : place.end] for place in places)), at)
        return list(chosen.values())

    def _learn(self, looked_at: Iterable[tuple[str, bytes, str]], names: KnownNames) -> None:
        self._forget_if_changed(names)
        outlined = names.outlined()
        learnt: dict[bytes, tuple[Place, ...]] = {}
        for line, outline, after in looked_at:
            places = self._hidden_places(line, after) if len(outline) <= LONGEST and OPEN not in line else ()
            known = self._places.get(outline) or learnt.get(outline)
            if known and _spans(known) == _spans(places):
                for place, new in zip(known, places):
                    for value, mark in new.marks.items():
                        _put(place.marks, value, mark)
            elif places and not known and _outlined_names(outline, outlined) <= set(_spans(places)):
                learnt[outline] = places
        for outline in _without_hints(learnt):
            self._places[outline] = learnt[outline]

    def _hidden_places(self, line: str, after: str) -> tuple[Place, ...]:
        """What has been hidden in the line, told from the marks; none when that is not clear."""
        places, at, done = [], 0, 0
        for mark in MARK.finditer(after):
            between = after[done : mark.start()]
            meant = self._meaning.get(mark[0])
            start = at + len(between)
            if meant is None or line[at:start] != between or line[start : start + len(meant)].lower() != meant.lower():
                return ()
            at, done = start + len(meant), mark.end()
            places.append(Place(start, at, {line[start:at]: mark[0]}))
        return tuple(places) if line[at:] == after[done:] else ()


def _put(marks: dict[str, str], value: str, mark: str) -> None:
    if len(marks) < MOST_IN_PLACE:
        marks[value] = mark


def _spans(places: Iterable[Place]) -> list[tuple[int, int]]:
    return [(place.start, place.end) for place in places]


def _outlined_names(outline: bytes, outlined: KnownNames) -> set[tuple[int, int]]:
    text = outline.decode("utf-8", "surrogatepass")
    return {(start, end) for start, end, *_ in outlined.occurrences(text)}


def _without_hints(learnt: Mapping[bytes, Sequence[Place]]) -> set[bytes]:
    """The outlines in which there is nothing else that may be a name or an address."""
    outlines = list(learnt)
    texts = [_masked(outline.decode("utf-8", "surrogatepass"), learnt[outline]) for outline in outlines]
    starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
    return set(outlines) - {outlines[bisect_right(starts, at) - 1] for at, _ in hints("\n".join([*texts, ""]))}


def _masked(text: str, places: Iterable[Place]) -> str:
    out, done = [], 0
    for place in places:
        out += [text[done : place.start], _MASK]
        done = place.end
    return "".join([*out, text[done:]])
