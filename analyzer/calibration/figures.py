"""What many outcomes come to: how often the first cause is right, a confident one wrong, a rule worth its word."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..findings import Word
from .running import Outcome, Shape

CONFIDENT: frozenset[Word] = frozenset({"likely", "very likely"})


@dataclass(frozen=True)
class Figures:
    """Counts over the outcomes of one shape."""

    cases: int
    decidable: int
    """The cause follows from the evidence, and there is one."""
    right_first: int
    right_in_three: int
    positives: int
    wrong_confident: int
    """Of the positives: the first cause above "possible" is not the right one."""
    near_misses: int
    near_misses_wrong: int
    """A cause above "possible" where there was none, or another."""
    verdicts: int
    verdicts_right: int
    errors: int


@dataclass(frozen=True)
class Record:
    """How one rule did in labelled cases of one shape."""

    fired: int
    named: int
    """It gave the first root cause."""
    right: int
    """Of those."""
    wrong_confident: int
    """Above "possible", and wrong."""


def figures_of(outcomes: Sequence[Outcome]) -> Figures:
    """The figures of outcomes of one shape."""
    decidable = [outcome for outcome in outcomes if outcome.case.counts]
    positives = [outcome for outcome in outcomes if not outcome.case.near_miss]
    near = [outcome for outcome in outcomes if outcome.case.near_miss]
    labelled = [outcome for outcome in outcomes if outcome.case.verdict]
    return Figures(
        cases=len(outcomes),
        decidable=len(decidable),
        right_first=sum(map(is_right, decidable)),
        right_in_three=sum(any(n.cause in o.case.accept for n in o.roots[:3]) for o in decidable),
        positives=len(positives),
        wrong_confident=sum(map(is_wrong, positives)),
        near_misses=len(near),
        near_misses_wrong=sum(map(is_wrong, near)),
        verdicts=len(labelled),
        verdicts_right=sum(outcome.verdict == outcome.case.verdict for outcome in labelled),
        errors=sum(bool(outcome.error) for outcome in outcomes),
    )


def is_right(outcome: Outcome) -> bool:
    """Whether the cause that is named first is right."""
    return outcome.first in outcome.case.accept


def is_wrong(outcome: Outcome) -> bool:
    """Whether the first cause that is said to be likely is not right."""
    said = next((named for named in outcome.roots if named.word in CONFIDENT), None)
    return said is not None and said.cause not in outcome.case.accept


def records_of(outcomes: Iterable[Outcome]) -> dict[str, Record]:
    """rule -> its record."""
    fired: Counter[str] = Counter()
    firsts: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        fired.update(set(outcome.fired))
        if outcome.roots:
            firsts[outcome.roots[0].rule].append(outcome)
    return {
        rule: Record(
            times, len(firsts[rule]), sum(map(is_right, firsts[rule])),
            sum(o.roots[0].word in CONFIDENT and not is_right(o) for o in firsts[rule]),
        )
        for rule, times in sorted(fired.items())
    }  # fmt: skip


def same_first(outcomes: Iterable[Outcome]) -> tuple[int, int]:
    """(cases with the same first cause in every shape, cases that were shown in several)."""
    by_case: dict[str, dict[Shape, str | None]] = defaultdict(dict)
    for outcome in outcomes:
        by_case[outcome.case.id][outcome.shape] = outcome.first
    several = [firsts for firsts in by_case.values() if len(firsts) > 1]
    return sum(len(set(firsts.values())) == 1 for firsts in several), len(several)


def by_shape(outcomes: Iterable[Outcome]) -> Mapping[Shape, list[Outcome]]:
    """The outcomes of each shape."""
    shapes: dict[Shape, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        shapes[outcome.shape].append(outcome)
    return shapes
