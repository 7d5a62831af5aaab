"""Which processes the job consists of: from a pid or a name to the whole tree, with what each one is.

Everything here reads /proc only, and is meant to run in a disposable child (`TargetsProbe`).
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flatline.bundle.facts import Relation
from flatline.errors import NoTargetError, TargetGoneError

from ..linux.patience import Patience
from ..linux.procfs import ProcFS, Unread, exit_status
from ..linux.unnoticed import find_watched
from ..probes.interface import Doing, Gap, Item, Result, Target, View
from .jobtree import SERVERS, ProcessTable, meant, own_pids, tree
from .rendezvous import Meetings, other_ranks, ranks_of_others
from .roles import ProcessInfo, is_flatline, is_python, program_of, roles, runs_only_flatline

LOCKED = "the memory map of the process is locked, as while a page fault waits for a dead mount"

MATCHES_SHOWN = 10


@dataclass(frozen=True)
class JobTree:
    """What `TargetsProbe` found."""

    targets: tuple[Target, ...]
    """The target first, then by start time, ancestors last."""
    own_pids: tuple[int, ...] = ()
    """This tool, and what runs only for it: never evidence."""
    notes: tuple[str, ...] = ()
    """What the user should know: ``process 12 has already ended …``."""
    watched: frozenset[int] = frozenset()
    """See `View.watched`."""


def find_processes(proc: ProcFS) -> dict[int, ProcessInfo]:
    """One cheap pass over the host without anything that can block; command lines are left empty."""
    pids = proc.numbers()
    found = {} if isinstance(pids, Unread) else {pid: process_info(proc, pid) for pid in pids}
    return {pid: process for pid, process in found.items() if process is not None}


def process_info(proc: ProcFS, pid: int) -> ProcessInfo | None:
    """None: it is gone."""
    stat = proc.stat(pid)
    if isinstance(stat, Unread):
        return None
    if stat.is_kernel_thread:
        return ProcessInfo(stat, uid=0)
    status, exe = proc.status(pid), proc.link(pid, "exe")
    uids = [] if isinstance(status, Unread) else status.get("Uid", "").split()
    return ProcessInfo(stat, int(uids[1]) if len(uids) > 1 else -1, None if isinstance(exe, Unread) else exe)


def with_argv(proc: ProcFS, processes: ProcessTable, pids: Iterable[int], patience: Patience) -> dict[int, ProcessInfo]:
    """The same processes, with the command lines of `pids`; those whose memory lock is held go without."""
    found = dict(processes)
    # What is in D may be the one that holds its own lock: last, so that it costs no other its command line.
    for pid in sorted(set(pids) & set(found), key=lambda pid: (found[pid].stat.state == "D", pid)):
        argv = patience.read(lambda pid=pid: proc.argv(pid))
        if not isinstance(argv, Unread):
            found[pid] = replace(found[pid], argv=argv)
    return found


def check_target(proc: ProcFS, processes: ProcessTable, pid: int) -> None:
    """Raises NoTargetError for what cannot be a job: no process, a thread, a kernel thread, a zombie all alone."""
    process = processes.get(pid)
    if process is None:
        raise _no_such_process(proc, pid)
    if process.stat.is_kernel_thread:
        raise NoTargetError(
            f"process {pid} ({process.name}) is a thread of the kernel, not a job",
            next_step="flatline collect --pid PID, with the pid of the training process (ps -ef)",
        )
    if process.has_ended and _live_parent(processes, process) is None:
        raise TargetGoneError(
            f"process {pid} ({process.name}) has ended ({_ending(process)}), and so has what started it",
            why=("its parent is gone, so that nothing of the job is left to look at",),
            next_step="look at the job's log, and at dmesg when it was killed by signal 9",
        )


def _no_such_process(proc: ProcFS, pid: int) -> NoTargetError:
    status = proc.status(pid)
    group = None if isinstance(status, Unread) else status.get("Tgid")
    if group and group != str(pid):
        return NoTargetError(f"{pid} is a thread of process {group}", next_step=f"flatline collect --pid {group}")
    pids = proc.numbers()
    if isinstance(pids, Unread) or not pids:
        return NoTargetError(
            f"process {pid} cannot be looked at: there is no /proc here",
            next_step="mount -t proc proc /proc, or collect on the host; --log and --cwd without --pid need no /proc",
        )
    return TargetGoneError(
        f"there is no process {pid}",
        why=(
            "it has ended",
            "the number is that of another machine or of inside a container",
            "/proc hides other users' processes (hidepid)",
        ),
        next_step="flatline collect --name 'train*', or ps -ef to find the pid",
    )


def _ending(process: ProcessInfo) -> str:
    code = exit_status(process.stat.exit_code)
    if code < 0:
        return f"killed by signal {-code}"
    return f"exit status {code}" if code else "exit status 0, or hidden from us"


def _live_parent(processes: ProcessTable, process: ProcessInfo) -> ProcessInfo | None:
    parent = processes.get(process.ppid)
    return None if parent is None or parent.pid == 1 or parent.has_ended or SERVERS.match(parent.name) else parent


def matching(processes: ProcessTable, patterns: Sequence[str]) -> list[int]:
    """ProcessTable whose name, program or whole command line matches a shell pattern, without ourselves."""
    return [
        process.pid
        for process in processes.values()
        if not (process.stat.is_kernel_thread or is_flatline(process) or runs_only_flatline(process))
        and any(fnmatch.fnmatchcase(text, pattern) for text in _names_of(process) for pattern in patterns)
    ]


def _names_of(process: ProcessInfo) -> set[str]:
    words = {os.path.basename(word) for word in process.argv if word}
    return {process.name, program_of(process.argv).name, " ".join(process.argv), *words}


def targets_of(
    proc: ProcFS,
    processes: ProcessTable,
    relations: Mapping[int, Relation],
    named: Collection[int],
    env: Mapping[int, Mapping[str, str]] | None = None,
) -> tuple[Target, ...]:
    """The tree as `View.targets` wants it: the targets first, what stands beside and above them last.

    A bundle is for those who own the processes that were `named`: of other users' processes less is taken.
    """
    members = {pid: processes[pid] for pid in relations if pid in processes}
    role = roles(members, env or {})
    order = ("target", "descendant", "sibling", "ancestor")
    owners = {processes[pid].uid for pid in named if pid in processes}
    found = [
        Target(
            pid=process.pid,
            start_ticks=process.stat.start_ticks,
            ppid=process.ppid,
            uid=process.uid,
            name=process.name,
            relation=relations[process.pid],
            role=role[process.pid],
            is_python=is_python(process),
            age_s=proc.age_s(process.stat.start_ticks),
            argv=process.argv,
            is_guarded=not owners & {0, process.uid},
        )
        for process in members.values()
    ]
    return tuple(sorted(found, key=lambda t: (order.index(t.relation), t.start_ticks, t.pid)))


# --- the probes ---


@dataclass(frozen=True)
class TargetsProbe:
    """Finds the job's whole tree from pids or name patterns.

    Yields `Result(JobTree)` as soon as it knows more: from parents and children alone, with the command lines, with
    ranks that were started elsewhere. The last one counts. Or `Result(NoTargetError)`.
    """

    pids: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    name = "targets"
    tables = ("processes", "threads")
    limit_s = 3.0
    spans_window = False

    def gather(self, view: View) -> Iterator[Item]:
        proc, patience = ProcFS(view.proc), Patience()
        meetings = Meetings(proc, patience)
        me = (*view.own_pids, os.getpid())
        try:
            processes = find_processes(proc)
            if not self.names:
                yield Result(_job_tree(proc, processes, self.pids, me))
            yield Doing("command lines")
            processes = with_argv(proc, processes, _worth_reading(processes), patience)
            matches = _checked_matches(processes, self.names, me) if self.names else []
            if len(matches) > 1:
                _check_one_job(proc, processes, matches, meetings, me)
            named = [meant(processes, pid) for pid in self.pids]
            job = _job_tree(proc, processes, (*named, *matches), me)
            yield Result(job)
            yield Doing("other ranks of the job")
            strangers = ranks_of_others(job.targets, meetings)
            if strangers:
                job = _without(job, strangers)
                yield Result(job)
            others = other_ranks(processes, job.targets, job.own_pids, meetings)
            if others:
                job = _with_others(proc, processes, job, others, me, without=strangers)
                yield Result(job)
            yield Doing("folders that are watched")
            watched = find_watched(proc, [target.pid for target in job.targets])
            if watched:
                yield Result(replace(job, watched=watched))
        except NoTargetError as error:
            yield Result(error)
        if patience.lost:
            yield Gap("partial", f"{patience.lost} command lines did not answer: {LOCKED}")


def _without(job: JobTree, strangers: Sequence[int]) -> JobTree:
    pids = ", ".join(map(str, strangers))
    note = f"left out, as their ranks meet at another address or port, so are of another job: pid {pids}"
    targets = tuple(target for target in job.targets if target.pid not in strangers)
    return replace(job, targets=targets, notes=(*job.notes, note))


def _with_others(
    proc: ProcFS,
    processes: ProcessTable,
    job: JobTree,
    others: Sequence[int],
    me: Collection[int],
    *,
    without: Collection[int],
) -> JobTree:
    wanted = [target.pid for target in job.targets if target.relation == "target"]
    relations = tree(processes, [*wanted, *others], me)
    for pid in without:
        relations.pop(pid, None)
    for pid in others:
        relations[pid] = "sibling"
    pids = ", ".join(map(str, others))
    note = f"{len(others)} more ranks of the same rendezvous were found outside the tree: pid {pids}"
    own = own_pids(processes, me, keep=relations)
    return JobTree(targets_of(proc, processes, relations, wanted), own, (*job.notes, note))


def _worth_reading(processes: ProcessTable) -> list[int]:
    return [pid for pid, process in processes.items() if not (process.stat.is_kernel_thread or process.has_ended)]


def _checked_matches(processes: ProcessTable, names: Sequence[str], me: Collection[int]) -> list[int]:
    own = own_pids(processes, me)
    found = [pid for pid in matching(processes, names) if pid not in own and not processes[pid].has_ended]
    if not found:
        raise TargetGoneError(
            f"no process matches --name {' '.join(names)}",
            why=("the pattern must match the whole name, one word's base name or the whole command line",),
            next_step=f"flatline collect --name '*{names[0].strip('*')}*', or flatline collect --pid PID",
        )
    # Of a parent and its child that both match, the parent's tree holds the child.
    return [pid for pid in found if not set(found) & _pids_above(processes, pid)]


def _check_one_job(
    proc: ProcFS, processes: ProcessTable, matches: Sequence[int], meetings: Meetings, me: Collection[int]
) -> None:
    """One bundle is about one job. Raises NoTargetError when a pattern matches processes of several."""
    job = _job_tree(proc, processes, matches[:1], me)
    of_it = {target.pid for target in job.targets} | set(other_ranks(processes, job.targets, job.own_pids, meetings))
    if set(matches) <= of_it:
        return
    # Names of programs only: command lines have not been through the redactor here.
    shown = tuple(f"pid {pid} ({processes[pid].name})" for pid in matches[:MATCHES_SHOWN])
    more = (f"… and {len(matches) - MATCHES_SHOWN} more",) if len(matches) > MATCHES_SHOWN else ()
    raise NoTargetError(
        f"--name matches {len(matches)} processes that are not of one job",
        listing=shown + more,
        next_step="flatline collect --pid PID (twice for two that belong together), or a narrower --name",
    )


def _pids_above(processes: ProcessTable, pid: int) -> set[int]:
    above: set[int] = set()
    while pid in processes and processes[pid].ppid not in above:
        pid = processes[pid].ppid
        above.add(pid)
    return above


def _job_tree(proc: ProcFS, processes: ProcessTable, pids: Sequence[int], me: Collection[int]) -> JobTree:
    wanted, notes = list(dict.fromkeys(pids)), []
    for pid in tuple(wanted):
        check_target(proc, processes, pid)
        parent = _live_parent(processes, processes[pid])
        if processes[pid].has_ended and parent is not None:
            wanted.append(parent.pid)
            ending = _ending(processes[pid])
            notes.append(f"process {pid} has already ended ({ending}); its parent {parent.pid} is looked at")
    wanted = list(dict.fromkeys(wanted))
    relations = tree(processes, wanted, me)
    return JobTree(targets_of(proc, processes, relations, pids), own_pids(processes, me, keep=relations), tuple(notes))
