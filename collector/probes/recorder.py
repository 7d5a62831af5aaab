"""What the recorder inside the job's processes kept: the last events, and what is open."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone

from flatline.bundle.facts import Phase, RecorderEvent, process_id, thread_id

from ..confine import Confined, ConfineFailed, run_as_target, standpoint
from ..linux.procfs import ProcFS
from ..recorder.finding import Found, find, wanted
from ..recorder.ring import Event, Ring
from .interface import Artefact, Doing, Facts, Gap, Item, Target, View

_LOOK_S = 2.0
MOST_EVENTS = 60
"""Of one process that become facts, the last ones; the text has all."""
MOST_STANDPOINTS = 8
MOST_TRIED = 3
_KEPT = frozenset({"start", "unraisable", "not-writable"})
_OPEN = {"import": "import-open", "phase": "phase-open"}


class Recorder:
    """Last events, open imports and phases, and swallowed errors, where the job runs with the recorder."""

    name = "recorder"
    tables = ("recorder_events", "phases")
    limit_s = 6.0
    spans_window = False
    reads = (
        "TMPDIR/flatline-recorder-*/{ring,faulthandler.txt}, as the job's user",
        "FLATLINE_RECORDER_DIR/flatline-ring-*, as the job's user",
        "/proc/PID/status",
        "/proc/locks",
    )
    runs = ()

    def gather(self, view: View) -> Iterator[Item]:
        """Yields nothing for a job without the recorder."""
        found: list[Found] = []
        proc = ProcFS(view.proc)
        for targets in list(_groups(view))[:MOST_STANDPOINTS]:
            yield Doing("reading what the recorder kept")
            places = wanted(proc, targets, view.env_names)
            answers = _as_one_of(targets, view, lambda job, places=places: find(job, places))
            for answer in answers:
                if not isinstance(answer, ConfineFailed):
                    found.append(answer)
                elif answer.reason == "timeout":
                    message = f"not all rings of the recorder were read: {answer.message}"
                    yield Gap("timeout", message, tables=self.tables)
        now = time.monotonic_ns()
        for one in found:
            if one.ring is None:
                yield Gap("partial", one.problem, target=process_id(one.pid), tables=self.tables)
            else:
                name = f"recorder/{one.pid}{'' if one.is_alive else '-ended'}"
                yield Artefact(f"{name}.txt", text(one, now))
                if one.stacks:
                    yield Artefact(f"{name}-stacks.txt", one.stacks)
        rings = [one for one in found if one.ring is not None]
        if rings:
            events = [row for one in rings for row in event_rows(one, now)]
            phases = [row for one in rings for row in phase_rows(one)]
            yield Facts("facts/recorder.json", {"recorder_events": events, "phases": phases})


def _as_one_of(
    targets: Sequence[Target], view: View, work: Callable[[Confined], Iterator[Found]]
) -> Iterator[Found | ConfineFailed]:
    """As the first of these processes that is still there."""
    answers: list[Found | ConfineFailed] = []
    for target in targets[:MOST_TRIED]:
        limit_s = max(0.1, min(_LOOK_S, view.left_s() - 0.5))
        answers = list(run_as_target(target, work, proc=view.proc, limit_s=limit_s))
        if not any(isinstance(one, ConfineFailed) and one.reason == "absent" for one in answers):
            break
    yield from answers


def _groups(view: View) -> Iterator[list[Target]]:
    """The processes that see the same files with the same rights; each group takes one child."""
    groups: dict[tuple[str, ...], list[Target]] = {}
    for target in view.targets:
        if target.relation == "ancestor" or target.is_guarded or target.pid in view.own_pids:
            continue
        key = standpoint(target, view.proc)
        if key is not None:
            groups.setdefault((*key[:3], *key[4:]), []).append(target)  # whatever folder they are in
    yield from groups.values()


def event_rows(found: Found, now: int) -> list[RecorderEvent]:
    """What is open first, then the last events, oldest first."""
    ring = found.ring or Ring()
    rows = [_row(found, one, _OPEN.get(one.kind, one.kind), now) for one in ring.open]
    if ring.looking is not None:
        rows.append(_row(found, ring.looking, "looked-for", now))
    signal = ring.number("signal")
    if signal and found.is_alive:
        rows.append(RecorderEvent(process_id(found.pid), "armed", text=str(signal)))
    return rows + [_row(found, one, one.kind, now) for one in _last(ring)]


def _last(ring: Ring) -> Sequence[Event]:
    """The start, errors, and of the rest the last ones."""
    late = ring.events[-MOST_EVENTS:]
    early = [one for one in ring.events[:-MOST_EVENTS] if one.kind in _KEPT or "exception" in one.kind]
    return [*early[:MOST_EVENTS], *late]


def _row(found: Found, one: Event, kind: str, now: int) -> RecorderEvent:
    age = (now - one.mono_ns) / 1e9
    thread = thread_id(found.pid, one.tid) if one.tid and found.ring and found.ring.number("pid") == found.pid else None
    return RecorderEvent(
        process_id(found.pid), kind, one.mono_ns, one.text, thread=thread, age_s=round(age, 1) if age >= 0 else None
    )


def phase_rows(found: Found) -> list[Phase]:
    """Phases that were entered and left, and those that are open; when each was entered and left by the wall clock."""
    ring = found.ring or Ring()
    entered: dict[str, list[int]] = {}
    rows: list[Phase] = []
    for one in ring.events:
        name = one.text
        if one.kind == "phase-enter":
            entered.setdefault(name, []).append(one.mono_ns)
        elif one.kind == "phase-leave" and entered.get(name):
            rows.append(_phase(found, name, entered[name].pop(), one.mono_ns))
    rows = rows[-MOST_EVENTS:]
    return rows + [_phase(found, one.text, one.mono_ns, None) for one in ring.open if one.kind == "phase"]


def _phase(found: Found, name: str, entered: int, left: int | None) -> Phase:
    ring = found.ring or Ring()
    return Phase(process_id(found.pid), name, entered=_wall(ring, entered), left=_wall(ring, left))


def _wall(ring: Ring, mono_ns: int | None) -> str | None:
    """By the clock as it was at the process's start."""
    began, told = ring.number("began"), ring.header.get("time", [""])[0]
    try:
        if mono_ns is None or began is None:
            return None
        moment = datetime.fromtimestamp(float(told) + (mono_ns - began) / 1e9, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def text(found: Found, now: int) -> str:
    """The whole ring, to be read by a person."""
    ring = found.ring or Ring()
    lines = [f"{key} {value}" for key, values in ring.header.items() for value in values]
    lines += [f"open {_line(one, now)}" for one in ring.open]
    lines += [f"looked for last {_line(ring.looking, now)}"] if ring.looking else []
    lines += [f"{one.number} {_line(one, now)}" for one in ring.events]
    return "\n".join(lines) + "\n"


def _line(one: Event, now: int) -> str:
    return f"{(now - one.mono_ns) / 1e9:.1f} s ago, thread {one.tid}: {one.kind} {one.text}"
