"""From a root thread along the wait edges to where it ends: a sink, a cycle, a cut, or somebody who gets on.

A chain is told in one sentence; `order` says which one carries the diagnosis.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from flatline.bundle.facts import Chain, End, Process, Strength, Thread, WaitEdge, process_id

from ..names import process_named, process_of_id, thread_named
from .scene import Scene, has_ended, innermost_user

MAX_DEPTH = 64
MAX_BRANCHES = 8
MAX_CHAINS_OF_ROOT = 16
MAX_CHAINS = 512
"""Of all roots; every root has at least one."""
TOLD_FIRST, TOLD_LAST = 12, 6
"""Of a long chain, the steps that its sentence has; those between are counted."""
MAX_BESIDE = 64
"""Processes that no root waits for, of which the chains are followed as well."""
STRENGTHS: tuple[Strength, ...] = ("suggested", "strong", "proven")
NO_ROOTS = frozenset({
    "shell", "resource-tracker", "tracker-service", "compile-worker", "dataloader-worker", "pool-worker",
})  # fmt: skip
OPEN_NODES = ("unknown:", "futex:")
"""Nodes that only say that the one who is awaited is not known."""
_INTEREST = ("exited", "stopped", "frozen", "polling", "spinning", "unknown", "busy", "moving")


@dataclass(frozen=True)
class Step:
    """One node of a path, and the edge that leaves it."""

    node: str
    thread: Thread | None
    process: Process | None
    edge: WaitEdge | None


@dataclass(frozen=True)
class Path:
    """One way from a root to its end."""

    root: Thread
    steps: tuple[Step, ...]
    kind: Literal["sink", "cycle", "cut", "moving", "none"]
    what: str
    why: str
    back_to: int | None = None
    """Of a cycle: the index of the step it comes back to."""

    @property
    def edges(self) -> list[WaitEdge]:
        return [step.edge for step in self.steps if step.edge is not None]

    @property
    def last_edge(self) -> WaitEdge | None:
        edges = self.edges
        return edges[-1] if edges else None

    @property
    def strength(self) -> Strength:
        """Of its weakest edge."""
        return STRENGTHS[min((STRENGTHS.index(edge.strength) for edge in self.edges), default=0)]

    @property
    def end_strength(self) -> Strength:
        """Of what is said of the end: a sink's last edge, all edges of a cycle."""
        edges = self.edges
        relevant = edges[self.back_to or 0 :] if self.kind == "cycle" else edges[-1:]
        if self.kind == "sink" and self.what == "exited":
            return "proven"
        return STRENGTHS[min((STRENGTHS.index(edge.strength) for edge in relevant), default=0)]


def find_roots(scene: Scene) -> list[Thread]:
    """Main threads of what was named: of targets, launchers, ranks, and of Python programs nobody of the job started
    but a shell. What has ended is no root while anything else is."""
    named = [process for process in scene.processes.values() if process.id in scene.named]
    candidates = [p for p in named if not has_ended(p)] or named
    own = [p for p in candidates if p.relation != "sibling" and _is_root(scene, p)]
    own = own or [p for p in candidates if p.relation == "target"] or [
        p for p in candidates if _parent(scene, p) not in scene.named
    ]
    peers = [p for p in candidates if p.relation == "sibling"]
    return _mains(scene, [*own, *peers])


def find_roots_beside(scene: Scene, paths: Sequence[Path]) -> list[Thread]:
    """Main threads of what no root waits for: programs that stand beside what was named, Python programs below it."""
    waited_for = {step.process.id for path in paths for step in path.steps if step.process is not None}
    left = [p for p in scene.processes.values() if p.id not in waited_for and not has_ended(p)]
    beside = [p for p in left if p.relation == "sibling" and _is_root(scene, p)]
    below = [p for p in left if p.relation == "descendant" and p.is_python and p.role in ("pool-worker", "other")]
    return _mains(scene, [*beside, *below][:MAX_BESIDE])


def _mains(scene: Scene, processes: Sequence[Process]) -> list[Thread]:
    mains = (scene.main_thread(process.id) for process in sorted(processes, key=_root_order))
    return [thread for thread in mains if thread is not None]


def _root_order(process: Process) -> tuple[bool, int, str, int]:
    return process.rank is None, process.rank or 0, process.host, process.pid


