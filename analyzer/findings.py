"""What the analyzer says: the report's JSON, version 1. Judging fills it, rendering reads it, nothing else joins them.

The published shape has its own version and is not a dump of our classes; docs/schemas/report-1.json is made from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from flatline.bundle.facts import Liveness, Strength

SCHEMA = "flatline-report/1"
SAID: Mapping[Liveness, str] = {"frozen": "not moving", "exited": "ended"}
"""How texts say a liveness; the others are said as they are."""
NO_EVIDENCE = "no known cause has enough evidence"
NO_RULE = "no rule knows a remedy for it"
"""Why a verdict has no cause: the last of its `because`."""

VerdictState = Literal["hung", "waiting", "slow", "healthy", "crashed", "degraded", "unknown"]
Word = Literal["very likely", "likely", "possible", "weak hint"]
FindingRole = Literal["root-cause", "contributing", "symptom"]


class Model(BaseModel):
    """Strict, closed and immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Evidence(Model):
    """One thing that can be quoted and clicked."""

    artefact: str
    pointer: str | None = None
    line: int | None = None
    pid: int | None = None
    tid: int | None = None
    rank: int | None = None
    quote: str = ""
    before: list[str] = []
    """Of a line of a log: the lines before it, two at most; blank ones at the far end are left out."""
    after: list[str] = []
    of_at_least: int | None = None
    """Of a line of a log: the logs hold so many of its kind, or more; None: they were counted."""


class Verdict(Model):
    """Is it stuck at all?"""

    state: VerdictState
    confidence: float = Field(ge=0, le=1)
    because: list[str]
    since_s: float | None = None
    """How long nothing has moved, as far as anything tells."""
    last_sign: str | None = None
    """What that is known from: ``last line of train.log``."""
    by_design: bool | None = None
    """Of ``waiting``: whether such programs wait so when all is well; None: that cannot be known."""
    outlook: str = ""
    """Of ``waiting``: what ends the wait, in words."""


class WaitsOn(Model):
    """What a step waits for."""

    kind: str
    node: str


class Step(Model):
    """One node of a chain."""

    node: str
    text: str
    pid: int | None = None
    tid: int | None = None
    thread: str | None = None
    rank: int | None = None
    host: str | None = None
    liveness: Liveness | None = None
    waits_on: WaitsOn | None = None
    strength: Strength | None = None
    evidence: list[Evidence] = []

    @property
    def is_somebody(self) -> bool:
        """Whether it is a thread or a process that is known; one that no text names has no pid."""
        return self.pid is not None or self.host is not None


class ChainEnd(Model):
    """Where a chain ends."""

    kind: Literal["sink", "cycle", "cut", "moving", "none"]
    what: str
    state: str | None = None
    why: str = ""
    strength: Strength | None = None
    """Of what is said of the end: of the last wait, of all waits of a cycle."""

    @property
    def is_proven(self) -> bool:
        return self.strength == "proven"


class ReportChain(Model):
    """From a root thread to the end, with one sentence that tells it."""

    root: str
    text: str
    steps: list[Step]
    end: ChainEnd


class Measured(Model):
    """How a rule did in labelled cases: in so many of `cases` it was the first to name a cause, and was `right`."""

    cases: int = Field(ge=0)
    named: int = Field(ge=0)
    right: int = Field(ge=0)


class Finding(Model):
    """One rule that fired."""

    rule: str
    cause: str
    """An id of the list of causes."""
    variant: str | None = None
    role: FindingRole
    confidence: float = Field(ge=0, le=1)
    word: Word
    title: str
    summary: str
    evidence: list[Evidence]
    action: str = ""
    """What to do about the process: safe to kill? recovers by itself? data at risk?"""
    fix: list[str] = []
    confirm: list[str] = []
    not_this_when: str = ""
    refs: list[str] = []
    explained_by: str | None = None
    """The rule whose symptom this is."""
    pack: str = ""
    """``built-in 0.1.0 (sha256 1a2b…)``: which rules said so."""
    measured: Measured | None = None
    """None: nobody has measured this rule."""
    zh: dict[str, str | list[str]] | None = None


class ReportGap(Model):
    """Evidence that could not be had, and what it would have decided."""

    probe: str
    status: str
    message: str = ""
    hint: str = ""
    would_decide: list[str] = []


class Ask(Model):
    """Evidence to ask for next, by the command that gives it."""

    what: str
    """What it shows: ``where every thread of every process of the job stands``."""
    command: str
    """For a POSIX shell; ``$PID`` is a process of the job."""
    needs_job: bool = True
    """Whether the job must still be there."""
    would_decide: list[str] = []
    """Rules that its answer decides, given those to the questions before it."""
    causes: list[str] = []
    """What those rules can name."""


class Recognised(Model):
    """Texts of one kind that were found in what was pasted."""

    kind: str
    """``py-spy-dump`` …; ``log``: what no parser knows, searched as a log; ``prose``: what a person wrote."""
    about: str = ""
    """Of a log: whose lines are in it, as ``of NCCL, torchrun``; empty: nobody's that is known."""
    parts: int
    lines: int
    sources: list[str] = []


AS_GIVEN = "as given"


class ReportBundle(Model):
    """One bundle this report was made from."""

    name: str
    label: str = ""
    case: str = ""
    host: str = "h1"
    created_at: str = ""
    tool_version: str = ""
    complete: bool = True
    sensitivity: str = "redacted"
    """``redacted``, ``UNREDACTED``; of pasted texts ``as given``: nobody has hidden anything in them."""
    redaction: str = "complete"
    notes: list[str] = []
    """``the zip is truncated; 41 of at least 57 members were read`` …"""

    @property
    def is_as_given(self) -> bool:
        """Pasted texts: nobody was to hide anything, so nothing has failed that was."""
        return self.sensitivity == AS_GIVEN

    @property
    def is_unredacted(self) -> bool:
        """Made so on purpose, by a collect that was told to hide nothing."""
        return self.sensitivity not in ("redacted", AS_GIVEN)


class Report(Model):
    """The machine-readable result; findings are in rank order, the first root-cause is the diagnosis."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    schema_: str = Field(default=SCHEMA, alias="schema")
    verdict: Verdict
    chains: list[ReportChain]
    chain: int | None = None
    """Index of the chain that carries the diagnosis."""
    chains_left_out: int = 0
    """How many more there are than `chains` tells."""
    findings: list[Finding]
    undecided: list[str] = []
    """Rules that could not be decided for lack of evidence."""
    gaps: list[ReportGap]
    ask: list[Ask] = []
    """What to ask for next, that which decides most first; empty when a cause is likely, or nothing is stuck."""
    request: str = ""
    """The same as one block to paste for the reporter."""
    recognised: list[Recognised] = []
    """Of pasted texts: what they were taken for. A `log` that is nobody's was not recognised."""
    signature: str = ""
    """Stable text that equal hangs share: the end's kind, the wait and the first user frame."""
    bundles: list[ReportBundle]
    tool_version: str = ""

    @property
    def diagnosis(self) -> Finding | None:
        """The first root cause, or None: undecided, or nothing wrong."""
        return next((f for f in self.findings if f.role == "root-cause"), None)
