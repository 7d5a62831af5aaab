"""Results of pools: the worker, a thread of the same process or a process of its own, that still works on a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flatline.bundle.facts import Frame, Process, Strength, Thread, WaitEdge

from ..known import AT_REST, known_wait
from ..known_wait import KnownWait
from ..scene import Scene, Stack, innermost_user
from .bystanders import runs_loop, threads_where
from .draw import MAX_BRANCHES, at_own_line, called_all, edge, edge_to_process, living, seen_in

LOOPS = (("concurrent/futures/thread.py", "_worker"), ("multiprocessing/pool.py", "worker"))
"""What the threads of a pool run for all their life: file and function."""
WORK = frozenset({"moving", "busy"})


def find_future(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A wait for the result of a pool of which a worker has a task. When all of them work, the wait is for work that
    is done, whichever has it; when one of several does not get on, it may be any."""
    found = known_wait(scene.stack(thread.id))
    if found is None or found[0].whom not in ("future", "pool-worker"):
        return
    threads = threads_where(scene, thread, "tasks", has_task)
    if threads:
        yield from _to_threads(scene, thread, *found, threads)
    elif found[0].whom == "future":
        yield from _to_processes(scene, thread, *found)


def has_task(stack: Stack) -> bool:
    """Whether it is the stack of a pool's thread that works on something, or waits within it."""
    if not _is_worker(stack):
        return False
    found = known_wait(stack)
    return found is None or found[0].whom not in AT_REST or innermost_user(stack) is not None


def is_idle(scene: Scene, worker: Process) -> bool:
    """Whether a worker process waits for its next task."""
    thread = scene.main_thread(worker.id)
    found = known_wait(scene.stack(thread.id)) if thread is not None else None
    return found is not None and found[0].whom == "parent"


def is_stopped(thread: Thread | None) -> bool:
    return thread is not None and thread.liveness == "stopped"


def works(thread: Thread | None) -> bool:
    return thread is not None and thread.liveness in WORK


def _is_worker(stack: Stack) -> bool:
    return any((f.file or "").endswith(file) and f.function == name for f in stack for file, name in LOOPS)


def _to_threads(
    scene: Scene, thread: Thread, wait: KnownWait, frame: Frame, workers: Sequence[Thread]
) -> Iterator[WaitEdge]:
    loops = threads_where(scene, thread, "loops", runs_loop)
    pools = {(t.name or "").rpartition("_")[0] for t in workers}
    all_work, only = all(map(works, workers)), len(workers) == 1
    strength: Strength = "strong" if len(pools) == 1 and not loops and (all_work or only) else "suggested"
    names = ", ".join(t.name or str(t.tid) for t in workers[:3])
    more = f" and {len(workers) - 3} more" if len(workers) > 3 else ""
    who = f"its thread {names}, which has a task" if only else f"one of its threads {names}{more}, which have tasks"
    text = f"waits{at_own_line(scene.stack(thread.id))} for a result of {who}"
    for worker in workers[:MAX_BRANCHES]:
        yield edge(scene, thread, f"thread:{worker.id}", wait.kind, strength, text, owner="thread", inside_job=True,
                   reason=seen_in(frame), rows=(frame, worker))  # fmt: skip


def _to_processes(scene: Scene, thread: Thread, wait: KnownWait, frame: Frame) -> Iterator[WaitEdge]:
    children = living(scene.children_of(thread.process))
    workers = [child for child in children if child.role == "pool-worker"] or [
        child for child in children if is_stopped(scene.main_thread(child.id))
    ]
    busy = [worker for worker in workers if not is_idle(scene, worker)]
    strength: Strength = "strong" if all(works(scene.main_thread(worker.id)) for worker in busy) else "suggested"
    noun = "pool worker" if all(worker.role == "pool-worker" for worker in busy) else ""
    for worker in busy[:MAX_BRANCHES]:
        text = f"{wait.text}, probably from {called_all(scene, [w.id for w in busy], thread, noun)}"
        yield edge_to_process(scene, thread, worker.id, "worker", strength, text, reason=seen_in(frame), rows=(frame,))
