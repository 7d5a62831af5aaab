"""Where a job's words go: what standard output and error of each process are, and the files it writes."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ..linux import census, descriptors, mounts
from ..linux.descriptors import DELETED, Descriptor
from ..linux.job_descriptors import JobDescriptors, read_job, read_job_sockets
from ..linux.mounts import MountLine
from ..linux.other_end import OtherEnds
from ..linux.procfs import ProcFS, Stat, Unread
from ..probes.interface import Target, View
from ..recorder.places import is_of_recorder

Stream = Literal["stdout", "stderr", "file", "argument"]
STREAMS: dict[int, Literal["stdout", "stderr"]] = {1: "stdout", 2: "stderr"}
LOUDEST = frozenset({"rank", "launcher"})
"""Roles whose output says most."""

READERS = 5
"""Processes outside the job that read its output, and may be the ones who write it down: tee, a launcher."""
FILES_OF_READER = 5
_CENSUS_S = 1.0
_NO_LOG = ("/dev/", "/proc/", "/sys/", "/memfd:")
_NO_LOG_ENDING = (
    ".arrow", ".bin", ".ckpt", ".db", ".gz", ".h5", ".lck", ".lock", ".npy", ".npz", ".parquet", ".pt", ".pth", ".pyc",
    ".safetensors", ".so", ".sqlite", ".sqlite3", ".tar", ".zip", ".zst", "-journal", "-shm", "-wal",
)  # fmt: skip
_LOG_ENDING = (".csv", ".err", ".jsonl", ".log", ".out", ".txt")


class Reader(NamedTuple):
    """A process outside the job that reads its output, and the process of the job whose output it is."""

    pid: int
    name: str
    source: Target


@dataclass
class LogFile:
    """A regular file that somebody writes."""

    target: Target
    """As whose user it is read."""
    held: Descriptor
    """The descriptor it is read through, so that a deleted one can be read too."""
    reader: Reader | None
    """Who writes it when that is none of the job: then it is read by its name alone, as the job could."""
    worth: int
    """0: output of a rank or launcher; 1: output of others; 2: another file; 3: what a reader of the output writes."""
    mount: str
    """The mount it lies on when that may not answer, else ``""``."""
    modified: float = 0.0
    """st_mtime; 0: not asked, as the mount may not answer."""
    streams: list[tuple[int, Stream]] = field(default_factory=list)
    writers: set[int] = field(default_factory=set)

    @property
    def path(self) -> str:
        return self.held.link


@dataclass(frozen=True)
class OtherStream:
    """Standard output or error that is no regular file: a pipe, a terminal, /dev/null."""

    pid: int
    stream: Stream
    held: Descriptor
    readers: tuple[int, ...] | None


@dataclass
class LogSources:
    """All that was found, best first."""

    files: list[LogFile]
    others: list[OtherStream]
    denied: list[int]
    """Processes whose descriptors may not be seen."""


def find(proc: ProcFS, view: View) -> LogSources:
    """Descriptors alone are looked at: nothing here waits for a file system."""
    job = read_job(proc, view.targets)
    ends = _ends(proc, view, job)
    targets = {target.pid: target for target in view.targets}
    files = _Files(proc)
    others = []
    for pid, held in job.open.items():
        if targets[pid].relation == "ancestor" or targets[pid].is_guarded:  # what those write is their own business
            continue
        for one in held:
            stream = STREAMS.get(one.fd)
            if one.kind == "file" and (stream or _could_be_log(one)):
                files.add(targets[pid], one, job.mounts[pid], stream)
            elif stream:
                others.append(OtherStream(pid, stream, one, ends.peers(pid, one)))
    for reader in _readers(proc, others, targets, inside=job.open):
        files.add_of_reader(reader)
    return LogSources(files.best_first(), others, job.denied)


def _ends(proc: ProcFS, view: View, job: JobDescriptors) -> OtherEnds:
    seen = census.take(proc, job=job.open, own=view.own_pids, limit_s=_CENSUS_S)
    ends = OtherEnds(proc, job.open, seen, job_complete=job.is_complete)
    ends.learn_sockets(read_job_sockets(proc, job)[0])
    return ends


def _could_be_log(one: Descriptor) -> bool:
    if one.mode not in ("write", "both") or one.link.startswith(_NO_LOG) or is_of_recorder(one.link):
        return False
    return not one.link.removesuffix(DELETED).lower().endswith(_NO_LOG_ENDING)


def _readers(
    proc: ProcFS, others: Sequence[OtherStream], targets: Mapping[int, Target], inside: Container[int]
) -> Iterator[Reader]:
    """Who reads what an ordinary user's process writes is taken for that one's, before it is for root's."""
    found: dict[int, Target] = {}
    for other in sorted(others, key=lambda one: targets[one.pid].uid == 0):
        for pid in other.readers or ():
            if pid not in inside:
                found.setdefault(pid, targets[other.pid])
    for pid in sorted(found)[:READERS]:
        stat = proc.stat(pid)
        if isinstance(stat, Stat):
            yield Reader(pid, stat.name, found[pid])


class _Files:
    """Files by device and inode: eight ranks that write one file have one log."""

    def __init__(self, proc: ProcFS) -> None:
        self._proc = proc
        self._found: dict[object, LogFile] = {}

    def add(self, target: Target, one: Descriptor, seen: Mapping[int, MountLine], stream: Stream | None) -> None:
        worth = 2 if not stream else 0 if target.role in LOUDEST or target.relation == "target" else 1
        file = self._enter(target, one, seen, worth)
        file.worth = min(file.worth, worth)
        file.writers.add(target.pid)
        if stream:
            file.streams.append((target.pid, stream))

    def add_of_reader(self, reader: Reader) -> None:
        """What tee or a launcher writes: only what looks like a log, as a launcher has other business too."""
        links = descriptors.links(self._proc, reader.pid)
        seen = mounts.by_id(self._proc, reader.pid)
        for fd, link in () if isinstance(links, Unread) else links:
            if not link.startswith("/") or not (reader.name == "tee" or link.lower().endswith(_LOG_ENDING)):
                continue
            one = descriptors.describe(self._proc, reader.pid, fd, link, seen)
            if one.kind == "file" and _could_be_log(one) and self._count(reader.pid) < FILES_OF_READER:
                self._enter(reader.source, one, seen, 3, reader).writers.add(reader.pid)

    def best_first(self) -> list[LogFile]:
        return sorted(self._found.values(), key=lambda file: (file.worth, bool(file.mount), -file.modified))

    def _count(self, pid: int) -> int:
        return sum(pid in file.writers for file in self._found.values())

    def _enter(
        self,
        target: Target,
        one: Descriptor,
        seen: Mapping[int, MountLine],
        worth: int,
        reader: Reader | None = None,
    ) -> LogFile:
        key = one.file or (target.pid, one.link)
        if key not in self._found:
            mount = seen.get(one.mount_id) if one.mount_id is not None else None
            local = mount is not None and mount.is_local
            unsure = "" if local else mount.path if mount else "unknown"
            self._found[key] = LogFile(target, one, reader, worth, unsure)
            if local and reader is None:
                self._found[key].modified = _modified(self._proc.path(target.pid, "fd", one.fd))
        return self._found[key]


def _modified(held: str) -> float:
    try:
        return os.stat(held).st_mtime
    except OSError:
        return 0.0
