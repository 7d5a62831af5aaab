"""The lock of a module that is being imported: the thread within that import has it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatline.bundle.facts import Frame, Thread, WaitEdge

from ...names import thread_named
from ..known import known_wait
from ..scene import Scene, Stack
from .bystanders import others_of
from .draw import edge

IMPORTLIB = "importlib._bootstrap"
_IMPORTS = re.compile(r"^\s*(?:from\s+(\.*[\w.]*)\s+import\b|import\s+([\w.]+))")


def find_import_holder(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A thread that waits for a module's lock waits for the one that runs the module."""
    stack = scene.stack(thread.id)
    found = known_wait(stack)
    if found is None or IMPORTLIB not in (found[1].file or "").replace("/", ".") or found[0].kind != "futex":
        return
    wanted = _wanted(stack)
    importing = [(other, frame) for other in others_of(scene, thread) if (frame := _module_run(scene.stack(other.id)))]
    matching = [(other, frame) for other, frame in importing if wanted and _is_module(frame, wanted)]
    holder = next(iter(matching or (importing if len(importing) == 1 else [])), None)
    if holder is None:
        return
    other, frame = holder
    name = wanted or (frame.file or "?").rpartition("/")[2]
    yield edge(scene, thread, f"thread:{other.id}", "futex", "strong" if matching else "suggested",
               f"waits for the import of {name}, which its thread {thread_named(other)} is in the middle of",
               owner="thread", inside_job=True, resource=f"the import of {name}", rows=(found[1], frame, other),
               reason=f"its stack waits for a module's lock; the other runs {frame.file}:{frame.line_no}")  # fmt: skip


def _wanted(stack: Stack) -> str:
    """The module that the line outside of importlib asks for; "" when its source is not known."""
    line = next((f for f in stack if f.kind == "python" and not (f.file or "").startswith("<frozen importlib")
                 and "importlib/_bootstrap" not in (f.file or "")), None)  # fmt: skip
    text = next((s.text for s in line.source if s.line == line.line_no), "") if line is not None else ""
    asked = _IMPORTS.match(text)
    return (asked[1] or asked[2] or "").lstrip(".") if asked else ""


def _module_run(stack: Stack) -> Frame | None:
    """The innermost module body that an import runs: `<module>` with importlib somewhere outside of it."""
    for depth, frame in enumerate(stack):
        outside = stack[depth + 1 : depth + 12]
        if frame.function == "<module>" and any(IMPORTLIB in (f.file or "").replace("/", ".") for f in outside):
            return frame
    return None


def _is_module(frame: Frame, name: str) -> bool:
    path, parts = frame.file or "", name.replace(".", "/")
    return path.endswith((f"/{parts}.py", f"/{parts}/__init__.py")) or f"/{parts.partition('/')[0]}/" in path
