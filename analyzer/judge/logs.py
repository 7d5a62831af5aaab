"""The text of the logs, searched for the patterns of rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flatline.bundle.facts import Log

from ..scan.interface import Found, Text, text_of
from ..scan.near import Near
from ..scan.scanner import Scanner
from .language import Scope
from .patterns import Compiled

LogText = Callable[[Log], str | Text]
"""The text of one log; empty when none was taken."""

Place = str | int
InOrder = Mapping[Place, tuple[Sequence[int], Sequence["LogHit"]]]
MAX_HITS = 200
"""Of one pattern in all logs; so many mean at least so many."""
TAIL_LINES = 50


@dataclass(frozen=True, eq=False)
class LogPattern:
    """A named pattern of a rule, compiled."""

    name: str
    pattern: str
    compiled: Compiled
    everywhere: bool = True
    """Whether it is asked for in all of a log, and not in its last lines only."""


@dataclass(frozen=True)
class LogHit:
    """One line in which a pattern was found. The pattern's named groups are fields of it."""

    log: Log
    pattern: str
    text: str
    number: int
    """1-based line in the text that was taken."""
    is_last: bool
    groups: Mapping[str, Any] = field(default_factory=dict)
    near: Near = field(default_factory=Near)
    """The lines beside it."""
    of_at_least: int | None = None
    """So many such lines were kept, and there may be more."""

    @property
    def artefact(self) -> str:
        return self.log.text

    @property
    def line(self) -> int:
        return self.number

    @property
    def place(self) -> Place:
        """The text it stands in: several logs may be parts of one, and two streams one log."""
        return self.log.text or id(self.log)

    def __getattr__(self, name: str) -> Any:
        groups = self.__dict__.get("groups", {})
        if name in groups:
            return groups[name]
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.log, name)


class LogSearch:
    """Every log, read and searched once for all patterns that are expected together."""

    def __init__(self, logs: list[Log], text_of: LogText) -> None:
        self._logs = logs
        self._text_of = text_of
        self._wanted: dict[str, LogPattern] = {}
        self._found: dict[str, _Places] = {}
        self._hits: dict[tuple[LogPattern, Scope], list[LogHit]] = {}
        self._in_order: dict[tuple[LogPattern, Scope], InOrder] = {}

    def expect(self, patterns: Iterable[LogPattern]) -> None:
        """What will be asked for: it is searched for in one pass, when it is asked for first."""
        for pattern in patterns:
            if self._lacks(pattern.pattern, everywhere=pattern.everywhere):
                known = self._wanted.get(pattern.pattern)
                self._wanted[pattern.pattern] = known if known and known.everywhere else pattern

    def hits(self, pattern: LogPattern, scope: Scope) -> Sequence[LogHit]:
        """At most 200 hits, in the order of logs and lines."""
        if (pattern, scope) not in self._hits:
            self._hits[pattern, scope] = self._hits_of(pattern, scope)
        return self._hits[pattern, scope]

    def in_order(self, pattern: LogPattern, scope: Scope) -> InOrder:
        """The numbers of the lines of each text, and their hits; of the scope ``all`` those of the tail as well."""
        if (pattern, scope) not in self._in_order:
            scopes: tuple[Scope, ...] = ("all", "tail") if scope == "all" else (scope,)
            found = {(hit.place, hit.number): hit for one in scopes for hit in self.hits(pattern, one)}
            texts: dict[Place, tuple[list[int], list[LogHit]]] = {}
            for place, number in sorted(found, key=lambda at: at[-1]):
                numbers, hits = texts.setdefault(place, ([], []))
                numbers.append(number)
                hits.append(found[place, number])
            self._in_order[pattern, scope] = texts
        return self._in_order[pattern, scope]

    def _hits_of(self, pattern: LogPattern, scope: Scope) -> list[LogHit]:
        if self._lacks(pattern.pattern, everywhere=scope == "all"):
            self.expect([replace(pattern, everywhere=scope == "all")])
            self._found |= self._search(list(self._wanted.values()))
            self._wanted.clear()
        places = self._found[pattern.pattern]
        of_at_least = places.of_at_least
        found = (self._hit(pattern, place, of_at_least) for place in places.of(scope))
        return [hit for hit in found if scope != "last-line" or hit.is_last][:MAX_HITS]

    def incomplete(self, scope: Scope) -> bool:
        """Whether text that the scope covers was not taken: then "not found" means nothing."""
        if scope == "all":
            return any(log.omitted_bytes or (not log.text and log.kind == "file") for log in self._logs)
        return any(not log.text and log.last_line is None and log.kind == "file" for log in self._logs)

    def _lacks(self, pattern: str, *, everywhere: bool) -> bool:
        """Whether it was not searched for, or not in all of the logs."""
        found = self._found.get(pattern)
        return found is None or (everywhere and not found.everywhere)

    def _search(self, patterns: list[LogPattern]) -> dict[str, _Places]:
        scanner = Scanner(
            [(p.pattern, p.compiled) for p in patterns],
            most=MAX_HITS,
            tail_lines=TAIL_LINES,
            tail_only=frozenset(index for index, p in enumerate(patterns) if not p.everywhere),
        )
        places = [_Places(pattern.everywhere) for pattern in patterns]
        for number, log in enumerate(self._logs):
            scanned = scanner.scan(self._text(log))
            if not scanned.last and log.last_line:
                scanned = scanner.scan(text_of(log.last_line))
            for found in scanned.first:
                places[found.index].first.append(_Place(number, found, found.line.number == scanned.last))
            for found in scanned.tail:
                places[found.index].tail.append(_Place(number, found, found.line.number == scanned.last))
        return {pattern.pattern: found for pattern, found in zip(patterns, places, strict=True)}

    def _text(self, log: Log) -> Text:
        text = self._text_of(log)
        return text if isinstance(text, Text) else text_of(text)

    def _hit(self, pattern: LogPattern, place: _Place, of_at_least: int | None) -> LogHit:
        log, line = self._logs[place.log], place.found.line
        groups = {name: _number(text) for name, text in place.found.groups.items()}
        number = line.number - 1 + (log.text_first or 1)
        return LogHit(log, pattern.name, line.text, number, place.is_last, groups, line.near, of_at_least)


@dataclass(frozen=True)
class _Place:
    """Where a pattern was found."""

    log: int
    found: Found
    is_last: bool
    """Nothing but blank lines follows."""


@dataclass
class _Places:
    """Where one pattern was found."""

    everywhere: bool = True
    first: list[_Place] = field(default_factory=list)
    tail: list[_Place] = field(default_factory=list)

    @property
    def of_at_least(self) -> int | None:
        """How many there are at least, when more were there than were kept."""
        if self.everywhere:
            return MAX_HITS if len(self.first) >= MAX_HITS else None
        return TAIL_LINES if len(self.tail) >= TAIL_LINES else None

    def of(self, scope: Scope) -> list[_Place]:
        return self.first if scope == "all" else self.tail


def _number(text: str | None) -> str | int | None:
    """A pid or a count as a number, so that it can be compared with those of the facts."""
    return int(text) if text and len(text) < 19 and re.fullmatch("[1-9][0-9]*", text) else text
