"""Whose rows those of a block are, and which look at a thread: what no block can tell by itself.

A process that a text does not name gets a negative pid. It is one that was seen before when a thread of it was: several
dumps of one program name the same threads.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from flatline.bundle.facts import HEAVY_SAMPLE, KERNEL_SAMPLE, LOCALS_SAMPLE, Frame, Process, Thread, process_id

from ..parsers.interface import HOST, NO_PID, Line
from ..parsers.stacks import ranked
from .speakers import Speaker

_ID = re.compile(rf"{HOST}/(?P<pid>0|-\d{{1,9}})(?P<rest>/.*)?$")
_ANY_ID = re.compile(rf"{HOST}/(?P<pid>-?\d{{1,10}})(?P<rest>/.*)?$")
_IDS = ("id", "process", "thread", "owner_process")
_TELLING_TID = 300
"""Numbers of threads below this are the first of a container, or ours for a thread without one."""


class Owners:
    """Gives the rows of every block, in the order of the blocks, their process and their look."""

    def __init__(self) -> None:
        self._nameless = 0
        self._by_thread: dict[tuple[str, str], int] = {}
        self._speakers: dict[int, str] = {}
        """Which rank or host showed the stacks of a pid first."""
        self._elsewhere: dict[tuple[str, int], int] = {}
        """The same pid of another rank or host -> the number of that process here."""
        self._headless: int | None = None
        self._has_main = False
        self._stacks = 0
        self._looks: dict[tuple[str, int], int] = defaultdict(int)

    def owned(self, rows: Sequence[Any], lines: Sequence[Line], speaker: Speaker | None = None) -> Iterator[Any]:
        """The rows as they go into the case; `speaker`: the rank or host whose text it is."""
        whose = speaker.name if speaker is not None else ""
        pids = {local: self._pid(rows, local, whose) for local in nameless(rows)}
        if pids and _is_headless(rows) and not whose:
            yield from self._numbered(self._beside(rows, pids[NO_PID]))
            return
        for local, pid in pids.items():
            if not any(isinstance(row, Process) and row.pid == local for row in rows):
                rank = next((line.rank for line in lines if line.rank is not None), speaker.rank if speaker else None)
                yield Process(process_id(pid, HOST), HOST, pid, rank=rank, is_python=True, line=lines[0].number)
        named = [with_pids(row, pids) for row in rows] if pids else list(rows)
        if speaker is not None and any(isinstance(row, Frame) for row in rows):
            named = self._of_speaker(named, speaker)
        for row in named:
            if isinstance(row, Thread) and tells_process(row):
                self._by_thread[whose, _suffix(row)] = row.pid
        yield from self._numbered(named)

    def _of_speaker(self, rows: Sequence[Any], speaker: Speaker) -> list[Any]:
        """Stacks of a rank or host that the text names: a process of its own, though another has the same pid."""
        moved: dict[int, int] = {}
        for pid in dict.fromkeys(row.pid for row in rows if isinstance(row, Process) and row.pid > 0):
            if self._speakers.setdefault(pid, speaker.name) == speaker.name:
                continue
            if (speaker.name, pid) not in self._elsewhere:
                self._nameless += 1
                self._elsewhere[speaker.name, pid] = -self._nameless
            moved[pid] = self._elsewhere[speaker.name, pid]
        own = [with_pids(row, moved, _ANY_ID) for row in rows] if moved else list(rows)
        is_one = sum(1 for row in own if isinstance(row, Process)) <= 1  # not a dump with its workers
        return [ranked(row, speaker.rank) for row in own] if is_one and speaker.rank is not None else own

    def _pid(self, rows: Sequence[Any], local: int, whose: str) -> int:
        """Without stacks its threads may be of several processes: what all texts together know decides (tasks.py)."""
        has_stacks = any(isinstance(row, Frame) for row in rows)
        threads = (row for row in rows if isinstance(row, Thread) and row.pid == local and tells_process(row))
        known = next((pid for row in threads if (pid := self._by_thread.get((whose, _suffix(row)))) is not None), None)
        if known is not None and (has_stacks or known < 0):
            return known
        if _is_headless(rows) and self._headless is not None and not whose:
            return self._headless
        self._nameless += 1
        return -self._nameless

    def _beside(self, rows: Sequence[Any], pid: int) -> Iterator[Any]:
        """C stacks without any head: people paste those of one process, one thread after another."""
        self._headless = pid
        before = self._stacks
        for row in rows:
            row = with_pids(row, {NO_PID: pid})
            if isinstance(row, Thread):
                self._stacks += 1
                number = row.tid + before
                is_main = row.is_main and not self._has_main
                self._has_main |= is_main
                yield replace(row, id=f"{row.process}/{number}", tid=number, is_main=is_main)
            elif isinstance(row, Frame):
                process, _, number = row.thread.rpartition("/")
                yield replace(row, thread=f"{process}/{int(number) + before}")
            else:
                yield row

    def _numbered(self, rows: Iterable[Any]) -> Iterator[Any]:
        """With every look at a thread under a number of its own; rows of one block are one look."""
        here: dict[tuple[str, int], int] = {}
        for row in rows:
            if not isinstance(row, Frame):
                yield row
                continue
            key = (row.thread, row.sample)
            if key not in here:
                here[key] = _sample(row.sample, self._looks[key])
                self._looks[key] += 1
            yield row if here[key] == row.sample else replace(row, sample=here[key])


def _sample(sample: int, looks: int) -> int:
    """The number of a further look of the same kind; the first of the deeper ones keeps the one that is known."""
    if looks == 0 or sample < HEAVY_SAMPLE:
        return sample + looks
    return (KERNEL_SAMPLE if sample >= KERNEL_SAMPLE else LOCALS_SAMPLE) + min(looks, 8)


def nameless(rows: Sequence[Any]) -> list[int]:
    """The pids that stand for processes without a name, in order."""
    values = (getattr(row, name, None) for row in rows for name in _IDS)
    found = (_ID.match(value) for value in values if isinstance(value, str))
    return list(dict.fromkeys(int(match["pid"]) for match in found if match))


def _is_headless(rows: Sequence[Any]) -> bool:
    """Whether these are C frames of threads and a process of which nothing is printed."""
    threads = [row for row in rows if isinstance(row, Thread)]
    frames = [row for row in rows if isinstance(row, Frame)]
    return (
        bool(frames)
        and all(frame.kind == "native" for frame in frames)
        and all(thread.pid == NO_PID and thread.name is None and thread.tid <= len(threads) for thread in threads)
    )


def tells_process(row: Thread) -> bool:
    """Whether its number is the system's own, and so the same in every text."""
    return "pthread-" in row.id or row.tid >= _TELLING_TID


def _suffix(row: Thread) -> str:
    return row.id.rpartition("/")[2]


def with_pids(row: Any, pids: dict[int, int], ids: re.Pattern[str] = _ID) -> Any:
    """The row under other pids; of `ids` only what has one of them changes."""
    new: dict[str, Any] = {}
    for name in _IDS:
        value = getattr(row, name, None)
        found = ids.match(value) if isinstance(value, str) else None
        if found and int(found["pid"]) in pids:
            new[name] = process_id(pids[int(found["pid"])], HOST) + (found["rest"] or "")
    pid = getattr(row, "pid", None)
    if new and isinstance(pid, int) and pid in pids:
        new["pid"] = pids[pid]
    return replace(row, **new) if new else row
