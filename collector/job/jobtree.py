"""From a process to its whole job: what descends from it, what started it, and what belongs beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence

from flatline.bundle.facts import Relation

from .roles import (
    ProcessInfo,
    is_editor,
    is_flatline,
    is_interactive_shell,
    is_python,
    is_shell,
    plain_role,
    runs_only_flatline,
    same_program,
    start_method,
)

ProcessTable = Mapping[int, ProcessInfo]
"""pid -> process, of one look at the host."""

SERVERS = re.compile(
    r"^(systemd.*|init|sshd.*|tmux.*|screen|SCREEN|login|agetty|crond?|atd|containerd.*|dockerd|conmon|runc|crun|kubelet|"
    r"slurmd|slurmstepd|pbs_mom|sge_shepherd|supervisord|gnome-terminal.*|konsole|xterm|kitty|alacritty|mosh-server)$"
)
"""What jobs are started by and are no part of."""
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO: the host's own."""
_MAX_ANCESTORS = 32


def own_pids(processes: ProcessTable, me: Collection[int], keep: Collection[int] = ()) -> tuple[int, ...]:
    """This collector, every other flatline, their children, and the shells that run only them; never one of `keep`.

    `me` are our own pids, and always ours. A shell that the job descends from stays, whatever its command line says.
    """
    own = set(me) & set(processes)
    own |= {process.pid for process in processes.values() if is_flatline(process)}
    own |= set(_descendants(processes, own, avoid=frozenset(keep)))
    parents = {processes[pid].ppid for pid in own}
    while parents:
        parents = {pid for pid in parents if pid in processes and runs_only_flatline(processes[pid])} - own
        own |= parents
        parents = {processes[pid].ppid for pid in parents}
    return tuple(sorted(own - (set(keep) - set(me))))


def meant(processes: ProcessTable, pid: int) -> int:
    """`pid`; for that of a ``flatline run``, as a batch script knows it, the job that it was started around."""
    if pid not in processes or not is_flatline(processes[pid]):
        return pid
    started = [one for one in processes.values() if one.ppid == pid and not one.has_ended]
    return min(started, key=lambda one: (one.stat.start_ticks, one.pid)).pid if started else pid


def tree(processes: ProcessTable, pids: Sequence[int], me: Collection[int] = ()) -> dict[int, Relation]:
    """The whole job of `pids`: pid -> relation.

    Below: every descendant of the targets. Above: the ancestors up to a person's shell, the session's leader or the
    container's first process. Beside: all else below what started them as part of one job (their launcher, the parent
    they were forked from, a script, a pipeline), and members of the job's sessions whose own parent died.
    """
    chains = {pid: _ancestors(processes, processes[pid], me) for pid in pids}
    above = {process.pid for chain in chains.values() for process in chain}
    own = set(own_pids(processes, me, keep={*pids, *above}))
    roots = {_job_root(processes, processes[pid], chain) for pid, chain in chains.items()}
    beside = {sibling for pid, chain in chains.items() for sibling in _siblings(processes, processes[pid], chain)}
    beside |= set(_descendants(processes, {*pids, *roots, *beside}, avoid=own))
    beside |= _orphans(processes, {*pids, *roots, *beside} - own)
    below = set(_descendants(processes, pids, avoid=own))
    relations: dict[int, Relation] = {pid: "sibling" for pid in beside - own}
    relations.update((pid, "ancestor") for pid in above)
    relations.update((pid, "descendant") for pid in below)
    relations.update((pid, "target") for pid in pids)
    return relations


def _ancestors(processes: ProcessTable, process: ProcessInfo, me: Collection[int]) -> list[ProcessInfo]:
    chain: list[ProcessInfo] = []
    child = process
    while len(chain) < _MAX_ANCESTORS:
        parent = processes.get(child.ppid)
        if parent is None or parent.pid in me or parent in chain or not _belongs_above(child, parent):
            break
        chain.append(parent)
        child = parent
        if parent.argv and is_interactive_shell(parent):
            break
    return chain


