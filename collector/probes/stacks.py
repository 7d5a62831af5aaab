"""The Python stacks of every process of the job, at the same moments as the /proc samples."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from flatline.bundle.facts import File, Frame, Lock, ToolRun, process_id, thread_id
from flatline.bundle.format import Status
from flatline.texts.stack_lines import RawFrame, RawThread

from ..confine import standpoint
from ..linux import strangers, syscalls
from ..linux.procfs import ProcFS, Stat, Unread
from ..stacks import polled_files, pyspy, source, thread_ids
from ..stacks.pyspy import Failure
from ..stacks.watched import Look, Watched, stack_of
from ..tools import ToolOutput, find_tool, run_pool
from .interface import Doing, Facts, Gap, Item, Milestone, Run, Target, View, sleep_until

PARALLEL = max(4, min(8, 2 * (os.cpu_count() or 2)))
DUMP_LIMIT_S = 1.0
"""A dump takes 20 ms; one that hangs must not keep the others' turns."""
PATIENT_LIMIT_S = 3.0
"""For a second try, when everyone else has had a turn."""
DUMP_BYTES = 32 << 20
RESERVE_S = 1.0
"""Kept before the probe's deadline, to say what was cut."""

EXTRA_LOOKS = 8
"""At one busy process over the whole window."""
EXTRA_PROCESSES = 8
POLLING_THREADS = 20
PEOPLE = 50
"""Processes outside the job that are described because they have a lock file."""
SYSCALL_LOOKS = 3
"""A thread that polls is awake now and then."""
GAPS_NAMED = 20
"""Processes without a stack that get a gap of their own; the rest are counted in one."""

_STATUS: dict[str, Status] = {
    "permission": "denied", "gone": "partial", "moving": "partial", "not-python": "absent", "unsupported": "absent",
    "timeout": "timeout", "flooded": "partial", "error": "error",
}

class Stacks:
    """Python stacks of every process, with the source lines around them, by py-spy without stopping anything."""

    name = "stacks"
    tables = ("files", "frames", "tool_runs")
    limit_s = 8.0
    spans_window = True
    reads = (
        "/proc/PID/{mem,root,stat,status}",
        "/proc/PID/task/TID/syscall",
        "the source files that frames name, as the job's user",
        "the files that polling threads look for, as the job's user",
    )
    runs = (
        Run(shlex.join(pyspy.argv("py-spy", "PID")), PATIENT_LIMIT_S, "each Python process, in each round"),
        Run(shlex.join(pyspy.argv("py-spy", "PID", with_locals=True)), DUMP_LIMIT_S, "where a thread polls"),
    )

    def gather(self, view: View) -> Iterator[Item]:
        """Round after round; ``first-pass`` after the first one."""
        yield Doing("looking for py-spy where flatline is installed, and in PATH")
        program = find_tool("py-spy", ours=True)
        if program is None:
            yield Gap("absent", "py-spy is not installed: no Python stack", "pip install py-spy", tables=("frames",))
            return
        targets = [t for t in view.targets if t.is_python and t.pid not in view.own_pids]
        if not targets:
            yield Gap("absent", "no process of the job is Python: there are no Python stacks", tables=("frames",))
            return
        yield from _Watch(view, program, targets).items()


