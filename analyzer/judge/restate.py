"""What a rule says of the whole job: that it runs but not as asked, has ended with an error, or will not go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..findings import Verdict, VerdictState
from .language import Restated
from .verdicts import Fired

LIKELY = 0.7
"""A verdict is not changed by less."""
REPLACES: Mapping[Restated, frozenset[VerdictState]] = {  # what moves is seen, and needs nobody to say so
    "degraded": frozenset({"healthy", "slow", "unknown"}),
    "crashed": frozenset({"hung", "waiting", "unknown"}),
    "hung": frozenset({"unknown"}),
    "slow": frozenset(),
}


def speaker(verdict: Verdict, fired: Sequence[Fired]) -> Fired | None:
    """The surest rule that says otherwise of the whole job; None when none is at least likely."""
    speaking = [outcome for outcome in fired if _replaces(outcome, verdict)]
    return max(speaking, key=lambda outcome: outcome.p, default=None)


def restated(verdict: Verdict, outcome: Fired, title: str) -> Verdict:
    """The verdict as that rule has it; why it was another one before stays readable."""
    because = [title, *verdict.because]
    changed = {"state": outcome.rule.model.verdict, "confidence": round(outcome.p, 2), "because": because}
    return verdict.model_copy(update={**changed, "by_design": None, "outlook": ""})


def _replaces(outcome: Fired, verdict: Verdict) -> bool:
    says = outcome.rule.model.verdict
    shown = not outcome.hidden and outcome.may_be_cause and outcome.p >= LIKELY
    return says is not None and shown and verdict.state in REPLACES[says]