def _is_root(scene: Scene, process: Process) -> bool:
    if process.role in NO_ROOTS:
        return False
    if process.relation == "target" or process.role in ("launcher", "rank"):
        return True
    parent = scene.processes.get(_parent(scene, process))
    if parent is None or parent.id not in scene.job or parent.relation == "ancestor" or parent.role == "shell":
        return bool(process.is_python)
    return bool(process.is_python) and parent.is_python is False


def _parent(scene: Scene, process: Process) -> str:
    return process_id(process.ppid or 0, process.host)


def find_paths(scene: Scene, edges: Sequence[WaitEdge], roots: Sequence[Thread]) -> list[Path]:
    """All chains of all roots, bounded; those of one root in the order of their branches."""
    leaving: dict[str, list[WaitEdge]] = defaultdict(list)
    for edge in edges:
        leaving[edge.waiter].append(edge)
    each = max(1, min(MAX_CHAINS_OF_ROOT, MAX_CHAINS // max(1, len(roots))))
    return [path for root in roots for path in islice(_walk(scene, leaving, root, root, ()), each)]


def _walk(
    scene: Scene, leaving: dict[str, list[WaitEdge]], root: Thread, thread: Thread, before: tuple[Step, ...]
) -> Iterator[Path]:
    """Depth first from one thread; `before` are the steps that led here."""
    node = f"thread:{thread.id}"
    process = scene.processes.get(thread.process)
    back = next((i for i, step in enumerate(before) if step.node == node), None)
    if back is not None:
        kind = before[-1].edge.kind if before[-1].edge else ""
        yield Path(root, before, "cycle", kind, "a cycle: none of them can go on before another does", back)
        return
    edges = _by_interest(scene, leaving.get(node, []))
    if not edges or len(before) >= MAX_DEPTH:
        yield _ended(scene, root, (*before, Step(node, thread, process, None)), thread)
        return
    for edge in edges[:MAX_BRANCHES]:
        steps = (*before, Step(node, thread, process, edge))
        following = _following(scene, edge)
        if following is not None:
            yield from _walk(scene, leaving, root, following, steps)
        else:
            yield _ended_outside(scene, root, steps, edge)


def _by_interest(scene: Scene, edges: list[WaitEdge]) -> list[WaitEdge]:
    if len(edges) < 2:
        return edges

    def interest(edge: WaitEdge) -> int:
        thread = _following(scene, edge)
        return _INTEREST.index(thread.liveness) if thread is not None else len(_INTEREST)

    return sorted(edges, key=interest)


def _following(scene: Scene, edge: WaitEdge) -> Thread | None:
    kind, _, name = edge.awaited.partition(":")
    if kind == "thread":
        return scene.threads.get(name)
    if kind != "process" or scene.in_job(name) is False:
        return None
    return scene.main_thread(name)


def _ended(scene: Scene, root: Thread, steps: tuple[Step, ...], thread: Thread) -> Path:
    """At a thread that no edge leaves."""
    what = thread.liveness
    if what == "exited":
        return Path(root, steps, "sink", what, _how_it_ended(scene.processes.get(thread.process)))
    if what == "moving":
        return Path(root, steps, "moving", what, thread.liveness_reason or "it gets on")
    if what == "busy":
        return Path(root, steps, "cut", what, f"{thread.liveness_reason}: work in C or a busy loop, which looks alike")
    if len(steps) >= MAX_DEPTH:
        return Path(root, steps, "cut", what, f"followed for {MAX_DEPTH} steps")
    return Path(root, steps, "cut", what, _why_unknown(scene, thread))


def _why_unknown(scene: Scene, thread: Thread) -> str:
    reason = thread.liveness_reason or "it was not observed"
    lacks = [what for table, what in (("frames", "its stack"), ("fds", "its descriptors"))
             if not scene.store.collected(table)]  # fmt: skip
    if thread.syscall is None and thread.state != "R":
        lacks.append("its system call")
    unread = f" ({', '.join(lacks)} could not be read)" if lacks else ""
    return f"{_stood(scene, thread)}{reason}; what it waits for does not show{unread}"


def _stood(scene: Scene, thread: Thread) -> str:
    """Where the only look there is has found it."""
    stack = scene.stack(thread.id)
    frame = innermost_user(stack) or (stack[0] if stack else None)
    if frame is None or thread.state != "unknown" or thread.liveness != "unknown":
        return ""
    file = (frame.file or frame.module or "").rpartition("/")[2]
    at = f" ({file}:{frame.line_no})" if file and frame.line_no else f" ({file})" if file else ""
    return f"it stood in {frame.function}{at}; "


def _how_it_ended(process: Process | None) -> str:
    status = process.exit_status if process is not None else None
    if status is None:
        return "it has ended"
    return f"it was killed by signal {-status}" if status < 0 else f"it has exited with status {status}"


def _ended_outside(scene: Scene, root: Thread, steps: tuple[Step, ...], edge: WaitEdge) -> Path:
    """At a resource, nobody, or a process of which no thread is known."""
    kind, _, name = edge.awaited.partition(":")
    process = scene.processes.get(name) if kind == "process" else None
    if kind == "process":
        steps = (*steps, Step(edge.awaited, None, process, None))
        if process is not None and process.state in ("Z", "X"):
            return Path(root, steps, "sink", "exited", _how_it_ended(process))
        if edge.inside_job is not False:
            known = f"is not in {scene.store.origin}" if process is None else "is known without its threads"
            return Path(root, steps, "cut", edge.kind, f"{process_of_id(name)} {known}")
        return Path(root, steps, "sink", edge.kind, edge.reason)
    steps = (*steps, Step(edge.awaited, None, None, None))
    unknown = edge.awaited.startswith(OPEN_NODES) and edge.owner in ("unknown", "thread")
    return Path(root, steps, "cut" if unknown else "sink", edge.kind, edge.reason)


# --- as rows and as words ---


def as_rows(paths: Sequence[Path]) -> tuple[list[Chain], list[End]]:
    """The tables `chains` and `ends`; ids ``chain-0``, ``end-0`` …"""
    chains, ends = [], []
    for number, path in enumerate(paths):
        last = path.steps[-1]
        inside = path.last_edge.inside_job if path.last_edge is not None else True
        if path.kind == "cycle" or path.what == "exited":
            inside = True
        end = End(
            f"end-{number}", f"chain-{number}", path.kind, last.edge.awaited if last.edge else last.node, path.what,
            inside_job=inside, strength=path.end_strength, why=path.why,
            process=last.process.id if last.process else None, thread=last.thread.id if last.thread else None,
        )  # fmt: skip
        nodes = tuple(step.node for step in path.steps) + ((last.edge.awaited,) if last.edge else ())
        chains.append(Chain(end.chain, f"thread:{path.root.id}", nodes, end.id, tell(path), path.strength))
        ends.append(end)
    return chains, ends


def tell(path: Path) -> str:
    """The chain as one sentence."""
    waits = [step for step in path.steps if step.edge is not None]
    between = len(waits) - TOLD_FIRST - TOLD_LAST
    if between > 1:
        parts = [*map(_told, waits[:TOLD_FIRST]), f"and so on, {between} more steps", *map(_told, waits[-TOLD_LAST:])]
    else:
        parts = [_told(step) for step in waits]
    last = path.steps[-1]
    if path.kind == "cycle" and path.back_to is not None:
        parts[-1] += f", and {subject(path.steps[path.back_to])} is itself waiting (a cycle)"
    elif path.kind == "moving":
        parts.append(f"{subject(last)} gets on: {path.why}")
    elif path.what == "exited" or (path.kind == "cut" and last.thread is not None):
        parts.append(f"{subject(last)}: {path.why}")
    elif path.kind == "cut":
        parts.append(path.why)
    return "; ".join(parts)


def _told(step: Step) -> str:
    return f"{subject(step)} {step.edge.text}" if step.edge is not None else subject(step)


def subject(step: Step) -> str:
    """``pid 12``, ``rank 0 (pid 12)``, ``thread loader of pid 12``."""
    if step.thread is None:
        return process_named(step.process.pid) if step.process is not None else step.node.partition(":")[0]
    process = step.process
    owner = process_named(step.thread.pid, process.rank if process is not None else step.thread.rank)
    return owner if step.thread.is_main else f"thread {thread_named(step.thread)} of {owner}"

