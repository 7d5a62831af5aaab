"""The process table: the job as a tree, and apart from it what stands around the job and nobody waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flatline.bundle.facts import Fd, Lock, Process, Thread, WaitEdge

from ..case import FactStore
from ..names import command_line, process_of_id
from .visible import visible
from .wording import listed, said

AROUND = ("holder", "ancestor")
_STANDS = {"holder": "outside the job", "ancestor": "above the target", "sibling": "beside the target"}
_STREAMS = {0: "standard input", 1: "standard output", 2: "standard error"}
MOST_HELD = 3


@dataclass(frozen=True)
class ProcessRow:
    """One line of the process tree."""

    depth: int
    pid: int | None
    """None: no text names it."""
    what: str
    role: str
    """``rank 3``; empty when nothing is known of it."""
    note: str
    """Where it stands to the job, and what it holds of it."""
    state: str
    liveness: str
    waits_on: str


@dataclass(frozen=True)
class ProcessTable:
    """Rows of the job and of all that its waits lead to; and of the rest."""

    job: tuple[ProcessRow, ...] = ()
    around: tuple[ProcessRow, ...] = ()


def process_table(store: FactStore) -> ProcessTable:
    """The tree, parents before children."""
    processes: Sequence[Process] = store.rows("processes")
    main = {thread.process: thread for thread in store.rows("threads") if thread.is_main}
    held = _held(store)
    waited_for = set(_on_edges(store.rows("wait_edges")))
    around = [p for p in processes if p.relation in AROUND and p.id not in waited_for]
    inner = [p for p in processes if p not in around]
    return ProcessTable(
        tuple(_row(process, main.get(process.id), held, depth) for process, depth in _tree(inner)),
        tuple(_row(process, main.get(process.id), held, 0) for process in around),
    )


def _tree(processes: Sequence[Process]) -> Iterable[tuple[Process, int]]:
    """Every process once, with its depth; one whose parent is not here is a root."""
    by_pid = {(process.host, process.pid): process for process in processes}
    children: dict[tuple[str, int], list[Process]] = defaultdict(list)
    roots = []
    for process in processes:
        parent = (process.host, process.ppid or 0)
        if parent in by_pid and parent != (process.host, process.pid):
            children[parent].append(process)
        else:
            roots.append(process)
    todo = [(process, 0) for process in reversed(roots)]
    seen: set[tuple[str, int]] = set()
    while todo:
        process, depth = todo.pop()
        key = (process.host, process.pid)
        if key in seen:  # pids reused within one bundle must not make a circle
            continue
        seen.add(key)
        yield process, depth
        todo += [(child, depth + 1) for child in reversed(children[key])]


def _row(process: Process, main: Thread | None, held: Mapping[str, list[str]], depth: int) -> ProcessRow:
    role = "" if process.role in ("unknown", "other") else process.role
    notes = [_STANDS.get(process.relation, ""), listed(held.get(process.id, []), MOST_HELD)]
    liveness = process.liveness if process.liveness != "unknown" or main is None else main.liveness
    return ProcessRow(
        depth=min(depth, 12),
        pid=process.pid if process.pid > 0 else None,
        what=visible(command_line(process.argv or ()) or f"[{process.name or '?'}]", 200),
        role=f"{role} {process.rank}".strip() if process.rank is not None else role,
        note=visible("; ".join(filter(None, notes)), 400),
        state=main.state if main else process.state,
        liveness=said(liveness),
        waits_on=(main.waits_on or "").replace("-", " ") if main else "",
    )


def _on_edges(edges: Iterable[WaitEdge]) -> Iterable[str]:
    """Processes from which or to which a wait leads."""
    for edge in edges:
        for node in (edge.waiter, edge.awaited):
            kind, _, name = node.partition(":")
            if kind in ("process", "thread"):
                yield "/".join(name.split("/")[:2])


def _held(store: FactStore) -> dict[str, list[str]]:
    """process outside the job -> what it holds that the job may wait for."""
    outside = {p.id for p in store.rows("processes") if p.relation in AROUND}
    held: dict[str, dict[str, None]] = defaultdict(dict)
    for fd in store.rows("fds"):
        for peer in outside.intersection(fd.peers or ()):
            held[peer][_other_end(fd)] = None
    for lock in store.rows("locks"):
        if lock.owner_process in outside and not lock.waiting:
            held[lock.owner_process][_lock(lock)] = None
    return {process: list(texts) for process, texts in held.items()}


def _other_end(fd: Fd) -> str:
    stream = _STREAMS.get(fd.fd, f"a {fd.kind}")
    return f"has the other end of {process_of_id(fd.process)}'s {stream}"


def _lock(lock: Lock) -> str:
    return f"holds the lock on {lock.path or f'inode {lock.inode}'}"
