"""Whose the tasks of a trace are, where another text knows their numbers.

strace -f numbers threads and processes alike, and may not say which is which. A list of processes does, and so does a
dump that prints the kernel's numbers: they are of one host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flatline.bundle.facts import Fd, Thread, process_id

from ..merge import merge_rows
from ..parsers.interface import HOST
from .owners import tells_process, with_pids


def placed(tables: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The tables, with the tasks of processes that nothing names in those that something does name."""
    whole = {name: list(rows) for name, rows in tables.items()}
    threads: Sequence[Thread] = whole.get("threads", [])
    framed = {frame.thread.rpartition("/")[0] for frame in whole.get("frames", ())}
    nameless = [t for t in threads if t.pid < 0 and t.process not in framed and tells_process(t)]
    known = _known(whole.get("processes", ()), threads) if nameless else {}
    homes = {t.id: known[t.tid] for t in nameless if t.tid in known}
    if not homes:
        return whole
    moves = _Moves(nameless, homes)
    moved = {name: [moves.moved(row) for row in rows] for name, rows in whole.items()}
    return {**moved, **merge_rows({name: moved[name] for name in ("processes", "threads") if name in moved})}


def _known(processes: Iterable[Any], threads: Iterable[Thread]) -> dict[int, int]:
    """The kernel's number of a task -> the pid of its process."""
    known = {t.tid: t.pid for t in threads if t.pid > 0 and tells_process(t) and "pthread-" not in t.id}
    return {**known, **{p.pid: p.pid for p in processes if p.pid > 0}}


class _Moves:
    """Which rows go where."""

    def __init__(self, nameless: Sequence[Thread], homes: Mapping[str, int]) -> None:
        self._homes = homes
        self._whole: dict[int, int] = {}
        self._fds: dict[tuple[str, int], int] = {}
        for pid in {t.pid for t in nameless}:
            found = {homes[t.id] for t in nameless if t.pid == pid and t.id in homes}
            if len(found) == 1:
                self._whole[pid] = found.pop()  # those that nobody lists are its threads
        for thread in nameless:
            call = thread.syscall
            if call is not None and thread.id in homes:
                for fd in (*(() if call.fd is None else (call.fd,)), *(call.watches or ())):
                    self._fds[thread.process, fd] = homes[thread.id]

    def moved(self, row: Any) -> Any:
        """The row where it belongs."""
        row = with_pids(row, self._whole)
        if isinstance(row, Thread) and row.id in self._homes:
            pid = self._homes[row.id]
            row = replace(row, id=f"{process_id(pid, HOST)}/{row.tid}", process=process_id(pid, HOST), pid=pid)
        elif isinstance(row, Fd) and (row.process, row.fd) in self._fds:
            row = replace(row, process=process_id(self._fds[row.process, row.fd], HOST))
        if isinstance(row, Thread) and row.pid > 0:
            return row if row.is_main == (row.tid == row.pid) else replace(row, is_main=row.tid == row.pid)
        return row
