"""What the recorder in the job says, in sentences: what is open, what was swallowed, what came last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from flatline.bundle.facts import RecorderEvent

from ..names import process_named
from .scene import Scene

MOST_PROCESSES = 3
_STATES = frozenset({"import-open", "phase-open", "looked-for", "armed"})
_SWALLOWED = {
    "thread-exception": "a thread ended with an error",
    "future-exception": "a task of a pool ended with an error",
    "asyncio-exception": "an event loop swallowed an error",
    "printed-exception": "an error was caught and printed",
    "exception": "it ended with an error",
    "unraisable": "a destructor or a callback swallowed an error",
    "not-writable": "found",
}
_NOT_TELLING = frozenset({"start", *_STATES})


def last_marks(scene: Scene, processes: Iterable[str]) -> list[str]:
    """A sentence or two for each process whose recorder has something to say; the processes in their order."""
    events: dict[str, list[RecorderEvent]] = {}
    for row in scene.store.rows("recorder_events"):
        events.setdefault(row.process, []).append(row)
    told = [name for name in dict.fromkeys(processes) if name in events]
    gone = [name for name in events if name not in scene.processes]
    return [line for name in [*told, *gone][:MOST_PROCESSES] for line in _of_process(scene, name, events[name])]


def youngest(scene: Scene, processes: Iterable[str]) -> RecorderEvent | None:
    """The last thing that any of these processes did, as far as its recorder saw."""
    wanted = set(processes)
    rows = [
        row
        for row in scene.store.rows("recorder_events")
        if row.process in wanted and row.age_s is not None and row.kind not in _STATES
    ]
    return min(rows, key=lambda row: row.age_s or 0.0, default=None)


def _of_process(scene: Scene, name: str, events: Sequence[RecorderEvent]) -> Iterator[str]:
    process = scene.processes.get(name)
    who = process_named(process.pid, process.rank) if process else f"process {name.rpartition('/')[2]}, which is gone"
    yield from (f"{who}: {line}" for line in list(_swallowed(events))[-1:])
    still = list(_open(events))
    last = next((row for row in reversed(events) if row.kind not in _NOT_TELLING), None)
    if still:
        yield f"{who}: last mark: {'; '.join(still)}"
    elif last is not None:
        yield f"{who}: last mark: {last.kind.replace('-', ' ')} {last.text}, {_age(last)} ago"


def _open(events: Sequence[RecorderEvent]) -> Iterator[str]:
    """The innermost import and phase: what began last and is open."""
    looked = next((row for row in events if row.kind == "looked-for"), None)
    for kind in ("phase-open", "import-open"):
        rows = [row for row in events if row.kind == kind]
        if not rows:
            continue
        row = max(rows, key=lambda one: one.mono_ns or 0)
        if kind == "phase-open":
            yield f"in phase “{row.text}” since {_age(row)}"
            continue
        inner = looked is not None and (looked.mono_ns or 0) > (row.mono_ns or 0) and looked.text != row.text
        yield f"importing {row.text} since {_age(row)}" + (
            f", where {looked.text} was looked for last" if inner and looked else ""
        )


def _swallowed(events: Sequence[RecorderEvent]) -> Iterator[str]:
    """Each error with its innermost place, which follows it."""
    for number, row in enumerate(events):
        if row.kind not in _SWALLOWED:
            continue
        places = []
        for after in events[number + 1 :]:
            if after.kind != f"{row.kind}-at":
                break
            places.append(after.text)
        at = f" at {places[-1]}" if places else ""
        yield f"{_SWALLOWED[row.kind]} {_age(row)} ago: {row.text}{at}"


def _age(row: RecorderEvent) -> str:
    return f"{row.age_s:.0f} s" if row.age_s is not None else "an unknown time"
