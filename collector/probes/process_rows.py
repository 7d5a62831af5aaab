"""Rows of `processes` and `threads`, made of looks at /proc."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from flatline.bundle.facts import Process, Syscall, Thread, process_id, thread_id

from ..job.roles import ProcessInfo, RankInfo, is_python, rank_of, roles, start_method
from ..linux.containers import container_of
from ..linux.patience import Patience
from ..linux.procfs import Mapping as MappedFile
from ..linux.procfs import (
    ProcFS,
    Unread,
    exit_status,
    parse_cgroup,
    parse_environ,
    parse_kilobytes,
    parse_last_pid,
    parse_signals,
    terminal_name,
)
from ..linux.syscalls import decode, library_at, program_counter
from ..linux.tasks import ProcessLook, TaskLook
from ..linux.users import user_names
from .interface import Target, View

Looks = Mapping[int, ProcessLook]
Maps = Mapping[int, Sequence[MappedFile]]
EnvironState = Literal["read", "overwritten", "denied", "empty", "unknown"]

_EXE_VERSION = re.compile(r"/python(\d\.\d+)[a-z]*( \(deleted\))?$")
_MAPS_VERSION = re.compile(r"/libpython(\d\.\d+)[a-z]*\.so|/python(\d\.\d+)[a-z]*/lib-dynload/")
_RANKED = frozenset({"rank", "dataloader-worker", "pool-worker", "compile-worker"})


class ProcessRows:
    """Turns looks into rows. What does not change while a process lives is read once, from the first looks."""

    def __init__(self, proc: ProcFS, view: View, first: Looks) -> None:
        self.proc = proc
        self.targets = {target.pid: target for target in view.targets if target.pid in first}
        self.users = user_names()
        self.links = {pid: _links(proc, pid) for pid in self.targets}
        self.permitted = {pid: proc.is_permitted(pid) for pid in self.targets}
        self.infos = {
            pid: ProcessInfo(first[pid].stat, target.uid, self.links[pid]["exe"], target.argv)
            for pid, target in self.targets.items()
        }
        self.roles = roles(self.infos, view.env_names)
        self.ranks = {pid: self._rank(pid, view) for pid in self.targets}
        self.containers: dict[object, str | None] = {}
        self.environ = _environ_states(proc, view, self.permitted)
        self.ns_pids = {
            (self.links[pid]["ns/pid"], parse_last_pid(first[pid].status.get("NSpid"))): pid for pid in self.targets
        }

    def processes(self, looks: Looks, maps: Maps | None = None) -> list[Process]:
        """One row for each process looked at; with `maps` also Python's version where its executable hides it."""
        return [self._process(self.targets[pid], look, (maps or {}).get(pid, ())) for pid, look in looks.items()]

    def threads(self, looks: Looks, maps: Maps | None = None) -> list[Thread]:
        """One row for each thread looked at; with `maps` also the library in which it waits."""
        return [
            self._thread(self.targets[pid], task, (maps or {}).get(pid, ()))
            for pid, look in looks.items()
            for task in look.tasks
        ]

    def _process(self, target: Target, look: ProcessLook, maps: Sequence[MappedFile]) -> Process:
        stat, status, links, info = look.stat, look.status, self.links[target.pid], self.infos[target.pid]
        rank, knows_code = self.ranks[target.pid], self.permitted[target.pid] or stat.exit_code != 0
        cgroup = self.proc.text(target.pid, "cgroup")
        return Process(
            id=process_id(target.pid),
            host="h1",
            pid=target.pid,
            ns_pid=parse_last_pid(status.get("NSpid")),
            ppid=stat.ppid,
            start_ticks=stat.start_ticks,
            age_s=round(self.proc.age_s(stat.start_ticks), 2),
            relation=target.relation,
            uid=target.uid if target.uid >= 0 else None,
            user=self.users.get(target.uid),
            name=info.name,
            exe=links["exe"],
            argv=target.argv or None,
            cwd=links["cwd"],
            root=links["root"],
            role=self.roles[target.pid],
            rank=rank.rank,
            local_rank=rank.local_rank,
            world_size=rank.world_size,
            node=rank.node,
            start_method=start_method(info, self.infos),
            python=python_version(links["exe"], maps) if is_python(info) or maps else None,
            is_python=is_python(info) or _maps_python(maps),
            state=stat.state,
            exit_status=exit_status(stat.exit_code) if stat.state == "Z" and knows_code else None,
            stop_signal=stat.exit_code & 0x7F or None if stat.state in ("T", "t") else None,
            pgrp=stat.pgrp,
            session=stat.session,
            tty=terminal_name(stat.tty_nr),
            tty_foreground_pgrp=stat.tty_foreground_pgrp,
            tracer_pid=_number(status.get("TracerPid")),
            sig_pending=_signals(status, "SigPnd", "ShdPnd"),
            sig_caught=_signals(status, "SigCgt"),
            sig_ignored=_signals(status, "SigIgn"),
            rss=parse_kilobytes(status.get("VmRSS")),
            swap=parse_kilobytes(status.get("VmSwap")),
            threads_total=look.tids_total or None,
            threads_read=len(look.tasks),
            oom_score=_number(_text(self.proc, target.pid, "oom_score")),
            cgroup=None if isinstance(cgroup, Unread) else parse_cgroup(cgroup),
            pid_namespace=links["ns/pid"],
            net_namespace=links["ns/net"],
            mnt_namespace=links["ns/mnt"],
            container=self._container(target.pid),
            environ_state=self.environ[target.pid],
        )

    def _thread(self, target: Target, task: TaskLook, maps: Sequence[MappedFile]) -> Thread:
        switches = (task.voluntary, task.involuntary)
        return Thread(
            id=thread_id(target.pid, task.stat.pid),
            process=process_id(target.pid),
            pid=target.pid,
            tid=task.stat.pid,
            ns_tid=task.ns_tid,
            name=ProcessInfo(task.stat).name,
            is_main=task.stat.pid == target.pid,
            role=self.roles[target.pid],
            rank=self.ranks[target.pid].rank,
            relation=target.relation,
            state=task.stat.state,
            wchan=task.wchan,
            syscall=self._syscall(target.pid, task, maps),
            cpu_ms=self.proc.milliseconds(task.stat.user_ticks + task.stat.system_ticks),
            switches=None if None in switches else sum(n for n in switches if n is not None),
        )

    def _syscall(self, pid: int, task: TaskLook, maps: Sequence[MappedFile]) -> Syscall | None:
        call = decode(task.syscall) if task.syscall else None
        if call is None or task.syscall is None:
            return None
        counter = program_counter(task.syscall)
        path = None if call.fd is None else self.proc.link(pid, "fd", call.fd)
        return Syscall(
            call.name,
            call.nr,
            call.args,
            fd=call.fd,
            path=None if isinstance(path, Unread) else path,
            timeout_s=call.timeout_s,
            timed=call.timed,
            target_pid=self._collector_pid(pid, call.target_pid),
            library=None if counter is None else library_at(counter, maps),
        )

    def _collector_pid(self, caller: int, pid: int | None) -> int | None:
        """A process id that the caller uses, in our numbering; None when that process is not of the tree."""
        return None if pid is None else self.ns_pids.get((self.links[caller]["ns/pid"], pid))

    def _container(self, pid: int) -> str | None:
        """Of all that share their mounts and their pids it is the same."""
        place = (self.links[pid]["ns/mnt"], self.links[pid]["ns/pid"])
        if None in place:
            return container_of(self.proc, pid)
        if place not in self.containers:
            self.containers[place] = container_of(self.proc, pid)
        return self.containers[place]

    def _rank(self, pid: int, view: View) -> RankInfo:
        """Of ranks and their workers; what started them knows only its node."""
        target: Target | None = self.targets[pid]
        told = rank_of(view.env_names.get(pid, {}), self.targets[pid].argv)
        if self.roles[pid] not in _RANKED:
            return RankInfo(node=told.node)
        for _ in range(8):  # a worker whose environment is hidden has the rank of what started it
            if target is None or told.rank is not None:
                break
            target = self.targets.get(target.ppid)
            if target is not None and self.roles[target.pid] in _RANKED:
                told = rank_of(view.env_names.get(target.pid, {}), target.argv)
        return told


