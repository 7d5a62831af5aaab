"""What the kernel's own functions say of a task in state D: the stack of the kernel, or the one name of wchan."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatline.bundle.facts import Process, Strength, Thread, WaitEdge
from flatline.texts.kernel_stacks import DRIVERS, FILE_SYSTEMS, KernelFrame, part_of_wchan, waits_in

from ..scene import Scene, host_of_id
from .draw import edge

_TOOLS = (
    (re.compile(r"nvidia-|nv-hostengine|dcgm|gdscheck|nvtop"), "nvidia"),
    (re.compile(r"rocm-smi|amd-smi|amdsmi"), "amdgpu"),
    (re.compile(r"npu-smi"), "ascend"),
)
"""Programs that do little but ask a driver."""


def find_kernel_wait(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A task in state D within the driver of an accelerator, or within a file system that somebody answers for."""
    if thread.state != "D" or thread.liveness != "frozen":
        return
    stack = scene.kernel_stack(thread.id)
    part = waits_in(KernelFrame(f.function, f.module) for f in stack) or part_of_wchan(thread.wchan)
    strength: Strength = "strong"
    reason = "the kernel's stack of a task in state D" if stack else f"state D in {thread.wchan}"
    if part is None:
        part, strength, reason = _by_name(scene, thread)
    host = host_of_id(thread.process)
    if part in DRIVERS:
        yield edge(scene, thread, f"device:{host}/{part}", "device", strength,
                   f"waits in the kernel's driver {part}, which does not return", owner="outside", inside_job=False,
                   reason=reason, resource=part, rows=tuple(stack[:1]))  # fmt: skip
    elif part in FILE_SYSTEMS:
        yield edge(scene, thread, f"mount:{host}/{part}", "mount", strength,
                   f"waits in the kernel for a file system of the kind {part}, which does not answer",
                   owner="unknown", inside_job=None, reason=reason, resource=part, rows=tuple(stack[:1]))  # fmt: skip


def _by_name(scene: Scene, thread: Thread) -> tuple[str | None, Strength, str]:
    """A tool that only asks a driver waits for it; several that do leave little doubt."""
    process = scene.processes.get(thread.process)
    part = _asks(process)
    stuck = [p for p in scene.processes.values() if p.state == "D" and part is not None and _asks(p) == part]
    strength: Strength = "strong" if len(stuck) > 1 else "suggested"
    return part, strength, f"{len(stuck)} program{'s' if len(stuck) != 1 else ''} of this driver in state D"


def _asks(process: Process | None) -> str | None:
    name = process.name or "" if process else ""
    return next((part for pattern, part in _TOOLS if pattern.match(name)), None)
