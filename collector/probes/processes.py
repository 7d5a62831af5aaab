"""Processes and threads of the job, and how they change over the window.

The members it writes, in this order:

* ``samples/processes.K.jsonl`` for each round K = 0, 1, …: `thread_samples` and `process_samples`.
* ``facts/processes.json``: `processes` and `threads` as of round 0. It is sent before the window begins.
* ``facts/threads.K.json``, K the last round: those rows of `processes` and `threads` that are different at the end
  (another call, an exit) or know more (the library a thread waits in, the calls seen on a CPU, Python's version). A row
  replaces the earlier one with its id.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from flatline.bundle.facts import Process, ProcessSample, Thread, ThreadSample, process_id, thread_id

from ..linux.access import hint_when_denied
from ..linux.patience import Patience
from ..linux.procfs import Mapping as MappedFile
from ..linux.procfs import ProcFS, Unread
from ..linux.syscalls import RUNNING
from ..linux.tasks import ProcessLook, TaskLook, call_met, look_at
from .interface import Doing, Facts, Gap, Item, Milestone, Target, View, sleep_until
from .process_rows import ProcessRows

MAX_TASKS_OF_PROCESS = 2_000
MAX_TASKS = 20_000
ROUND_S = 1.0
"""What the threads of one round may take: a busy host costs some of them, not the whole round. Main threads are read
in any case."""
BURSTS = 20
MAX_BURST_TASKS = 64
_CLOSING_S = 0.3
"""What the last member needs before we are killed."""
_MAPS_AFTER_S = 1.0
"""After the last round, for maps that a busy host left no time for before."""

Looks = dict[int, ProcessLook]
"""pid -> look, of one round."""


class Processes:
    """Every process and thread of the job: state, system call, CPU, switches, in several rounds."""

    name = "processes"
    tables = ("processes", "threads", "process_samples", "thread_samples")
    limit_s = 4.0
    spans_window = True
    reads = (
        "/proc/PID/{cgroup,cwd,environ,exe,io,maps,mountinfo,ns,oom_score,root,stat,status}",
        "/proc/PID/task/TID/{stat,status,syscall,wchan}",
    )
    runs = ()

    def gather(self, view: View) -> Iterator[Item]:
        proc = ProcFS(view.proc)
        watch = _Watch(proc, view)
        first = watch.round(0)
        yield _samples(proc, 0, first)
        rows = ProcessRows(proc, view, first)
        processes, threads = rows.processes(first), rows.threads(first)
        yield Facts("facts/processes.json", {"processes": processes, "threads": threads})
        yield Milestone("first-pass")
        yield Doing("memory maps")
        maps = _Maps(proc, first)
        maps.read_until(view.sample_at_ns(1) if view.samples > 1 else view.begin_ns + 10**9)
        last, done = first, 0
        for number in range(1, view.samples):
            watch.burst_until(view.sample_at_ns(number), last)
            if view.left_s() < _CLOSING_S:
                yield Gap("partial", f"{view.samples - number} of {view.samples} rounds were left out for lack of time")
                break
            last, done = watch.round(number), number
            yield _samples(proc, number, last)
            maps.read_until(view.sample_at_ns(number + 1) if number + 1 < view.samples else _last_maps_ns(view))
        yield from maps.gaps()
        changed = _changes(processes, threads, rows, {**first, **last}, maps.found, watch.seen)
        if any(changed.values()):
            yield Facts(f"facts/threads.{done}.json", changed)
        yield from watch.gaps()


class _Watch:
    """Looks at the same processes round after round, and remembers what went missing."""

    def __init__(self, proc: ProcFS, view: View) -> None:
        self.proc = proc
        self.alive = list(view.targets)
        self.ended: dict[int, str] = {}
        self.refused: dict[str, set[Target]] = {}
        self.cut: dict[int, tuple[int, int]] = {}
        self.seen: dict[str, dict[str, int]] = {}

    def round(self, number: int) -> Looks:
        """One look at each process that is still the one it was at the beginning."""
        looks: Looks = {}
        room = MAX_TASKS
        until_ns = time.monotonic_ns() + int(ROUND_S * 1e9)
        for target in tuple(self.alive):
            look = look_at(self.proc, target.pid, min(MAX_TASKS_OF_PROCESS, room), until_ns)
            if isinstance(look, Unread) or look.stat.start_ticks != target.start_ticks:
                self._lose(target, number, gone=isinstance(look, Unread))
                continue
            looks[target.pid] = look
            room -= len(look.tasks)
            for name in look.denied:
                self.refused.setdefault(name, set()).add(target)
            late = time.monotonic_ns() > until_ns
            if len(look.tasks) < look.tids_total and (late or look.tids_total > min(MAX_TASKS_OF_PROCESS, room)):
                self.cut[target.pid] = (len(look.tasks), look.tids_total)
        return looks

    def _lose(self, target: Target, number: int, gone: bool) -> None:
        self.alive.remove(target)
        after = "before the first look" if number == 0 else "during the window"
        reused = "" if gone else "; its number now belongs to another process"
        self.ended[target.pid] = f"process {target.pid} ({target.name}) ended {after}{reused}"

    def burst_until(self, moment_ns: int, looks: Looks) -> None:
        """Sleep until a moment, with short looks at the threads that are on a CPU: a spin shows in many only."""
        busy = [(pid, task) for pid, look in looks.items() for task in look.tasks if task.on_cpu][:MAX_BURST_TASKS]
        begin = time.monotonic_ns()
        for burst in range(BURSTS if busy else 0):
            for pid, task in busy:
                self._count(pid, task)
            sleep_until(begin + (moment_ns - begin) * (burst + 1) // (BURSTS + 1))
        sleep_until(moment_ns)

    def _count(self, pid: int, task: TaskLook) -> None:
        name = call_met(self.proc, pid, task.stat.pid)
        if name is not None:
            counts = self.seen.setdefault(thread_id(pid, task.stat.pid), {})
            counts[name] = counts.get(name, 0) + 1

    def gaps(self) -> Iterator[Gap]:
        for pid, message in self.ended.items():
            yield Gap("partial", message, target=process_id(pid))
        for pid, (read, total) in self.cut.items():
            yield Gap("partial", f"{read} of {total} threads were read", target=process_id(pid), tables=("threads",))
        if self.refused:
            yield _refusal(self.proc, self.refused)


def _refusal(proc: ProcFS, refused: Mapping[str, set[Target]]) -> Gap:
    """One gap for all that was refused; of ancestors only, it is no more than partial."""
    targets = sorted(set().union(*refused.values()), key=lambda t: t.pid)
    pids = ", ".join(str(t.pid) for t in targets[:8]) + (" …" if len(targets) > 8 else "")
    denied = any(t.relation != "ancestor" for t in targets)
    return Gap(
        "denied" if denied else "partial",
        f"{', '.join(sorted(refused))} of {len(targets)} processes are refused (pid {pids})",
        hint=hint_when_denied({t.uid for t in targets}, proc),
        tables=("threads", "thread_samples"),
    )


class _Maps:
    """Memory maps of the job's processes: read between the rounds, and what is still missing then after the last."""

    def __init__(self, proc: ProcFS, looks: Looks) -> None:
        self.proc = proc
        self.found: dict[int, list[MappedFile]] = {}
        self._patience = Patience()
        # A thread in D may be the one that holds its process's memory lock: those come last.
        self._left = sorted(looks, key=lambda pid: any(task.stat.state == "D" for task in looks[pid].tasks))

    def read_until(self, moment_ns: int) -> None:
        while self._left and time.monotonic_ns() < moment_ns:
            pid = self._left.pop(0)
            maps = self._patience.read(partial(self.proc.maps, pid))
            if not isinstance(maps, Unread):
                self.found[pid] = maps

    def gaps(self) -> Iterator[Gap]:
        if self._left:
            yield Gap("partial", f"the memory maps of {len(self._left)} processes were left out for lack of time")
        if self._patience.lost:
            yield Gap("partial", f"the memory maps of {self._patience.lost} processes did not answer")


