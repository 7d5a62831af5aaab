"""Find the rings of a job's processes, and of those of its children that are gone, as the job's user."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..confine import Confined
from ..linux.procfs import ProcFS
from ..probes.interface import Target
from ..stacks.faulthandler import must_be_private, own_number
from . import places, ring
from .ring import Ring

MOST_NAMES = 4000
"""Of one folder that are looked at for what dead processes left."""
MOST_STACKS = 1 << 18
_LATE = b"Timeout ("
"""How such a dump begins; those for which a signal asked do not."""
MOST_LEFT = 64
"""Rings of dead processes that are read, those that were written last first."""


@dataclass(frozen=True)
class Wanted:
    """A living process, and where its ring may lie."""

    pid: int
    own_pid: int
    """As it counts itself."""
    start_ticks: int
    folders: tuple[str, ...]
    """TMPDIR of its environment, then /tmp."""
    kept: str
    """FLATLINE_RECORDER_DIR, or ""."""


@dataclass(frozen=True)
class Found:
    """A ring, or why there is none that could be used; `pid` as the collector counts."""

    pid: int
    is_alive: bool
    ring: Ring | None = None
    problem: str = ""
    stacks: bytes = b""
    """At level debug: what faulthandler printed when nothing had been marked for a while, the last time."""


def wanted(proc: ProcFS, targets: Sequence[Target], environments: Mapping[int, Mapping[str, str]]) -> list[Wanted]:
    """Where to look for each of the processes that are not another user's."""
    return [_wanted(proc, target, environments.get(target.pid, {})) for target in targets if not target.is_guarded]


def _wanted(proc: ProcFS, target: Target, environment: Mapping[str, str]) -> Wanted:
    kept = environment.get("FLATLINE_RECORDER_DIR", "").rstrip("/")
    return Wanted(
        target.pid,
        own_number(proc, target.pid) or target.pid,
        target.start_ticks,
        places.temporary(environment.get("TMPDIR", "")),
        kept if kept.startswith("/") else "",
    )


def find(job: Confined, processes: Sequence[Wanted]) -> Iterator[Found]:
    """The ring of each process, then those that dead ones left: in the folder for them, or children of the job's."""
    folders = list(dict.fromkeys(folder for one in processes for folder in one.folders))
    yield from (replace(found, stacks=_stacks(job, found, folders)) for found in _find(job, processes))


def _find(job: Confined, processes: Sequence[Wanted]) -> Iterator[Found]:
    seen: set[str] = set()
    for one in processes:
        name = places.folder_name(one.own_pid, one.start_ticks)
        where = [(one.kept, places.kept_name(one.own_pid, one.start_ticks))] if one.kept else []
        where += [(f"{folder}/{name}", places.RING) for folder in one.folders]
        for folder, file in where:
            found = _read(job, one.pid, folder, file, is_alive=True)
            seen.add(f"{folder}/{file}")
            if found is not None:
                yield found
                break
    if all(one.pid == one.own_pid for one in processes):  # elsewhere a number of the dead says nothing here
        yield from _left(job, processes, seen)


def _left(job: Confined, processes: Sequence[Wanted], seen: set[str]) -> Iterator[Found]:
    known = {one.pid for one in processes}
    kept = dict.fromkeys(one.kept for one in processes if one.kept)
    folders = dict.fromkeys(folder for one in processes for folder in one.folders)
    there = [(folder, name) for folder in kept for name in _names(job, folder, places.KEPT_BEGINS)]
    for above in folders:
        there += [(f"{above}/{name}", places.RING) for name in _names(job, above, places.FOLDER_BEGINS)]
    left = [place for place in there if "/".join(place) not in seen]
    for folder, file in sorted(left, key=lambda place: _written(job, place), reverse=True)[:MOST_LEFT]:
        found = _read(job, 0, folder, file, is_alive=False)
        if found is None or found.ring is None:
            continue
        pid = found.ring.number("pid") or 0
        if pid in known:
            continue  # an earlier process of the same number
        if folder in kept or found.ring.number("ppid") in known:
            yield Found(pid, is_alive=False, ring=found.ring)


def _names(job: Confined, folder: str, begin: str) -> list[str]:
    try:
        return [name for name in job.listdir(folder, MOST_NAMES) if name.startswith(begin)]
    except OSError:
        return []


def _written(job: Confined, place: tuple[str, str]) -> float:
    try:
        return job.stat("/".join(place), follow=False).st_mtime
    except OSError:
        return 0.0


def _stacks(job: Confined, found: Found, folders: Sequence[str]) -> bytes:
    pid, ticks = (found.ring.number(key) if found.ring else None for key in ("pid", "ticks"))
    for above in folders if ticks is not None else ():
        folder = f"{above}/{places.folder_name(pid, ticks or 0)}"
        try:
            must_be_private(job, folder, places.DUMP)
            begin = max(0, job.stat(f"{folder}/{places.DUMP}").st_size - MOST_STACKS)
            printed = job.read(f"{folder}/{places.DUMP}", begin, MOST_STACKS)
        except OSError:
            continue
        last = printed.rfind(_LATE)
        return printed[last:] if last >= 0 else b""
    return b""


def _read(job: Confined, pid: int, folder: str, file: str, *, is_alive: bool) -> Found | None:
    """None: there is none."""
    try:
        must_be_private(job, folder, file)
        return Found(pid, is_alive, ring.decode(job.read(f"{folder}/{file}", 0, ring.SIZE + 1)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        name = os.path.basename(folder) if file == places.RING else file
        return Found(pid, is_alive, problem=f"the ring {name} is not to be trusted: {error}")
