"""Collectives, as far as stacks tell: a rank waits for those that are not in the same one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flatline.bundle.facts import Strength, Thread, WaitEdge

from ..known import known_wait
from ..known_wait import short_function
from ..scene import Scene, innermost_user, is_user, place
from .draw import edge
from .futures import works

RANK_CONDITION = re.compile(
    r"(?:(?:el)?if\b|@).*(\brank|rank\b|_rank|RANK|is_main|is_master|main_process|is_primary|is_chief|process_index|master|"
    r"main_proc\b|_zero)"
)
ONE_LINE = re.compile(rf"{RANK_CONDITION.pattern}[^:]*:(?=\s*[^\s#])")
"""The condition and the call in one line: ``if rank == 0: validate(model)``."""
ONLY_FIRST = ("rank_zero.py",)
"""Wrappers of functions that Lightning calls on rank 0 alone."""
POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv"})

BACKWARD = frozenset({"_engine_run_backward", "run_backward"})


@dataclass(frozen=True)
class Joined:
    """Where the ranks of the job stand."""

    by_op: dict[str, list[Thread]]
    """Collective -> the ranks whose main thread is in it."""
    by_place: dict[tuple[object, ...], list[Thread]]
    """The same, by collective and the job's own line."""
    elsewhere: list[Thread]
    """Ranks that are in none."""


