"""At which pace a log gets on, and what the clock said when somebody looked, where the texts tell the time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from .progress import Progress
from .reading import LogText

STEPS = 3
"""States of a counter, each beyond the one before, by which its pace is known."""
MAX_STEPS = 10
MAX_STATES = 1000
"""Of a counter that are looked at; many ranks may tell of each step."""
MAX_BEFORE_TIME = 60
"""Characters of a line within which it says when it was written."""
_WRITTEN = re.compile(r"\b(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)\b")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?:(?P<day>\d{1,2}) )?(?P<month>[A-Z][a-z]{2})(?: +(?P<day_after>\d{1,2}))?"
    r"(?: (?P<year>\d{4}))? (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?: (?P<half>[AP]M))?(?: [A-Z+-]\w{1,5})?"
    r"(?: (?P<year_after>\d{4}))?"
)
"""What date(1) prints: ``Tue Feb 20 09:19:40 UTC 2024``, ``Tue 20 Feb 2024 09:19:40 AM UTC``."""


@dataclass(frozen=True)
class Pace:
    """How a counter advanced in the last lines that say when they were written."""

    last: Progress
    at: datetime
    """When it had come there."""
    pause_s: float
    """The longest time from one of these lines to the next."""
    seconds_each: float | None
    """Per step; None of epochs, which take as long as there are data."""


def pace_of(progress: Iterable[Progress]) -> Pace | None:
    """Of the counter that a log counts last; None where it does not tell its pace."""
    states = [(state, when) for state in progress if not state.is_bar and (when := written_at(state)) is not None]
    if not states:
        return None
    last = states[-1][0]
    steps = _advances([one for one in states if one[0].label == last.label])
    pauses = [(later - before).total_seconds() for (_, before), (_, later) in pairwise(steps)]
    counted = steps[-1][0].done - steps[0][0].done
    if len(steps) < STEPS or min(pauses) <= 0 or not counted:
        return None
    each = sum(pauses) / counted
    return Pace(last, steps[-1][1], max(pauses), None if last.label == "epoch" else each)


def _advances(states: Sequence[tuple[Progress, datetime]]) -> list[tuple[Progress, datetime]]:
    """The last ones, each beyond the one before; where several ranks tell of one, the first. Parts of an epoch are
    rounded: two that look the same are two."""
    steps: list[tuple[Progress, datetime]] = []
    for state in reversed(states[-MAX_STATES:]):
        if steps and state[0].done > steps[0][0].done:
            break
        if steps and state[0].done == steps[0][0].done and state[0].done.is_integer():
            steps[0] = state
        else:
            steps.insert(0, state)
    return steps[-MAX_STEPS:]


def written_at(state: Progress) -> datetime | None:
    """When that line was written, if it says so."""
    found = _WRITTEN.search(state.line.shown[:MAX_BEFORE_TIME])
    return _datetime(*found.groups()) if found else None


def looked_at(texts: Iterable[LogText]) -> datetime | None:
    """The latest time that date(1) shows among the texts: then somebody looked."""
    found = (_CLOCK.fullmatch(line.bare) for text in texts for line in text.lines if len(line.text) < 80)
    return max((when for match in found if match and (when := _clock(match)) is not None), default=None)


def _clock(found: re.Match[str]) -> datetime | None:
    year, day = found["year"] or found["year_after"], found["day"] or found["day_after"]
    if not year or not day or found["month"] not in _MONTHS:
        return None
    hour = int(found["h"]) % 12 + 12 * (found["half"] == "PM") if found["half"] else int(found["h"])
    return _datetime(year, _MONTHS.index(found["month"]) + 1, day, hour, found["m"], found["s"])


def _datetime(*parts: str | int) -> datetime | None:
    try:
        return datetime(*(int(part) for part in parts))  # type: ignore[arg-type]
    except ValueError:
        return None
