"""One calibration: every figure of a run, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..judge.measured import SCHEMA
from .figures import Figures, Record, by_shape, figures_of, is_right, is_wrong, records_of, same_first
from .fit import Fit, Scale, fitted, held_out, measured, observations_of
from .running import Outcome, Shape


@dataclass(frozen=True)
class Put:
    """The figures of one shape, over all cases, and over those put aside and the rest."""

    all: Figures
    put_aside: Figures | None = None
    rest: Figures | None = None


@dataclass(frozen=True)
class Calibration:
    """What a run of labelled cases came to. The records, and the fit, are those of the first shape."""

    cases: int
    packs: tuple[str, ...]
    shapes: Mapping[Shape, Put]
    same_first: tuple[int, int]
    """(cases with one first cause in all shapes, cases shown in several)."""
    records: Mapping[str, Record]
    scale: Scale
    unscaled: Fit
    """p = sigma(z), of all observations."""
    in_use: Fit
    """The same by the odds that reports are written with now."""
    refitted: Fit
    """By the scale fitted to the same observations: it flatters."""
    families_out: Fit
    """Each family of causes by the scale that the others give."""
    put_aside: Fit | None = None
    """Cases put aside, by the scale of the rest."""
    outcomes: tuple[Outcome, ...] = ()


def calibration_of(
    outcomes: Sequence[Outcome],
    *,
    packs: Sequence[str],
    family_of: Callable[[str], str],
    in_use: Callable[[float], float],
    every: int = 0,
) -> Calibration:
    """The figures of all outcomes. With `every` N each Nth case is put aside and takes no part in the fit."""
    shapes = by_shape(outcomes)
    first = next(iter(shapes.values()), [])
    aside = {outcome.case.id for number, outcome in enumerate(first, start=1) if every and number % every == 0}
    used = observations_of((outcome for outcome in first if outcome.case.id not in aside), family_of)
    left = observations_of((outcome for outcome in first if outcome.case.id in aside), family_of)
    scale = fitted(used)
    return Calibration(
        cases=len({outcome.case.id for outcome in outcomes}),
        packs=tuple(packs),
        shapes={shape: _put(its, aside) for shape, its in shapes.items()},
        same_first=same_first(outcomes),
        records=records_of(first),
        scale=scale,
        unscaled=measured(used, Scale().p),
        in_use=measured(used, in_use),
        refitted=measured(used, scale.p),
        families_out=held_out(used),
        put_aside=measured(left, scale.p) if aside else None,
        outcomes=tuple(outcomes),
    )


def _put(outcomes: Sequence[Outcome], aside: set[str]) -> Put:
    if not aside:
        return Put(figures_of(outcomes))
    left = [outcome for outcome in outcomes if outcome.case.id in aside]
    return Put(figures_of(outcomes), figures_of(left), figures_of([o for o in outcomes if o.case.id not in aside]))


def falls_short(outcome: Outcome) -> str:
    """``ERROR``, ``WRONG`` or ``miss``; "" for an outcome as it should be."""
    if outcome.error:
        return "ERROR"
    if is_wrong(outcome):
        return "WRONG"
    return "miss" if outcome.case.counts and not is_right(outcome) else ""


def as_json(result: Calibration) -> dict[str, Any]:
    """For programs: all figures, and of every case what was said of it. No text of a case."""
    data = {"schema": SCHEMA, **asdict(result), "outcomes": [_outcome(outcome) for outcome in result.outcomes]}
    data["same_first"] = {"same": result.same_first[0], "of": result.same_first[1]}
    return data


def as_committed(result: Calibration) -> dict[str, Any]:
    """What a pack keeps of it (judge/measured.py reads it): the parameters and counts."""
    losses = {"sigma(z)": result.unscaled, "fitted": result.refitted, "one family left out": result.families_out}
    return {
        "schema": SCHEMA,
        "pack": ", ".join(result.packs),
        "cases": result.cases,
        "slope": result.scale.slope,
        "offset": result.scale.offset,
        "words": {
            one.word: {"said": one.said, "right": one.right, "is_confirmed": one.is_confirmed}
            for one in result.families_out.words
        },
        "figures": {shape: asdict(put.all) for shape, put in result.shapes.items()},
        "losses": {
            name: {"log_loss": round(fit.log_loss, 4), "brier": round(fit.brier, 4)} for name, fit in losses.items()
        },
        "rules": {rule: asdict(record) for rule, record in result.records.items()},
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "id": outcome.case.id,
        "shape": outcome.shape,
        "falls_short": falls_short(outcome),
        "verdict": outcome.verdict,
        "verdict_labelled": outcome.case.verdict,
        "named": [
            {"rule": n.rule, "cause": n.cause, "word": n.word, "root": n.is_root, "z": round(n.z, 3)}
            for n in outcome.named
        ],
        "accept": outcome.case.accept,
        "error": outcome.error,
    }
