"""The facts as rules ask for them: looked up by value, so that a rule meets only the rows that can matter."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import compress
from operator import attrgetter
from typing import Any, Protocol

from flatline.bundle.facts import Frame

from ..frames import TOLD, Frames
from .conditions import FieldTest
from .fields import NEEDED, is_plain, plain_node, value_of
from .logs import LogSearch, LogText
from .stack import StackPattern
from .stacks import Stacks

Rows = Sequence[Any]


class Facts(Protocol):
    """What is asked of the store of facts."""

    def rows(self, table: str) -> list[Any]: ...
    def collected(self, table: str) -> bool: ...
    def grouped(self, table: str, field: str) -> Mapping[Any, Rows]: ...
    @property
    def frames(self) -> Frames: ...


_TOGETHER = frozenset({"thread", "process"})
"""Fields by which rows come one after the other: a stack is written frame by frame."""


class Picked(Sequence[Any]):
    """Rows of which the number is known; which they are is found out when they are asked for."""

    def __init__(self, size: int, find: Callable[[], list[Any]]) -> None:
        self._size = size
        self._find = find

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    @cached_property
    def _rows(self) -> list[Any]:
        return self._find()


class FactIndex:
    """Inverted indexes per (table, field), built when first asked for: 25,000 threads have a few dozen values."""

    def __init__(self, facts: Facts, text_of: LogText = lambda _: "") -> None:
        self.facts = facts
        self.logs = LogSearch(facts.rows("logs"), text_of)
        self._by_value: dict[tuple[str, str], Mapping[Any, Rows]] = {}
        self._values_of: dict[tuple[str, str], Set[Any]] = {}
        self._number_of: dict[tuple[str, str], Mapping[Any, int]] = {}
        self._by_node: dict[tuple[str, str], Mapping[Any, Rows]] = {}
        self._passing: dict[tuple[str, FieldTest], tuple[Rows, Rows]] = {}
        self._answered: dict[tuple[str, FieldTest], tuple[set[Any], set[Any]]] = {}
        self._matching: dict[StackPattern, tuple[Rows, Rows]] = {}

    def rows(self, table: str) -> Rows:
        return self.facts.rows(table)

    def collected(self, table: str) -> bool:
        return self.facts.collected("logs" if table == "log" else table)

    def passing(self, table: str, test: FieldTest) -> tuple[Rows, Rows]:
        """(rows for which a test without references is true, rows for which it is unknown)."""
        key = (table, test)
        if key not in self._passing:
            true, unknown = self._answers(table, test)
            self._passing[key] = self._picked(table, test.field, true), self._picked(table, test.field, unknown)
        return self._passing[key]

    def sifted(self, table: str, test: FieldTest, rows: Rows, *, guess: bool) -> Rows:
        """Those of some rows for which a test without references is true, or, to guess, not false; in their order."""
        true, unknown = self._answers(table, test)
        wanted = true | unknown if guess else true
        if None in wanted:
            wanted = wanted | {"unknown"}
        return list(compress(rows, map(wanted.__contains__, map(self._reader(table, test.field), rows))))

    def _answers(self, table: str, test: FieldTest) -> tuple[set[Any], set[Any]]:
        """(values of a field for which a test is true, values for which it is unknown)."""
        key = (table, test)
        if key not in self._answered:
            truths = {value: test.check(value, {}) for value in self._numbers(table, test.field)}
            true = {value for value, truth in truths.items() if truth}
            self._answered[key] = true, {value for value, truth in truths.items() if truth is None}
        return self._answered[key]

    def _reader(self, table: str, field: str) -> Callable[[Any], Any]:
        """What gives the value of a field in a row of a table; "unknown" may be left as it is."""
        rows = self.rows(table)
        return attrgetter(field) if rows and is_plain(type(rows[0]), field) else lambda row: value_of(row, field)

    def _picked(self, table: str, field: str, values: set[Any]) -> Rows:
        """The rows with one of these values."""
        if not values:
            return ()
        numbers = self._numbers(table, field)

        def find() -> list[Any]:
            if table == "frames" and field in TOLD:
                return self.stacks.having(field, values | {"unknown"} if None in values else values)
            return [row for value, rows in self._values(table, field).items() if value in values for row in rows]

        return Picked(sum(numbers[value] for value in values), find)

    def joined(self, table: str, field: str, value: Any) -> tuple[Rows, Rows]:
        """(rows whose field equals a bound value, rows whose field is unknown)."""
        nodes = self._nodes(table, field)
        if value is None:
            return (), self.rows(table)
        return nodes.get(plain_node(value), ()), nodes.get(None, ())

    def matching(self, pattern: StackPattern) -> tuple[Rows, Rows]:
        """(threads whose stack fits, threads whose stack could not be read)."""
        if pattern not in self._matching:
            fitting = self.stacks.fitting(pattern)
            self._matching[pattern] = fitting, self._without_stack
        return self._matching[pattern]

    @cached_property
    def _without_stack(self) -> Rows:
        stacks = self.stacks
        return [t for t in self.rows("threads") if not stacks.is_known(t.id) and not stacks.has(t.process)]

    @cached_property
    def stacks(self) -> Stacks:
        """The newest stacks. Where any thread of a process has one, a thread without has no Python frame."""
        return Stacks(self.facts.frames, self.rows("threads"))

    def stack(self, thread: str) -> list[Frame]:
        """The newest Python and native stack of a thread, outermost frame first; [] when there is none."""
        return self.stacks.of(thread)

    def _numbers(self, table: str, field: str) -> Mapping[Any, int]:
        """How many rows have each value: to count a million is quicker than to sort them, and most are never asked
        for."""
        if (table, field) not in self._number_of:
            self._number_of[table, field] = self._counted(table, field)
        return self._number_of[table, field]

    def _counted(self, table: str, field: str) -> Mapping[Any, int]:
        rows = self.rows(table)
        if not rows or not is_plain(type(rows[0]), field):
            return {value: len(having) for value, having in self._values(table, field).items()}
        told = table == "frames" and field in TOLD
        numbers = self.stacks.numbers(field) if told else Counter(map(attrgetter(field), rows))
        unknown = numbers.pop("unknown", 0)
        if unknown:
            numbers[None] += unknown
        return numbers

    def _values(self, table: str, field: str) -> Mapping[Any, Rows]:
        if (table, field) not in self._by_value:
            self._by_value[table, field] = self._grouped(table, field)
        return self._by_value[table, field]

    def _grouped(self, table: str, field: str) -> Mapping[Any, Rows]:
        """Rows by the value of a field; "unknown" is None."""
        rows = self.rows(table)
        if (table, field) in NEEDED:
            return self._grouped_where(table, field, *NEEDED[table, field])
        if not rows or not is_plain(type(rows[0]), field):
            return _by_value(rows, (value_of(row, field) for row in rows))
        together = field in _TOGETHER
        groups = self.facts.grouped(table, field) if together else _by_value(rows, map(attrgetter(field), rows))
        if "unknown" not in groups:
            return groups
        known = {value: having for value, having in groups.items() if value not in (None, "unknown")}
        return {**known, None: [*groups.get(None, ()), *groups["unknown"]]}

    def _grouped_where(self, table: str, field: str, needed: str, fits: Callable[[Any], bool]) -> Mapping[Any, Rows]:
        """Only the rows whose attribute `needed` fits are asked for the field; of all others it is unknown."""
        rows = self.rows(table)
        if not any(map(fits, self._distinct(table, needed))):
            return {None: rows}
        return _by_value(rows, (value_of(row, field) if fits(getattr(row, needed)) else None for row in rows))

    def _distinct(self, table: str, attribute: str) -> Set[Any]:
        """The values of an attribute: a million frames have a few thousand."""
        if (table, attribute) not in self._values_of:
            self._values_of[table, attribute] = set(map(attrgetter(attribute), self.rows(table)))
        return self._values_of[table, attribute]

    def _nodes(self, table: str, field: str) -> Mapping[Any, Rows]:
        if (table, field) not in self._by_node:
            nodes: dict[Any, Rows] = {}
            for value, rows in self._values(table, field).items():
                node = plain_node(value)
                nodes[node] = [*nodes[node], *rows] if node in nodes else rows
            self._by_node[table, field] = nodes
        return self._by_node[table, field]


def _by_value(rows: Rows, values: Iterable[Any]) -> dict[Any, list[Any]]:
    groups: defaultdict[Any, list[Any]] = defaultdict(list)
    for row, value in zip(rows, values, strict=True):
        groups[value].append(row)
    return dict(groups)