def _belongs_above(child: ProcessInfo, parent: ProcessInfo) -> bool:
    if parent.pid == 1:
        return _pid_1_is_a_container() and not SERVERS.match(parent.name)
    if parent.stat.is_kernel_thread or SERVERS.match(parent.name) or is_flatline(parent) or is_editor(parent):
        return False
    if parent.stat.session == child.stat.session:
        return True
    # torchrun gives every rank a session of its own; a person's shell has one for itself.
    starts_jobs = is_python(parent) or plain_role(parent) == "launcher"
    return not is_interactive_shell(child) and starts_jobs


def _pid_1_is_a_container() -> bool:
    try:
        return os.readlink("/proc/self/ns/pid") != _FIRST_PID_NAMESPACE
    except OSError:
        return False


def _job_root(processes: ProcessTable, target: ProcessInfo, chain: Sequence[ProcessInfo]) -> int:
    root, child = target, target
    for parent in chain:
        if _starts_job(processes, parent, child):
            root = parent
        elif not is_shell(parent) or is_interactive_shell(parent):
            break
        child = parent
    return root.pid


def _starts_job(processes: ProcessTable, parent: ProcessInfo, child: ProcessInfo) -> bool:
    if plain_role(parent) == "launcher":
        return True
    if not is_python(parent) or not (is_python(child) or is_shell(child)):
        return False
    if start_method(child, {parent.pid: parent}) in ("fork", "spawn", "forkserver"):
        return True
    same = [p for p in processes.values() if p.ppid == parent.pid and same_program(p, child)]
    return len(same) > 1


def _siblings(processes: ProcessTable, target: ProcessInfo, chain: Sequence[ProcessInfo]) -> set[int]:
    """What a shell started in our process group: the rest of a person's pipeline (``train.py | tee log``), or a
    script's other programs (``rank0.py & rank1.py & wait``), which share the group with all else the script runs."""
    shell = next((p for p in chain if is_shell(p)), None)
    if shell is None:
        return set()
    return {
        p.pid
        for p in processes.values()
        if p.ppid == shell.pid
        and p.stat.pgrp == target.stat.pgrp
        and not (is_flatline(p) or runs_only_flatline(p))
    }


def _descendants(processes: ProcessTable, roots: Collection[int], avoid: Collection[int] = ()) -> list[int]:
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.ppid, []).append(process.pid)
    found: list[int] = []
    waiting = [child for root in roots for child in children.get(root, [])]
    seen = {*roots, *avoid}
    while waiting:
        pid = waiting.pop()
        if pid not in seen:
            seen.add(pid)
            found.append(pid)
            waiting += children.get(pid, [])
    return found


def _orphans(processes: ProcessTable, members: Collection[int]) -> set[int]:
    """ProcessTable of the job's sessions that were given a new parent when their own died, and what they started."""
    stats = [processes[pid].stat for pid in members if pid in processes]
    groups = {(stat.session, stat.pgrp) for stat in stats if stat.session}
    closed = {stat.session for stat in stats if _is_closed(processes, stat.session, members)}
    orphans = {
        process.pid
        for process in processes.values()
        if process.pid not in members
        and _was_reparented(processes, process)
        and ((process.stat.session, process.stat.pgrp) in groups or process.stat.session in closed)
        and (is_python(process) or plain_role(process) is not None)
    }
    return orphans | set(_descendants(processes, orphans))


def _is_closed(processes: ProcessTable, session: int, members: Collection[int]) -> bool:
    """A session whose leader is gone or is itself of the job holds nobody else's processes."""
    leader = processes.get(session)
    return bool(session) and (leader is None or (leader.pid in members and not is_shell(leader)))


def _was_reparented(processes: ProcessTable, process: ProcessInfo) -> bool:
    """A child is born in its parent's session, so a parent of another session is not the one it was born to."""
    parent = processes.get(process.ppid)
    leads = process.stat.session == process.pid
    return not leads and (parent is None or parent.stat.session != process.stat.session)
