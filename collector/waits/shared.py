"""What a shared futex lies in, and which other processes have the same memory mapped.

Processes are joined by device and inode of the mapping: its name says ``(deleted)`` as soon as the semaphore is made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ..linux.census import blindness
from ..linux.patience import Patience
from ..linux.procfs import LARGE, Mapping, ProcFS, Stat, Unread, parse_maps

File = tuple[str, int]
"""Device as in maps (``00:15``), inode."""


@dataclass
class Mappers:
    """Who has which file mapped, and whether every process was asked."""

    of: dict[File, dict[int, list[Mapping]]] = field(default_factory=dict)
    """File -> pid -> where."""
    is_complete: bool = True


def mapping_at(maps: Sequence[Mapping], address: int) -> Mapping | None:
    """The mapping an address lies in."""
    return next((mapping for mapping in maps if mapping.start <= address < mapping.end), None)


def device_number(device: str) -> str:
    """``0:21`` of the ``00:15`` that maps prints: the form that the facts have."""
    major, _, minor = device.partition(":")
    return f"{int(major, 16)}:{int(minor, 16)}"


def who_maps(proc: ProcFS, files: Collection[File], first: Sequence[int], limit_s: float) -> Mappers:
    """Ask the processes in `first`, then all others. Needs ptrace rights on each of them.

    One that refuses makes the answer incomplete, unless it is older than all of `first`: memory of theirs it can not
    have inherited (a host's first process and its daemons show nothing to anybody in some containers).
    """
    mappers = Mappers({file: {} for file in files}, is_complete=not blindness(proc))
    deadline, patience = time.monotonic() + limit_s, Patience(each_s=0.3, total_s=limit_s)
    everyone = proc.numbers()
    others = everyone if isinstance(everyone, list) else []
    since = min((stat.start_ticks for pid in first if isinstance(stat := proc.stat(pid), Stat)), default=0)
    for pid in dict.fromkeys([*first, *others]):
        stat = proc.stat(pid)
        if pid == os.getpid() or isinstance(stat, Unread) or stat.is_kernel_thread or stat.state in ("Z", "X"):
            continue
        text = Unread("error", "no time left")
        if time.monotonic() < deadline:
            text = patience.read(lambda pid=pid: proc.text(pid, "maps", limit=LARGE))
        if (isinstance(text, Unread) or len(text) >= LARGE) and stat.start_ticks >= since:
            mappers.is_complete &= not isinstance(proc.stat(pid), Stat)
        if not isinstance(text, Unread):
            _note(mappers, pid, text)
    return mappers


def _note(mappers: Mappers, pid: int, text: str) -> None:
    """Few processes have any of them: a search in the text spares parsing the rest."""
    for device, inode in mappers.of:
        if f" {device} {inode} " in text:
            lines = "\n".join(line for line in text.splitlines() if f" {device} {inode} " in line)
            mappers.of[device, inode][pid] = list(parse_maps(lines))
