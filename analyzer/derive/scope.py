"""Where a cause may lie: on the chains of what was asked about, or, while these decide nothing, anywhere in the job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .chains import Path
from .scene import Scene
from .verdict import Opinion


@dataclass(frozen=True)
class Scope:
    """Processes, by their ids. None: there are no chains to hold a cause against."""

    ends_at: str = ""
    """The last process on the chain that carries the diagnosis."""
    waited_for: frozenset[str] | None = None
    """Those that the chains of the job's roots lead through."""
    suspects: frozenset[str] | None = None
    """Those that a root cause may be about; what is stuck elsewhere is said beside it."""
    gets_on: bool = False
    """Whether the chosen chain ends at somebody who computes or moves."""


def scope_of(scene: Scene, opinions: Sequence[Opinion], chosen: Opinion | None) -> Scope:
    """Of the opinions on the job's own chains, and the one that carries the diagnosis."""
    if chosen is None or not opinions:
        return Scope()
    waited_for = frozenset(process for o in opinions for process in processes_on(o.path))
    undecided = all(o.state == "unknown" for o in opinions)
    suspects = None if undecided else waited_for.union(*(_watched(scene, o.path) for o in opinions))
    ends_at = list(processes_on(chosen.path))[-1:]
    return Scope("".join(ends_at), waited_for, suspects, gets_on=chosen.path.what in ("busy", "moving"))


def processes_on(path: Path) -> Iterator[str]:
    """In order from the root."""
    return (step.process.id for step in path.steps if step.process is not None)


def _watched(scene: Scene, path: Path) -> Iterable[str]:
    """What a loop that sleeps and looks again may be looking at: all that its process has started."""
    thread = next((step.thread for step in reversed(path.steps) if step.thread is not None), None)
    if path.what != "timer" or thread is None or not thread.period_s:
        return ()
    return _below(scene, thread.process, set())


def _below(scene: Scene, process: str, seen: set[str]) -> set[str]:
    for child in scene.children_of(process):
        if child.id not in seen:
            seen.add(child.id)
            _below(scene, child.id, seen)
    return seen
