"""The lock of the dynamic loader, which is held while a library's own code runs: constructors, exit handlers."""

from __future__ import annotations

from collections.abc import Iterator

from flatline.bundle.facts import Frame, Thread, WaitEdge

from ...names import thread_named
from ..known_wait import short_function
from ..native_waits import LOADER_LOCK, LOADS
from ..scene import Scene
from .draw import edge

NEAR = 5
"""Frames between the innermost one and the call that takes the lock."""


def find_loader_lock(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A thread that wants the loader's lock while another one of its process is in the middle of loading."""
    wants = _frame_of(scene, thread, LOADER_LOCK, NEAR)
    if wants is None or _frame_of(scene, thread, LOADS) is not None:
        return
    for holder in scene.threads_of(thread.process):
        holds = _frame_of(scene, holder, LOADS) if holder.id != thread.id else None
        if holds is not None:
            yield edge(scene, thread, f"thread:{holder.id}", "futex", "strong",
                       f"waits in {wants.function} for the lock of the dynamic loader, which its thread "
                       f"{thread_named(holder)} holds: it is in {holds.function}", owner="thread", inside_job=True,
                       reason="the stack of the other thread is within the loading of a library",
                       resource="the lock of the dynamic loader", rows=(wants, holder, holds))  # fmt: skip
            return


def _frame_of(scene: Scene, thread: Thread, functions: frozenset[str], near: int = 400) -> Frame | None:
    frames = scene.stack(thread.id)[:near]
    return next((f for f in frames if f.kind == "native" and short_function(f) in functions), None)
