"""What a rule says of the whole job: that it runs but not as asked, has ended with an error, or will not go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..derive.looks import Told
from ..findings import Finding, Verdict, VerdictState
from .language import Restated
from .pack import Cause
from .verdicts import Fired

IMPLIED_AT_MOST = 0.7
"""How sure a verdict is that only follows from a cause."""
SEEN_AT_MOST: Mapping[VerdictState, float] = {"unknown": 1.0, "waiting": 0.78, "degraded": 0.45}
"""How sure of a state texts are at most where only a look or a line of a log tells it. Surer are a question that the
log ends with, the stall that it reports, and a device that is not used."""
OUTWEIGHS: Mapping[VerdictState, tuple[VerdictState, ...]] = {
    "hung": ("unknown", "degraded", "waiting"),
    "waiting": ("unknown", "degraded"),
}
"""What a cause that leaves a job so says more than: that somebody waits, or has reported an error, is seen; that
nothing will end it, only the cause can say. Any other says more than `unknown`."""
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


def implied(verdict: Verdict, findings: Sequence[Finding], causes: Mapping[str, Cause], seen: Told | None) -> Verdict:
    """The verdict; where that says less, what follows from the cause that is named first, or else, where nothing says
    how the job is, from where its threads were `seen` to stand, or that its log gets on and nothing is wrong.

    For texts that somebody has pasted: a stack in a mutex shows no time, and a cause says what becomes of it.
    """
    named = next((finding for finding in findings if finding.role == "root-cause"), None)
    leaves = causes[named.cause].leaves if named is not None and named.cause in causes else None
    if named is not None and leaves is not None and _says_less(verdict, leaves):
        sure = round(min(named.confidence, IMPLIED_AT_MOST), 2)
        return _changed(verdict, leaves, sure, f"that follows from the cause: {named.title}")
    if verdict.state == "unknown" and seen is not None and (named is None or seen.state == "hung"):
        return _changed(verdict, seen.state, seen.confidence, seen.because)
    return verdict


def _says_less(verdict: Verdict, leaves: VerdictState) -> bool:
    """Whether it is no more than what a look, or a line of a log, tells, and the cause says what becomes of that."""
    only_seen = verdict.confidence <= SEEN_AT_MOST.get(verdict.state, 0.0) and verdict.by_design is None
    return only_seen and verdict.state in OUTWEIGHS.get(leaves, ("unknown",))


def _changed(verdict: Verdict, state: VerdictState, confidence: float, because: str) -> Verdict:
    return verdict.model_copy(update={"state": state, "confidence": confidence, "because": [because, *verdict.because]})


def _replaces(outcome: Fired, verdict: Verdict) -> bool:
    says = outcome.rule.model.verdict
    shown = not outcome.hidden and outcome.may_be_cause and outcome.p >= LIKELY
    return says is not None and shown and verdict.state in REPLACES[says]