def _last_maps_ns(view: View) -> int:
    return time.monotonic_ns() + int(min(_MAPS_AFTER_S, view.left_s() - 2 * _CLOSING_S) * 1e9)


def _samples(proc: ProcFS, number: int, looks: Looks) -> Facts:
    threads = [_thread_sample(proc, number, pid, task) for pid, look in looks.items() for task in look.tasks]
    processes = [_process_sample(proc, number, pid, look) for pid, look in looks.items()]
    tables = {"process_samples": processes, "thread_samples": threads}
    return Facts(f"samples/processes.{number}.jsonl", tables)


def _thread_sample(proc: ProcFS, number: int, pid: int, task: TaskLook) -> ThreadSample:
    return ThreadSample(
        thread=thread_id(pid, task.stat.pid),
        sample=number,
        mono_ns=task.mono_ns,
        state=task.stat.state,
        wchan=task.wchan,
        syscall=task.syscall,
        user_ms=proc.milliseconds(task.stat.user_ticks),
        system_ms=proc.milliseconds(task.stat.system_ticks),
        voluntary=task.voluntary,
        involuntary=task.involuntary,
    )


def _process_sample(proc: ProcFS, number: int, pid: int, look: ProcessLook) -> ProcessSample:
    return ProcessSample(
        process=process_id(pid),
        sample=number,
        mono_ns=look.mono_ns,
        state=look.stat.state,
        threads=look.tids_total,
        read_bytes=look.io.get("read_bytes"),
        write_bytes=look.io.get("write_bytes"),
        rchar=look.io.get("rchar"),
        wchar=look.io.get("wchar"),
        rss=look.stat.rss_pages * proc.page_size,
        minor_faults=look.stat.minor_faults,
        major_faults=look.stat.major_faults,
    )


def _changes(
    processes: list[Process],
    threads: list[Thread],
    rows: ProcessRows,
    looks: Looks,
    maps: Mapping[int, list[MappedFile]],
    seen: Mapping[str, Mapping[str, int]],
) -> dict[str, list[Process] | list[Thread]]:
    """The rows at the end that differ from those of round 0."""
    before = {row.id: _settled(row) for row in threads}
    now = [replace(row, syscalls_seen=seen.get(row.id)) for row in rows.threads(looks, maps)]
    changed = [row for row in now if before.get(row.id) != _settled(row)]
    earlier = {row.id: _lasting(row) for row in processes}
    grown = [row for row in rows.processes(looks, maps) if earlier.get(row.id) != _lasting(row)]
    return {"processes": grown, "threads": changed}


def _settled(row: Thread) -> Thread:
    """What the samples tell anyway does not make a thread's row worth writing again; nor does a new stack pointer."""
    call = row.syscall if row.syscall is None or row.syscall.name != RUNNING else None
    return replace(row, cpu_ms=None, switches=None, syscall=call, state="unknown", wchan=None)


def _lasting(row: Process) -> Process:
    return replace(row, rss=None, swap=None, oom_score=None, age_s=None, threads_total=None, threads_read=None)
