"""The seam between probes and the supervisor: what a probe is given, and what it may say.

A probe runs in a disposable child of the supervisor (own session, 0/1/2 on /dev/null). It yields items; each is
redacted in that child, framed, and sent to the parent at once: what was yielded before a child is killed is kept.
A probe never raises for what it could not see: it yields a `Gap`. An exception is caught and becomes an ``error``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Union

from flatline.bundle.facts import Relation, Role, starts_jobs
from flatline.bundle.format import Status


@dataclass(frozen=True)
class Target:
    """One process of the job's tree as found at the beginning. (pid, start_ticks) names it for ever."""

    pid: int
    start_ticks: int
    ppid: int
    uid: int
    name: str
    """comm."""
    relation: Relation
    role: Role
    is_python: bool
    age_s: float
    argv: tuple[str, ...] = ()
    """Not redacted: stays in memory, never written as it is."""
    is_guarded: bool = False
    """Another user's, while the job is not root's: what only that user may read is not read for this job's bundle,
    neither its environment nor its files, logs, source or variables."""

    @property
    def is_of_job(self) -> bool:
        """Everything but a person's shell above it."""
        return self.relation != "ancestor" or starts_jobs(self.role, self.is_python, self.argv)


@dataclass(frozen=True)
class View:
    """All a probe may know: the job, the schedule, the limits. Frozen at the moment the child is forked."""

    targets: tuple[Target, ...]
    """The whole tree, target first, then by start time; ancestors last."""
    proc: str = "/proc"
    """The proc file system to read: tests put a stand-in here."""
    begin_ns: int = 0
    """CLOCK_MONOTONIC of sample 0."""
    window_s: float = 4.0
    samples: int = 3
    deadline_ns: int = 0
    """CLOCK_MONOTONIC at which this probe will be killed. Finish and say what was cut before that."""
    logs: tuple[str, ...] = ()
    """Paths given with --log."""
    source: bool = True
    locals: bool = False
    """Whether the local variables of the main threads are wanted, redacted."""
    attach: bool = True
    """Whether tools may be run that stop a process while they look at it."""
    cwd: str = ""
    """The job's folder, given with --cwd: for when no process is left to ask."""
    cores: tuple[str, ...] = ()
    """Core dumps given with --core."""
    history: str = ""
    """File in which `flatline run` or `watch` kept what it saw before."""
    own_pids: tuple[int, ...] = ()
    """The collector itself and what started it just for that: never evidence."""
    env_names: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """pid -> the target's environment as learnt at the beginning (not redacted, never written as it is)."""

    watched: frozenset[int] = frozenset()
    """Inodes of folders whose reading would send a process of the job a signal (linux.unnoticed)."""

    def sample_at_ns(self, sample: int) -> int:
        """When round `sample` is due; round 0 now, the last one at the end of the window."""
        if self.samples < 2:
            return self.begin_ns
        return self.begin_ns + int(self.window_s * 1e9 * sample / (self.samples - 1))

    def left_s(self) -> float:
        """Seconds until this probe is killed."""
        return max(0.0, (self.deadline_ns - time.monotonic_ns()) / 1e9)


def sleep_until(moment_ns: int) -> None:
    """Until CLOCK_MONOTONIC says so; not at all when it is past."""
    time.sleep(max(0.0, (moment_ns - time.monotonic_ns()) / 1e9))


@dataclass(frozen=True)
class Artefact:
    """A text or bytes to keep as a member: ``raw/ps.txt``, ``logs/…``. Text is redacted; bytes are decoded with
    backslashreplace first, so that nothing passes unredacted."""

    path: str
    content: Union[str, bytes]
    media_type: str = "text/plain; charset=utf-8"
    original_path: str = ""
    original_bytes: int | None = None
    truncated: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Facts:
    """Rows for one member (``facts/<probe>.json``, ``stacks/<pid>.<sample>.json``, ``samples/<name>.jsonl``).

    `tables` maps a table's name to rows (dataclasses of flatline.bundle.facts). Every path is written once. A
    ``.json`` member is ``{"schema": "flatline/<probe>/1", "tables": {"<name>": [row, …]}}``; a ``.jsonl`` member has
    one row per line,
    ``{"table": "<name>", …the row's fields}``, and the round in its name (``samples/processes.0.jsonl``).
    """

    path: str
    tables: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Gap:
    """Something that could not be had, and the one line that would get it. Becomes part of the ledger.

    With the status ``ok`` it is a remark: nothing is missing, but how it was got is worth a line.
    """

    status: Status
    message: str
    hint: str = ""
    target: str = ""
    """Process id (``h1/12``) or path it is about."""
    tables: tuple[str, ...] = ()
    """The tables that are missing rows because of it."""


@dataclass(frozen=True)
class Secret:
    """A value that must never be written; learnt before anything is."""

    kind: str
    value: str


@dataclass(frozen=True)
class Result:
    """A Python value for the parent only (the target tree, the learnt environments): pickled over the pipe
    between our own processes, never written."""

    value: Any


@dataclass(frozen=True)
class Doing:
    """What the probe does next, for the progress line and for the ledger when it gets stuck there."""

    text: str


@dataclass(frozen=True)
class Milestone:
    """``first-pass``: everything of round 0 has been sent, the bundle may be published early."""

    name: str


Item = Union[Artefact, Facts, Gap, Secret, Result, Doing, Milestone]


@dataclass(frozen=True)
class Run:
    """A command that a probe may run, for ``--dry-run``."""

    line: str
    """With ``PID``, ``UID``, ``JOB``, ``CORE`` for what is known only then."""
    limit_s: float
    when: str = ""
    """For what it is run, and under which condition."""


class Probe(Protocol):
    """One way to gather evidence. The class docstring's first line is its help text."""

    @property
    def name(self) -> str:
        """kebab-case, written out; also the ledger's name."""
        ...

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables it fills: what is unknown when it fails."""
        ...

    @property
    def limit_s(self) -> float:
        """Seconds it may take beyond the window (0 for those that do not wait for it)."""
        ...

    @property
    def spans_window(self) -> bool:
        """Whether it samples over the whole observation window."""
        ...

    def gather(self, view: View) -> Iterator[Item]:
        """Yield what is found, best evidence first."""
        ...


class PlannedProbe(Probe, Protocol):
    """A probe of the plan: it also says beforehand what it will touch."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Paths as a shell would write several at once (``/proc/PID/{stat,status}``; a folder stands for what is in
        it), or in words where the job names them. Read within the probe's limit."""
        ...

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every command it may run."""
        ...
