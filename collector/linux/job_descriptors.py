"""All that the processes of a job have open, and the sockets among it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flatline.bundle.facts import Socket

from ..probes.interface import Target
from . import descriptors, mounts
from .descriptors import Descriptor
from .mounts import MountLine
from .procfs import ProcFS, Stat, Unread
from .sockdiag import read_sockets

PER_PROCESS = 5_000
IN_ALL = 100_000


@dataclass
class JobDescriptors:
    """The job's own descriptors, and which processes would not show theirs."""

    open: dict[int, list[Descriptor]] = field(default_factory=dict)
    mounts: dict[int, Mapping[int, MountLine]] = field(default_factory=dict)
    """Of each process, by the mount's id."""
    denied: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    """Processes that have more than was taken."""

    @property
    def is_complete(self) -> bool:
        return not self.denied and not self.cut


def read_job(proc: ProcFS, targets: Sequence[Target]) -> JobDescriptors:
    """A person's shell above the job is not read: like everybody else, it counts where it holds the other end."""
    job = JobDescriptors()
    known: dict[tuple[object, object], Mapping[int, MountLine]] = {}
    room = IN_ALL
    for target in targets:
        pid = target.pid
        found = descriptors.links(proc, pid) if target.is_of_job else Unread("absent")
        if isinstance(found, Unread):
            if found.reason == "denied" and target.relation != "ancestor" and not _is_zombie(proc, pid):
                job.denied.append(pid)
            continue
        links = list(found)
        taken = links[: min(PER_PROCESS, room)]
        room -= len(taken)
        if len(links) > len(taken):
            job.cut.append(pid)
        place = (proc.link(pid, "ns", "mnt"), proc.link(pid, "root"))
        if place not in known:  # a mount table can have thousands of lines, and a job hundreds of processes
            known[place] = mounts.by_id(proc, pid)
        job.mounts[pid] = known[place]
        job.open[pid] = [descriptors.describe(proc, pid, fd, link, known[place]) for fd, link in taken]
    return job


def _is_zombie(proc: ProcFS, pid: int) -> bool:
    stat = proc.stat(pid)
    return isinstance(stat, Stat) and stat.state in ("Z", "X")


def read_job_sockets(proc: ProcFS, job: JobDescriptors) -> tuple[list[Socket], dict[int, str]]:
    """The job's sockets and their peers, by one look into each of its network namespaces; and for those that could
    not be looked into with sock_diag, a process that is in it, and why."""
    by_namespace: dict[object, list[int]] = {}
    for pid in job.open:
        by_namespace.setdefault(proc.link(pid, "ns", "net"), []).append(pid)
    rows: dict[tuple[object, ...], Socket] = {}
    refused: dict[int, str] = {}
    for pids in by_namespace.values():
        wanted = {one.inode for pid in pids for one in job.open[pid] if one.kind == "socket" and one.inode}
        if not wanted:
            continue
        found, reason = read_sockets(pids[0], wanted, proc=proc.root)
        rows.update(((row.netns, row.inode, row.local, row.remote), row) for row in found)
        if reason:
            refused[pids[0]] = reason
    return list(rows.values()), refused
