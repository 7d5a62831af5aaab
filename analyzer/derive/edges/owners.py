"""Locks whose owner memory tells: mutexes, rwlocks, Python's RLock, locks of multiprocessing (table `futexes`).

A lock that names its owner is "held by" it. A lock of multiprocessing names none, but every process counts for itself
how often it has taken it: strong, as another one may give it back. A plain lock of Python has nothing to be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from flatline.bundle.facts import Futex, Process, Strength, Thread, WaitEdge

from ..known import known_wait
from ..scene import Scene, Stack, is_user
from .draw import MAX_BRANCHES, called, called_all, edge, edge_to_process
from .futexes import all_blocked, awaited_name, wakers_by_signal

_COUNTS = ("put", "acquire")
"""Functions of multiprocessing's queues that count room with a semaphore of the shape of a lock."""


def find_lock_nobody_owns(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """The owner that memory names is no thread of the process any more: inherited by fork(), or ended with the lock."""
    row = scene.futex(thread)
    if row is None:
        return
    if row.primitive not in ("join", "unknown") and row.owner_state == "not-a-thread-of-the-process":
        yield _owner_is_gone(scene, thread, row)
    elif row.held_by == () and not _counts_room(scene.stack(thread.id)):
        yield _holder_is_gone(scene, thread, row)
    elif _nobody_else_has_it(row) and all_blocked(scene, thread.process):
        yield _nobody_can_post(scene, thread, row)


def find_lock_owner(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """The owner that memory names, and that lives."""
    row = scene.futex(thread)
    if row is None or row.primitive == "join":
        return
    if row.owner_state == "self":
        yield edge(scene, thread, f"thread:{thread.id}", "futex", _seen(thread),
                   f"waits for {_name(scene, thread, row)}, which it holds itself", owner="thread", inside_job=True,
                   reason=f"{_says(row)} its owner the very thread that waits", resource=_name(scene, thread, row),
                   rows=(row,))  # fmt: skip
    elif row.owner_state == "alive" and row.owner_thread is not None:
        yield _to_owner(scene, thread, row, row.owner_thread)


def find_lock_holder(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A lock of multiprocessing, and the process that says it has taken it."""
    row = scene.futex(thread)
    if row is None or not row.held_by or thread.process in row.held_by:
        return
    for process in row.held_by[:MAX_BRANCHES]:
        yield edge_to_process(scene, thread, process, "futex", "strong" if len(row.held_by) == 1 else "suggested",
                              f"waits for {_name(scene, thread, row)}, which {called(scene, process, thread)} has",
                              reason="the lock object in that process counts one taken", rows=(row,),
                              resource=_name(scene, thread, row))  # fmt: skip


def find_shared_futex(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A semaphore between processes, of which no owner is known: one of those that have it mapped."""
    row = scene.futex(thread)
    others = [p for p in (row.mapped_by or ()) if p != thread.process] if row is not None else []
    if row is None or not others:
        return
    who = called_all(scene, others, thread)
    for process in others[:MAX_BRANCHES]:
        yield edge_to_process(scene, thread, process, "futex", "suggested",
                              f"waits for {_name(scene, thread, row)}, which {who} can release", rows=(row,),
                              reason=f"they have {row.mapping or 'its memory'} mapped, and no owner is stored",
                              resource=_name(scene, thread, row))  # fmt: skip


# --- nobody ---


def _owner_is_gone(scene: Scene, thread: Thread, row: Futex) -> WaitEdge:
    process, name = scene.processes.get(thread.process), _name(scene, thread, row)
    forked = process is not None and process.start_method == "fork"
    owner = f"thread {row.owner_tid}" if row.owner_tid else "a thread"
    when = "when the process was forked" if forked and not row.mapping else "when it ended"
    where = "any process that shares it" if row.mapping else "this process"
    return edge(scene, thread, "nobody:", "futex", _strength_of_gone(scene, thread, process, row),
                f"waits for {name}, which {owner} held {when}: no living thread can release it", owner="nobody",
                inside_job=True, reason=f"{_says(row)} its owner {owner}, which is none of {where}", resource=name,
                rows=(row, process))  # fmt: skip


def _strength_of_gone(scene: Scene, thread: Thread, process: Process | None, row: Futex) -> Strength:
    """Of a forked child the main thread is the copy of the one that forked, under a new number: it may be the owner of
    what it took before, and give it back to others as long as it is awake."""
    main = scene.main_thread(thread.process)
    forked = process is None or process.start_method not in ("exec", "spawn")
    may_be_main = forked and row.primitive != "python-rlock" and not thread.is_main
    if may_be_main and (main is None or main.liveness != "frozen"):
        return "strong"
    return _seen(thread)


def _holder_is_gone(scene: Scene, thread: Thread, row: Futex) -> WaitEdge:
    name, stack = _name(scene, thread, row), scene.stack(thread.id)
    is_taken = bool(stack) and (is_user(stack[0]) or (stack[0].file or "").endswith("multiprocessing/synchronize.py"))
    return edge(scene, thread, "nobody:", "futex", "strong" if is_taken else "suggested",
                f"waits for {name}, which none of the processes that share it holds: its holder has ended without "
                "giving it back", owner="nobody", inside_job=True, resource=name, rows=(row,),
                reason="the lock is taken, and the object of none of these processes counts one taken")  # fmt: skip


def _nobody_else_has_it(row: Futex) -> bool:
    return bool(row.mapped_by == () and row.all_asked and row.word == 0 and (row.mapping or "").endswith("(deleted)"))


def _nobody_can_post(scene: Scene, thread: Thread, row: Futex) -> WaitEdge:
    name, wakers = _name(scene, thread, row), wakers_by_signal(scene.processes.get(thread.process))
    exact = not wakers and scene.all_threads_seen(thread.process)
    but = f" but a handler of {', '.join(wakers)}" if wakers else ""
    return edge(scene, thread, "nobody:", "futex", "proven" if exact else "strong",
                f"waits for {name}, which no living thread{but} can release: no other process has it mapped",
                owner="nobody", inside_job=True, resource=name, rows=(row,),
                reason=f"{row.mapping} is 0, mapped by this process alone, and all its threads wait for ever")


# --- an owner that lives ---


def _to_owner(scene: Scene, thread: Thread, row: Futex, owner: str) -> WaitEdge:
    name, process = _name(scene, thread, row), owner.rpartition("/")[0]
    found, reason = scene.threads.get(owner), f"{_says(row)} its owner thread {owner.rpartition('/')[2]}"
    if process != thread.process and found is None:
        return edge_to_process(scene, thread, process, "futex", _seen(thread), resource=name, rows=(row,),
                               text=f"waits for {name}, which is held by {called(scene, process, thread)}",
                               reason=reason)  # fmt: skip
    whose = "its thread" if process == thread.process else f"{called(scene, process, thread)}, thread"
    who = _called(scene, found) if found else owner.rpartition("/")[2]
    return edge(scene, thread, f"thread:{owner}", "futex", _seen(thread),
                f"waits for {name}, which is held by {whose} {who}",
                owner="thread", inside_job=scene.in_job(process), reason=reason, resource=name,
                rows=(row, found, *scene.stack(owner)[:1]))  # fmt: skip


def _seen(thread: Thread) -> Strength:
    """Of a thread that wakes now and then the owner may be another one by the time it sleeps again."""
    return "proven" if thread.liveness == "frozen" else "strong"


def _says(row: Futex) -> str:
    what = {"python-rlock": "the RLock", "pi-mutex": "the mutex"}.get(row.primitive, f"the {row.primitive}")
    return f"{what} in memory names as"


def _name(scene: Scene, thread: Thread, row: Futex) -> str:
    name = awaited_name(scene, thread)
    if name != "a lock":
        return name
    shared = " shared between processes" if row.mapping else ""
    return f"{_NOUNS.get(row.primitive, 'a lock')}{shared}"


_NOUNS = {
    "mutex": "a mutex", "pi-mutex": "a mutex", "rwlock": "a read-write lock", "semaphore": "a semaphore",
    "condition": "a condition variable", "barrier": "a barrier",
}  # fmt: skip


def _called(scene: Scene, thread: Thread) -> str:
    """Its number where its name is the program's, which says nothing."""
    process = scene.processes.get(thread.process)
    named = thread.name and not (process is not None and thread.name == process.name)
    return str(thread.name if named else thread.tid)


def _counts_room(stack: Stack) -> bool:
    found = known_wait(stack)
    in_queue = any((f.file or "").endswith("multiprocessing/queues.py") and f.function in _COUNTS for f in stack[:4])
    return in_queue or (found is not None and found[1].function == "put")