def find_collective(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A thread in a collective waits for one rank that has not come; the others are named in the text."""
    found = known_wait(scene.stack(thread.id))
    if found is None and _is_in_backward(scene, thread):
        yield from _within_backward(scene, thread)
    if found is None or found[0].whom != "ranks":
        return
    wait, frame = found
    condition = _condition(scene, thread)
    resource = f"{frame.function} under `{condition}`" if condition else frame.function
    text, reason = wait.text.format(op=frame.function), f"its stack is in {frame.function}, theirs are not"
    missing, strength = _missing(scene, thread, frame.function)
    if not missing:
        yield edge(scene, thread, "unknown:", wait.kind, "suggested", text, rows=(frame,), resource=resource,
                   inside_job=_all_here(scene, thread), owner="outside" if not _all_here(scene, thread) else "unknown",
                   reason="which rank has not joined does not show in the stacks")  # fmt: skip
        return
    first = missing[0]
    yield edge(scene, thread, f"thread:{first.id}", wait.kind, strength, f"{text}: {_named(scene, missing)}",
               owner="thread", inside_job=True, reason=reason, resource=resource,
               rows=(frame, first, *scene.stack(first.id)[:1]))  # fmt: skip


def _is_in_backward(scene: Scene, thread: Thread) -> bool:
    """Asleep in the engine of the backward pass, of which Python has no frame: where gradients are summed up."""
    stack = scene.stack(thread.id)
    return bool(stack) and thread.liveness == "frozen" and short_function(stack[0]) in BACKWARD


def _within_backward(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """The engine may wait for the device as well: only a rank that is awake elsewhere, or in a collective there, is
    said to be missing, and none as long as another thread of this process is at work."""
    world = _world(scene, thread)
    ranks = _ranks(scene, world)
    at_work = any(works(other) for other in scene.threads_of(thread.process))
    if at_work or thread.id not in {rank.id for rank in ranks}:
        return
    frame = scene.stack(thread.id)[0]
    outside = [rank for rank in ranks if not _is_within(scene, rank, "backward")]
    late = [rank for rank in outside if works(rank)] or [rank for rank in outside if _is_joined(scene, rank)]
    for first in late[:1]:
        yield edge(scene, thread, f"thread:{first.id}", "collective", "suggested",
                   f"waits in the backward pass for the other ranks: {_named(scene, late)}", owner="thread",
                   inside_job=True, resource="the backward pass", rows=(frame, first, *scene.stack(first.id)[:1]),
                   reason="asleep in the engine of the backward pass, in which they are not")  # fmt: skip


def _is_within(scene: Scene, thread: Thread, function: str) -> bool:
    return any(short_function(frame) == function for frame in scene.stack(thread.id))


def _is_joined(scene: Scene, thread: Thread) -> bool:
    found = known_wait(scene.stack(thread.id))
    return found is not None and found[0].whom == "ranks"


def _condition(scene: Scene, thread: Thread) -> str:
    """``if rank == 0:``, when the job's own code calls the collective under one that asks which rank it is."""
    stack = scene.stack(thread.id)
    own = [frame for frame in stack if is_user(frame)]
    lines = (line.text.strip() for frame in own for line in reversed(frame.enclosing))
    within = (line.text.strip() for frame in own for line in frame.source if line.line == frame.line_no)
    found = next((line for line in lines if RANK_CONDITION.match(line)), "")
    found = found or next((match[0].strip() for line in within if (match := ONE_LINE.match(line))), "")
    wrapped = any((frame.file or "").endswith(ONLY_FIRST) for frame in stack)
    return found or ("@rank_zero_only" if wrapped else "")


def _world(scene: Scene, thread: Thread) -> tuple[str | None, ...]:
    """Where its ranks meet; None in it: not known."""
    return tuple(scene.env(thread.process, name) for name in ("MASTER_ADDR", "MASTER_PORT"))


def _ranks(scene: Scene, world: Sequence[str | None]) -> list[Thread]:
    """The ranks that may belong to this world: a shell or a scheduler may have started two jobs side by side."""
    return [
        thread for thread in scene.rank_threads or scene.once("unnumbered ranks", lambda: _unnumbered(scene))
        if all(None in pair or pair[0] == pair[1] for pair in zip(world, _world(scene, thread), strict=True))
    ]  # fmt: skip


def _unnumbered(scene: Scene) -> list[Thread]:
    """Ranks whose numbers only the script knows, as it sets them after its start: processes of one parent that are
    connected with each other, one of which at least is in a collective or asleep in the backward pass."""
    family: dict[int | None, set[str]] = defaultdict(set)
    for process in scene.processes.values():
        if process.id in scene.job and process.role in ("rank", "pool-worker", "other", "unknown"):
            family[process.ppid].add(process.id)
    found: list[Thread] = []
    for parent, members in family.items():
        sockets = ((one, fd) for one in members for fd in scene.fds_of(one) if fd.kind == "socket")
        peers = {peer for one, fd in sockets for peer in fd.peers or () if peer != one}
        mates = [thread for one in sorted(members & peers) if (thread := scene.main_thread(one)) is not None]
        if parent is not None and any(_is_joined(scene, one) or _is_in_backward(scene, one) for one in mates):
            found += mates
    return found


def _joined(scene: Scene, world: Sequence[str | None]) -> Joined:
    joined = Joined(defaultdict(list), defaultdict(list), [])
    for thread in _ranks(scene, world):
        found = known_wait(scene.stack(thread.id))
        if found is None or found[0].whom != "ranks":
            joined.elsewhere.append(thread)
            continue
        joined.by_op[found[1].function].append(thread)
        joined.by_place[_where(scene, thread)].append(thread)
    return joined


def _where(scene: Scene, thread: Thread) -> tuple[object, ...]:
    frame = innermost_user(scene.stack(thread.id))
    return place(frame) if frame is not None else ()


def _missing(scene: Scene, thread: Thread, op: str) -> tuple[list[Thread], Strength]:
    """Ranks in no collective; else in another one; else in the same one from another line."""
    world = _world(scene, thread)
    if thread.id not in scene.once(f"ranks of {world}", lambda: {rank.id for rank in _ranks(scene, world)}):
        return [], "suggested"
    joined = scene.once(f"joined {world}", lambda: _joined(scene, world))
    if joined.elsewhere:
        return joined.elsewhere, "strong"
    if other := scene.once(f"not in {op} of {world}", lambda: _outside(joined.by_op, op)):
        return other, "suggested" if op in POINT_TO_POINT else "strong"
    here = _where(scene, thread)
    return scene.once(f"not at {here} of {world}", lambda: _outside(joined.by_place, here)), "suggested"


def _outside(groups: Mapping[Any, list[Thread]], own: object) -> list[Thread]:
    return [thread for key, threads in groups.items() if key != own for thread in threads]


def _all_here(scene: Scene, thread: Thread) -> bool | None:
    """Whether the bundle holds every rank; None: how many there are is not known."""
    process = scene.processes.get(thread.process)
    size = process.world_size if process is not None else None
    return None if size is None else len(_ranks(scene, _world(scene, thread))) >= size


def _rank(scene: Scene, thread: Thread) -> int | None:
    process = scene.processes.get(thread.process)
    return process.rank if process is not None else thread.rank


def _named(scene: Scene, threads: Sequence[Thread]) -> str:
    numbers = [_rank(scene, thread) for thread in threads[:4]]
    shown = ", ".join(map(str, [thread.pid for thread in threads[:4]] if None in numbers else numbers))
    kind = "pid" if None in numbers else "rank" if len(threads) == 1 else "ranks"
    if len(threads) == 1:
        return f"{kind} {shown} is not in it"
    more = f" and {len(threads) - 4} more" if len(threads) > 4 else ""
    return f"{kind} {shown}{more} are not in it"
