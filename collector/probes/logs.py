"""What the job said last: its standard output and error, its open log files, and those named with --log."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Union

from flatline.bundle.facts import Log, LogSample, process_id
from flatline.bundle.format import LOG_HEAD, LOG_TOTAL, Status

from ..confine import Confined, ConfineFailed, NotRegularError, device_of, run_as_target
from ..files import log_sources
from ..files.log_sources import LogFile, OtherStream
from ..files.log_text import Excerpt, member_name, open_given, open_held, take
from ..linux import access
from ..linux.grandchild import ask
from ..linux.mounts import by_id, mount_of
from ..linux.procfs import ProcFS, printable, text_of
from ..linux.unnoticed import NoticedError
from .interface import Artefact, Facts, Gap, Item, View, sleep_until

MOST_LOGS = 40
MOST_BYTES = 16 * 1024**2
MOST_ROWS = 2_000
FIRST = 10
"""So many outputs of the job come before what --log names on another host, which must not fall short of its place."""
_ANSWER_S = 1.5
_NAMED = 5


@dataclass(frozen=True)
class Failure:
    """Why a text could not be taken."""

    status: Status
    why: str
    hint: str = ""


Taken = Union[Excerpt, Failure]


class Logs:
    """Standard output and error of the job, the log files it has open, and those named with --log."""

    name = "logs"
    tables = ("logs", "log_samples")
    limit_s = 10.0
    spans_window = True
    reads = (
        "/proc/PID/{fd,fdinfo,mountinfo,ns,root,stat} of all processes",
        "/proc/locks",
        "/proc/self/{mountinfo,ns}",
        "the log files the job has open, and those of --log, head and tail, as the job's user",
    )
    runs = ()

    def gather(self, view: View) -> Iterator[Item]:
        proc = ProcFS(view.proc)
        sources = log_sources.find(proc, view)
        reading = _Reading(proc)
        taking = _Taking(reading)
        # Who waits for a mount that does not answer shall have what lies elsewhere by then.
        remote = [path for path in view.logs if reading.may_stall(path)]
        at_hand = [file for file in sources.files if file.streams and not file.mount][:FIRST]
        yield from taking.given([path for path in view.logs if path not in remote])
        yield from taking.files(at_hand if remote else ())
        yield from taking.given(remote)
        yield from taking.files([file for file in sources.files if not (remote and file in at_hand)])
        taking.rows += [_stream_row(other) for other in sources.others]
        yield Facts("facts/logs.json", {"logs": taking.rows[:MOST_ROWS]})
        yield from _gaps(taking.failures, sources.denied, view)
        for sample in range(view.samples):
            sleep_until(view.sample_at_ns(sample))
            yield _sizes(reading, view, sources.files, sample)


class _Reading:
    """Opens files with the rights they may be opened with, and asks no mount again that did not answer."""

    def __init__(self, proc: ProcFS) -> None:
        self._proc = proc
        self._own_mounts = list(by_id(proc, "self").values())
        self._stalled: set[str] = set()

    def file(self, file: LogFile, budget: int) -> Taken:
        """What a process of the job writes: read as its user."""
        if file.mount and file.mount in self._stalled:
            return Failure("timeout", f"{file.mount} does not answer")
        held = self._proc.path(file.target.pid, "fd", file.held.fd)
        holder = file.reader or file.target
        name = _name_of(file, self._proc.path(holder.pid, "fd", file.held.fd))

        def work(confined: Confined) -> Iterator[Taken]:
            if file.reader is None:
                yield _take_or_failure(lambda: open_held(held, name, confined), budget)
            else:
                yield _if_the_same(_take_or_failure(lambda: confined.open_regular(name), budget), file)

        for taken in run_as_target(file.target, work, proc=self._proc.root, limit_s=_ANSWER_S):
            if not isinstance(taken, ConfineFailed):
                return taken
            if taken.reason == "timeout" and file.mount:
                self._stalled.add(file.mount)
                left = f"; pid {taken.left_running} is left waiting there" if taken.left_running else ""
                return Failure("timeout", f"{file.mount} does not answer{left}")
            return Failure(taken.reason, taken.message)
        return Failure("error", "the reading ended without a word")

    def may_stall(self, path: str) -> bool:
        """Whether a path that was named with --log is asked of a server."""
        mount = mount_of(os.path.abspath(path), self._own_mounts)
        return mount is not None and not mount.is_local

    def given(self, path: str, budget: int) -> Taken:
        """What was named with --log: read with our own rights."""
        mount = mount_of(os.path.abspath(path), self._own_mounts)
        if path in self._stalled or (mount and mount.path in self._stalled):
            return Failure("timeout", "its file system does not answer")
        answer = ask(lambda: _take_or_failure(lambda: open_given(path), budget), _ANSWER_S)
        if answer.timed_out:
            self._stalled.add(mount.path if mount and not mount.is_local else path)
            left = f"; pid {answer.left_running} is left waiting there" if answer.left_running else ""
            return Failure("timeout", f"its file system does not answer{left}")
        return _failure(answer.error) if answer.error else answer.value

    def given_size(self, path: str) -> int | None:
        taken = self.given(path, budget=0)
        return taken.size if isinstance(taken, Excerpt) else None

    def size(self, file: LogFile) -> int | None:
        """Its size now. Only where the mount answers by itself, or did when the text was taken."""
        if not file.mount and file.reader is None:
            try:
                return os.stat(self._proc.path(file.target.pid, "fd", file.held.fd)).st_size
            except OSError:
                return None
        taken = self.file(file, budget=0)
        return taken.size if isinstance(taken, Excerpt) else None


def _name_of(file: LogFile, held: str) -> str:
    """To open it by: what people read has escapes for what a terminal would obey. Asked while we have our rights."""
    try:
        return os.readlink(held)
    except OSError:
        return file.path


def _take_or_failure(opened: Callable[[], int], budget: int) -> Taken:
    try:
        return take(opened(), budget)
    except OSError as error:
        return _failure(error)


def _if_the_same(taken: Taken, file: LogFile) -> Taken:
    """Where its writer has another root, the name may mean something else to the job."""
    if isinstance(taken, Excerpt) and file.held.inode not in (None, taken.inode):
        return Failure("skipped", "it is out of the job's reach", "name it with --log")
    return taken


def _failure(error: OSError) -> Failure:
    if isinstance(error, NotRegularError):
        return Failure("skipped", f"it is no regular file but a {error.kind}")
    if isinstance(error, NoticedError):
        return Failure("skipped", error.why)
    if isinstance(error, PermissionError):
        return Failure("denied", error.strerror or str(error), "name it with --log, as a user who may read it")
    if isinstance(error, FileNotFoundError):
        return Failure("absent", "there is no such file")
    return Failure("error", error.strerror or str(error))


class _Taking:
    """Collects texts until there are enough, and the rows that go with them."""

    def __init__(self, reading: _Reading) -> None:
        self._reading = reading
        self._left = MOST_BYTES
        self._members: dict[tuple[str, int], str] = {}
        """Device and inode -> member: nothing is taken twice."""
        self.rows: list[Log] = []
        self.failures: dict[Failure, list[str]] = defaultdict(list)

    def given(self, paths: Sequence[str]) -> Iterator[Artefact]:
        for path in paths:
            row = Log("argument", "file", path=printable(text_of(os.fsencode(path))))
            yield from self._keep([row], self._reading.given(path, self._budget()))

    def files(self, files: Sequence[LogFile]) -> Iterator[Artefact]:
        for file in files:
            taken = self._reading.file(file, self._budget()) if self._budget() else _FULL
            if isinstance(taken, Excerpt) and taken.is_binary and not file.streams:
                self.failures[_BINARY].append(file.path)
                continue
            yield from self._keep(_file_rows(file), taken)

    def _budget(self) -> int:
        """Bytes the next text may have; 0: there are enough."""
        has_room = len(self._members) < MOST_LOGS and self._left >= LOG_HEAD
        return min(LOG_TOTAL, self._left) if has_room else 0

    def _keep(self, rows: list[Log], taken: Taken) -> Iterator[Artefact]:
        """Note the rows, and yield the text unless it is there already, or empty."""
        if isinstance(taken, Failure):
            self.failures[taken].append(rows[0].path or "")
            self.rows += rows
            return
        key = (device_of(taken.device), taken.inode)
        content = taken.content
        if key not in self._members and content and self._budget():
            self._left -= len(content)
            self._members[key] = member_name(len(self._members) + 1, rows[0].path or "")
            yield Artefact(
                self._members[key],
                content,
                original_path=rows[0].path or "",
                original_bytes=taken.size,
                truncated=(taken.cut,) if taken.cut else (),
            )
        self.rows += [_with_excerpt(row, taken, self._members.get(key, "")) for row in rows]


_BINARY = Failure("skipped", "it is written by the job, but is no text")
_FULL = Failure("skipped", f"the limit of {MOST_LOGS} logs or {MOST_BYTES >> 20} MiB is reached", "name it with --log")


def _file_rows(file: LogFile) -> list[Log]:
    """One row per stream that goes there; else one for the file."""
    row = Log(
        "file",
        "file",
        path=file.path,
        writers=tuple(map(process_id, sorted(file.writers))),
        inode=file.held.inode,
        device=file.held.device,
    )
    return [replace(row, stream=stream, process=process_id(pid)) for pid, stream in file.streams] or [row]


def _with_excerpt(row: Log, taken: Excerpt, member: str) -> Log:
    return replace(
        row,
        text=member,
        size=taken.size,
        last_write_age_s=round(max(0.0, time.time() - taken.modified), 2),
        ends_with_newline=taken.ends_with_newline,
        last_line=taken.last_line,
        omitted_bytes=taken.cut[1] - taken.cut[0] if taken.cut else 0,
        inode=row.inode or taken.inode,
        device=row.device or device_of(taken.device),
    )


def _stream_row(other: OtherStream) -> Log:
    held = other.held
    return Log(
        other.stream,
        held.kind,
        path=held.link,
        process=process_id(other.pid),
        writers=(process_id(other.pid),),
        readers=None if other.readers is None else tuple(map(process_id, other.readers)),
        inode=held.inode,
        device=held.device,
    )


def _sizes(reading: _Reading, view: View, files: Sequence[LogFile], sample: int) -> Facts:
    now = time.monotonic_ns
    rows = [LogSample(file.path, sample, now(), reading.size(file)) for file in files[:MOST_LOGS]]
    for path in view.logs:
        rows.append(LogSample(printable(text_of(os.fsencode(path))), sample, now(), reading.given_size(path)))
    return Facts(f"samples/logs.{sample}.jsonl", {"log_samples": rows})


def _gaps(failures: Mapping[Failure, Sequence[str]], denied: Sequence[int], view: View) -> Iterator[Gap]:
    for failure, paths in failures.items():
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        yield Gap(
            failure.status,
            f"{', '.join(paths[:_NAMED])}{more}: {failure.why}",
            hint=failure.hint,
            target=paths[0],
            tables=("logs",),
        )
    if denied:
        yield Gap(
            "denied",
            f"the descriptors of {len(denied)} processes may not be seen, so their logs are not known",
            hint=access.hint_when_denied({target.uid for target in view.targets if target.pid in denied}),
            target=process_id(denied[0]),
            tables=("logs",),
        )
