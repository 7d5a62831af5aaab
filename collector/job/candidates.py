"""Which jobs there are to choose from, when no target was named, and which of them looks stuck."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Union

from ..linux.patience import Patience
from ..linux.procfs import ProcFS, Unread, parse_cgroup
from ..linux.syscalls import decode
from ..probes.interface import Item, Result, View
from .jobtree import SERVERS, ProcessTable, own_pids, tree
from .roles import (
    ProcessInfo,
    is_editor,
    is_flatline,
    is_interactive_shell,
    is_javascript,
    is_python,
    is_shell,
    plain_role,
    program_of,
)
from .targets import find_processes, with_argv

LOOK_S = 0.5
"""How long the CPU use of each job is watched."""
MIN_AGE_S = 2.0
_TRAINING = re.compile(
    r"train|finetun|fine[-_]tun|pretrain|torch|accelerate|deepspeed|lightning|horovod|jax|sft|grpo|rlhf|epoch|\.py\b",
    re.IGNORECASE,
)
_SERVICE = re.compile(r"/system\.slice/[^/]+\.service$|/init\.scope$")
_SYSTEM_PATH = re.compile(r"^/(usr/(lib|libexec|share|sbin|bin)|sbin|lib)/")


@dataclass(frozen=True)
class Candidate:
    """One job that could be the target. Its command line is not redacted: redact it before it is shown."""

    pid: int
    """Its main process: the launcher, else the program itself."""
    command: str
    uid: int
    age_s: float
    processes: int
    waits_in: str
    """State, call and place of the main thread: ``S in futex (futex_do_wait)``."""
    cpu_s: float
    """CPU the whole tree used during the look."""
    ended_children: int
    """Zombies among its processes."""
    looks_stuck: bool
    why: str
    """Why it is listed."""


def candidates(proc: ProcFS, me: Collection[int] = (), look_s: float = LOOK_S) -> tuple[Candidate, ...]:
    """This user's jobs (all users' for root), those that look stuck first, then the oldest.

    A job is a Python program, a launcher with Python below it, or one whose Python program has ended.
    """
    processes = find_processes(proc)
    processes = with_argv(proc, processes, _readable(processes), Patience())
    own = set(own_pids(processes, me))
    roots = _job_roots(proc, processes, own)
    trees = _told_once(processes, {pid: [pid, *_below(processes, pid, own)] for pid in roots})
    before = {pid: _ticks(proc, members) for pid, members in trees.items()}
    time.sleep(look_s if trees else 0)
    found = [
        _candidate(proc, processes, pid, members, max(0, _ticks(proc, members) - before[pid]), why=roots[pid])
        for pid, members in trees.items()
        if not isinstance(proc.stat(pid), Unread)
    ]
    return tuple(sorted(found, key=lambda c: (not c.looks_stuck, -c.ended_children, -c.age_s)))


def choose(found: tuple[Candidate, ...]) -> Union[Candidate, str]:
    """The one job that must be meant, or why none can be chosen without a person."""
    stuck = [candidate for candidate in found if candidate.looks_stuck]
    if len(stuck) == 1:
        return stuck[0]
    if len(found) == 1:
        return found[0]
    if not found:
        return "no Python program and no launcher of a job is running that you may look at"
    if not stuck:
        return f"{len(found)} jobs run, and none of them looks stuck: all use the CPU"
    of_all = f" of {len(found)}" if len(stuck) < len(found) else ""
    return f"{len(stuck)}{of_all} jobs look stuck"


@dataclass(frozen=True)
class CandidatesProbe:
    """Lists the jobs to choose from. Yields `Result` of a tuple of candidates."""

    name = "candidates"
    tables = ()
    limit_s = 4.0
    spans_window = False

    def gather(self, view: View) -> Iterator[Item]:
        yield Result(candidates(ProcFS(view.proc), (*view.own_pids, os.getpid())))


def _readable(processes: ProcessTable) -> list[int]:
    return [pid for pid, process in processes.items() if not (process.stat.is_kernel_thread or process.has_ended)]


def _job_roots(proc: ProcFS, processes: ProcessTable, own: Collection[int]) -> dict[int, str]:
    """pid of each job's main process -> why it is one."""
    reasons = {pid: _why(processes, process) for pid, process in processes.items() if pid not in own}
    roots: dict[int, str] = {}
    for pid, why in reasons.items():
        if why and _is_ours(proc, processes[pid]):
            top = _topmost(processes, reasons, pid)
            roots.setdefault(top, reasons[top] or why)
    return roots


