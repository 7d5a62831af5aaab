"""What every blocked thread sleeps on: the lock behind its futex, its owner, who shares it; timeouts, and what a
poll watches, in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from flatline.bundle.facts import Futex, PollSet, Timeout, process_id

from ..linux import access
from ..linux.patience import Patience
from ..linux.procfs import Mapping as MappedFile
from ..linux.procfs import ProcFS, Unread
from ..waits import python_locks, shared
from ..waits.owners import file_of, futex_row, poll_sets, timeout_rows
from ..waits.reading import Reading, Sleeper, by_process, held_count, read, sleeper_of, sleeping_lines
from ..waits.shared import File, Mappers
from .interface import Doing, Facts, Gap, Item, Target, View, sleep_until

MIN_APART_S = 0.1
"""Between the two looks, whatever the window: a thread that is found twice in one place waits there."""
READ_S = 1.0
"""For one process: a search of its memory, and what the rest takes."""
READ_ALL_S = 2.5
MAPPERS_S = 1.0
RESERVE_S = 0.5
MAX_ROWS = 20_000


class Futexes:
    """Which lock every blocked thread waits for, who owns it, how long calls wait at most, and what polls watch."""

    name = "futexes"
    tables = ("futexes", "timeouts", "poll_sets")
    limit_s = 6.0
    spans_window = True
    reads = ("/proc/PID/{exe,maps,mem,pagemap,root,stat,status}", "/proc/PID/task/TID/syscall")
    runs = ()

    def gather(self, view: View) -> Iterator[Item]:
        proc = ProcFS(view.proc)
        targets = [target for target in view.targets if target.pid not in view.own_pids]
        first, refused = sleeping_lines(proc, targets)
        if refused:
            yield _denied(proc, refused, targets, "system calls")
        if not first:
            return
        yield Doing("threads that stay where they are")
        sleep_until(max(view.sample_at_ns(1) if view.samples > 1 else 0, time.monotonic_ns() + int(MIN_APART_S * 1e9)))
        sleepers = _asleep(first, sleeping_lines(proc, targets)[0])
        yield Doing("locks in memory")
        readings = _Readings(proc, view, targets)
        for pid, own in by_process(sleepers).items():
            readings.add(pid, own)
        yield Doing("who shares them")
        yield Facts("facts/futexes.json", readings.tables())
        yield from readings.gaps()


def _asleep(first: Mapping[tuple[int, int], str], second: Mapping[tuple[int, int], str]) -> list[Sleeper]:
    """Threads whose two lines are one: the same call, arguments and stack pointer."""
    same = [(key, line) for key, line in second.items() if first.get(key) == line]
    found = (sleeper_of(pid, tid, line) for (pid, tid), line in same)
    return [sleeper for sleeper in found if sleeper is not None][:MAX_ROWS]



def _denied(proc: ProcFS, refused: Sequence[Target], targets: Sequence[Target], what: str) -> Gap:
    pids = ", ".join(str(target.pid) for target in refused[:8]) + (" …" if len(refused) > 8 else "")
    return Gap(
        "denied" if any(target.relation != "ancestor" for target in refused) else "partial",
        f"the {what} of {len(refused)} of {len(targets)} processes may not be read (pid {pids}): which locks they wait "
        "for, and whose they are, is unknown",
        hint=access.hint_when_denied({target.uid for target in refused}, proc),
        target=process_id(refused[0].pid),
        tables=Futexes.tables,
    )


class _Readings:
    """The readings of all processes, and what they have in common."""

    def __init__(self, proc: ProcFS, view: View, targets: Sequence[Target]) -> None:
        self._proc = proc
        self._view = view
        self._targets = {target.pid: target for target in targets}
        self._patience = Patience(each_s=READ_S, total_s=READ_ALL_S)
        self._deadline = time.monotonic() + min(READ_ALL_S, max(0.1, view.left_s() - MAPPERS_S - RESERVE_S))
        self._hints: dict[int, int] = {}
        self._readings: dict[int, Reading] = {}
        self._unread: list[int] = []
        self._holders: dict[tuple[File, int], tuple[str, ...] | None] = {}

    def add(self, pid: int, sleepers: Sequence[Sleeper]) -> None:
        """Read the memory of one process, within the limits."""
        reading = Reading(sleepers, note="there was no time left to read its memory")
        if time.monotonic() < self._deadline:
            target, deadline = self._targets[pid], self._scan_deadline()
            found = self._patience.read(lambda: read(self._proc, target, sleepers, self._hints, deadline))
            reading = Reading(sleepers, note="its memory did not answer") if isinstance(found, Unread) else found
            self._unread += [pid] if isinstance(found, Unread) else []
        else:
            self._unread.append(pid)
        self._readings[pid] = reading

    def _scan_deadline(self) -> float:
        return min(self._deadline, time.monotonic() + python_locks.SCAN_S)

    def tables(self) -> dict[str, Sequence[Futex] | Sequence[Timeout] | Sequence[PollSet]]:
        mappers = self._mappers()
        rows = [
            futex_row(self._proc, reading, sleeper, mappers, self._held_by(reading, sleeper, mappers))
            for reading in self._readings.values()
            for sleeper in reading.sleepers
            if sleeper.is_in_futex
        ]
        timeouts = [row for reading in self._readings.values() for row in timeout_rows(reading)]
        watched = [row for reading in self._readings.values() for row in poll_sets(reading)]
        return {"futexes": rows, "timeouts": timeouts, "poll_sets": watched}

    def _mappers(self) -> Mappers:
        files = {file for reading in self._readings.values() for s in reading.sleepers if (file := file_of(reading, s))}
        if not files:
            return Mappers()
        limit_s = min(MAPPERS_S, max(0.1, self._view.left_s() - RESERVE_S))
        return shared.who_maps(self._proc, files, list(self._targets), limit_s)

    def _held_by(self, reading: Reading, sleeper: Sleeper, mappers: Mappers) -> tuple[str, ...] | None:
        """Of a lock of multiprocessing: whose object says that it has it. None: one of them could not be asked."""
        lock, file = reading.lock(sleeper), file_of(reading, sleeper)
        mapping = shared.mapping_at(reading.maps, sleeper.address)
        if lock is None or not lock.is_mutex or file is None or mapping is None:
            return None
        place = (file, mapping.offset_of(sleeper.address))
        if place not in self._holders:
            self._holders[place] = self._ask_all(mappers.of.get(file, {}), place[1])
        return self._holders[place]

    def _ask_all(self, mapped: Mapping[int, Sequence[MappedFile]], offset: int) -> tuple[str, ...] | None:
        held = []
        for pid, mappings in mapped.items():
            counts = [self._count(pid, mapping.start + offset - mapping.offset) for mapping in mappings]
            known = [count for count in counts if count is not None and count >= 0]
            if len(known) < len(counts):  # below 0: it gives back what others take, so that it is no lock of theirs
                return None
            held += [process_id(pid)] if any(known) else []
        return tuple(held)

    def _count(self, pid: int, semaphore: int) -> int | None:
        if pid not in self._targets or time.monotonic() > self._deadline:
            return None
        deadline = self._scan_deadline()
        count = self._patience.read(lambda: held_count(self._proc, pid, semaphore, self._hints, deadline))
        return None if isinstance(count, Unread) else count

    def gaps(self) -> Iterator[Gap]:
        denied = [self._targets[pid] for pid, reading in self._readings.items() if reading.denied]
        if denied:
            yield _denied(self._proc, denied, list(self._targets.values()), "memory")
        if self._unread:
            yield Gap(
                "partial",
                f"the memory of {len(self._unread)} processes was not read in time (pid {self._unread[0]} …): whose "
                "the locks are that they wait for is unknown",
                target=process_id(self._unread[0]),
                tables=Futexes.tables,
            )
