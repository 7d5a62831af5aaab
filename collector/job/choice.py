"""Which job is meant when none was named: ask on a terminal, else take the one that looks stuck, or say why not."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from flatline.errors import NoTargetError, TargetGoneError

from ..collection import Collection
from ..supervision.supervisor import Job
from .candidates import Candidate, CandidatesProbe, choose

SHOWN = 20
COMMAND_WIDTH = 60


def choose_job(collection: Collection, tell: Callable[[str], None]) -> tuple[int, ...]:
    """The pid of the job to collect from. NoTargetError says why none can be chosen without a person."""
    values, entry = collection.supervisor.call(Job(CandidatesProbe(), collection.view()))
    if not values:
        raise NoTargetError(f"the jobs on this host could not be listed: {entry.message or entry.status}")
    found: tuple[Candidate, ...] = values[-1]
    on_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    lines = [line(number, candidate, collection) for number, candidate in enumerate(found[:SHOWN], start=1)]
    if len(found) > SHOWN:
        lines.append(f"… and {len(found) - SHOWN} more; name one with --pid or --name")
    if len(found) > 1 and on_terminal:
        return (ask(found, lines, collection).pid,)
    chosen = choose(found)
    if isinstance(chosen, str):
        kind = NoTargetError if found else TargetGoneError
        raise kind(f"cannot choose a job: {chosen}", listing=tuple(lines), next_step="flatline collect --pid PID")
    tell(f"No job was named; taking {line(1, chosen, collection)}")
    return (chosen.pid,)


def line(number: int, candidate: Candidate, collection: Collection) -> str:
    """One candidate: what it is, what it waits in, for how long it has run."""
    # The redactor has learnt nothing yet, so names and shapes in the command line are all it goes by.
    command = " ".join(collection.redactor.argv(candidate.command.split(" ")))
    if len(command) > COMMAND_WIDTH:
        command = command[: COMMAND_WIDTH - 1] + "…"
    ended = f", {candidate.ended_children} of them ended" if candidate.ended_children else ""
    moves = "looks stuck" if candidate.looks_stuck else f"used {candidate.cpu_s:.1f} s of CPU just now"
    printable = "".join(c if c.isprintable() else "?" for c in command)
    return (
        f"{number}: pid {candidate.pid} {printable} [{candidate.processes} processes{ended}; {candidate.waits_in}; "
        f"{moves}; started {age(candidate.age_s)} ago]"
    )


def ask(found: Sequence[Candidate], lines: Sequence[str], collection: Collection) -> Candidate:
    """The candidate a person picks by number or pid; the time to think does not count against the deadline."""
    began = time.monotonic_ns()
    print("Jobs on this host:", *lines, sep="\n  ", file=sys.stderr)  # noqa: T201 - the question is the command's
    by_number = {str(number): candidate for number, candidate in enumerate(found[:SHOWN], start=1)}
    by_pid = {str(candidate.pid): candidate for candidate in found}
    while True:
        print("Collect from which one? (its number or pid; q to leave) ", end="", file=sys.stderr, flush=True)  # noqa: T201
        answer = sys.stdin.readline()
        choice = answer.strip()
        if not answer or choice.lower() in ("q", "quit") or collection.supervisor.interrupted:
            raise NoTargetError("no job was chosen", next_step="flatline collect --pid PID")
        picked = by_number.get(choice) or by_pid.get(choice)
        if picked is not None:
            collection.postpone(time.monotonic_ns() - began)
            return picked
        print(f"There is no {choice!r} in the list.", file=sys.stderr)  # noqa: T201


def age(seconds: float) -> str:
    """``42 s``, ``12 min``, ``5 h``."""
    for unit, name in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
