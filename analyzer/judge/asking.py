"""Which evidence to ask for next: what would decide the most of the rules that the evidence at hand speaks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..findings import Ask
from .index import FactIndex
from .language import AllOf, AnyOf, Find, Nothing
from .logs import LogPattern
from .pack import LoadedRule
from .patterns import compile_pattern
from .questions import LOGS, QUESTIONS, WORDS_OF_FAMILY, Question
from .verdicts import Judgement

MOST = 4
"""More is not sent."""
SPOKEN_FOR, NEAR, FAR = 8.0, 4.0, 0.25
"""Weights of a rule: one of its log patterns was found, or a row fits; the texts are about what its family is about;
neither."""
LEAST = 0.2
"""Of the first question's weight: what decides less is not worth a question."""
FROM_STACKS = frozenset({"threads", "processes", "wait_edges", "chains", "ends"})
"""Tables that the derivation fills from whatever there is: only rows tell that there is something."""


@dataclass(frozen=True)
class _Open:
    """A rule that is not decided, and what it lacks."""

    rule: LoadedRule
    lacks: frozenset[str]
    weight: float


def asked(rules: Iterable[LoadedRule], judgement: Judgement, index: FactIndex, *, job_is_there: bool) -> list[Ask]:
    """The questions in the order of what they decide, given the answers to those before."""
    opened = list(_open_rules(rules, judgement, index))
    left = [question for question in QUESTIONS if job_is_there or not question.needs_job]
    asks: list[Ask] = []
    if not job_is_there:
        left.remove(LOGS)
        asks.append(_ask(LOGS, []))
    first = 0.0
    while left and len(asks) < MOST:
        best = max(left, key=lambda question: _weight(question, opened))
        weight = _weight(best, opened)
        first = first or weight
        if not weight or weight < LEAST * first:
            break
        left.remove(best)
        answered = [_answered(one, best) for one in opened]
        asks.append(_ask(best, [one for one in answered if not one.lacks]))
        opened = [one for one in answered if one.lacks]
    return asks


def _weight(question: Question, opened: Sequence[_Open]) -> float:
    return sum(one.weight * sum(map(question.answers, one.lacks)) / len(one.lacks) for one in opened)


def _answered(one: _Open, question: Question) -> _Open:
    return _Open(one.rule, frozenset(lack for lack in one.lacks if not question.answers(lack)), one.weight)


def _ask(question: Question, decided: Sequence[_Open]) -> Ask:
    ordered = sorted(decided, key=lambda one: (-one.weight, one.rule.id))
    causes = dict.fromkeys(one.rule.model.cause for one in ordered)
    return Ask(
        what=question.what, command=question.command, needs_job=question.needs_job,
        would_decide=[one.rule.id for one in ordered], causes=list(causes),
    )  # fmt: skip


# --- rules that are open ---


def _open_rules(rules: Iterable[LoadedRule], judgement: Judgement, index: FactIndex) -> Iterator[_Open]:
    fired = {outcome.rule.id for outcome in judgement.fired}
    undecided = {outcome.rule.id: outcome for outcome in judgement.undecided}
    words = [LogPattern(family, text, compile_pattern(text, trusted=True)) for family, text in WORDS_OF_FAMILY.items()]
    index.logs.expect(words)
    near = {pattern.name for pattern in words if index.logs.hits(pattern, "all")}
    for rule in rules:
        if rule.id in fired or rule.model.status == "deprecated":
            continue
        outcome = undecided.get(rule.id)
        lacks = outcome.missing if outcome is not None else _lacking(rule, index)
        if lacks:
            spoken_for = bool(outcome is not None and outcome.seen) or _in_a_log(rule, index)
            yield _Open(rule, lacks, SPOKEN_FOR if spoken_for else NEAR if rule.family in near else FAR)


def _lacking(rule: LoadedRule, index: FactIndex) -> frozenset[str]:
    """Tables without which it cannot hold, and which nobody has looked at."""
    tables = {table for condition in rule.model.requires for table in _tables(condition)}
    return frozenset(table for table in tables if table != "log" and not _is_known(table, index))


def _is_known(table: str, index: FactIndex) -> bool:
    return bool(index.rows(table)) or (index.collected(table) and table not in FROM_STACKS)


def _tables(condition: Any) -> Iterator[str]:
    """What it must find. Of alternatives any may be enough: none is required."""
    if isinstance(condition, AllOf):
        for part in condition.all:
            yield from _tables(part)
    elif isinstance(condition, (Find, Nothing)) and not isinstance(condition, AnyOf):
        yield condition.find if isinstance(condition, Find) else condition.none
        for part in condition.with_:
            yield from _tables(part)


def _in_a_log(rule: LoadedRule, index: FactIndex) -> bool:
    """Whether one of its patterns is found in a log."""
    return any(index.logs.hits(pattern, "all" if pattern.everywhere else "tail") for pattern in rule.patterns)


# --- one text to paste ---


def request(asks: Sequence[Ask], pid: int | None) -> str:
    """A block for a shell that asks for all of it; "" when nothing is asked."""
    if not asks:
        return ""
    live = any(ask.needs_job for ask in asks)
    when = ", while it is stuck," if live else ""
    lines = [f"# Please run this where the job runs{when} and send what it prints."]
    if live:
        lines += [
            f"PID={pid or 'NUMBER'}    # a process of the job: the launcher, or rank 0",
            "# with flatline at hand, all of it at once: flatline collect --pid $PID",
        ]
    for ask in asks:
        lines += ["", f"# {ask.what}", ask.command]
    return "\n".join(lines)
