"""Waits that only the stack gives away (see `known`): children, workers, threads, lock files, peers, missing files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from flatline.bundle.facts import Frame, Process, Strength, Thread, WaitEdge

from ...names import thread_named
from ..known import known_wait
from ..known_wait import KnownWait, Whom
from ..scene import Scene, host_of_id, innermost_user
from .draw import MAX_BRANCHES, called, called_all, edge, edge_to_process, living, seen_in, workers_first
from .futures import is_idle, works
from .lock_files import to_lock_file
from .sockets import socket_name, to_remote, within

ASKS_FOR_FILE = re.compile(r"\b(exists|lexists|isfile|isdir|is_file|is_dir|stat|access|glob|listdir)\(")
UNTIL_FILE = re.compile(
    r"\bwhile\s+not\s+(?:[\w.]*\.)?(?:exists|lexists|isfile|isdir)\((.+?)\)\s*:|\bwhile\s+not\s+(.+?)\.(?:exists|is_file)\(\)"
)
"""A loop that ends when a file is there."""
IF_FILE = re.compile(
    r"\bif\s+(?:[\w.]*\.)?(?:exists|lexists|isfile|isdir)\((.+?)\)\s*:|\bif\s+([^:]+?)\.(?:exists|is_file)\(\)\s*:"
)
LOOP_FOR_EVER = re.compile(r"^\s*while\s+(True|1)\s*:")
"""The same, when the loop has no end of its own and is left from within."""
CONNECTED = frozenset({"ESTABLISHED", "SYN_SENT", "CLOSE_WAIT", "SYN_RECV"})
REPLACED_TICKS = 8
"""Of the kernel's clock, 10 ms each; a pool looks every 100 ms whether a worker has ended."""
_NOUNS: Mapping[Whom, str] = {"dataloader-worker": "DataLoader worker", "pool-worker": "pool worker"}
Resolver = Callable[[Scene, Thread, KnownWait, Frame], Iterator[WaitEdge]]


