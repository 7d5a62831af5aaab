"""A short text that equal hangs share, whatever their pids, hosts and lines are."""

from __future__ import annotations

from ..findings import Verdict
from .chains import Path
from .scene import Scene, Stack, innermost_user


def signature_of(scene: Scene, verdict: Verdict, path: Path | None) -> str:
    """``hung/cycle/child>pipe-write/main (launch.py)``: state, end, the waits on the way, the root's own function."""
    if path is None:
        return verdict.state
    waits = ">".join(edge.kind for edge in path.edges) or path.what
    deepest = next((step.thread for step in reversed(path.steps) if step.thread is not None), path.root)
    return f"{verdict.state}/{path.kind}/{waits}/{_function(scene.stack(deepest.id))}"


def _function(stack: Stack) -> str:
    frame = innermost_user(stack) or (stack[0] if stack else None)
    if frame is None:
        return "-"
    return f"{frame.function} ({(frame.file or '?').rpartition('/')[2]})"
