"""One run of collect, told in order: find the job, learn its secrets, gather, publish early, close."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import flatline
from flatline.bundle import format as bundle_format
from flatline.bundle.format import FileEntry, LedgerEntry, Manifest, TargetEntry
from flatline.bundle.writer import BundleFull, Closing
from flatline.errors import NoTargetError, NowhereToWriteError, UsageError
from flatline.redaction import Redactor
from flatline.redaction.documents import redact_document
from flatline.redaction.keep_map import already_there, write_map
from flatline.redaction.names import keep_names
from flatline.redaction.pseudonyms import key_of
from flatline.redaction.wishes import NOTHING, Wishes, wishes_in

from . import output, plan, review
from .job.learning import LearnProbe
from .job.targets import JobTree, TargetsProbe
from .linux import grandchild, own_code
from .probes.interface import Target, View
from .probes.leftovers import Leftovers
from .probes.site import SiteProbe, site_probes
from .readme import readme
from .site_plan import SitePlan
from .supervision import lifecycle
from .supervision.supervisor import Caps, Job, Member, Running, Supervisor

CLOSING_S = 1.5
"""Kept back from the deadline to redact, write and rename the bundle."""
LEAST_S = 3.0
"""What a collect has at least, however late it comes to its first line."""
WRITING_S = 0.4
"""Of that, what writing and renaming may take; redacting again stops before, and says so."""
MAPPING_S = 1.0
"""For the owner's own list, which may be anywhere."""
WISHES_S = 1.0
"""For the person's file of what else to hide, likewise."""
REVIEWED_S = 10.0
"""For hiding in everything what was asked for in a review."""
MEMORY = 4 << 30
"""For each probe and each tool: several times what py-spy or gdb take for a job with all of CUDA's libraries."""
CPU_S = 60
"""Beside the deadline, for each: who uses more has escaped its limit, as when somebody has stopped us with SIGSTOP."""
FIRST_PUBLICATION_S = 2.0
"""When the first pass takes longer than this, what there is gets published without it."""


@dataclass(frozen=True)
class Options:
    """What the person asked for."""

    pids: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    output: str = ""
    label: str = ""
    case: str = ""
    deadline_s: float = 30.0
    window_s: float = 4.0
    samples: int = 3
    max_size: int = bundle_format.DEFAULT_MAX_SIZE
    source: bool = True
    locals: bool = False
    attach: bool = True
    cwd: str = ""
    """The job's folder; with it, or with `cores`, no process need be left."""
    cores: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    """Plans of the site's own commands and files: docs/site-plan.md."""
    history: str = ""
    """What `flatline run` or `watch` kept of the time before."""
    redacted: bool = True
    wishes: Wishes = NOTHING
    """What to hide and keep beside the rules."""
    redaction: str = ""
    """A file with more of them."""
    review: bool = False
    """Whether a person looks before the bundle is closed."""
    case_key: str = ""
    """What the pseudonyms of several bundles are made with, so that they agree."""
    keep_map: str = ""
    """Where the owner's own list of what the pseudonyms stand for goes."""
    proc: str = "/proc"
    argv: tuple[str, ...] = ()

    @property
    def names_remains(self) -> bool:
        """Whether there is something to take when the job itself is gone."""
        return bool(self.logs or self.cwd or self.cores)


@dataclass
class Collected:
    """What came of it; the command tells it to the person."""

    bundle: Path
    size: int = 0
    moved: str = ""
    """Why the bundle is not where it was asked for."""
    replaced: str = ""
    """What was under its name before."""
    entries: list[LedgerEntry] = field(default_factory=list)
    hidden: dict[str, int] | None = field(default_factory=dict)
    """None: nothing was looked for, as the person asked."""
    stacks: int = 0
    remains: int = 0
    """Texts of what was named with --log, --cwd and --core."""
    has_targets: bool = True
    ended_by: str = "finished"
    unmapped: str = ""
    """Why there is no --keep-map file."""
    saved: tuple[Path, ...] = ()
    """Bundles made of what killed collects had left in the same folder."""


