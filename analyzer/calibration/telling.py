"""A calibration in lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from .figures import Figures
from .fit import Fit, WordCount
from .result import Calibration, falls_short
from .running import Outcome


def lines_of(result: Calibration, *, every_case: bool = False, every_rule: bool = False) -> Iterator[str]:
    """What fell short (or `every_case`), the figures of each shape, the fit, the rules that erred (or `every_rule`)."""
    for outcome in result.outcomes:
        if every_case or falls_short(outcome):
            yield _case(outcome)
    for shape, put in result.shapes.items():
        yield f"{shape}: {_figures(put.all)}"
        if put.put_aside and put.rest:
            yield f"  put aside: {_figures(put.put_aside)}"
            yield f"  the rest:  {_figures(put.rest)}"
    same, several = result.same_first
    if several:
        yield f"same first cause in all shapes: {_share(same, several)}"
    yield from _fit(result)
    yield from _records(result, every_rule=every_rule)


def _case(outcome: Outcome) -> str:
    how, case = falls_short(outcome) or "ok", outcome.case
    if outcome.error:
        return f"{how:5} {case.id} ({outcome.shape}): {outcome.error}"
    got = ", ".join(f"{n.cause} ({n.word}, {n.rule})" for n in outcome.roots[:2]) or "none"
    near = " near-miss" if case.near_miss else ""
    verdict = f"{outcome.verdict}"
    if case.verdict not in (None, outcome.verdict):
        verdict += f" instead of {case.verdict}"
    right = "/".join(case.accept) or "none"
    return f"{how:5} {case.id} ({outcome.shape}, {case.decidable}{near}): {verdict}; got {got}; right: {right}"


def _figures(one: Figures) -> str:
    return "; ".join(
        [
            f"right first {_share(one.right_first, one.decidable)} decidable (in three {one.right_in_three})",
            f"wrong above possible {_share(one.wrong_confident, one.positives)}",
            f"near-misses wrong {one.near_misses_wrong}/{one.near_misses}",
            f"verdict {_share(one.verdicts_right, one.verdicts)}",
            f"errors {one.errors}",
        ]
    )


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} = {part / whole:.1%}" if whole else "0/0"


def _fit(result: Calibration) -> Iterator[str]:
    scale = result.scale
    yield f"fitted: p = sigma({scale.slope:g} z {scale.offset:+g}), of {result.refitted.observations} named causes"
    named = [
        ("p = sigma(z)", result.unscaled),
        ("in use", result.in_use),
        ("refitted (flatters)", result.refitted),
        ("one family left out", result.families_out),
    ]
    named += [("put aside", result.put_aside)] if result.put_aside else []
    for name, fit in named:
        yield f"  {name:20} log-loss {fit.log_loss:.3f}  Brier {fit.brier:.3f}  {_words(fit)}"


def _words(fit: Fit) -> str:
    return "  ".join(f"{one.word} {one.right}/{one.said}{_confirmed(one)}" for one in fit.words)


def _confirmed(one: WordCount) -> str:
    return f" (at least {one.lower:.2f})" if one.said else ""


def _records(result: Calibration, *, every_rule: bool) -> Iterator[str]:
    shown = {rule: one for rule, one in result.records.items() if every_rule or one.right < one.named}
    if shown:
        yield f"  {'RULE':36} FIRED NAMED RIGHT WRONG ABOVE POSSIBLE"
    for rule, one in shown.items():
        yield f"  {rule:36} {one.fired:5} {one.named:5} {one.right:5} {one.wrong_confident:5}"
