"""At which pace a log gets on, and what the clock said when somebody looked, where the texts tell the time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from ...parsers.interface import Line
from .progress import Progress
from .reading import LogText

STEPS = 3
"""States of a counter, each beyond the one before, by which its pace is known."""
MAX_STEPS = 10
MAX_STATES = 1000
"""Of a counter that are looked at; many ranks may tell of each step."""
MAX_BEFORE_TIME = 60
"""Characters of a line within which it says when it was written."""
_WRITTEN = re.compile(
    r"\b(?:(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)|(?P<name>[A-Z][a-z]{2}) {1,2}(?P<of_month>\d{1,2})"
    r"|(?P<either>\d\d)/(?P<other>\d\d)(?:/\d{4})?)[ T,]{1,2}(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)\b"
)
"""``2025-04-11 02:11:09``, ``Apr 11 02:11:09``, and ``04/11 02:11:09``, of which nobody knows which is the month."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NO_YEAR = 1904
"""Has every day that a year may have."""
_START = datetime(_NO_YEAR, 1, 1)
_CLOCK = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?:(?P<day>\d{1,2}) )?(?P<month>[A-Z][a-z]{2})(?: +(?P<day_after>\d{1,2}))?"
    r"(?: (?P<year>\d{4}))? (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?: (?P<half>[AP]M))?(?: [A-Z+-]\w{1,5})?"
    r"(?: (?P<year_after>\d{4}))?"
)
"""What date(1) prints: ``Tue Feb 20 09:19:40 UTC 2024``, ``Tue 20 Feb 2024 09:19:40 AM UTC``."""


@dataclass(frozen=True)
class Pace:
    """How a counter or a bar advanced in the last lines that tell the time."""

    last: Progress
    at: datetime | None
    """When it had come there; None where only a bar's own clock tells, or the date may be another."""
    pause_s: float
    """The longest time from one of these lines to the next."""
    seconds_each: float | None
    """Per step; None of epochs, which take as long as there are data."""

    def silent_s(self, looked: datetime) -> float | None:
        """How long it had been there when somebody looked."""
        if self.at is None:
            return None
        at = self.at.replace(year=looked.year) if self.at.year == _NO_YEAR else self.at
        return (looked - at).total_seconds()


def pace_of(progress: Iterable[Progress]) -> Pace | None:
    """Of the counter that a log counts last; None where it does not tell its pace."""
    states = [(state, when) for state in progress if (when := _seconds(state)) is not None]
    if not states:
        return None
    last = states[-1][0]
    steps = _advances([one for one in states if (one[0].label, one[0].is_bar) == (last.label, last.is_bar)])
    pauses = [later - before for (_, before), (_, later) in pairwise(steps)]
    counted = last.done - steps[0][0].done
    if len(steps) < STEPS or min(pauses) <= 0 or not counted:
        return None
    each = None if last.label == "epoch" else sum(pauses) / counted
    return Pace(last, None if last.is_bar else _written(steps[-1][0].line, surely=True), max(pauses), each)


def _seconds(state: Progress) -> float | None:
    """When it had come there, by a clock that only its own states share."""
    if state.is_bar:
        return state.elapsed_s
    written = _written(state.line)
    return (written - _START).total_seconds() if written is not None else None


def _advances(states: Sequence[tuple[Progress, float]]) -> list[tuple[Progress, float]]:
    """The last ones, each beyond the one before; where several ranks tell of one, the first. Parts of an epoch are
    rounded: two that look the same are two."""
    steps: list[tuple[Progress, float]] = []
    for state in reversed(states[-MAX_STATES:]):
        if steps and state[0].done > steps[0][0].done:
            break
        if steps and state[0].done == steps[0][0].done and state[0].done.is_integer():
            steps[0] = state
        else:
            steps.insert(0, state)
    return steps[-MAX_STEPS:]


def _written(line: Line, *, surely: bool = False) -> datetime | None:
    """When that line was written, if it says so, and on which day (`surely`)."""
    found = _WRITTEN.search(line.shown[:MAX_BEFORE_TIME])
    if found is None or (surely and found["either"]):
        return None
    time = (found["h"], found["m"], found["s"])
    if found["name"]:
        return _datetime(_NO_YEAR, _month(found["name"]), found["of_month"], *time)
    if found["either"]:
        return _datetime(_NO_YEAR, 1, 1, *time)
    return _datetime(found["year"], found["month"], found["day"], *time)


def looked_at(texts: Iterable[LogText]) -> datetime | None:
    """The latest time that date(1) shows among the texts: then somebody looked."""
    found = (_CLOCK.fullmatch(line.bare) for text in texts for line in text.lines if len(line.text) < 80)
    return max((when for match in found if match and (when := _clock(match)) is not None), default=None)


def _clock(found: re.Match[str]) -> datetime | None:
    year, day = found["year"] or found["year_after"], found["day"] or found["day_after"]
    if not year or not day:
        return None
    hour = int(found["h"]) % 12 + 12 * (found["half"] == "PM") if found["half"] else int(found["h"])
    return _datetime(year, _month(found["month"]), day, hour, found["m"], found["s"])


def _month(name: str) -> int:
    """Its number; 0, which no date has, for any other word."""
    return _MONTHS.index(name) + 1 if name in _MONTHS else 0


def _datetime(*parts: str | int) -> datetime | None:
    try:
        return datetime(*(int(part) for part in parts))  # type: ignore[arg-type]
    except ValueError:
        return None