def python_version(exe: str | None, maps: Sequence[MappedFile]) -> str | None:
    """``3.11``, from the executable's name, else from the libraries that only one version loads."""
    match = _EXE_VERSION.search(exe or "")
    if match:
        return match[1]
    found = (_MAPS_VERSION.search(mapping.path) for mapping in maps)
    return next((m[1] or m[2] for m in found if m), None)


def _maps_python(maps: Sequence[MappedFile]) -> bool:
    return python_version(None, maps) is not None


def _links(proc: ProcFS, pid: int) -> dict[str, str | None]:
    found = {name: proc.link(pid, name) for name in ("exe", "cwd", "root", "ns/pid", "ns/net", "ns/mnt")}
    return {name: None if isinstance(link, Unread) else link for name, link in found.items()}


def _environ_states(proc: ProcFS, view: View, permitted: Mapping[int, bool]) -> dict[int, EnvironState]:
    """From what was learnt; an environment that was not is read again, only to say why."""
    patience = Patience(total_s=0.5)
    states: dict[int, EnvironState] = {}
    for pid, allowed in permitted.items():
        states[pid] = _environ_state(proc, pid, view, patience) if allowed else "denied"
    return states


def _environ_state(proc: ProcFS, pid: int, view: View, patience: Patience) -> EnvironState:
    if pid in view.env_names:
        return "read" if view.env_names[pid] else "empty"
    raw = patience.read(lambda: proc.environ(pid))
    if isinstance(raw, Unread):
        return "denied" if raw.reason == "denied" else "unknown"
    return parse_environ(raw)[1]


def _signals(status: Mapping[str, str], *names: str) -> tuple[int, ...] | None:
    try:
        return tuple(sorted({signal for name in names for signal in parse_signals(status[name])}))
    except (KeyError, ValueError):
        return None


def _text(proc: ProcFS, *parts: object) -> str | None:
    text = proc.text(*parts)
    return None if isinstance(text, Unread) else text.strip()


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
