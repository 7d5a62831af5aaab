"""What a report shows, as plain data: made once from the report and the case, then only rendered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from flatline.bundle.facts import LOCALS_SAMPLE, Frame, Log, Thread

from ..case import Case, OpenedBundle, lines_of
from ..findings import Evidence, Finding, Report, ReportChain
from ..merge import newest_sample
from ..names import process_named, process_of_id, thread_named
from .excerpts import Excerpt, excerpts_of, place
from .panels import Panel, panels_of
from .picture import Picture, picture_of
from .processes import ProcessRow, process_table
from .visible import visible, visible_lines
from .wording import branches, listed, no_cause, reasons, said

LOG_LINES = 40
MAX_PROCESSES = 400
MAX_STACKS = 200
MAX_WITH_LOCALS = 64
MAX_FRAMES_WITH_LOCALS = 60


@dataclass(frozen=True)
class StackGroup:
    """One stack, and the threads that were all seen in it."""

    threads: tuple[str, ...]
    liveness: str
    lines: tuple[str, ...]
    """``function (file:line)``, innermost first."""
    source: tuple[tuple[int, str, bool], ...]
    """(number, text, is the line) around the innermost user frame."""
    source_file: str = ""


@dataclass(frozen=True)
class ThreadVariables:
    """The local variables of one thread's frames, innermost first, as the bundle has them: redacted and cut."""

    thread: str
    frames: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """(``function (file:line)``, its (name, text) in order); frames without any are not here."""
    frames_left_out: int = 0


@dataclass(frozen=True)
class LogTail:
    """The end of one log."""

    title: str
    about: str
    lines: tuple[str, ...]
    first_line: int


@dataclass(frozen=True)
class LedgerRow:
    """What one probe did."""

    probe: str
    status: str
    seconds: float
    message: str
    hint: str


