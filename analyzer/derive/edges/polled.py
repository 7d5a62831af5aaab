"""Loops of the job's own that ask, sleep and ask again: what they ask for is in their head.

``while child.poll() is None: sleep``, ``while not done.is_set(): sleep``, ``while thread.is_alive(): sleep``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatline.bundle.facts import Frame, Strength, Thread, WaitEdge

from ..known import is_sleep
from ..scene import Scene, innermost_user
from .bystanders import others_of, sleepers_left
from .draw import MAX_BRANCHES, called_all, edge, edge_to_process, living, workers_first
from .futexes import wakers_by_signal
from .signallers import find_setter

ASKS = re.compile(r"\b(?:while|if|any|all)\b.*?([\w.\[\]]+)\.(poll|is_alive|is_set|done|empty|exitcode|returncode)\b")
ASKS_ENVIRONMENT = re.compile(
    r"\b(?:while|if|until)\b[^#]*?(?:[\"']([A-Z][A-Z0-9_]{2,60})[\"']\s+not\s+in\s+(?:os\.)?environ\b|"
    r"(?:\bos\.)?\b(?:environ\.get|getenv)\(\s*[\"']([A-Z][A-Z0-9_]{2,60})[\"'])"
)
"""A loop for a variable that nobody can set in a process that runs, but the process itself."""
OF_CHILDREN = frozenset({"poll", "is_alive", "exitcode", "returncode"})
OF_THREADS = frozenset({"is_set", "done", "empty"})


def looping_frame(scene: Scene, thread: Thread) -> Frame | None:
    """The job's own frame from which a thread sleeps again and again; None: it does something else."""
    sleeps = thread.liveness == "polling" and is_sleep(thread.syscall)
    return innermost_user(scene.stack(thread.id)) if sleeps else None


def find_polled(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A sleep in a loop whose head asks for a child, a thread or an event."""
    frame = looping_frame(scene, thread)
    if frame is None:
        return
    heads = [line.text for line in (*reversed(frame.enclosing), *frame.source)]
    if variable := next((found[1] or found[2] for text in heads if (found := ASKS_ENVIRONMENT.search(text))), ""):
        yield from _for_variable(scene, thread, frame, variable)
        return
    asked = next((found for text in heads if (found := ASKS.search(text))), None)
    if asked is None:
        return
    if asked[2] in OF_CHILDREN:
        yield from _to_children(scene, thread, frame, asked[0])
    elif asked[2] in OF_THREADS:
        yield from _to_threads(scene, thread, frame, asked[1])


def _for_variable(scene: Scene, thread: Thread, frame: Frame, name: str) -> Iterator[WaitEdge]:
    """Of a variable that the process was given the loop asks for the value, or it has ended: then nothing is said."""
    if scene.lacks(thread.process, name):
        yield edge(scene, thread, "nobody:", "resource", "strong",
                   f"{_asks(thread)} for the environment variable {name}, which it was not given", owner="nobody",
                   inside_job=True, resource=name, rows=(frame, scene.processes.get(thread.process)),
                   reason="the loop around its sleep asks for it, and nobody else can set it")  # fmt: skip


def _asks(thread: Thread) -> str:
    return f"asks every {thread.period_s or 0:.2g} s"


def _to_children(scene: Scene, thread: Thread, frame: Frame, head: str) -> Iterator[WaitEdge]:
    children = [p.id for p in workers_first(living(scene.children_of(thread.process)))]
    strength: Strength = "strong" if len(children) == 1 else "suggested"
    text = f"{_asks(thread)} whether {called_all(scene, children, thread)} has ended" if (
        children) else ""
    for child in children[:MAX_BRANCHES]:
        yield edge_to_process(scene, thread, child, "child", strength, text, rows=(frame,),
                              reason=f"the loop around its sleep asks `{head.strip()}`")  # fmt: skip


def _to_threads(scene: Scene, thread: Thread, frame: Frame, asked: str) -> Iterator[WaitEdge]:
    name = asked.rpartition(".")[2]
    setters = list(find_setter(scene, thread, frame, name))
    if setters:
        yield from setters
        return
    left = sleepers_left(scene, thread)
    workers = living(scene.children_of(thread.process))
    by_signal = wakers_by_signal(scene.processes.get(thread.process))
    if left is None or workers or by_signal:
        return
    at = f"{(frame.file or '?').rpartition('/')[2]}:{frame.line_no}"
    others = "its other threads only sleep or serve libraries" if others_of(scene, thread) else "it has no other thread"
    yield edge(scene, thread, "nobody:", "futex", "suggested" if left else "strong",
               f"{_asks(thread)} for {asked} at {at}, which no thread is left to set: {others}",
               owner="nobody", inside_job=True, resource=f"an event or a condition at {at}", reason=others,
               rows=(frame, scene.processes.get(thread.process)))  # fmt: skip
