"""The lines of every log, cleaned once, in bounded number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from flatline.bundle.facts import Log

from ...intake.cleaning import clean
from ...parsers.interface import Line

MAX_HEAD = 2_000
MAX_TAIL = 20_000
"""Lines of one log that are read: how a job began, and how it stands, are at its ends."""


@dataclass(frozen=True)
class LogText:
    """One log and what is read of it; blank lines are not."""

    log: Log
    lines: tuple[Line, ...]

    def at(self, line: Line) -> str:
        """``train.log:12``."""
        return f"{self.log.text or self.log.path or self.log.stream}:{line.number}"


def read_logs(logs: Iterable[Log], text_of: Callable[[Log], str]) -> list[LogText]:
    """Every log that has text; of one whose text was not taken the last line, where that is known."""
    texts = (LogText(log, _lines(log, text_of(log) or log.last_line or "")) for log in logs)
    return [text for text in texts if text.lines]


def _lines(log: Log, text: str) -> tuple[Line, ...]:
    raw = text.split("\n")
    numbers: Sequence[int] = range(len(raw))
    if len(raw) > MAX_HEAD + MAX_TAIL:
        numbers = [*range(MAX_HEAD), *range(len(raw) - MAX_TAIL, len(raw))]
    first = log.text_first or 1
    return tuple(clean(first + number, raw[number]) for number in numbers if raw[number].strip())
