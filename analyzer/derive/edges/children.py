"""A parent that waits for its child, as the kernel tells it."""

from __future__ import annotations

from collections.abc import Iterator

from flatline.bundle.facts import Thread, WaitEdge

from ..known import CHILD_WAITS
from ..scene import Scene, host_of_id
from .draw import MAX_BRANCHES, called, called_all, edge, edge_to_process, living, workers_first

VFORKS = frozenset({"vfork", "clone", "clone3"})


def find_child(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """wait4 and waitid: a child by its pid, or any."""
    call = thread.syscall
    if call is None or call.name not in CHILD_WAITS:
        return
    if not call.target_pid or call.target_pid < 0:
        yield from _any_child(scene, thread, f"{call.name} for any child")
        return
    child = f"{host_of_id(thread.process)}/{call.target_pid}"
    yield edge_to_process(scene, thread, child, "child", "proven", f"waits for {_child(scene, child)}",
                          reason=f"{call.name} names the child")  # fmt: skip


def find_vfork(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A thread in vfork sleeps until the child has called exec."""
    call = thread.syscall
    if call is not None and call.name in VFORKS and thread.state == "D":
        yield from _any_child(scene, thread, f"{call.name} sleeps until the child has called exec")


def _child(scene: Scene, child: str) -> str:
    row = scene.processes.get(child)
    return called(scene, child) if row is not None and row.rank is not None else f"its child {child.rpartition('/')[2]}"


def _any_child(scene: Scene, thread: Thread, reason: str) -> Iterator[WaitEdge]:
    children = [child.id for child in workers_first(living(scene.children_of(thread.process)))]
    if not children:
        yield edge(scene, thread, "unknown:", "child", "strong",
                   f"waits for a child that is not in {scene.store.origin}", reason=reason)  # fmt: skip
    strength = "proven" if len(children) == 1 else "strong"
    text = f"waits for {called_all(scene, children, thread)}" if children else ""
    for child in children[:MAX_BRANCHES]:
        yield edge_to_process(scene, thread, child, "child", strength, text, reason=reason)
