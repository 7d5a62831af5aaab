"""What every process of the job has open, who holds the other end, and who holds or wants which file lock."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flatline.bundle.facts import Fd, Host, Lock, process_id

from ..linux import access, census, locks, strangers
from ..linux.census import Census
from ..linux.descriptors import Descriptor
from ..linux.job_descriptors import IN_ALL, PER_PROCESS, JobDescriptors, read_job, read_job_sockets
from ..linux.locks import LockLine
from ..linux.other_end import OtherEnds
from ..linux.procfs import ProcFS, Stat, Unread
from .interface import Facts, Gap, Item, Target, View

HOST = "h1"
HOLDERS = 200
"""Processes outside the job that are described; a service bus has thousands of clients."""
_CENSUS_S = 1.5


class Descriptors:
    """Open descriptors, sockets and file locks of the job, and who on this host holds their other end."""

    name = "descriptors"
    tables = ("fds", "sockets", "locks")
    limit_s = 6.0
    spans_window = False
    reads = (
        "/proc/PID/{fd,fdinfo,mountinfo,ns,root,stat} of all processes",
        "/proc/locks",
        "/proc/self/{mountinfo,ns}",
        "sock_diag(7)",
    )
    runs = ()

    def gather(self, view: View) -> Iterator[Item]:
        proc = ProcFS(view.proc)
        job = read_job(proc, view.targets)
        yield from _denied_gap(job.denied, view.targets)
        yield from _cut_gap(job.cut)
        if not job.open:
            return
        seen = census.take(proc, job=job.open, own=view.own_pids, limit_s=_CENSUS_S)
        ends = OtherEnds(proc, job.open, seen, job_complete=job.is_complete)
        sockets, refused = read_job_sockets(proc, job)
        ends.learn_sockets(sockets)
        rows = [_fd_row(pid, one, ends) for pid, held in job.open.items() for one in held]
        lock_rows = _lock_rows(proc, job, ends)
        tables: dict[str, list[Any]] = {"fds": rows, "sockets": sockets, "hosts": [_host_row(seen)]}
        tables.update({"locks": lock_rows} if lock_rows is not None else {})
        tables.update(_outside_tables(proc, view, ends, rows, tables.get("locks", [])))
        yield Facts("facts/descriptors.json", tables)
        yield from _socket_gaps(refused)
        yield from _census_gap(seen)
        if lock_rows is None:
            yield Gap("denied", f"{proc.path('locks')} could not be read", tables=("locks",))


def _denied_gap(pids: Sequence[int], targets: Sequence[Target]) -> Iterator[Gap]:
    if pids:
        yield Gap(
            "denied",
            f"{len(pids)} of {len(targets)} processes do not show their descriptors: pid {_named(pids)}",
            hint=access.hint_when_denied({target.uid for target in targets if target.pid in pids}),
            target=process_id(pids[0]),
            tables=("fds", "sockets", "locks"),
        )


def _cut_gap(pids: Sequence[int]) -> Iterator[Gap]:
    if pids:
        yield Gap(
            "partial",
            f"only the first {PER_PROCESS} descriptors of a process and {IN_ALL} in all are taken; "
            f"pid {_named(pids)} has more",
            target=process_id(pids[0]),
            tables=("fds",),
        )


def _named(pids: Sequence[int]) -> str:
    return ", ".join(map(str, pids[:8])) + (" …" if len(pids) > 8 else "")


def _socket_gaps(refused: Mapping[int, str]) -> Iterator[Gap]:
    for pid, reason in refused.items():
        yield Gap(
            "partial",
            f"sockets without their peers, as sock_diag could not be asked for pid {pid}: {reason}",
            hint="run it as root, with CAP_SYS_ADMIN",
            target=process_id(pid),
            tables=("sockets",),
        )


def _census_gap(seen: Census) -> Iterator[Gap]:
    if seen.is_complete:
        return
    why = seen.blind or f"{seen.unseen} of {seen.seen} processes on this host do not show their descriptors"
    hint = "run it on the host, outside the container" if seen.blind else "run it with sudo" if os.geteuid() else ""
    yield Gap("partial", f"{why}: that nobody holds an other end cannot be said", hint=hint, tables=("fds",))


def _host_row(seen: Census) -> Host:
    return Host(HOST, processes_seen=seen.seen, processes_fds_unseen=None if seen.blind else seen.unseen)


def _fd_row(pid: int, one: Descriptor, ends: OtherEnds) -> Fd:
    peers = ends.peers(pid, one)
    return replace(_bare_row(pid, one), peers=None if peers is None else tuple(map(process_id, peers)))


def _bare_row(pid: int, one: Descriptor) -> Fd:
    return Fd(
        process_id(pid),
        one.fd,
        one.kind,
        path=one.link,
        inode=one.inode,
        device=one.device,
        flags=one.flags,
        mode=one.mode,  # type: ignore[arg-type]
        pos=one.pos,
        deleted=one.deleted,
        watches=one.watches,
    )


# --- locks ---


def _lock_rows(proc: ProcFS, job: JobDescriptors, ends: OtherEnds) -> list[Lock] | None:
    """Every line about a file that the job has open or has locked. None: /proc/locks could not be read."""
    text = proc.text("locks", limit=1 << 22)
    if isinstance(text, Unread):
        return None
    paths = {one.file: one.link for held in job.open.values() for one in held if one.file}
    lines = list(locks.parse(text))
    files = {line.file for line in lines if line.file in paths or line.pid in job.open}
    return [_lock_row(proc, line, paths.get(line.file), ends) for line in lines if line.file in files]


def _lock_row(proc: ProcFS, line: LockLine, path: str | None, ends: OtherEnds) -> Lock:
    owner = _owner(proc, line, path, ends)
    return Lock(
        f"{HOST}/lock/{line.device}:{line.inode}",
        line.inode,
        device=line.device,
        kind=line.kind,  # type: ignore[arg-type]
        mode=line.mode,  # type: ignore[arg-type]
        waiting=line.waiting,
        owner_process=None if owner is None else process_id(owner),
        path=path,
        start=line.start,
        end=line.end,
    )


def _owner(proc: ProcFS, line: LockLine, path: str | None, ends: OtherEnds) -> int | None:
    """Who holds or wants it. The kernel names the process that asked for a flock, which may have ended and left it to
    a child, and nobody for an OFD lock: then the open file description that shows the lock tells who has it."""
    sharing = ends.sharing(line.file, path) if path else []
    named = [held for held in sharing if held[0] == line.pid]
    if line.pid is not None and (named or line.kind == "posix"):
        ends.keep(named)
        return line.pid
    holding = [held for held in sharing if not line.waiting and _shows(held[1], line)]
    ends.keep(holding[:1])
    if holding:
        return holding[0][0]
    return line.pid if line.pid is not None and isinstance(proc.stat(line.pid), Stat) else None


def _shows(one: Descriptor, line: LockLine) -> bool:
    return any((held.kind, held.start, held.end) == (line.kind, line.start, line.end) for held in one.locks)


# --- the holders outside the job ---


def _outside_tables(
    proc: ProcFS, view: View, ends: OtherEnds, rows: Sequence[Fd], lock_rows: Sequence[Lock]
) -> dict[str, list[Any]]:
    """Rows of the processes that hold an other end, and of these ends."""
    known = {target.pid for target in view.targets}
    holders = dict(list(ends.holders().items())[:HOLDERS])
    owners = {int(row.owner_process.rpartition("/")[2]) for row in lock_rows if row.owner_process}
    unknown = sorted((set(holders) | owners) - known)[:HOLDERS]
    beside = [_bare_row(pid, one) for pid, held in holders.items() for one in held]
    return {"fds": [*rows, *beside], **strangers.tables(proc, unknown)}