class _Watch:
    """The looks at all processes over one window."""

    def __init__(self, view: View, program: str, targets: Sequence[Target]) -> None:
        self._view = view
        self._program = program
        self._proc = ProcFS(view.proc)
        self._sources = source.Sources(view)
        self._tool_runs: list[ToolRun] = []
        self._polling: set[str] = set()
        self._job = {target.pid for target in view.targets}
        self._watched = {
            target.pid: Watched(
                target, thread_ids.is_namespaced(self._proc, target.pid), standpoint(target, view.proc)
            )
            for target in targets
        }

    def items(self) -> Iterator[Item]:
        rounds = max(1, self._view.samples)
        for sample in range(rounds):
            yield from self._look_between(sample)
            if not self._has_time():
                yield Gap("partial", f"no time was left for round {sample} of the stacks", tables=("frames",))
                break
            yield Doing(f"Python stacks, round {sample}")
            yield from self._round(sample)
            if sample == 0:
                yield Milestone("first-pass")
            if sample >= min(1, rounds - 1):
                yield Doing("files that polling threads wait for")
                yield from self._polled_files(sample)
        yield Facts("facts/stacks.json", {"tool_runs": self._tool_runs})
        yield from self._sources.gaps()
        yield from self._gaps()

    def _has_time(self) -> bool:
        return self._view.left_s() > RESERVE_S

    # --- one round: every process, once or twice ---

    def _round(self, sample: int) -> Iterator[Item]:
        before = {pid: self._cpu_ticks(pid) for pid in self._watched}
        again: list[int] = []
        for pid, output in self._dump(self._hopeful()):
            if self._take(pid, sample, output, final=False):
                again.append(pid)
            else:
                yield from self._shown(pid, sample, output)
        if again:
            yield Doing(f"Python stacks, round {sample}, again: pid {', '.join(map(str, again[:5]))}")
        for pid, output in self._dump(again, limit_s=PATIENT_LIMIT_S):
            self._take(pid, sample, output, final=True)
            self._note_motion(pid, before.get(pid))
            yield from self._shown(pid, sample, output)

    def _hopeful(self) -> list[int]:
        """Whom to look at, in the order of the job; those that gave no answer before come last."""
        hopeful = [pid for pid, watched in self._watched.items() if not watched.is_hopeless]
        return sorted(hopeful, key=lambda pid: self._watched[pid].has_timed_out)

    def _dump(
        self, pids: Iterable[int], *, limit_s: float | None = None, with_locals: bool = False
    ) -> Iterator[tuple[int, ToolOutput]]:
        """Dumps as they end. (pid, start ticks) is checked right before each attach."""
        commands = (
            (pid, pyspy.argv(self._program, pid, with_locals=with_locals)) for pid in pids if self._is_the_same(pid)
        )
        deadline_ns = self._view.deadline_ns - int(RESERVE_S * 1e9)
        limit_s = DUMP_LIMIT_S if limit_s is None else limit_s
        return run_pool(
            commands, parallel=PARALLEL, limit_s=limit_s, deadline_ns=deadline_ns, max_bytes=DUMP_BYTES
        )

    def _is_the_same(self, pid: int) -> bool:
        stat, watched = self._proc.stat(pid), self._watched[pid]
        if isinstance(stat, Stat) and stat.start_ticks == watched.target.start_ticks and stat.state not in ("Z", "X"):
            return True
        watched.failure = Failure("gone", "the process ended while it was observed")
        return False

    def _take(self, pid: int, sample: int, output: ToolOutput, *, final: bool) -> bool:
        """Note how a dump went; True when it should be tried once more."""
        watched = self._watched[pid]
        timed_out_before = watched.has_timed_out
        watched.failure = None if output.outcome == "ok" and _threads(output) else pyspy.failure(output)
        watched.left_running = watched.left_running or output.left_running
        if not final and watched.is_worth_a_retry and not timed_out_before:
            return True
        self._tool_runs.append(_tool_run(pid, sample, output, watched.failure))
        return False

    def _note_motion(self, pid: int, ticks_before: int | None) -> None:
        """A stack that cannot be followed twice while the process uses CPU is one that moves."""
        failure, now = self._watched[pid].failure, self._cpu_ticks(pid)
        if failure is None or failure.reason not in ("moving", "error"):
            return
        if ticks_before is None or now is None or now <= ticks_before:
            return
        moving = Failure("moving", "moving: its stack changed too fast to be read, and it used CPU meanwhile")
        self._watched[pid].failure = moving
        self._tool_runs[-1] = replace(self._tool_runs[-1], message=moving.message)

    def _cpu_ticks(self, pid: int) -> int | None:
        stat = self._proc.stat(pid)
        return None if isinstance(stat, Unread) else stat.user_ticks + stat.system_ticks

    def _shown(self, pid: int, sample: int, output: ToolOutput) -> Iterator[Item]:
        watched = self._watched[pid]
        if watched.failure is not None:
            return
        look = self._look(watched, output)
        frames = list(self._frames(watched, look, sample))
        watched.compare(look)
        yield Facts(f"stacks/{pid}.{sample}.json", {"frames": frames})

    # --- from py-spy's threads to rows ---

    def _look(self, watched: Watched, output: ToolOutput) -> Look:
        mono_ns = time.monotonic_ns()
        threads = _threads(output)
        pid = watched.target.pid
        tids = thread_ids.identify(self._proc, pid, threads, watched.tids)
        identified = {}
        for thread in threads:
            tid = tids.get(thread.pthread)
            name = thread.name or ("MainThread" if tid == pid else None)
            active = thread.active
            if thread.os_thread_id is None or watched.namespaced:  # py-spy then says "active" of every thread
                active = self._is_running(pid, tid)
            identified[thread_ids.row_id(pid, tid, thread)] = replace(thread, name=name, active=active)
        return Look(identified, mono_ns)

    def _is_running(self, pid: int, tid: int | None) -> bool | None:
        stat = self._proc.stat(pid, tid) if tid else Unread("absent")
        return None if isinstance(stat, Unread) else stat.state == "R"

    def _frames(self, watched: Watched, look: Look, sample: int, only: set[str] | None = None) -> Iterator[Frame]:
        """Rows of all threads, or of some. Source lines come with a stack when it is first seen."""
        fresh = {
            key: thread
            for key, thread in look.threads.items()
            if only is None and watched.stacks.get(key) != stack_of(thread)
        }
        new = [frame for thread in fresh.values() for frame in thread.frames]
        lines = self._sources.of(watched.target, watched.standpoint, new)
        for key, thread in look.threads.items():
            if only is not None and key not in only:
                continue
            for depth, frame in zip(thread.depths, thread.frames):
                shown = lines.get((frame.file, frame.line or 0), source.Lines()) if key in fresh else source.Lines()
                yield _row(key, sample, depth, thread, frame, shown, look.mono_ns)

    # --- extra looks ---

    def _look_between(self, sample: int) -> Iterator[Item]:
        """Wait for a round; meanwhile look again at busy processes, so that a loop in Python is told from one in C."""
        due_ns = self._view.sample_at_ns(sample)
        looks = EXTRA_LOOKS // max(1, self._view.samples - 1) if sample else 0
        began_ns = time.monotonic_ns()
        for look in range(1, looks + 1):
            busy = [pid for pid, watched in self._watched.items() if watched.busy][:EXTRA_PROCESSES]
            if not busy or not self._has_time():
                break
            sleep_until(began_ns + (due_ns - began_ns) * look // (looks + 1))
            for pid, output in self._dump(busy):
                yield from self._extra(self._watched[pid], output)
        sleep_until(due_ns)

    def _extra(self, watched: Watched, output: ToolOutput) -> Iterator[Item]:
        if output.outcome != "ok" or not _threads(output):
            return
        frames = list(self._frames(watched, self._look(watched, output), watched.extra, only=watched.busy))
        if frames:
            yield Facts(f"stacks/{watched.target.pid}.{watched.extra}.json", {"frames": frames})
            watched.extra += 1

    # --- what polling threads look at ---

    def _polled_files(self, sample: int) -> Iterator[Item]:
        polling = self._polling_threads()
        self._polling.update(key for _, key in polling)
        files: list[File] = []
        locks: list[Lock] = []
        people: set[int] = set()
        pids = list(dict.fromkeys(pid for pid, _ in polling if not self._watched[pid].target.is_guarded))
        for pid, output in self._dump(pids, with_locals=True):
            if output.outcome != "ok":
                continue
            watched = self._watched[pid]
            look = self._look(watched, output)
            keys = {key for owner, key in polling if owner == pid}
            threads = {key: thread for key, thread in look.threads.items() if key in keys}
            found = polled_files.look(watched.target, threads.values(), self._view)
            yield from found.gaps
            files += found.files
            locks += found.locks
            people |= found.people
            if found.paths:
                yield self._with_locals(watched, Look(threads, look.mono_ns), found.paths)
        if files:
            outside = strangers.tables(self._proc, sorted(people - self._job)[:PEOPLE])
            tables = {"files": files, **({"locks": locks} if locks else {}), **outside}
            yield Facts(f"facts/stack-files.{sample}.json", tables)

    def _polling_threads(self) -> list[tuple[int, str]]:
        """(pid, thread) of those that stay in the same functions and sleep there for a time; main threads first.

        Each only once, and `POLLING_THREADS` in all.
        """
        wanted = 1 if self._view.samples > 1 else 0
        staying = [
            (pid, key)
            for pid, watched in self._watched.items()
            for key, rounds in watched.staying.items()
            if rounds >= wanted and key not in self._polling
        ]
        staying.sort(key=lambda one: one[1] != thread_id(one[0], one[0]))
        timed: set[str] = set()
        for _ in range(SYSCALL_LOOKS):
            timed |= {key for pid, key in staying if key not in timed and self._sleeps_timed(pid, key)}
            if len(timed) == len(staying):
                break
            time.sleep(0.02)
        return [(pid, key) for pid, key in staying if key in timed][: POLLING_THREADS - len(self._polling)]

    def _sleeps_timed(self, pid: int, key: str) -> bool:
        tid = key.rpartition("/")[2]
        line = self._proc.text(pid, "task", tid, "syscall") if tid.isdigit() else Unread("absent")
        call = None if isinstance(line, Unread) else syscalls.decode(line)
        return call is not None and call.timed is True

    def _with_locals(self, watched: Watched, look: Look, paths: dict[str, str]) -> Facts:
        """One look more, in which frames carry the path-like locals that were kept."""
        rows = []
        for row in self._frames(watched, look, watched.extra, only=set(look.threads)):
            printed = look.threads[row.thread].frames
            frame = next(f for d, f in zip(look.threads[row.thread].depths, printed) if d == row.depth)
            kept = {name: paths[text] for name, text in frame.locals if text in paths}
            rows.append(replace(row, locals=kept or None))
        path = f"stacks/{watched.target.pid}.{watched.extra}.locals.json"
        watched.extra += 1
        return Facts(path, {"frames": rows})

    # --- what could not be had ---

    def _gaps(self) -> Iterator[Gap]:
        missing = [w for w in self._watched.values() if w.looks == 0 and w.failure is not None]
        if len(missing) == len(self._watched) and {w.failure.reason for w in missing if w.failure} == {"permission"}:
            message = f"py-spy may not read any of the {len(missing)} Python processes; none: /proc only"
            yield Gap("denied", message, pyspy.PERMISSION_HINT, tables=("frames",))
            return
        for watched in missing[:GAPS_NAMED]:
            failure = watched.failure
            assert failure is not None
            message = f"no stack of pid {watched.target.pid}: {failure.message}; /proc only"
            yield Gap(_STATUS[failure.reason], message, failure.hint, process_id(watched.target.pid), ("frames",))
        if len(missing) > GAPS_NAMED:
            yield Gap("partial", f"no stack of {len(missing) - GAPS_NAMED} more processes", tables=("frames",))


def _threads(output: ToolOutput) -> list[RawThread]:
    """Empty when the dump is none, or shows no frame at all."""
    try:
        threads = pyspy.parse(output.stdout)
    except ValueError:
        return []
    return threads if any(thread.frames for thread in threads) else []


def _row(
    key: str, sample: int, depth: int, thread: RawThread, frame: RawFrame, shown: source.Lines, mono_ns: int
) -> Frame:
    short = frame.name.rpartition(".")[2] or frame.name
    return Frame(
        thread=key,
        sample=sample,
        depth=depth,
        function=short,
        qualname=frame.name if short != frame.name else None,
        file=frame.file or None,
        line_no=frame.line,
        is_user=source.is_user(frame.file),
        source=shown.source,
        enclosing=shown.enclosing,
        active=thread.active,
        owns_gil=thread.owns_gil,
        thread_name=thread.name,
        pthread=thread.pthread or None,
        mono_ns=mono_ns,
    )


def _tool_run(pid: int, sample: int, output: ToolOutput, failure: Failure | None) -> ToolRun:
    denied = failure is not None and failure.reason == "permission"
    torn = failure is not None and output.outcome == "ok"
    return ToolRun(
        tool="py-spy",
        outcome="denied" if denied else "error" if torn else output.outcome,
        seconds=round(output.seconds, 3),
        stuck_pid=output.pid if output.left_running else None,
        process=process_id(pid),
        sample=sample,
        message=None if failure is None else failure.message,
    )
