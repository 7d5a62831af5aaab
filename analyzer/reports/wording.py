"""The sentences every reporter shares, in a user's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..findings import (
    NO_EVIDENCE,
    NO_RULE,
    SAID,
    Ask,
    ChainEnd,
    Evidence,
    Finding,
    FindingRole,
    Recognised,
    Report,
    ReportChain,
    Verdict,
)

STILL = ("hung", "waiting", "unknown")
"""Verdicts of a job in which nothing was seen to move."""
_ENDS = {
    "sink": "Here it ends",
    "cycle": "Here it comes back to where it was: none of them can go on before another does",
    "cut": "Here the trail is lost",
    "moving": "Here somebody gets on",
    "none": "Nothing is waited for",
}


def said(liveness: str | None) -> str:
    """``not moving``; empty when it is not known."""
    return "" if liveness in (None, "unknown") else SAID.get(liveness, liveness)  # type: ignore[call-overload]


def silence(verdict: Verdict) -> str:
    """``silent for 90 min (last sign: last write to train.log)``; empty for a job that gets on."""
    if verdict.since_s is None or verdict.state not in (*STILL, "crashed"):
        return ""
    sign = f" (last sign: {verdict.last_sign})" if verdict.last_sign else ""
    return f"silent for {duration(verdict.since_s)}{sign}"


def record(finding: Finding) -> str:
    """``Named first in 12 of 113 labelled reports, rightly each time.``; empty where nothing was measured."""
    measured = finding.measured
    if measured is None:
        return ""
    if not measured.named:
        return f"Never the first to name a cause in {measured.cases} labelled reports."
    held = "rightly each time" if measured.right == measured.named else f"rightly in {measured.right} of them"
    return f"Named first in {measured.named} of {measured.cases} labelled reports, {held}."


def the_rule(finding: Finding) -> str:
    """``disk-full. Never the first to name a cause in 113 labelled reports.``"""
    return f"{finding.rule}. {record(finding)}".rstrip()


def chain_heading(verdict: Verdict) -> str:
    """What stands above the chain."""
    return "Why nothing moves" if verdict.state in STILL else "What it does"


_ROLES: Mapping[FindingRole, str] = {
    "root-cause": "another candidate",
    "contributing": "contributing",
    "symptom": "symptom",
}


def role(finding: Finding, *, is_diagnosis: bool = False) -> str:
    """What a finding is to the reader: there is one root cause, and what else could be it is a candidate."""
    return "root cause" if is_diagnosis else _ROLES[finding.role]


def branches(report: Report, chain: ReportChain | None) -> list[str]:
    """Where the wait of the same root leads as well, each from the step at which it parts from the chain told."""
    if chain is None:
        return []
    others = [other for other in report.chains if other.root == chain.root and other is not chain]
    return [branch for other in others if (branch := _parting(other.text, chain.text))]


def _parting(text: str, told: str) -> str:
    parts, known = text.split("; "), told.split("; ")
    same = next((n for n, (part, one) in enumerate(zip(parts, known, strict=False)) if part != one), len(known))
    return "; ".join(parts[same:])


def reasons(report: Report, chain: ReportChain | None) -> list[str]:
    """The verdict's grounds, without the chain, which is told by itself, and without why there is no cause."""
    told = chain.text if chain is not None else ""
    rests = (reason.replace(told, "", 1).strip("; ") if told else reason for reason in report.verdict.because)
    return [rest for rest in rests if rest and rest not in (NO_EVIDENCE, NO_RULE)]


def no_cause(report: Report, chain: ReportChain | None) -> str:
    """The line that stands where a cause would."""
    verdict = report.verdict
    if verdict.state in ("healthy", "slow"):
        return "No cause: nothing is stuck."
    if verdict.state == "waiting" and verdict.outlook:
        return f"{'No cause' if verdict.by_design else 'Undecided'}: {verdict.outlook}."
    if verdict.state == "hung" and chain is not None and chain.end.is_proven:
        return "The chain above is proven, but no rule knows a remedy for it."
    if verdict.state == "crashed":
        return "It has ended, and no rule found out why."
    if verdict.state == "degraded":
        return "It runs, but not as it was meant to, and no rule found out why."
    return "Undecided: no rule found enough evidence to name a cause."


def decides(ask: Ask) -> str:
    """``It would decide: lock-file-stale, lock-held-by-process and 3 more.``; empty when it decides nothing alone."""
    return f"It would decide: {listed(ask.causes, 5)}." if ask.causes else ""


def taken_for(recognised: Sequence[Recognised]) -> str:
    """``py-spy-dump (2, 40 lines), log of NCCL (8 lines); not recognised, searched as a log: 9 lines``; empty for
    bundles."""
    known = [_kind(one) for one in recognised if one.about or one.kind not in ("log", "prose")]
    rest = sum(one.lines for one in recognised if one.kind == "log" and not one.about)
    left = [f"not recognised, searched as a log: {_lines(rest)}"] if rest else []
    return "; ".join([*([", ".join(known)] if known else []), *left])


def _kind(one: Recognised) -> str:
    name = f"{one.kind} {one.about}".rstrip()
    return f"{name} ({f'{one.parts}, ' if one.parts > 1 else ''}{_lines(one.lines)})"


def _lines(number: int) -> str:
    return f"{number} line{'' if number == 1 else 's'}"


def end_sentence(end: ChainEnd) -> str:
    """Where a chain ends and why it goes no further."""
    why = "" if end.kind in ("cycle", "none") or not end.why else f": {end.why}"
    return f"{_ENDS[end.kind]}{why}."


def place(evidence: Evidence) -> str:
    """``facts/threads.json#/tables/threads/0``, ``logs/0-train.txt:12``."""
    if evidence.line:
        return f"{evidence.artefact}:{evidence.line}"
    return f"{evidence.artefact}#{evidence.pointer}" if evidence.pointer else evidence.artefact


def among(evidence: Evidence) -> str:
    """``one of at least 200 such lines``; empty where it is not one of very many."""
    return f"one of at least {evidence.of_at_least} such lines" if evidence.of_at_least else ""


def around(evidence: Evidence) -> list[str]:
    """A line of a log between those beside it, numbered; empty where none is known."""
    if evidence.line is None or not (evidence.before or evidence.after):
        return []
    first = evidence.line - len(evidence.before)
    lines = enumerate((*evidence.before, evidence.quote, *evidence.after), start=first)
    return [f"{number:>7}{'>' if number == evidence.line else ' '} {line}".rstrip() for number, line in lines]


def listed(items: Sequence[str], most: int) -> str:
    """``a, b and 3 more``."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


def duration(seconds: float) -> str:
    """``42 s``, ``12 min``, ``3 h 20 min``, ``2 days``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
    return f"{seconds / 86_400:.0f} days"
