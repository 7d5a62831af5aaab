"""One line of a log before or after another of the same log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

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

    def lines(self, logs: LogSearch, pattern: LogPattern, scope: Scope, bindings: Bindings) -> Sequence[LogHit]:
        """The hits of a scope that stand there, in their order; none when a line it speaks of is not known."""
        if not self.is_known(bindings):
            return []
        bound: list[LogHit] = [bindings[name] for name in self.names]
        if len({hit.place for hit in bound}) != 1:
            return []
        numbers, hits = logs.in_order(pattern, scope).get(bound[0].place, ((), ()))
        begin = bisect_right(numbers, bindings[self.after].number) if self.after else 0
        end = bisect_left(numbers, bindings[self.before].number) if self.before else len(hits)
        return hits[begin:end]


def is_capped(hits: Sequence[LogHit]) -> bool:
    """Whether there may be more lines than were kept."""
    return len(hits) >= MAX_HITS
