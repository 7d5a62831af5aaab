"""From a case to a report: derive, judge, rank, put into words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from flatline import __version__
from flatline.bundle.facts import MissingFact

from .case import Case, OpenedBundle, whole_log
from .derive import Derived, derive
from .derive.log_verdict import GETS_ON
from .derive.looks import told_by_stacks
from .findings import AS_GIVEN, NO_EVIDENCE, NO_RULE, Finding, Recognised, Report, ReportBundle, ReportGap, Verdict
from .intake.assemble import PastedReader
from .intake.assemble import Recognised as Block
from .judge.asking import asked, request
from .judge.index import FactIndex
from .judge.pack import Rulebook, load_rulebook
from .judge.restate import implied, restated, speaker
from .judge.verdicts import Fired, Judgement, Undecided, judge
from .judge.writing import Writer

NOT_STUCK = ("healthy", "slow", "degraded")
"""Verdicts beside which no cause of a hang is named."""


@dataclass(frozen=True)
class Examined:
    """A report, and the judgement that it was written from."""

    report: Report
    judgement: Judgement


def analyze(case: Case, book: Rulebook | None = None) -> Report:
    """What the case shows. The derived tables are added to its store."""
    return examine(case, book or load_rulebook()).report


def examine(case: Case, book: Rulebook) -> Examined:
    """The same, for who wants to know the odds behind the words."""
    derived = derive(case)
    index = FactIndex(case.store, partial(whole_log, case))
    judgement = judge(book.rules, index, derived.scope)
    speaking = speaker(derived.verdict, judgement.fired)
    state = (speaking.rule.model.verdict if speaking else None) or derived.verdict.state
    is_stuck = state not in NOT_STUCK
    writer = Writer(index, derived.evidence, state, is_stuck=is_stuck, gets_on=derived.scope.gets_on)
    findings = writer.findings(judgement.fired)
    derived = derived.led_through(_diagnosed(judgement, findings))
    undecided = judgement.undecided if is_stuck else []
    verdict = _as_told(_with_reasons(derived, findings), speaking, findings)
    if _is_pasted(case):
        verdict = implied(verdict, findings, book.causes, told_by_stacks(case.store) or derived.judged.seen)
    wanting = _asks(case, verdict, findings)
    asks = asked(book.rules, judgement, index, job_is_there=state != "crashed") if wanting else []
    report = Report(
        verdict=verdict,
        chains=derived.chains,
        chain=derived.chain,
        chains_left_out=derived.chains_left_out,
        findings=findings,
        undecided=[outcome.rule.id for outcome in undecided],
        gaps=[*_gaps(case.store.rows("gaps"), undecided), *_faults(book, judgement)],
        ask=asks,
        request=request(asks, _a_pid(case)),
        recognised=_recognised(case),
        signature=derived.signature,
        bundles=[_bundle(bundle) for bundle in case.bundles],
        tool_version=__version__,
    )
    return Examined(report, judgement)


def _diagnosed(judgement: Judgement, findings: Sequence[Finding]) -> frozenset[str]:
    """The processes that the named root cause is about; its chain is the one to tell."""
    rule = next((finding.rule for finding in findings if finding.role == "root-cause"), None)
    return next((fired.best.processes for fired in judgement.fired if fired.rule.id == rule), frozenset())


# --- what to ask for next ---


def _asks(case: Case, verdict: Verdict, findings: Sequence[Finding]) -> bool:
    """Whether there is something left to ask: of pasted texts, of which no cause is at least likely. What a collect
    could not have stands in its ledger, with the line that gets it."""
    named = any(f.role == "root-cause" and f.word in ("likely", "very likely") for f in findings)
    gets_on = verdict.state in NOT_STUCK and verdict.confidence > GETS_ON
    return _is_pasted(case) and not named and not gets_on and not verdict.by_design


def _is_pasted(case: Case) -> bool:
    return any(isinstance(bundle.reader, PastedReader) for bundle in case.bundles)


def _a_pid(case: Case) -> int | None:
    """The first Python process that the texts name, or the only process: a trace does not say what it runs."""
    rows = [row for row in case.store.rows("processes") if row.pid > 0]
    pids = {row.pid for row in rows if row.is_python} or {row.pid for row in rows}
    return min(pids) if len(pids) == 1 or any(row.is_python for row in rows) else None


def _recognised(case: Case) -> list[Recognised]:
    """What the pasted texts were taken for, by kind, logs by whose they are, the largest first."""
    readers = [bundle.reader for bundle in case.bundles if isinstance(bundle.reader, PastedReader)]
    blocks: dict[tuple[str, str], list[Block]] = {}
    for block in (block for reader in readers for block in reader.recognised):
        blocks.setdefault((block.kind, block.about if block.kind == "log" else ""), []).append(block)
    found = [
        Recognised(
            kind=kind, about=about, parts=len(these), lines=sum(b.last_line - b.first_line + 1 for b in these),
            sources=sorted({b.source for b in these}),
        )
        for (kind, about), these in blocks.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: (-one.lines, one.kind, one.about))


# --- verdict, gaps, bundles ---


def _as_told(verdict: Verdict, speaking: Fired | None, findings: Sequence[Finding]) -> Verdict:
    """The verdict, or what a rule says of the whole job instead, in the words of its finding."""
    if speaking is None:
        return verdict
    return restated(verdict, speaking, next(f.title for f in findings if f.rule == speaking.rule.id))


def _with_reasons(derived: Derived, findings: Sequence[Finding]) -> Verdict:
    """A stuck job without a cause says so, and whether that is for lack of evidence or of a rule."""
    verdict = derived.verdict
    named = any(finding.role == "root-cause" for finding in findings)
    if named or verdict.state not in ("hung", "unknown"):
        return verdict
    proven = verdict.state == "hung" and derived.chain is not None and derived.chains[derived.chain].end.is_proven
    reason = NO_RULE if proven else NO_EVIDENCE
    return verdict.model_copy(update={"because": [*verdict.because, reason]})


def _gaps(rows: Iterable[MissingFact], undecided: Sequence[Undecided]) -> list[ReportGap]:
    """The ledger's gaps, one for each thing that went wrong, with the rules that lack just that."""
    tables: dict[tuple[str, str, str, str], set[str]] = {}
    for row in rows:
        tables.setdefault((row.probe, row.status, row.message, row.hint), set()).add(row.table)
    return [
        ReportGap(probe=probe, status=status, message=message, hint=hint, would_decide=_decided_by(missing, undecided))
        for (probe, status, message, hint), missing in tables.items()
    ]


def _decided_by(tables: set[str], undecided: Sequence[Undecided]) -> list[str]:
    return [o.rule.id for o in undecided if any(name.partition(".")[0] in tables for name in o.missing)]


def _faults(book: Rulebook, judgement: Judgement) -> list[ReportGap]:
    """Rules that could not be loaded or broke: the report must not look as if they had been asked."""
    loading = [ReportGap(probe="rules", status="error", message=str(problem)) for problem in book.problems]
    return loading + [
        ReportGap(probe="rules", status="error", message=f"{rule.id} broke: {why}", would_decide=[rule.id])
        for rule, why in judgement.broken
    ]


def _bundle(bundle: OpenedBundle) -> ReportBundle:
    manifest = bundle.manifest
    names = ("label", "case", "host", "created_at", "tool_version", "complete", "sensitivity", "redaction")
    known = {name: getattr(manifest, name) for name in names if getattr(manifest, name, None) is not None}
    if isinstance(bundle.reader, PastedReader):  # nothing was hidden in what somebody pasted
        known |= {"sensitivity": AS_GIVEN, "redaction": "none"}
    return ReportBundle(name=bundle.name, notes=list(bundle.notes), **known)