class Collection:
    """The state of one run: the writer, the redactor and the ledger, fed by the supervisor."""

    def __init__(self, options: Options, *, on_wait: Callable[[Sequence[Running]], None]) -> None:
        self.options = options
        self._on_wait = on_wait
        own_code.keep_at_hand()
        key = key_of(options.case_key) if options.case_key else os.urandom(32)
        self.redactor = Redactor(enabled=options.redacted, key=key)
        # A host so busy that our own start used up the time, or a shell that waited before it became us: what remains
        # must still give a bundle.
        least = time.monotonic_ns() + int(min(LEAST_S, options.deadline_s) * 1e9)
        self.deadline_ns = max(lifecycle.exec_ns() + int(options.deadline_s * 1e9), least)
        self.supervisor = Supervisor(
            deadline_ns=self.deadline_ns - int(min(CLOSING_S, options.deadline_s / 4) * 1e9),
            redactor=self.redactor,
            on_member=self._keep,
            on_end=self._note,
            on_milestone=self._milestone,
            on_wait=self._waiting,
            caps=Caps(memory=MEMORY, cpu_s=int(options.deadline_s) + CPU_S),
        )
        self.output: output.Output | None = None
        self._place = output.Place(None)
        self.targets: tuple[Target, ...] = ()
        self.own_pids: tuple[int, ...] = (os.getpid(),)
        self.watched: frozenset[int] = frozenset()
        self.site: list[SiteProbe] = []
        self.entries: list[LedgerEntry] = []
        self._passed: set[str] = set()
        self._stacks = 0
        self._remains = 0
        self._full: list[str] = []
        self._opened_ns = 0
        self._saved: list[Path] = []
        self._published: Path | None = None
        self._known_at_start = 0
        self._sources: dict[str, str] = {}
        """Member -> the name it was made of."""
        self._names: dict[str, str] = {}
        """Member -> the name it is published under, since a value learnt later stands in its own."""
        self._review: review.Review | None = None
        self._redaction: Literal["complete", "first pass only"] = "complete"

    def view(self, targets: Sequence[Target] = (), **more: Any) -> View:
        """What probes may know now."""
        options = self.options
        return View(
            targets=tuple(targets),
            proc=options.proc,
            begin_ns=time.monotonic_ns(),
            window_s=options.window_s,
            samples=options.samples,
            logs=options.logs,
            source=options.source,
            locals=options.locals,
            attach=options.attach,
            cwd=options.cwd,
            cores=options.cores,
            history=options.history,
            own_pids=self.own_pids,
            watched=self.watched,
            **more,
        )

    def postpone(self, ns: int) -> None:
        """Move the deadline: somebody was asked, and took that long to answer."""
        self.deadline_ns += ns
        self.supervisor.deadline_ns += ns

    def find(self, pids: Sequence[int]) -> JobTree:
        """The whole tree of the job. NoTargetError when there is none, or /proc did not tell in time."""
        values, entry = self.supervisor.call(Job(TargetsProbe(tuple(pids), self.options.names), self.view()))
        if not values:
            raise NoTargetError(f"the process table could not be read: {entry.message or entry.status}")
        if isinstance(values[-1], NoTargetError):
            raise values[-1]
        return values[-1]

    def wish(self) -> None:
        """Hide and keep what the person asked for, first of all. UsageError when their file is not understood."""
        wishes = self.options.wishes
        if self.options.redaction:
            path = Path(self.options.redaction)
            answer = grandchild.ask(lambda: path.read_text(encoding="utf-8"), WISHES_S)
            if not isinstance(answer.value, str):
                raise UsageError(f"--redaction: {path} cannot be read: {answer.error or 'its folder does not answer'}")
            wishes += wishes_in(answer.value, str(path))
        keep_names(wishes.keeps)
        self.redactor.wish(wishes)

    def include(self) -> None:
        """Read the plans of the site's own commands and files. UsageError when one is not understood."""
        if not self.options.includes:
            return
        values, entry = self.supervisor.call(Job(SitePlan(self.options.includes), self.view()))
        if not values:
            raise UsageError(f"the plan could not be read: {entry.message or entry.status}")
        if isinstance(values[-1], UsageError):
            raise values[-1]
        self.site = site_probes(values[-1])

    def gather(self, job: JobTree) -> Collected:
        """Everything after the job has been found. NowhereToWriteError when no folder takes the bundle."""
        self.targets = job.targets
        self.own_pids = tuple({*job.own_pids, os.getpid()})
        self.watched = job.watched
        place, others = self._find_place()
        self._place = place
        environments = self._learn()
        self._open(place, others)
        self._known_at_start = self.redactor.revision
        guarded = {target.pid for target in self.targets if target.is_guarded}
        shown = {pid: variables for pid, variables in environments.items() if pid not in guarded}
        view = self.view(self.targets, env_names=shown)
        probes = [*plan.probes(has_targets=bool(self.targets)), *self.site]
        first = plan.FIRST_PASS & {probe.name for probe in probes}
        waits = {name: frozenset[str]() for name in plan.AT_ONCE}
        self.supervisor.run([Job(probe, view, after=waits.get(probe.name, first)) for probe in probes])
        self._save_leftovers()
        return self._close()

    # --- the steps ---

    def _find_place(self) -> tuple[output.Place, list[Path]]:
        options = self.options
        name = output.file_name(self.redactor.text(options.label), redacted=options.redacted)
        if options.keep_map and grandchild.ask(lambda: os.path.lexists(options.keep_map), MAPPING_S).value:
            raise already_there(options.keep_map)
        values, _ = self.supervisor.call(Job(output.OutputPlace(options.output, name), self.view()))
        place, others = output.choose(options.output, name, values[0] if values else None)
        if place.refused:
            raise UsageError(f"-o: {place.refused}", next_step="flatline collect … -o another-name.flatline.zip")
        return place, others

    def _learn(self) -> dict[int, dict[str, str]]:
        """Environments and arguments of the whole tree, and our own, before anything of it is written."""
        values, _ = self.supervisor.call(Job(LearnProbe(), self.view(self.targets)))
        environments: dict[int, dict[str, str]] = {}
        for value in values:
            environments.update(value)
        self.redactor.prepare()
        return environments

    def _open(self, place: output.Place, others: Sequence[Path]) -> None:
        try:
            self.output = output.Output(
                place,
                others,
                max_size=self.options.max_size,
                deadline_ns=lambda: self.deadline_ns,
                watched=self.watched,
                on_child=self._spare,
            )
        except OSError as error:
            raise NowhereToWriteError(
                f"the bundle cannot be written: {error.strerror}",
                why=("the folder is missing or read-only", "the disk is full", "the file system does not answer"),
                next_step="flatline collect … -o /another/folder/",
            ) from error
        self._opened_ns = time.monotonic_ns()
        # All but what only the end knows: a salvaged bundle has no other manifest.
        head = asdict(self._manifest((), ended_by="running"))
        later = ("complete", "ended_by", "ledger", "files", "redaction")
        head = {name: value for name, value in head.items() if name not in later}
        self._add(bundle_format.BUNDLE_JSON, to_json(head), media_type="application/json")
        for number, entry in enumerate(self.entries):
            self._add_ledger(number, entry)

    def _spare(self, pid: int) -> None:
        """A process that writes the bundle is no evidence, and no probe's to end."""
        self.own_pids = (*self.own_pids, pid)
        self.supervisor.leave_alone(pid)

    def _save_leftovers(self) -> None:
        """After our own evidence is in: what earlier collects were killed over."""
        if self.output is not None and not self.supervisor.interrupted:
            self._saved, _ = self.supervisor.call(Job(Leftovers(self.output.final.parent), self.view()))

    def _close(self) -> Collected:
        assert self.output is not None
        number = self.supervisor.interrupted
        ended_by = lifecycle.signal_name(number) if number else self._natural_end()
        if self.output.left:
            self._note(LedgerEntry("output", "ok", message=self.redactor.text("; ".join(self.output.left))))
        if self.options.review and not number:
            self._let_review()
        bundle, moved = self._publish_last(ended_by)
        self.output.finish()
        unmapped = self._keep_map()
        return Collected(
            bundle=bundle,
            size=self.output.published_bytes,
            moved=moved,
            replaced=self._place.replaces if bundle == self._place.final else "",
            entries=self.entries,
            hidden=dict(self.redactor.counts) if self.options.redacted else None,
            stacks=self._stacks,
            remains=self._remains,
            has_targets=bool(self.targets),
            ended_by=ended_by,
            saved=tuple(self._saved),
            unmapped=unmapped,
        )

    def _keep_map(self) -> str:
        """Write down what the pseudonyms stand for, if asked to; why that could not be."""
        path = self.options.keep_map
        if not path:
            return ""
        answer = grandchild.ask(lambda: write_map(path, self.redactor.translations), MAPPING_S)
        if answer.timed_out:
            return f"{path}: its folder does not answer"
        return f"{path}: {answer.error.strerror or answer.error}" if answer.error else ""

    def _let_review(self) -> None:
        """A person looks at every artefact; the time that takes does not count against the deadline."""
        assert self.output is not None
        output, began = self.output, time.monotonic_ns()
        names = [name for name in output.members if not name.startswith(("ledger/", bundle_format.BUNDLE_JSON))]
        answer = partial(review.ask_terminal, lambda: self.supervisor.interrupted is not None)
        self._review = review.Review(self.redactor, names, output.read, sys.stderr, answer)
        self._review.run()
        self.postpone(time.monotonic_ns() - began + int(REVIEWED_S * 1e9 * self._review.changed))

    def _natural_end(self) -> str:
        return "deadline" if time.monotonic_ns() >= self.supervisor.deadline_ns else "finished"

    # --- called by the supervisor ---

    def _keep(self, member: Member) -> None:
        self._add(
            member.path,
            member.data,
            media_type=member.media_type,
            probe=member.probe,
            original_path=member.original_path,
            original_bytes=member.original_bytes,
            truncated=member.truncated,
            redactions=member.redactions,
        )
        self._sources[member.path] = os.path.basename(member.original_path)
        self._stacks += member.path.startswith("stacks/")
        self._remains += member.probe in plan.REMAINS and not member.path.startswith(("facts/", "samples/"))

    def _note(self, entry: LedgerEntry) -> None:
        if self._full:
            dropped = f"{len(self._full)} members could not be written ({self._full[0]} …)"
            entry = replace(entry, cut="; ".join(filter(None, (entry.cut, dropped))))
            self._full.clear()
        self.entries.append(entry)
        if self.output is not None:
            self._add_ledger(len(self.entries) - 1, entry)

    def _milestone(self, probe: str, name: str) -> None:
        self._passed.add(probe)
        if name == "first-pass" and self._passed >= plan.FIRST_PASS:
            self._publish_early()

    def _waiting(self, running: Sequence[Running]) -> None:
        if self._published is None and time.monotonic_ns() - self._opened_ns > FIRST_PUBLICATION_S * 1e9:
            self._publish_early()
        self._on_wait(running)

    # --- writing ---

    def _add(self, path: str, data: bytes, **about: Any) -> None:
        assert self.output is not None
        try:
            self.output.add(path, data, **about)
        except BundleFull:
            self._full.append(f"{path}: over --max-size")
        except (OSError, ValueError) as error:  # a full disk keeps what is there; a bad name costs only its member
            self._full.append(f"{path}: {error}")

    def _add_ledger(self, number: int, entry: LedgerEntry) -> None:
        name = f"ledger/{number:03}-{entry.probe}.json"
        self._add(name, to_json(asdict(entry)), media_type="application/json", probe=entry.probe)

    def _publish_early(self) -> None:
        """What there is, under the final name; when that fails now, the end tries again."""
        if self.output is None or self._published is not None or self.options.review:
            return
        try:
            self._published = self.output.publish_early(self._closing("running"), self._redact_again, self._name_again)
        except OSError:
            pass  # where it was moved is in `left`; the last publication says what else there is to say

    def _publish_last(self, ended_by: str) -> tuple[Path, str]:
        """The bundle's path and why it is not where it was asked for. NowhereToWriteError leaves the spool."""
        assert self.output is not None
        self._redaction = "complete"
        try:
            return self.output.publish(self._closing(ended_by), self._redact_again, self._name_again), self.output.moved
        except OSError as error:
            problem = f"{self.output.final} could not be written at the end: {error.strerror}"
        if self._published is not None:
            return self._published, f"{problem}; it holds what had been gathered early on"
        self.output.abandon()
        raise NowhereToWriteError(problem, next_step=f"flatline salvage {self.output.spool} -o /another/folder/")

    def _closing(self, ended_by: str) -> Closing:
        self._choose_names()

        def closing(files: tuple[FileEntry, ...]) -> Sequence[tuple[str, bytes]]:
            manifest = self._manifest(files, ended_by=ended_by)
            report = {**self.redactor.report(), "state": manifest.redaction, "artefacts": by_artefact(files)}
            texts = {
                bundle_format.README: readme(manifest, self.redactor.counts).encode(),
                bundle_format.REDACTION: to_json(report),
                bundle_format.MANIFEST: to_json(asdict(manifest)),
            }
            return [(name, self._hidden_again(data, name)) for name, data in texts.items()]

        return closing

    def _redact_again(self, path: str, data: bytes) -> bytes | None:
        """A value learnt after the probes began is hidden in what they had sent before, too."""
        if self._review and path in self._review.dropped:
            return review.left_out(path)
        if self.redactor.revision == self._known_at_start:
            return None
        if time.monotonic_ns() > self.deadline_ns - int(WRITING_S * 1e9):
            self._redaction = "first pass only"
            return None
        again = self._hidden_again(data, path)
        return None if again == data else again

    def _hidden_again(self, data: bytes, path: str) -> bytes:
        text = data.decode("utf-8", "surrogateescape")
        if self._review and self._review.changed:
            text = redact_document(path, text, self.redactor)
        for name, other in self._names.items():
            text = text.replace(name, other)
        return (self.redactor.rewrite(text) or text).encode("utf-8", "surrogateescape")

    def _name_again(self, path: str) -> str:
        return self._names.get(path, path)

    def _choose_names(self) -> None:
        """Before anything is written: what refers to a member may stand before it."""
        if self.redactor.revision == self._known_at_start:
            return
        for path, source in self._sources.items():
            if path not in self._names and self.redactor.rewrite(f"{path}\n{source}") is not None:
                folder, suffix = path.partition("/")[0], os.path.splitext(path)[1][:6]
                self._names[path] = f"{folder}/hidden-name-{len(self._names) + 1}{suffix}"

    def _manifest(self, files: tuple[FileEntry, ...], *, ended_by: str) -> Manifest:
        options = self.options
        return Manifest(
            tool_version=flatline.__version__,
            created_at=utc_now(),
            complete=ended_by == "finished",
            ended_by=ended_by,
            boot_id=read_line("/proc/sys/kernel/random/boot_id"),
            mono_ns=time.monotonic_ns(),
            platform=f"{platform.system()} {platform.release()} {platform.machine()}",
            argv=tuple(self.redactor.argv(options.argv)),
            targets=tuple(TargetEntry(t.pid, t.start_ticks, t.role) for t in self.targets if t.relation == "target"),
            window_s=options.window_s,
            samples=options.samples,
            label=self.redactor.text(options.label),
            case=self.redactor.text(options.case),
            sensitivity="redacted" if options.redacted else "UNREDACTED",
            redaction=self._redaction,
            ledger=tuple(self.entries),
            files=files,
        )


def by_artefact(files: Sequence[FileEntry]) -> dict[str, int]:
    """How often something was hidden in each."""
    return {file.path: file.redactions for file in files if file.redactions}


def to_json(value: Any) -> bytes:
    """Compact JSON in UTF-8; NaN is refused, since readers refuse it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def utc_now() -> str:
    """ISO 8601 with milliseconds."""
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}Z"


def read_line(path: str) -> str:
    """A kernel file of one line; empty when it is not there."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


