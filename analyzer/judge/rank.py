"""From evidence to words: log-odds per witness, and who explains whom."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..findings import Word
from .language import WEIGHTS, Weight

BETA = -0.5
"""The odds before any evidence, as a logarithm."""
SLOPE, OFFSET = 1.0, 0.0
"""Platt scaling before anything is measured: p = sigma(SLOPE * z + OFFSET). measured.py has what was."""
PER_SYMPTOM, MAX_SYMPTOMS = 0.7, 1.4
ROOT_CAUSE_FLOOR = 0.5
REFUTED_BELOW = 0.3
"""With decisive evidence against it and no more than this left, a rule is not shown, not even as a weak hint."""
TIE = 0.1
"""Two causes nearer than this are undecided between."""

WORDS: tuple[tuple[float, Word], ...] = (
    (0.90, "very likely"),
    (0.70, "likely"),
    (0.40, "possible"),
    (0.0, "weak hint"),
)
TOP_OF: Mapping[Word, float] = {"very likely": 1.0, "likely": 0.899, "possible": 0.699, "weak hint": 0.399}
"""The highest confidence each word allows."""


@dataclass(frozen=True)
class Item:
    """One weighted condition that held."""

    group: str
    weight: Weight


def log_odds(support: Iterable[Item], against: Iterable[Item], symptoms: int = 0) -> float:
    """z: of each group only the heaviest item counts, so that ten copies of one log line do not add up."""
    return BETA + _heaviest(support) - _heaviest(against) + min(MAX_SYMPTOMS, PER_SYMPTOM * symptoms)


def _heaviest(items: Iterable[Item]) -> float:
    heaviest: dict[str, float] = {}
    for item in items:
        heaviest[item.group] = max(heaviest.get(item.group, 0.0), WEIGHTS[item.weight])
    return sum(heaviest.values())


def probability(z: float, slope: float = SLOPE, offset: float = OFFSET) -> float:
    """p(z), between 0 and 1."""
    return 1 / (1 + math.exp(-(slope * z + offset)))


def word_for(p: float) -> Word:
    """The word for a probability."""
    return next(word for floor, word in WORDS if p >= floor)


def capped(p: float, highest: Word) -> float:
    """A probability that reads as `highest` at most."""
    return min(p, TOP_OF[highest])


def lower(first: Word, second: Word) -> Word:
    """The more careful of two words."""
    return min(first, second, key=TOP_OF.__getitem__)


def highest_word(
    *, proven: bool, decisive: bool, strong: bool, facts: int, settled: bool, refuted: bool = False
) -> Word:
    """What may be said at most.

    `facts` counts independent kinds of evidence: one alone names no cause, unless it is decisive. "Very likely" needs a
    proven wait or a decisive item, and something strong. `settled` is False for a rule nobody has seen fire for real.
    `refuted`: something decisive speaks against it, which no heap of evidence makes up for.
    """
    if not settled or refuted or (facts < 2 and not decisive):
        return "possible"
    return "very likely" if decisive or (proven and strong) else "likely"


def shared_out(zs: Mapping[str, float]) -> dict[str, float]:
    """Probabilities of causes that exclude each other; "none of them" keeps its place."""
    raised = {name: math.exp(min(SLOPE * z + OFFSET, 60)) for name, z in zs.items()}
    total = 1 + sum(raised.values())
    return {name: value / total for name, value in raised.items()}


def reachable(explains: Mapping[str, Iterable[str]], start: str) -> set[str]:
    """Every rule that `start` explains, directly or through others."""
    seen: set[str] = set()
    todo = [*explains.get(start, ())]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += explains.get(name, ())
    return seen


def cycles(explains: Mapping[str, Iterable[str]]) -> list[str]:
    """Rules that end up explaining themselves."""
    return sorted(name for name in explains if name in reachable(explains, name))