def find_idle_worker(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A worker that waits for its next task is idle: its parent decides, and it explains nothing."""
    yield from _resolve(scene, thread, {"parent": _to_parent})


def find_join_by_stack(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """Thread.join and the interpreter's end, which waits for every thread that is no daemon."""
    yield from _resolve(scene, thread, {"thread": _to_threads})


def find_by_stack(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """Everything else the table knows; an event loop only says that it is one, and is left to the descriptors."""
    yield from _resolve(scene, thread, _RESOLVERS)


def find_missing_file(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A loop that asks for a file and sleeps: the file is not there, or the loop would have ended."""
    frame = innermost_user(scene.stack(thread.id))
    if thread.liveness != "polling" or frame is None:
        return
    texts = [*_around(frame), *(line.text for line in frame.enclosing)]
    patterns = (UNTIL_FILE, IF_FILE) if any(map(LOOP_FOR_EVER.search, texts)) else (UNTIL_FILE,)
    until = next((found for text in texts for pattern in patterns if (found := pattern.search(text))), None)
    missing = [f for f in scene.files.get(thread.process, []) if f.exists is False and f.why_looked == "stack"]
    if until is None and not (missing and any(ASKS_FOR_FILE.search(text) for text in texts)):
        return
    name = missing[0].path if missing else _literal(until[1] or until[2]) if until else ""
    strength: Strength = "strong" if until is not None or len(missing) == 1 else "suggested"
    text = f"looks every {thread.period_s or 0:.2g} s for the file {name}, which does not exist"
    yield edge(scene, thread, f"file:{host_of_id(thread.process)}{name}", "resource", strength, text, owner="outside",
               inside_job=False, reason="the loop around its sleep asks for a file, and goes on as long as it is not "
               "there", resource=name, rows=(frame, *missing[:1]))  # fmt: skip


def _around(frame: Frame) -> Iterator[str]:
    """The line it stands at, and lines above that are further out: a loop that is over stands beside it."""
    own = next((line.text for line in frame.source if line.line == frame.line_no), "")
    yield own
    for line in frame.source:
        if line.line < (frame.line_no or 0) and _indent(line.text) < _indent(own):
            yield line.text


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _literal(argument: str) -> str:
    """``rank0.done`` of ``"rank0.done"``; an expression as it stands."""
    quoted = re.search(r"""["\']([^"\']+)["\']""", argument)
    return quoted[1] if quoted else f"`{argument.strip()}`"


def _resolve(scene: Scene, thread: Thread, resolvers: Mapping[Whom, Resolver]) -> Iterator[WaitEdge]:
    found = known_wait(scene.stack(thread.id))
    if found is not None and found[0].whom in resolvers:
        yield from resolvers[found[0].whom](scene, thread, *found)


def _to_parent(scene: Scene, thread: Thread, wait: KnownWait, frame: Frame) -> Iterator[WaitEdge]:
    process = scene.processes.get(thread.process)
    parent = f"{host_of_id(thread.process)}/{process.ppid}" if process and process.ppid else None
    if parent is None or not thread.is_main:  # a pool of threads waits for its own process
        who = "its parent" if thread.is_main else "its own process"
        yield edge(scene, thread, "unknown:", wait.kind, "suggested", wait.text.format(who=who),
                   reason=seen_in(frame))  # fmt: skip
        return
    yield edge_to_process(scene, thread, parent, wait.kind, "strong",
                          wait.text.format(who=f"its parent {called(scene, parent)}"), reason=seen_in(frame),
                          rows=(frame,))  # fmt: skip


def _to_children(scene: Scene, thread: Thread, wait: KnownWait, frame: Frame) -> Iterator[WaitEdge]:
    children = scene.children_of(thread.process)
    yield from _to_some(scene, thread, wait, frame, living(children) or children, "a child")


def _to_workers(role: str) -> Resolver:
    def resolver(scene: Scene, thread: Thread, wait: KnownWait, frame: Frame) -> Iterator[WaitEdge]:
        children = scene.children_of(thread.process)
        workers = [child for child in children if child.role == role] or children
        alive = living(workers)
        ids = {worker.id for worker in alive}
        dead = [worker for worker in workers if worker.id not in ids]
        busy = [worker for worker in alive if not is_idle(scene, worker)]
        if workers and not dead and not busy:
            yield _all_idle(scene, thread, wait, frame, workers)
        else:
            # when all of them work, the wait is for work that is done, whichever has it
            working = all(works(scene.main_thread(worker.id)) for worker in busy)
            each: Strength | None = "strong" if not dead and working else None
            yield from _to_some(scene, thread, wait, frame, dead or busy, "its workers", each=each)

    return resolver


def _all_idle(scene: Scene, thread: Thread, wait: KnownWait, frame: Frame, workers: Sequence[Process]) -> WaitEdge:
    """Every worker waits for a task, and the parent for a result: the task or its result was lost."""
    who = called_all(scene, [worker.id for worker in workers], thread, _NOUNS.get(wait.whom, ""))
    idle = "which is idle" if len(workers) == 1 else "all of which are idle"
    if wait.whom == "pool-worker" and _lost_its_receiver(scene, thread):
        return edge(scene, thread, "nobody:", "futex", "strong",
                    f"{wait.text.format(who=who)}, {idle}: the thread that hands their results on has ended",
                    owner="nobody", inside_job=True, rows=(frame, *workers[:4]),
                    resource="an item of its pool's results",
                    reason=f"{seen_in(frame)}; of the pool's own threads the one for results is not there")  # fmt: skip
    younger = _replaced(workers)
    lost = f"; {younger} of them began later than the others, in place of one that ended" if younger else ""
    return edge(scene, thread, "nobody:", wait.kind, "strong",
                f"{wait.text.format(who=who)}, {idle}: nobody works on it{lost}", owner="nobody", inside_job=True,
                reason=f"{seen_in(frame)}; the stack of every worker waits for a task",
                resource="the task of a worker that was replaced" if younger else "a lost task",
                rows=(frame, *workers[:4]))  # fmt: skip


def _lost_its_receiver(scene: Scene, thread: Thread) -> bool:
    """Whether a pool of multiprocessing has its threads for workers and tasks yet, and none for results: that one ends
    with an error where a result, or an exception, cannot be put together again."""
    if not scene.all_threads_seen(thread.process):
        return False
    others = [t for t in scene.threads_of(thread.process) if t.id != thread.id and t.liveness != "exited"]
    stacks = [scene.stack(other.id) for other in others]
    of_pool = {f.function for stack in stacks for f in stack if (f.file or "").endswith("multiprocessing/pool.py")}
    return all(stacks) and "_handle_tasks" in of_pool and "_handle_results" not in of_pool


def _replaced(workers: Sequence[Process]) -> int:
    """How many began clearly later than the first: a pool starts all of its workers in one go."""
    starts = sorted(worker.start_ticks for worker in workers if worker.start_ticks is not None)
    slack = REPLACED_TICKS if all(worker.start_method == "fork" for worker in workers) else 20 * REPLACED_TICKS
    return sum(start - starts[0] > slack for start in starts)


def _to_some(
    scene: Scene, thread: Thread, wait: KnownWait, frame: Frame, processes: Sequence[Process], otherwise: str,
    *, each: Strength | None = None,
) -> Iterator[WaitEdge]:
    candidates = [p.id for p in workers_first(processes)]
    seen = seen_in(frame, innermost_user(scene.stack(thread.id)))
    if not candidates:
        yield edge(scene, thread, "unknown:", wait.kind, "suggested", wait.text.format(who=otherwise),
                   reason=f"{seen}; none is in {scene.store.origin}")  # fmt: skip
        return
    strength: Strength = each or ("strong" if len(candidates) == 1 else "suggested")
    text = wait.text.format(who=called_all(scene, candidates, thread, _NOUNS.get(wait.whom, "")))
    for candidate in candidates[:MAX_BRANCHES]:
        yield edge_to_process(scene, thread, candidate, wait.kind, strength, text, reason=seen, rows=(frame,))


def _to_threads(scene: Scene, thread: Thread, wait: KnownWait, frame: Frame) -> Iterator[WaitEdge]:
    others = [t for t in scene.threads_of(thread.process) if t.id != thread.id and scene.stack(t.id)]
    own = [t for t in others if innermost_user(scene.stack(t.id)) is not None] or others
    strength: Strength = "strong" if len(own) == 1 and len(others) == 1 else "suggested"
    for joined in own[:MAX_BRANCHES]:
        text = wait.text.format(who=f"its thread {thread_named(joined)}")
        yield edge(scene, thread, f"thread:{joined.id}", wait.kind, strength, text, owner="thread", inside_job=True,
                   reason=seen_in(frame), rows=(frame, joined))  # fmt: skip


def _to_peer(scene: Scene, thread: Thread, wait: KnownWait, frame: Frame) -> Iterator[WaitEdge]:
    """The stack shows a connection, the call does not say which: the only one there is, or unknown."""
    if wait.kind == "socket-accept" or "{who}" not in wait.text:
        yield edge(scene, thread, f"socket:{host_of_id(thread.process)}/?", wait.kind, "strong", wait.text,
                   owner="outside", inside_job=False, reason=seen_in(frame), rows=(frame,))  # fmt: skip
        return
    open_sockets = [s for s in scene.sockets_of(thread.process) if s.state in CONNECTED and s.family != "unix"]
    wanted = [s for s in open_sockets if (s.state == "SYN_SENT") == (wait.kind == "socket-connect")] or open_sockets
    if len(wanted) != 1:
        text = wait.text.format(who="a network peer") + within(scene, thread)
        yield edge(scene, thread, "unknown:", wait.kind, "suggested", text,
                   owner="outside", inside_job=False, reason=seen_in(frame), rows=(frame,))  # fmt: skip
        return
    connects = wanted[0].state == "SYN_SENT"
    kind = "socket-connect" if connects else wait.kind
    name = socket_name(None, wanted[0])
    found = to_remote(scene, thread, kind, None, wanted[0], "strong", seen_in(frame))
    text = f"connects to {name}" if connects else wait.text.format(who=name)
    yield edge(scene, thread, found.awaited, kind, "strong", text + within(scene, thread),
               owner=found.owner, inside_job=found.inside_job, reason=seen_in(frame), resource=found.resource,
               rows=(frame, wanted[0]))  # fmt: skip


def _to_device(scene: Scene, thread: Thread, wait: KnownWait, frame: Frame) -> Iterator[WaitEdge]:
    yield edge(scene, thread, f"device:{host_of_id(thread.process)}/gpu", wait.kind, "strong",
               wait.text.format(op=frame.function),
               owner="outside", inside_job=False, reason=seen_in(frame), resource="the GPU", rows=(frame,))  # fmt: skip


def _to_nobody_known(scene: Scene, thread: Thread, wait: KnownWait, frame: Frame) -> Iterator[WaitEdge]:
    """The stack names the wait; somebody in the same process has to end it, and it does not say who."""
    call = thread.syscall
    in_futex = call is None or call.name == "futex"
    if wait.kind == "futex" and not in_futex:
        return
    address = f"{call.args[0]:#x}" if call is not None and call.args and call.name == "futex" else "?"
    node = f"futex:{thread.process}/{address}" if wait.kind == "futex" else "unknown:"
    where = innermost_user(scene.stack(thread.id))
    at = f" at {(where.file or '?').rpartition('/')[2]}:{where.line_no}" if where else ""
    text = wait.text.format(who="its event loop") + at
    yield edge(scene, thread, node, wait.kind, "suggested", text, reason=seen_in(frame),
               inside_job=True if wait.kind == "futex" else None, rows=(frame, where),
               resource=f"the lock{at}" if wait.kind == "futex" else None)  # fmt: skip


_RESOLVERS: Mapping[Whom, Resolver] = {
    "child": _to_children,
    "dataloader-worker": _to_workers("dataloader-worker"),
    "pool-worker": _to_workers("pool-worker"),
    "lock-file": to_lock_file,
    "peer": _to_peer,
    "device": _to_device,
    "future": _to_nobody_known,
    "idle": _to_nobody_known,
    "loop-thread": _to_nobody_known,
    "nobody-known": _to_nobody_known,
    "queue": _to_nobody_known,
}
