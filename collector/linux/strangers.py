"""Processes outside the job that hold what it waits for: their own rows, and their main thread's, so that a chain of
waits goes on through them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from flatline.bundle.facts import Process, Thread, process_id, thread_id

from . import syscalls
from .grandchild import ask
from .procfs import ProcFS, Unread, parse_last_pid, parse_signals, printable

HOST = "h1"
_ARGV_S = 0.5


def tables(proc: ProcFS, pids: Iterable[int]) -> dict[str, list[Any]]:
    """Rows of `processes` and `threads` for those that are still there; without a table that would be empty."""
    pids = list(pids)
    argv = ask(lambda: {pid: proc.argv(pid) for pid in pids}, _ARGV_S).value or {}  # cmdline can block
    found: dict[str, list[Any]] = {
        "processes": [row for pid in pids for row in _process_row(proc, pid, argv.get(pid))],
        "threads": [row for pid in pids for row in _main_thread_row(proc, pid)],
    }
    return {name: rows for name, rows in found.items() if rows}


def _process_row(proc: ProcFS, pid: int, argv: tuple[str, ...] | Unread | None) -> Iterator[Process]:
    stat, status = proc.stat(pid), proc.status(pid)
    if isinstance(stat, Unread) or isinstance(status, Unread):
        return
    cwd = proc.link(pid, "cwd")
    yield Process(
        process_id(pid),
        HOST,
        pid,
        ns_pid=parse_last_pid(status.get("NSpid")),
        ppid=stat.ppid,
        start_ticks=stat.start_ticks,
        age_s=round(proc.age_s(stat.start_ticks), 2),
        relation="holder",
        uid=int(status["Uid"].split()[0]) if status.get("Uid") else None,
        name=printable(stat.name),
        argv=argv if isinstance(argv, tuple) else None,
        cwd=None if isinstance(cwd, Unread) else cwd,
        state=stat.state,
        pgrp=stat.pgrp,
        session=stat.session,
        threads_total=stat.threads,
        sig_caught=parse_signals(status["SigCgt"]) if status.get("SigCgt") else None,
    )


def _main_thread_row(proc: ProcFS, pid: int) -> Iterator[Thread]:
    stat = proc.stat(pid, pid)
    if isinstance(stat, Unread):
        return
    permitted = proc.is_permitted(pid)
    wchan = proc.text(pid, "task", pid, "wchan") if permitted else Unread("denied")
    line = proc.text(pid, "task", pid, "syscall")
    call = None if isinstance(line, Unread) else syscalls.decode(line)
    if call and call.fd is not None:
        path = proc.link(pid, "fd", call.fd)
        call = replace(call, path=None if isinstance(path, Unread) else path)
    yield Thread(
        thread_id(pid, pid),
        process_id(pid),
        pid,
        pid,
        name=printable(stat.name),
        is_main=True,
        relation="holder",
        state=stat.state,
        wchan=None if isinstance(wchan, Unread) else wchan,
        syscall=call,
        cpu_ms=proc.milliseconds(stat.user_ticks + stat.system_ticks),
    )
