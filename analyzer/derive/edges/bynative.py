"""Waits in C++ that Python's own stack does not name: ``store.get(...)`` in a script is one line of it and no more."""

from __future__ import annotations

from collections.abc import Iterator

from flatline.bundle.facts import Thread, WaitEdge

from ..known import known_wait, native_wait
from ..scene import Scene, host_of_id
from .draw import edge

AWAITED = {"ranks": ("another rank", "rank"), "device": ("the GPU", "device")}
"""Whom such a wait is for -> in words, and as a node."""


def find_by_native(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """What the C frames of a deeper look say of a thread that has not moved since."""
    if thread.liveness != "frozen" or known_wait(scene.stack(thread.id)) is not None:
        return
    waits = ((row, frame) for frame in scene.native_stack(thread.id) if (row := native_wait(frame)) is not None)
    found = next(((row, frame) for row, frame in waits if row.whom in AWAITED), None)
    if found is None:
        return
    row, frame = found
    who, kind = AWAITED[row.whom]
    node = f"device:{host_of_id(thread.process)}/gpu" if kind == "device" else "unknown:"
    yield edge(scene, thread, node, row.kind, "strong", row.text.format(op=frame.function), owner="outside",
               inside_job=False, reason=f"its C frames are in {frame.function}", resource=who,
               rows=(frame,))  # fmt: skip
