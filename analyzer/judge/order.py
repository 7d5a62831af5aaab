"""One line of a log before or after another of the same log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .conditions import Bindings
from .language import Scope
from .logs import MAX_HITS, LogHit, LogPattern, LogSearch


@dataclass(frozen=True)
class Order:
    """Lines after one hit, before another; each is the name of a bound one."""

    after: str | None = None
    before: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.after, self.before) if name)

    def is_known(self, bindings: Bindings) -> bool:
        """Whether the lines that it speaks of were found."""
        return all(isinstance(bindings.get(name), LogHit) for name in self.names)

    def lines(self, logs: LogSearch, pattern: LogPattern, scope: Scope, bindings: Bindings) -> list[LogHit]:
        """The hits of a scope that stand there, in their order; none when a line it speaks of is not known."""
        if not self.is_known(bindings):
            return []
        scopes: tuple[Scope, ...] = ("all", "tail") if scope == "all" else (scope,)
        found = {_place(hit): hit for one in scopes for hit in logs.hits(pattern, one)}
        return [found[place] for place in sorted(found, key=lambda place: place[-1]) if self._has(place, bindings)]

    def _has(self, place: tuple[Any, ...], bindings: Bindings) -> bool:
        *log, number = place
        if self.after is not None:
            *other, line = _place(bindings[self.after])
            if log != other or number <= line:
                return False
        if self.before is not None:
            *other, line = _place(bindings[self.before])
            return log == other and number < line
        return True


def is_capped(hits: Sequence[LogHit]) -> bool:
    """Whether there may be more lines than were kept."""
    return len(hits) >= MAX_HITS


def _place(hit: LogHit) -> tuple[Any, ...]:
    """(the text, the line in it). Several logs may be parts of one text, and two streams one log."""
    log = hit.log
    return (log.text, "" if log.text else id(log), hit.number)
