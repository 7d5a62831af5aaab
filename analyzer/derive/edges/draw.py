"""How an edge is drawn: who is named how, and which rows it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from flatline.bundle.facts import Frame, Process, Strength, Thread, WaitEdge

from ...names import process_named, process_of_id
from ..scene import Scene, Stack, host_of_id, innermost_user

Owner = Literal["thread", "process", "nobody", "outside", "unknown"]
MAX_BRANCHES = 16
"""Edges that may leave one thread: more is a crowd, not an explanation."""
HELPERS = frozenset({"resource-tracker", "tracker-service", "compile-worker"})


def references(*rows: Any) -> tuple[str, ...]:
    """``artefact#pointer`` or ``artefact:line`` of every row that knows where it is from."""
    refs = (reference(row) for row in rows if row is not None)
    return tuple(dict.fromkeys(ref for ref in refs if ref))


def reference(row: Any) -> str:
    """Empty for a row without provenance."""
    if not row.artefact:
        return ""
    return f"{row.artefact}#{row.pointer}" if row.pointer is not None else f"{row.artefact}:{row.line or 1}"


def edge(
    scene: Scene,
    thread: Thread,
    awaited: str,
    kind: Any,
    strength: Strength,
    text: str,
    *,
    reason: str,
    owner: Owner = "unknown",
    inside_job: bool | None = None,
    resource: str | None = None,
    rows: Sequence[Any] = (),
) -> WaitEdge:
    """An edge that leaves `thread`; its evidence is the thread itself, where it stands in the job's own code, its
    innermost frame, and `rows`."""
    stack = scene.stack(thread.id)
    return WaitEdge(
        waiter=f"thread:{thread.id}",
        awaited=awaited,
        kind=kind,
        strength=strength,
        owner=owner,
        reason=reason,
        text=text,
        process=thread.process,
        pid=thread.pid,
        rank=thread.rank,
        resource=resource,
        inside_job=inside_job,
        evidence=references(thread, innermost_user(stack), *stack[:1], *rows),
    )


def edge_to_process(
    scene: Scene,
    thread: Thread,
    process: str,
    kind: Any,
    strength: Strength,
    text: str,
    *,
    reason: str,
    resource: str | None = None,
    rows: Sequence[Any] = (),
) -> WaitEdge:
    """An edge to a process that can end the wait."""
    row = scene.processes.get(process)
    return edge(
        scene, thread, f"process:{process}", kind, strength, text, reason=reason, resource=resource,
        owner="process" if row is not None else "outside", inside_job=scene.in_job(process),
        rows=(*rows, row) if row is not None else rows,
    )  # fmt: skip


def called(scene: Scene, process: str, by: Thread | None = None) -> str:
    """How a sentence names a process: ``its child 13``, ``rank 1 (pid 13)``, ``pid 9 (sshd)``."""
    row = scene.processes.get(process)
    if row is None:
        return process_of_id(process)
    if by is not None and _is_child(row, by):
        return f"its child {row.pid}" if row.pid > 0 else "its child"
    outside = scene.in_job(process) is False and row.name and row.rank is None
    name = process_named(row.pid, row.rank)
    return f"{name} ({row.name}, outside the job)" if outside else name


def called_all(scene: Scene, processes: Sequence[str], by: Thread, noun: str = "") -> str:
    """``its child 13``, ``one of its DataLoader workers 13, 14 and 3 more``, ``one of pid 4, pid 5``."""
    rows = [scene.processes.get(process) for process in processes]
    children = all(row is not None and _is_child(row, by) for row in rows)
    if len(processes) == 1:
        name = called(scene, processes[0], by)
        return name.replace("child", noun, 1) if noun and children else name
    plural = f"{noun}s" if noun else "children"
    if children and all(row is not None and row.pid < 0 for row in rows):
        return f"one of its {len(processes)} {plural}"
    words = [process.rpartition("/")[2] if children else called(scene, process) for process in processes[:4]]
    more = f" and {len(processes) - 4} more" if len(processes) > 4 else ""
    return f"one of {f'its {plural} ' if children else ''}{', '.join(words)}{more}"


def _is_child(row: Process, of: Thread) -> bool:
    return row.ppid == of.pid and row.host == host_of_id(of.process)


def living(processes: Sequence[Process]) -> list[Process]:
    """Those that have not ended."""
    return [process for process in processes if process.state not in ("Z", "X")]


def workers_first(processes: Sequence[Process]) -> list[Process]:
    """Without the helpers every Python program has (resource tracker, trackers), unless there is nothing else."""
    return [p for p in processes if p.role not in HELPERS] or list(processes)


def at_own_line(stack: Stack) -> str:
    """`` at data.py:10``, where the thread stands in the job's own code; empty where it is in none."""
    own = innermost_user(stack)
    return f" at {(own.file or '?').rpartition('/')[2]}:{own.line_no or '?'}" if own else ""


def seen_in(frame: Frame, own: Frame | None = None) -> str:
    """The reason of an edge that a stack gives; `own`: the line of the job's own code from which it came there."""
    name = (frame.file or "?").rpartition("/")[2]
    via = f", called from {(own.file or '?').rpartition('/')[2]}:{own.line_no or '?'}" if own and own != frame else ""
    return f"its stack is in {frame.qualname or frame.function} ({name}){via}"
