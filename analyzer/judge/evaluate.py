"""Whether the conditions of a rule hold, and which rows made them hold.

Answers are three-valued: a condition over a table that was not collected, or a field that could not be read, is
unknown. Solutions are found depth first, with the rows that an index allows, and never more than a budget of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import language
from .conditions import Bindings, FieldTest, Truth, both, compile_test, referred
from .counts import CountTest, compile_count, distinct_range
from .fields import LOG_TABLE, Absent, Count, table_of, value_of
from .index import FactIndex, Rows
from .logs import LogPattern
from .order import Order, is_capped
from .patterns import PatternRefused
from .stack import StackPattern, compile_stack

MAX_STEPS = 100_000
"""Rows looked at for one rule; beyond it the rule is undecided, not wrong."""
MAX_UNKNOWN_ROWS = 5
"""Of rows that may or may not fit, this many are followed further."""
FEW_ROWS = 32
"""So many are looked at one by one; of more those that cannot fit are left out first."""
PART = 1_000
"""So many are sifted at once."""
MAX_SHOWN = 3
"""Of rows that are counted, this many are evidence."""


class StepsExhausted(Exception):
    """The rule looks at more rows than one rule may."""


@dataclass(frozen=True)
class Match:
    """One way in which conditions hold (True) or may hold (None)."""

    truth: Truth = True
    bindings: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[Any, ...] = ()
    """Every row that was found, named or not: the evidence."""
    missing: frozenset[str] = frozenset()
    """Tables and fields that would have been needed to know."""


_NO_MATCH = Match(False)
"""Of tens of thousands of rows that do not fit."""


@dataclass(frozen=True, eq=False)
class Search:
    """Rows of a table that pass all tests. `absent`: there must be none. `least` or `share`: so many at least."""

    table: str
    name: str | None
    tests: tuple[FieldTest, ...]
    nested: tuple[Condition, ...] = ()
    stacks: tuple[StackPattern, ...] = ()
    pattern: LogPattern | None = None
    scope: language.Scope = "all"
    absent: bool = False
    least: int | None = None
    share: float | None = None
    """Of the rows that pass `of`."""
    of: tuple[FieldTest, ...] = ()
    count: CountTest | None = None
    distinct: str | None = None
    """Of a count: the field whose different values are counted."""
    order: Order | None = None


@dataclass(frozen=True, eq=False)
class Choice:
    """One of the branches (`all_of` False), or all of them."""

    branches: tuple[Condition, ...]
    all_of: bool


Condition = Search | Choice


def searches(condition: Condition) -> Iterator[Search]:
    """All that is looked for in a condition, also within its branches and under `with`."""
    below = condition.branches if isinstance(condition, Choice) else condition.nested
    if isinstance(condition, Search):
        yield condition
    for each in below:
        yield from searches(each)


def _name(pattern: Any) -> str:
    if not isinstance(pattern, str):
        raise PatternRefused("`pattern` is the name of one, as `patterns` of the rule or of its pack has it")
    return pattern


def compile_condition(model: Any, patterns: Mapping[str, LogPattern], *, trusted: bool) -> Condition:
    """Compile one condition. Raises PatternRefused; KeyError for a pattern the rule does not define."""
    if isinstance(model, (language.AnyOf, language.AllOf)):
        all_of = isinstance(model, language.AllOf)
        branches = model.all if isinstance(model, language.AllOf) else model.any
        return Choice(tuple(compile_condition(b, patterns, trusted=trusted) for b in branches), all_of)
    where = dict(model.where)
    table = model.none if isinstance(model, language.Nothing) else model.find
    pattern = patterns[_name(where.pop("pattern"))] if table == LOG_TABLE and "pattern" in where else None
    search = Search(
        table,
        None,
        _tests(where, trusted),
        tuple(compile_condition(nested, patterns, trusted=trusted) for nested in model.with_),
        _stacks(model),
        pattern,
        model.scope,
        order=Order(model.after, model.before) if model.after or model.before else None,
    )
    if isinstance(model, language.Nothing):
        return replace(search, absent=True)
    named = replace(search, name=model.as_, of=_tests(model.of, trusted))
    if model.count is not None:
        return replace(named, count=compile_count(model.count), distinct=model.distinct)
    if isinstance(model.at_least, str):
        return replace(named, share=int(model.at_least[:-1]) / 100)
    return replace(named, least=model.at_least)


def _tests(where: language.Where, trusted: bool) -> tuple[FieldTest, ...]:
    """Names first: of a million frames there are few, and where none of them fits nothing else need be asked."""
    named = sorted(where.items(), key=lambda item: item[0] not in ("file", "function", "name"))
    return tuple(compile_test(name, predicate, trusted=trusted) for name, predicate in named)


def _stacks(model: language.Find | language.Nothing) -> tuple[StackPattern, ...]:
    stacks = [compile_stack(model.stack)] if model.stack else []
    return tuple(stacks + ([compile_stack(model.innermost, anchored=True)] if model.innermost else []))


class Solver:
    """Finds the solutions of conditions over one index, within a budget of steps."""

    def __init__(self, index: FactIndex, steps: int = MAX_STEPS) -> None:
        self._index = index
        self._steps = self._allowed = steps

    @property
    def taken(self) -> int:
        """Steps that it has taken."""
        return self._allowed - max(self._steps, 0)

    def solutions(self, conditions: Sequence[Condition], bindings: Bindings) -> Iterator[Match]:
        """Every way in which all conditions hold."""
        return self._solve(tuple(conditions), Match(bindings=bindings), guess=False)

    def guesses(self, conditions: Sequence[Condition], bindings: Bindings) -> Iterator[Match]:
        """Ways in which all may hold, as far as anything is known; their `missing` says what is not."""
        return self._solve(tuple(conditions), Match(bindings=bindings), guess=True)

    def truth(self, conditions: Sequence[Condition], bindings: Bindings) -> Match | None:
        """The first solution, else the first guess, else None: the conditions do not hold."""
        first = next(self.solutions(conditions, bindings), None)
        return first or next(self.guesses(conditions, bindings), None)

    def _solve(self, conditions: tuple[Condition, ...], so_far: Match, *, guess: bool) -> Iterator[Match]:
        if not conditions:
            yield so_far
            return
        for match in self._one(conditions[0], so_far, guess=guess):
            yield from self._solve(conditions[1:], match, guess=guess)

    def _one(self, condition: Condition, so_far: Match, *, guess: bool) -> Iterator[Match]:
        if isinstance(condition, Choice):
            if condition.all_of:
                yield from self._solve(condition.branches, so_far, guess=guess)
                return
            for branch in condition.branches:
                yield from self._one(branch, so_far, guess=guess)
        elif (answer := self._answer_for(condition)) is not None:
            match = answer(condition, so_far)
            if match.truth or (guess and match.truth is None):
                yield match
        else:
            yield from self._rows(condition, so_far, guess=guess)

    def _answer_for(self, search: Search) -> Callable[[Search, Match], Match] | None:
        """What answers a condition about many rows at once; None for one that looks for a row."""
        if search.absent:
            return self._absent
        if search.count is not None:
            return self._counted
        return self._enough if search.least is not None or search.share is not None else None

    def _rows(self, search: Search, so_far: Match, *, guess: bool) -> Iterator[Match]:
        if any(self._is_hopeless(condition, guess=guess) for condition in search.nested):
            return
        unknown = 0
        for row in self._candidates(search, so_far.bindings, guess=guess):
            match = self._fits(search, row, so_far)
            if match.truth is False or (match.truth is None and not guess):
                continue
            unknown += match.truth is None
            if unknown > MAX_UNKNOWN_ROWS:
                return
            yield from self._solve(search.nested, match, guess=guess)
        if guess and self._is_blind(search, so_far.bindings):
            yield self._bound(search, so_far, Absent(search.table), None, {_stored(search.table)})

    def _is_hopeless(self, condition: Condition, *, guess: bool) -> bool:
        """Whether a condition can hold for no row that it may be asked about: one of its tests, which depends on
        nothing, lets no row of the table pass. Asked once, that spares asking 25,000 threads in turn."""
        if isinstance(condition, Choice):
            hopeless = (self._is_hopeless(branch, guess=guess) for branch in condition.branches)
            return any(hopeless) if condition.all_of else all(hopeless)
        if self._answer_for(condition) is not None or condition.table == LOG_TABLE:
            return False
        if guess and not self._index.collected(condition.table):
            return False
        alone = (test for test in condition.tests if not test.references)
        passing = (self._index.passing(condition.table, test) for test in alone)
        return any(not true and not (guess and unknown) for true, unknown in passing)

    def _is_blind(self, search: Search, bindings: Bindings) -> bool:
        """Whether rows may exist that nobody could see."""
        if not self._index.collected(search.table):
            return True
        if search.order is not None and search.pattern is not None:
            capped = search.scope == "all" and is_capped(self._index.logs.hits(search.pattern, "all"))
            if capped or not search.order.is_known(bindings):
                return True
        return search.pattern is not None and self._index.logs.incomplete(search.scope)

    def _fits(self, search: Search, row: Any, so_far: Match) -> Match:
        """The row as a match; its truth is that of its own tests and of the match so far."""
        self._step()
        inner = {**so_far.bindings, search.name: row} if search.name else so_far.bindings
        truth: Truth = True
        missing: set[str] = set()
        for test in search.tests:
            result = test.truth(row, inner)
            if result is False:
                return _NO_MATCH
            if result is None:
                truth = None
                missing.add(_unknown_field(search.table, test, row, inner))
        frames: tuple[Any, ...] = ()
        for stack in search.stacks:
            result, found = self._stack_fits(stack, row)
            if result is None:
                missing.add("frames")
            truth, frames = both(truth, result), frames + found
            if truth is False:
                return _NO_MATCH
        return self._bound(search, so_far, row, truth, missing, frames)

    def _bound(
        self, search: Search, so_far: Match, row: Any, truth: Truth, missing: set[str], frames: tuple[Any, ...] = ()
    ) -> Match:
        bindings = {**so_far.bindings, search.name: row} if search.name else so_far.bindings
        rows = so_far.rows if isinstance(row, Absent) else (*so_far.rows, row, *frames)
        return Match(both(so_far.truth, truth), bindings, rows, so_far.missing | missing)

    def _stack_fits(self, pattern: StackPattern, thread: Any) -> tuple[Truth, tuple[Any, ...]]:
        stacks, name = self._index.stacks, getattr(thread, "id", "")
        stack = stacks.of(name)
        if not stack:
            return (False if stacks.has(getattr(thread, "process", "")) else None), ()
        places = stacks.places(pattern, name)
        return (False, ()) if places is None else (True, tuple(stack[place] for place in places[-1:]))

    def _absent(self, search: Search, so_far: Match) -> Match:
        found = replace(search, absent=False)
        start = Match(bindings=so_far.bindings)
        if next(self._rows(found, start, guess=False), None):
            return Match(False)
        doubt = next(self._rows(found, start, guess=True), None)
        return _doubtful(so_far, doubt.missing) if doubt else so_far

    def _enough(self, search: Search, so_far: Match) -> Match:
        start = Match(bindings=so_far.bindings)
        rows = self._every(search, so_far.bindings)
        matches = [self._row_truth(search, row, start) for row in rows if self._in_share(search, row, start)]
        true = [match for match in matches if match.truth]
        unknown = [match for match in matches if match.truth is None]
        needed = max(1.0, search.least or (search.share or 0) * len(matches))
        if len(true) >= needed:
            bindings = {**so_far.bindings, **true[0].bindings}
            shown = tuple(row for match in true[:MAX_SHOWN] for row in match.rows)
            return replace(so_far, bindings=bindings, rows=so_far.rows + shown)
        if self._is_blind(search, so_far.bindings):
            return _doubtful(so_far, frozenset({_stored(search.table)}))
        return _doubtful(so_far, unknown[0].missing) if len(true) + len(unknown) >= needed else Match(False)

    def _counted(self, search: Search, so_far: Match) -> Match:
        assert search.count is not None
        start = Match(bindings=so_far.bindings)
        fitting: list[tuple[Any, Match]] = []
        for row in self._every(search, so_far.bindings):
            match = self._row_truth(search, row, start)
            if match.truth is not False:
                fitting.append((row, match))
        blind = self._is_blind(search, so_far.bindings)
        if search.pattern is not None:
            blind = blind or is_capped(self._index.logs.hits(search.pattern, search.scope))
        field_name = search.distinct
        values = [(value_of(row, field_name) if field_name else id(row), bool(m.truth)) for row, m in fitting]
        least, most = distinct_range(values, blind=blind)
        truth = search.count.truth(least, most, so_far.bindings)
        if truth is False:
            return Match(False)
        name = search.count.name
        bindings = {**so_far.bindings, name: Count(least, at_least=most > least)} if name else so_far.bindings
        shown = [row for row, match in fitting if match.truth][:MAX_SHOWN]
        found = replace(so_far, bindings=bindings, rows=(*so_far.rows, *shown))
        if truth:
            return found
        missing = {m for _, match in fitting for m in match.missing} | set(self._uncounted(search, values, blind))
        missing |= {_as_known(reference, so_far.bindings) for reference in search.count.unknown(so_far.bindings)}
        return _doubtful(found, frozenset(missing))

    def _uncounted(self, search: Search, values: Sequence[tuple[Any, bool]], blind: bool) -> Iterator[str]:
        """What would have been needed to count."""
        if blind:
            yield _stored(search.table)
        if search.distinct and any(value is None for value, _ in values):
            yield f"{_stored(search.table)}.{search.distinct}"

    def _every(self, search: Search, bindings: Bindings) -> Sequence[Any]:
        return self._lines(search, bindings) if search.table == LOG_TABLE else self._index.rows(search.table)

    def _row_truth(self, search: Search, row: Any, start: Match) -> Match:
        match = self._fits(search, row, start)
        if match.truth is False or not search.nested:
            return match
        solved = next(self._solve(search.nested, match, guess=False), None)
        return solved or next(self._solve(search.nested, match, guess=True), Match(False))

    def _in_share(self, search: Search, row: Any, start: Match) -> bool:
        return all(test.truth(row, start.bindings) for test in search.of)

    def _candidates(self, search: Search, bindings: Bindings, *, guess: bool) -> Iterator[Any]:
        """The smallest set of rows that any one test leaves; rows that are sure come first."""
        if search.table == LOG_TABLE:
            return iter(self._lines(search, bindings))
        true, unknown = self._index.rows(search.table), ()
        for test in search.tests:
            if not true and not (guess and unknown):
                break
            narrowed = self._narrowed(search, test, bindings)
            if narrowed and len(narrowed[0]) + len(narrowed[1]) * guess < len(true) + len(unknown) * guess:
                true, unknown = narrowed
        for stack in search.stacks:
            narrowed = self._index.matching(stack)
            if len(narrowed[0]) + len(narrowed[1]) * guess < len(true) + len(unknown) * guess:
                true, unknown = narrowed
        rows = [*true, *unknown] if guess else true
        return self._sifted(search, rows, guess=guess) if len(rows) >= FEW_ROWS else iter(rows)

    def _sifted(self, search: Search, rows: Sequence[Any], *, guess: bool) -> Iterator[Any]:
        """Those that the tests without references let pass, part by part: often the first few are enough."""
        alone = [test for test in search.tests if not test.references]
        for start in range(0, len(rows), PART):
            part = rows[start : start + PART]
            for test in alone:
                part = self._index.sifted(search.table, test, part, guess=guess)
            yield from part

    def _lines(self, search: Search, bindings: Bindings) -> Sequence[Any]:
        if search.pattern is not None and search.order is not None:
            return search.order.lines(self._index.logs, search.pattern, search.scope, bindings)
        return self._index.logs.hits(search.pattern, search.scope) if search.pattern else ()

    def _narrowed(self, search: Search, test: FieldTest, bindings: Bindings) -> tuple[Rows, Rows] | None:
        if not test.references:
            return self._index.passing(search.table, test)
        if test.equals_reference and test.equals_reference.partition(".")[0] != search.name:
            return self._index.joined(search.table, test.field, referred(test.equals_reference, bindings))
        return None

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise StepsExhausted


def _unknown_field(table: str, test: FieldTest, row: Any, bindings: Bindings) -> str:
    """``table.field`` of the value that would have been needed: the row's own, or the one it is compared with."""
    if value_of(row, test.field) is not None:
        for reference in test.references:
            if referred(reference, bindings) is None:
                return _as_known(reference, bindings)
    return f"{table}.{test.field}"


def _as_known(reference: str, bindings: Bindings) -> str:
    """``table.field`` of ``var.field``."""
    name, _, field_name = reference.partition(".")
    return f"{table_of(bindings.get(name))}.{field_name}"


def _doubtful(so_far: Match, missing: frozenset[str]) -> Match:
    return replace(so_far, truth=None, missing=so_far.missing | missing)


def _stored(table: str) -> str:
    return "logs" if table == LOG_TABLE else table
