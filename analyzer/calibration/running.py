"""Labelled cases put before the analyzer, in the shapes in which people send evidence, several at once."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flatline.errors import FlatlineError

from ..analysis import NOT_STUCK, examine
from ..findings import FindingRole, Report, VerdictState, Word
from ..intake.opening import open_case
from ..judge import rank
from ..judge.pack import Rulebook
from ..judge.verdicts import Fired, Judgement
from .cases import LabelledCase

Shape = Literal["folder", "text", "ticket"]
SHAPES: tuple[Shape, ...] = ("folder", "text", "ticket")
"""A folder of files; all of them as one text; a Markdown ticket with a fenced block for each."""
CASE_LIMIT_S = 60
FENCE = "```"


@dataclass(frozen=True)
class Named:
    """A finding that says what the root cause is, or would, were there more evidence."""

    rule: str
    cause: str
    role: FindingRole
    word: Word
    z: float
    """Log-odds before any scaling."""
    highest: Word
    """What its word may be at most, whatever the odds."""

    @property
    def is_root(self) -> bool:
        return self.role == "root-cause"


@dataclass(frozen=True)
class Outcome:
    """What the analyzer said of one case in one shape."""

    case: LabelledCase
    shape: Shape
    verdict: VerdictState | None = None
    named: tuple[Named, ...] = ()
    fired: tuple[str, ...] = ()
    """Every rule that is among the findings, symptoms included."""
    error: str = ""

    @property
    def roots(self) -> list[Named]:
        """Root causes, in rank order."""
        return [named for named in self.named if named.is_root]

    @property
    def first(self) -> str | None:
        """The cause that is named first."""
        return self.roots[0].cause if self.roots else None


_book: Rulebook | None = None
"""What the cases are judged by; a forked worker has its parent's, as compiled rules cannot be sent."""


def run_all(
    cases: Sequence[LabelledCase],
    shapes: Sequence[Shape],
    book: Rulebook,
    *,
    jobs: int = 1,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Iterator[Outcome]:
    """Every case in every shape that it can have, in order. One that fails is an outcome with an `error`."""
    global _book
    _book = book
    tasks: list[tuple[LabelledCase, Shape]] = [
        (case, shape) for shape in shapes for case in cases if case.files or shape == shapes[0]
    ]
    for done, outcome in enumerate(_run(tasks, jobs), start=1):
        told(done, len(tasks))
        yield outcome


def _run(tasks: Sequence[tuple[LabelledCase, Shape]], jobs: int) -> Iterator[Outcome]:
    if jobs <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(_run_task, tasks)
        return
    done = 0
    try:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
            for outcome in pool.map(_run_task, tasks, chunksize=4):
                done += 1
                yield outcome
    except BrokenProcessPool:
        for case, shape in tasks[done:]:
            yield Outcome(case, shape, error="a process of this run died")


def _run_task(task: tuple[LabelledCase, Shape]) -> Outcome:
    case, shape = task
    assert _book is not None
    try:
        with (
            _limited(CASE_LIMIT_S),
            tempfile.TemporaryDirectory(prefix="flatline-case-") as work,
            open_case([presented(case, shape, Path(work))]) as opened,
        ):
            examined = examine(opened, _book)
    except (FlatlineError, _TooLong) as error:
        return Outcome(case, shape, error=str(error))
    except Exception as error:  # noqa: BLE001  a case that breaks the analyzer is a figure of its own
        return Outcome(case, shape, error=f"{type(error).__name__}: {error}")
    report = examined.report
    named = tuple(_named(report, examined.judgement))
    return Outcome(case, shape, report.verdict.state, named, tuple(f.rule for f in report.findings))


class _TooLong(BaseException):
    """No fault of a rule, which is caught where it happens."""


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Ends what takes longer, where signals can (the main thread)."""

    def ended(*_: object) -> None:
        raise _TooLong(f"no answer in {seconds} s")

    try:
        before = signal.signal(signal.SIGALRM, ended)
    except ValueError:  # not the main thread
        yield
        return
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def presented(case: LabelledCase, shape: Shape, work: Path) -> Path:
    """The case written below `work` in that shape, or the path it has."""
    if case.path is not None:
        return case.path
    if shape == "folder":
        for name, text in case.files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(text, encoding="utf-8")
        return work
    if shape == "text":
        path, text = work / "stdin", "\n\n".join(case.files.values())
    else:
        path = work / "ticket.md"
        parts = [f"{name}:\n\n{FENCE}\n{text}\n{FENCE}" for name, text in case.files.items()]
        text = "\n\n".join(["My job hangs, please help.", *parts])
    path.write_text(f"{text}\n", encoding="utf-8")
    return path


def _named(report: Report, judgement: Judgement) -> Iterable[Named]:
    """Findings that are, or with better odds would be, root causes: those the scaling of odds is about."""
    outcomes = {outcome.rule.id: outcome for outcome in judgement.fired}
    stuck = report.verdict.state not in NOT_STUCK
    for finding in report.findings:
        outcome = outcomes[finding.rule]
        if finding.role == "root-cause" or (stuck and _is_too_weak(outcome)):
            yield Named(finding.rule, finding.cause, finding.role, finding.word, outcome.z, outcome.highest)


def _is_too_weak(outcome: Fired) -> bool:
    return outcome.may_be_cause and not outcome.explained_by and outcome.p < rank.ROOT_CAUSE_FLOOR
