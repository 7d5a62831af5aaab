"""Odds held against what was true: two parameters, p = sigma(a*z + c), and whether each word keeps its promise.

The parameters are the likeliest (Platt scaling), with a normal prior about the start, a = 1 and c = 0, so that a few
cases that all went well do not make every word surer. A family of causes is judged by the scale of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..findings import Word
from ..judge import rank
from .running import Outcome

SPREAD = 0.5
"""Standard deviation of the prior of both parameters."""
ROUNDS = 60
SURE = 1.96
"""Standard deviations of the interval that a word's floor is held against."""


@dataclass(frozen=True)
class Observation:
    """One cause that a rule named in a labelled case, and whether it was right."""

    z: float
    right: bool
    highest: Word
    family: str
    """Of the labelled cause."""


@dataclass(frozen=True)
class Scale:
    """p = sigma(slope * z + offset)."""

    slope: float = 1.0
    offset: float = 0.0

    def p(self, z: float) -> float:
        return rank.probability(z, self.slope, self.offset)


@dataclass(frozen=True)
class WordCount:
    """How often causes of one word were right, over all rules."""

    word: Word
    said: int
    right: int
    floor: float
    lower: float
    """Wilson's lower bound of the share that is right."""

    @property
    def is_confirmed(self) -> bool:
        return self.lower >= self.floor


@dataclass(frozen=True)
class Fit:
    """How well odds and truth agree under a scale; `held_out`: measured on families that each fit left out."""

    observations: int
    log_loss: float
    """The mean of -ln(the probability that was given to what is true)."""
    brier: float
    words: tuple[WordCount, ...]


def observations_of(outcomes: Iterable[Outcome], family_of: Callable[[str], str]) -> list[Observation]:
    """Every cause that was named or nearly, of outcomes of one shape."""
    return [
        Observation(named.z, named.cause in outcome.case.accept, named.highest, _family(outcome, family_of))
        for outcome in outcomes
        for named in outcome.named
    ]


def _family(outcome: Outcome, family_of: Callable[[str], str]) -> str:
    return family_of(outcome.case.accept[0]) if outcome.case.accept else ""


def fitted(observations: Sequence[Observation]) -> Scale:
    """The scale that suits them best, by Newton's method with steps that never go up."""
    scale = Scale()
    for _ in range(ROUNDS):
        step = _newton(observations, scale)
        size, best = 1.0, _cost(observations, scale)
        while size > 1e-6:
            tried = Scale(scale.slope - size * step[0], scale.offset - size * step[1])
            if _cost(observations, tried) < best:
                scale = tried
                break
            size /= 2
        else:
            break
    return Scale(round(scale.slope, 4), round(scale.offset, 4))


def _cost(observations: Sequence[Observation], scale: Scale) -> float:
    """-ln(prior * likelihood), but for a constant."""
    away = ((scale.slope - 1) ** 2 + scale.offset**2) / (2 * SPREAD**2)
    return away + sum(-math.log(max(1e-12, _given(scale.p(one.z), one))) for one in observations)


def _newton(observations: Sequence[Observation], scale: Scale) -> tuple[float, float]:
    """Where the cost is least if it is the parabola that it looks like here: how far, to be taken away."""
    hold = 1 / SPREAD**2
    ga, gc = hold * (scale.slope - 1), hold * scale.offset
    haa, hac, hcc = hold, 0.0, hold
    for one in observations:
        p = scale.p(one.z)
        error, bend = p - one.right, p * (1 - p)
        ga, gc = ga + error * one.z, gc + error
        haa, hac, hcc = haa + bend * one.z**2, hac + bend * one.z, hcc + bend
    determinant = haa * hcc - hac**2
    return (hcc * ga - hac * gc) / determinant, (haa * gc - hac * ga) / determinant


def _given(p: float, one: Observation) -> float:
    return p if one.right else 1 - p


def measured(observations: Sequence[Observation], p: Callable[[float], float]) -> Fit:
    """How well p(z) fits observations; the caps on words are applied before words are counted, not before losses."""
    return _fit(observations, [p(one.z) for one in observations])


def held_out(observations: Sequence[Observation]) -> Fit:
    """Every family judged by the scale that the other families give."""
    ordered: list[Observation] = []
    ps: list[float] = []
    for family in sorted({one.family for one in observations}):
        scale = fitted([one for one in observations if one.family != family])
        left = [one for one in observations if one.family == family]
        ordered += left
        ps += [scale.p(one.z) for one in left]
    return _fit(ordered, ps)


def _fit(observations: Sequence[Observation], ps: Sequence[float]) -> Fit:
    pairs = list(zip(observations, ps, strict=True))
    return Fit(
        observations=len(pairs),
        log_loss=_mean(-math.log(max(1e-12, _given(p, one))) for one, p in pairs),
        brier=_mean((p - one.right) ** 2 for one, p in pairs),
        words=tuple(_words(pairs)),
    )


def _words(pairs: Sequence[tuple[Observation, float]]) -> Iterable[WordCount]:
    said = [(rank.word_for(rank.capped(p, one.highest)), one.right) for one, p in pairs]
    for floor, word in rank.WORDS:
        rights = [right for name, right in said if name == word]
        yield WordCount(word, len(rights), sum(rights), floor, wilson(sum(rights), len(rights)))


def wilson(right: int, of: int) -> float:
    """The lower end of the 95 % interval of a share."""
    if not of:
        return 0.0
    share, spread = right / of, SURE**2 / of
    middle = share + spread / 2
    return (middle - SURE * math.sqrt(share * (1 - share) / of + spread / of / 4)) / (1 + spread)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
