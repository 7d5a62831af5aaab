"""Why a rule fired or did not, condition by condition, for those who write rules."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..case import Case, whole_log
from ..derive import derive
from . import measured, rank
from .compiling import Weighed
from .describe import branches, head
from .evaluate import Choice, Condition, Match, Search, Solver, StepsExhausted
from .evidence import clean, quote_of
from .fields import Absent
from .index import FactIndex
from .pack import LoadedRule
from .verdicts import Fired, Undecided, judge_rule

WIDTH = 118
MAX_FOUND = 3
_SAYS = {True: "yes", None: "unknown", False: "no"}
_UNDER = " " * 12


def explain(rules: Sequence[LoadedRule], case: Case) -> Iterator[str]:
    """Lines that tell the outcome of each rule, and of every condition whether it holds and what was found."""
    derive(case)
    index = FactIndex(case.store, partial(whole_log, case))
    index.logs.expect(pattern for rule in rules for pattern in rule.patterns)
    for number, rule in enumerate(rules):
        if number:
            yield ""
        yield from _explain(rule, index)


def _explain(rule: LoadedRule, index: FactIndex) -> Iterator[str]:
    outcome = judge_rule(rule, index)
    yield from _wrapped(f"{rule.id}: ", _outcome(outcome))
    yield f"  {rule.model.status}, cause {rule.model.cause}, {rule.pack}"
    yield from _Explaining(Solver(index)).lines(rule, outcome)


def _outcome(outcome: Fired | Undecided | None) -> str:
    if outcome is None:
        return "does not fire: a required condition does not hold"
    if isinstance(outcome, Undecided):
        return f"cannot be decided, as this is not known: {', '.join(sorted(outcome.missing))}"
    p = measured.probability(rank.log_odds(outcome.best.support, outcome.best.against))
    times = f"{len(outcome.witnesses)} times" if len(outcome.witnesses) > 1 else "once"
    return f"fires {times}, p = {p:.2f} before its word is capped"


class _Explaining:
    """Asks the conditions one after the other, each with what those before it have found."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._found: Match = Match()

    def lines(self, rule: LoadedRule, outcome: Fired | Undecided | None) -> Iterator[str]:
        asked: list[Condition] = []
        yield "requires, all of:"
        for weighed in rule.requires:
            asked.append(weighed.condition)
            match = self._ask(asked, {})
            yield from self._weighed(weighed, match)
            if match is None:
                yield from self._what_is_there(weighed.condition, asked[:-1])
            self._found = match or self._found
            asked = asked if match else asked[:-1]
        bindings = outcome.best.bindings if isinstance(outcome, Fired) else self._found.bindings
        self._found = Match(bindings=bindings)
        for part, meaning in (("supports", "makes it likelier"), ("contradicts", "makes it less likely")):
            if getattr(rule, part):
                yield f"{part} ({meaning}):"
            for weighed in getattr(rule, part):
                yield from self._weighed(weighed, self._ask([weighed.condition], bindings))

    def _ask(self, conditions: Sequence[Condition], bindings: Mapping[str, Any]) -> Match | None:
        try:
            return self._solver.truth(conditions, bindings)
        except StepsExhausted:
            return Match(None, missing=frozenset({"too many rows to compare"}))

    def _weighed(self, weighed: Weighed, match: Match | None) -> Iterator[str]:
        unbound = _needs(weighed.condition) - set(self._found.bindings)
        says = "not asked" if unbound else _SAYS[match.truth if match else False]
        weight = f"  [{weighed.weight}, {weighed.group}]" if weighed.weight else ""
        yield from _wrapped(f"  {says:9} ", head(weighed.model) + weight)
        if unbound:
            yield f"{_UNDER}no row was found to be {', '.join(sorted(unbound))}"
            return
        yield from self._below(weighed.model, weighed.condition, _UNDER)
        yield from self._quoted(match)

    def _what_is_there(self, condition: Condition, before: Sequence[Condition]) -> Iterator[str]:
        """The row for which "no such row" does not hold."""
        if isinstance(condition, Search) and condition.absent:
            yield from self._quoted(self._ask([*before, replace(condition, absent=False)], {}))

    def _changed(self, name: str, row: Any) -> bool:
        """Whether a variable that an earlier condition has bound stands for another row now: the first one it found did
        not go with this condition."""
        return name in self._found.bindings and self._found.bindings[name] != row

    def _below(self, model: Any, condition: Condition, indent: str) -> Iterator[str]:
        """The branches of `any` and `all`, each with its own answer; what goes `with` a search has none of its own."""
        below = condition.branches if isinstance(condition, Choice) else condition.nested
        for branch, inner in zip(branches(model), below, strict=True):
            says = ""
            if isinstance(condition, Choice) and not _needs(inner) - set(self._found.bindings):
                match = self._ask([inner], self._found.bindings)
                says = f"{_SAYS[match.truth if match else False]:8} "
            word = "" if isinstance(condition, Choice) else "with "
            yield from _wrapped(f"{indent}{says or '- '}", word + head(branch))
            yield from self._below(branch, inner, indent + "    ")

    def _quoted(self, match: Match | None) -> Iterator[str]:
        if match is None:
            return
        new = [row for row in match.rows if row not in self._found.rows]
        anew = {id(row): name for name, row in match.bindings.items() if self._changed(name, row)}
        words = [(f"for {anew[id(row)]}" if id(row) in anew else "found", row) for row in new]
        quotes = dict.fromkeys((word, clean(quote_of(row))) for word, row in words if not isinstance(row, Absent))
        for word, quote in list(quotes)[-MAX_FOUND:]:
            yield from _wrapped(f"{_UNDER}{word}: ", quote)
        missing = match.missing - self._found.missing
        if missing:
            yield from _wrapped(f"{_UNDER}not known: ", ", ".join(sorted(missing)))


def _needs(condition: Condition) -> set[str]:
    """Variables that must have been bound before."""
    if isinstance(condition, Choice):
        if condition.all_of:
            return _needs_in_turn(condition.branches, set())
        return set().union(*map(_needs, condition.branches))
    own = {condition.name} if condition.name else set()
    named = {reference.partition(".")[0] for test in condition.tests for reference in test.references}
    named |= {reference.partition(".")[0] for reference in condition.count.references} if condition.count else set()
    named |= set(condition.order.names) if condition.order else set()
    return (named - own) | _needs_in_turn(condition.nested, own)


def _needs_in_turn(conditions: Sequence[Condition], bound: set[str]) -> set[str]:
    needed: set[str] = set()
    for condition in conditions:
        needed |= _needs(condition) - bound
        bound = bound | _binds(condition)
    return needed


def _binds(condition: Condition) -> set[str]:
    if isinstance(condition, Choice):
        return set().union(*map(_binds, condition.branches))
    if condition.count is not None:
        return {condition.count.name} if condition.count.name else set()
    own = {condition.name} if condition.name else set()
    return own.union(*map(_binds, condition.nested))


def _wrapped(first: str, text: str) -> list[str]:
    """Text on as many lines as it needs, under one another; no word is cut."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