def _is_ours(proc: ProcFS, process: ProcessInfo) -> bool:
    mine = os.geteuid() in (0, process.uid)
    return mine and proc.age_s(process.stat.start_ticks) >= MIN_AGE_S and not _is_service(proc, process)


def _why(processes: ProcessTable, process: ProcessInfo) -> str:
    """Empty: no job by itself."""
    if process.has_ended or process.stat.is_kernel_thread or is_flatline(process):
        return ""
    if is_editor(process) or SERVERS.match(process.name):
        return ""
    ended = [p for p in processes.values() if p.ppid == process.pid and p.has_ended and is_python(p)]
    if is_python(process):
        return f"a Python program with {len(ended)} ended child processes" if ended else "a Python program"
    if ended and process.pid != 1:  # to the first process everybody's orphans come
        return f"its Python program has ended (process {ended[0].pid})"
    if plain_role(process) == "launcher" and _TRAINING.search(" ".join(program_of(process.argv).arguments)):
        return "a launcher of a training program"
    return ""


def _topmost(processes: ProcessTable, reasons: Mapping[int, str], pid: int) -> int:
    """Up over shells and launchers to the highest process that is a job for a reason of its own."""
    top, current, seen = pid, processes[pid], {pid}
    while (parent := processes.get(current.ppid)) is not None and parent.pid not in seen:
        seen.add(parent.pid)
        passes = is_shell(parent) or is_javascript(parent) or plain_role(parent) == "launcher"
        if parent.pid not in reasons or is_interactive_shell(parent) or not (reasons[parent.pid] or passes):
            break
        top = parent.pid if reasons[parent.pid] else top
        current = parent
    return top


def _is_service(proc: ProcFS, process: ProcessInfo) -> bool:
    """A daemon of the system: it runs as a unit or from the system's own folders, without a terminal."""
    script = program_of(process.argv).path
    daemon = process.stat.tty_nr == 0 and process.ppid == 1
    if daemon and script not in process.argv[:1] and _SYSTEM_PATH.match(script):
        return True
    text = proc.text(process.pid, "cgroup")
    cgroup = None if isinstance(text, Unread) else parse_cgroup(text)
    return bool(cgroup and _SERVICE.search(cgroup)) and not _TRAINING.search(" ".join(process.argv[1:3]))


def _below(processes: ProcessTable, pid: int, own: Collection[int]) -> list[int]:
    relations = tree(processes, [pid], own)
    return [member for member, relation in relations.items() if relation in ("descendant", "sibling")]


def _told_once(processes: ProcessTable, trees: Mapping[int, list[int]]) -> dict[int, list[int]]:
    """Without those that are a part of one told already, by its oldest process: the workers of a pool whose parent has
    died are each a program without a parent, and a collect of any of them takes them all."""
    told: dict[int, list[int]] = {}
    for pid in sorted(trees, key=lambda pid: (processes[pid].stat.start_ticks, pid)):
        if not any(pid in members and other in trees[pid] for other, members in told.items()):
            told[pid] = trees[pid]
    return told


def _ticks(proc: ProcFS, pids: Iterable[int]) -> int:
    stats = (proc.stat(pid) for pid in pids)
    return sum(stat.user_ticks + stat.system_ticks for stat in stats if not isinstance(stat, Unread))


def _candidate(
    proc: ProcFS, processes: ProcessTable, pid: int, members: Collection[int], ticks: int, *, why: str
) -> Candidate:
    process = processes[pid]
    return Candidate(
        pid=pid,
        command=" ".join(process.argv) or process.name,
        uid=process.uid,
        age_s=proc.age_s(process.stat.start_ticks),
        processes=len(members),
        waits_in=_waits_in(proc, pid),
        cpu_s=ticks / proc.ticks_per_second,
        ended_children=sum(processes[member].has_ended for member in members),
        looks_stuck=ticks <= 1,
        why=why,
    )


def _waits_in(proc: ProcFS, pid: int) -> str:
    stat, line, wchan = proc.stat(pid), proc.text(pid, "syscall"), proc.text(pid, "wchan")
    if isinstance(stat, Unread):
        return "ended"
    call = None if isinstance(line, Unread) else decode(line)
    place = "" if isinstance(wchan, Unread) or wchan in ("", "0") else f" ({wchan})"
    return f"{stat.state} in {call.name}{place}" if call else f"{stat.state}{place}"