@dataclass(frozen=True)
class View:
    """All that a reporter needs; every text in it is `visible`, none is escaped for a markup."""

    report: Report
    chain: ReportChain | None
    reasons: tuple[str, ...] = ()
    """The verdict's, without the chain."""
    branches: tuple[str, ...] = ()
    """Of the same root, where it waits for several."""
    picture: Picture | None = None
    no_cause: str = ""
    """What stands where a cause would."""
    processes: tuple[ProcessRow, ...] = ()
    processes_left_out: int = 0
    processes_around: tuple[ProcessRow, ...] = ()
    """Outside the job, and no wait leads to them."""
    stacks: tuple[StackGroup, ...] = ()
    stacks_left_out: int = 0
    variables: tuple[ThreadVariables, ...] = ()
    logs: tuple[LogTail, ...] = ()
    panels: tuple[Panel, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    anchors: dict[tuple[str, str], str] = field(default_factory=dict)
    """(artefact, pointer or line) -> anchor of its excerpt."""

    @property
    def diagnosis(self) -> Finding | None:
        return self.report.diagnosis

    @property
    def others(self) -> list[Finding]:
        """Every other finding, in rank order."""
        return [finding for finding in self.report.findings if finding is not self.report.diagnosis]

    def anchor(self, evidence: Evidence) -> str:
        """Where the excerpt of `evidence` is; empty when there is none."""
        return self.anchors.get(place(evidence), "")


def view_of(report: Report, case: Case) -> View:
    """Gather what the reporters show."""
    chain = report.chains[report.chain] if report.chain is not None and report.chain < len(report.chains) else None
    processes = process_table(case.store)
    stacks = stack_groups(case)
    excerpts = excerpts_of(report, case)
    return View(
        report=report,
        chain=chain,
        reasons=tuple(reasons(report, chain)),
        branches=tuple(branches(report, chain)),
        picture=picture_of(chain, case, last_stacks(case.store.rows("frames"))),
        no_cause=no_cause(report, chain),
        processes=processes.job[:MAX_PROCESSES],
        processes_left_out=max(0, len(processes.job) - MAX_PROCESSES),
        processes_around=processes.around[:MAX_PROCESSES],
        stacks=tuple(stacks[:MAX_STACKS]),
        stacks_left_out=max(0, len(stacks) - MAX_STACKS),
        variables=tuple(variables(case))[:MAX_WITH_LOCALS],
        logs=tuple(log_tails(case)),
        panels=tuple(panels_of(case)),
        ledger=tuple(ledger_rows(case)),
        excerpts=tuple(excerpts.values()),
        anchors={key: excerpt.anchor for key, excerpt in excerpts.items()},
    )


# --- stacks ---


def stack_groups(case: Case) -> list[StackGroup]:
    """The last stack of every thread; threads in the same stack together, main threads first."""
    threads = case.store.by_id("threads")
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    frames_of: dict[tuple[str, ...], list[Frame]] = {}
    for thread, frames in last_stacks(case.store.rows("frames")).items():
        lines = tuple(frame_line(frame) for frame in frames)
        groups[lines].append(thread)
        frames_of.setdefault(lines, frames)
    found = [stack_group(lines, names, frames_of[lines], threads) for lines, names in groups.items()]
    return sorted(found, key=lambda group: ("MainThread" not in " ".join(group.threads), -len(group.threads)))


def last_stacks(frames: Iterable[Frame]) -> dict[str, list[Frame]]:
    """thread -> its frames of the last sample, innermost first; of a deeper look where no round brought any."""
    by_thread: dict[str, list[Frame]] = defaultdict(list)
    for frame in frames:
        by_thread[frame.thread].append(frame)
    newest = {thread: newest_sample(frame.sample for frame in looks) for thread, looks in by_thread.items()}
    return {
        thread: sorted((f for f in looks if f.sample == newest[thread]), key=lambda frame: frame.depth)
        for thread, looks in by_thread.items()
    }


def stack_group(
    lines: tuple[str, ...], names: list[str], frames: list[Frame], threads: dict[str, Thread]
) -> StackGroup:
    """One group, with the source around its innermost user frame."""
    user = next((frame for frame in frames if frame.source), None)
    known = [threads[name] for name in names if name in threads]
    return StackGroup(
        threads=tuple(thread_title(name, threads.get(name)) for name in names[:40]),
        liveness=said(known[0].liveness) if known else "",
        lines=tuple(_folded(lines)),
        source=tuple(source_lines(user)) if user else (),
        source_file=visible(user.file or "", 300) if user else "",
    )


def _folded(lines: Sequence[str]) -> Iterable[str]:
    """A frame that follows upon itself, as in a recursion, once."""
    for line, same in groupby(lines):
        times = sum(1 for _ in same)
        yield line if times == 1 else f"{line}  (× {times})"


def thread_title(name: str, thread: Thread | None) -> str:
    """``pid 12 MainThread, rank 3``."""
    if thread is None:
        return name
    rank = f", rank {thread.rank}" if thread.rank is not None else ""
    return visible(f"{process_named(thread.pid)} {thread_named(thread)}{rank}", 120)


def frame_line(frame: Frame) -> str:
    """``get (queue.py:171)``, with the full path for user frames."""
    name = frame.qualname or frame.function
    file = frame.file or frame.module or ("kernel" if frame.kind == "kernel" else "?")
    shown = file if frame.is_user else "/".join(file.split("/")[-2:])
    return visible(f"{name} ({shown}:{frame.line_no})" if frame.line_no else f"{name} ({shown})", 400)


def source_lines(frame: Frame) -> list[tuple[int, str, bool]]:
    """The headers of the enclosing blocks, then the lines around, in order, each once."""
    lines = {line.line: line.text for line in (*frame.enclosing, *frame.source)}
    return [(number, visible(lines[number], 300), number == frame.line_no) for number in sorted(lines)]


def variables(case: Case) -> Iterable[ThreadVariables]:
    """What collecting with --locals brought, thread by thread. Paths that polling threads name are not meant here."""
    threads = case.store.by_id("threads")
    by_thread: dict[str, list[Frame]] = defaultdict(list)
    for frame in case.store.rows("frames"):
        if frame.sample == LOCALS_SAMPLE and frame.locals:
            by_thread[frame.thread].append(frame)
    for name, frames in by_thread.items():
        inner = sorted(frames, key=lambda frame: frame.depth)
        shown = tuple((frame_line(frame), _variables(frame)) for frame in inner[:MAX_FRAMES_WITH_LOCALS])
        yield ThreadVariables(thread_title(name, threads.get(name)), shown, max(0, len(inner) - len(shown)))


def _variables(frame: Frame) -> tuple[tuple[str, str], ...]:
    return tuple((visible(name, 100), visible(text, 400)) for name, text in (frame.locals or {}).items())


# --- logs and ledger ---


def log_tails(case: Case) -> Iterable[LogTail]:
    """The last lines of every text there is, whoever writes into it."""
    by_text: dict[tuple[str, int | None], list[Log]] = defaultdict(list)
    for log in case.store.rows("logs"):
        if log.text:
            by_text[log.text, log.text_first].append(log)
    for logs in by_text.values():
        yield log_tail(case, logs)


def log_tail(case: Case, logs: Sequence[Log]) -> LogTail:
    """The end of one text, and the streams that go into it."""
    log = logs[0]
    lines = list(islice(lines_of(case, log.text), (log.text_first or 1) - 1, log.text_last))
    kept = lines[-LOG_LINES:]
    about = [listed(list(dict.fromkeys(filter(None, map(_stream, logs)))), 4)]
    about.append(f"{log.size:,} bytes" if log.size is not None else "")
    if log.last_write_age_s is not None:
        about.append(f"last written {log.last_write_age_s:,.0f} s before it was read")
    if added := _written_later(case, log):
        about.append(f"{added:,} bytes more came while it was watched, and are not here")
    if log.ends_with_newline is False:
        about.append("the last line is unfinished")
    return LogTail(
        title=visible(log.path or log.text, 300),
        about=", ".join(filter(None, about)),
        lines=tuple(line for text in kept for line in visible_lines(text)),
        first_line=(log.text_first or 1) + len(lines) - len(kept),
    )


def _written_later(case: Case, log: Log) -> int:
    """By how many bytes it had outgrown its text at the last look at its size: the text is taken first."""
    bundle, rows = _bundle_of(case, log.artefact), case.store.rows("log_samples")
    own = (row for row in rows if row.path == log.path and _bundle_of(case, row.artefact) is bundle)
    last = max(((row.mono_ns, row.size) for row in own if row.size is not None), default=None)
    return max(0, last[1] - log.size) if last and log.size is not None else 0


def _bundle_of(case: Case, artefact: str) -> OpenedBundle | None:
    found = case.locate(artefact)
    return found[0] if found else None


def _stream(log: Log) -> str:
    """``stdout of pid 12``; empty where no stream goes there by itself."""
    named = log.stream in ("stdout", "stderr") and log.process
    return f"{log.stream} of {process_of_id(log.process)}" if named and log.process else ""


def ledger_rows(case: Case) -> Iterable[LedgerRow]:
    """Every probe's entry, all bundles in order."""
    for bundle in case.bundles:
        for entry in bundle.manifest.ledger:
            yield LedgerRow(
                entry.probe, entry.status, entry.seconds, visible(entry.message, 600), visible(entry.hint, 300)
            )
