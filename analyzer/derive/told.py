"""Threads and processes of which nothing is known but stacks: a dump of py-spy that somebody pasted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from flatline.bundle.facts import Frame, Process, Role, StartMethod, Thread

from .known_wait import standard_file

_ROLES: tuple[tuple[str, str, Role], ...] = (
    ("torch/utils/data/_utils/worker.py", "_worker_loop", "dataloader-worker"),
    ("multiprocessing/pool.py", "worker", "pool-worker"),
    ("concurrent/futures/process.py", "_process_worker", "pool-worker"),
    ("multiprocessing/resource_tracker.py", "main", "resource-tracker"),
    ("torch/_inductor/compile_worker/subproc_pool.py", "main", "compile-worker"),
    ("torch/distributed/elastic/agent/server/api.py", "run", "launcher"),
    ("torch/distributed/launcher/api.py", "launch_agent", "launcher"),
)
"""What the main thread of a process does that is nothing else: end of the file, function, role."""
_STARTED: frozenset[Role] = frozenset({"dataloader-worker", "pool-worker", "resource-tracker", "compile-worker"})
"""Roles of processes that the program itself has started."""


_CHILD_OF_FORK = frozenset({"PyOS_AfterFork_Child", "PyOS_AfterFork", "grpc_postfork_child", "run_at_forkers"})
"""C functions that run in the child only, within the fork itself."""


def threads_told(frames: Iterable[Frame], known: Collection[str]) -> Iterator[Thread]:
    """One for every stack whose thread has no row."""
    seen = set(known)
    for frame in frames:
        if frame.thread not in seen:
            seen.add(frame.thread)
            yield _thread(frame)


def processes_told(threads: Iterable[Thread], known: Collection[str]) -> Iterator[Process]:
    """One for every thread whose process has no row."""
    seen = set(known)
    for thread in threads:
        if thread.process not in seen:
            seen.add(thread.process)
            host = thread.process.partition("/")[0]
            yield Process(thread.process, host, thread.pid, rank=thread.rank, is_python=True,
                          artefact=thread.artefact, line=thread.line, pointer=thread.pointer)  # fmt: skip


def roles_told(
    processes: Mapping[str, Process], threads: Iterable[Thread], stack_of: Callable[[str], Sequence[Frame]]
) -> Iterator[Process]:
    """The processes whose stacks say what they are. A worker's parent is the only program that can have started it."""
    told = {t.process: role for t in threads if t.is_main and t.process in processes
            and processes[t.process].role == "unknown" and (role := _role(stack_of(t.id))) is not None}  # fmt: skip
    programs = [p for p in processes.values() if p.role == "unknown" and p.id not in told]
    parents: dict[tuple[str, int | None], list[Process]] = {}
    for process, role in told.items():
        row = replace(processes[process], role=role)
        key = row.host, row.rank
        if key not in parents:
            parents[key] = [
                p for p in programs if p.host == row.host and (row.rank is None or p.rank in (None, row.rank))
            ]
        if role in _STARTED and row.ppid is None and len(parents[key]) == 1:
            row = replace(row, ppid=parents[key][0].pid)
        yield row


def starts_told(
    processes: Mapping[str, Process], threads: Iterable[Thread], stack_of: Callable[[str], Sequence[Frame]]
) -> Iterator[Process]:
    """The processes of which a stack, or a list beside that of their parent, says how they were started."""
    unknown = (t for t in threads if t.process in processes and processes[t.process].start_method == "unknown")
    told = {t.process: how for t in unknown if (how := _start(stack_of(t.id))) is not None}
    for process, how in told.items():
        yield replace(processes[process], start_method=how)
    programs: dict[tuple[str, tuple[str, ...]], list[Process]] = {}
    for row in processes.values():
        if row.is_python and row.argv and len(row.argv) > 1:
            programs.setdefault((row.host, row.argv), []).append(row)
    for rows in programs.values():
        threaded = [row for row in rows if row.threads_total != 1 and row.state not in ("Z", "X")]
        pids = {row.pid for row in rows}
        for row in rows:
            copied = row.ppid in pids
            beside = row.ppid is None and row.threads_total == 1 and len(threaded) == 1
            if row.start_method == "unknown" and row.id not in told and (copied or beside):
                yield replace(row, start_method="fork", ppid=row.ppid or threaded[0].pid)


def _start(stack: Sequence[Frame]) -> StartMethod | None:
    """Below ``Popen._launch`` a child runs what it was made for; its parent is there only to call fork."""
    for depth, frame in enumerate(stack):
        if frame.kind == "native":
            if frame.function in _CHILD_OF_FORK:
                return "fork"
            continue
        file = _file(frame)
        if file.endswith("popen_fork.py") and frame.function == "_launch":
            return "fork" if any(f.kind == "python" for f in stack[:depth]) else None
        if file.endswith("multiprocessing/spawn.py") and frame.function in ("spawn_main", "_main"):
            return "spawn"
        if file.endswith("multiprocessing/forkserver.py") and frame.function == "_serve_one":
            return "forkserver"
    return None


def _role(stack: Sequence[Frame]) -> Role | None:
    for file, function, role in _ROLES:
        if any(f.kind == "python" and f.function == function and _file(f).endswith(file) for f in stack):
            return role
    return None


def _file(frame: Frame) -> str:
    return standard_file(frame.file or "")


def _thread(frame: Frame) -> Thread:
    process, _, name = frame.thread.rpartition("/")
    pid = int(process.rpartition("/")[2])
    tid = int(name) if name.isdigit() else int(name.rpartition("-")[2], 16)
    is_main = tid == pid or frame.thread_name == "MainThread"
    return Thread(frame.thread, process, pid, tid, name=frame.thread_name, is_main=is_main,
                  artefact=frame.artefact, line=frame.line, pointer=frame.pointer)  # fmt: skip
