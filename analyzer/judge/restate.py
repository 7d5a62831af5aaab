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
SEEN_AT_MOST = 0.78
"""How sure texts are at most that a job waits, where only a look or a line of a log tells it; a question that its log
ends with, and the stall that a log reports, are surer."""
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
    """The verdict; where nothing says how the job is, what follows from the cause that is named first, or else from
    where its threads were `seen` to stand.

    For texts that somebody has pasted: a stack in a mutex shows no time, and a cause says what becomes of it.
    """
    named = next((finding for finding in findings if finding.role == "root-cause"), None)
    leaves = causes[named.cause].leaves if named is not None and named.cause in causes else None
    if verdict.state == "waiting" and verdict.confidence <= SEEN_AT_MOST and verdict.by_design is None:
        # That somebody waits is seen; that nothing will end it, only the cause can say.
        if leaves != "hung":
            return verdict
    elif verdict.state != "unknown":
        return verdict
    if named is not None and leaves is not None:
        sure = round(min(named.confidence, IMPLIED_AT_MOST), 2)
        return _changed(verdict, leaves, sure, f"that follows from the cause: {named.title}")
    return _changed(verdict, seen.state, seen.confidence, seen.because) if seen is not None else verdict


def _changed(verdict: Verdict, state: VerdictState, confidence: float, because: str) -> Verdict:
    return verdict.model_copy(update={"state": state, "confidence": confidence, "because": [because, *verdict.because]})


def _replaces(outcome: Fired, verdict: Verdict) -> bool:
    says = outcome.rule.model.verdict
    shown = not outcome.hidden and outcome.may_be_cause and outcome.p >= LIKELY
    return says is not None and shown and verdict.state in REPLACES[says]
