"""The control groups a process is in, versions 1 and 2 (cgroups(7); Documentation/admin-guide/cgroup-v2.rst).

A limit of any group above holds as well: what is told is the tightest one on the way up.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from flatline.bundle.facts import Cgroup

from .mounts import MountLine, by_id
from .procfs import ProcFS, Unread, parse_fields

_UNLIMITED = 1 << 62
"""Version 1 prints 2^63 rounded down to a page where there is no limit."""
_CONTROLLERS = ("memory", "cpu", "pids", "freezer")


@dataclass(frozen=True)
class Group:
    """A group's folder in one hierarchy, and those above it."""

    version: Literal["1", "2"]
    path: str
    """As /proc/PID/cgroup names it."""
    folders: tuple[str, ...]
    """Where its files are, the group itself first, then each one above that can be seen."""


def of_process(proc: ProcFS, pid: int, process: str) -> Cgroup | None:
    """What the process's groups allow and have used. None when the groups may not be seen."""
    text = proc.text(pid, "cgroup")
    if isinstance(text, Unread):
        return None
    groups = _groups(text, list(by_id(proc, "self").values()))
    if not groups:
        return None
    unified = groups.get("")
    memory = groups.get("memory", unified)
    described = memory or next(iter(groups.values()))
    return Cgroup(
        process,
        described.path,
        version=described.version,
        memory_current=_first_number(memory, "memory.current", "memory.usage_in_bytes"),
        memory_max=_tightest(memory, "memory.max", "memory.limit_in_bytes"),
        memory_high=_tightest(memory, "memory.high"),
        memory_at_max=_times_at_limit(memory),
        memory_oom_kills=_oom_kills(memory),
        cpu_quota=_quota(groups.get("cpu", unified)),
        cpu_throttled_s=_throttled_s(groups.get("cpu", unified)),
        cpu_throttled_share=_throttled_share(groups.get("cpu", unified)),
        pids_current=_first_number(groups.get("pids", unified), "pids.current"),
        pids_max=_tightest(groups.get("pids", unified), "pids.max"),
        frozen=_frozen(groups.get("freezer"), unified),
    )


def _groups(text: str, mounts: Iterable[MountLine]) -> dict[str, Group]:
    """By controller; the unified hierarchy is ``""``, and stands for each controller that has none of its own."""
    where = dict(_hierarchies(mounts))
    groups = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            name = "" if number == "0" else controller
            if name in where:
                groups[name] = _group("2" if number == "0" else "1", path, where[name])
    return groups


def _hierarchies(mounts: Iterable[MountLine]) -> Iterator[tuple[str, MountLine]]:
    for mount in mounts:
        if mount.kind == "cgroup2":
            yield "", mount
        elif mount.kind == "cgroup":
            options = mount.options.split(",")
            yield from ((name, mount) for name in _CONTROLLERS if name in options)


def _group(version: Literal["1", "2"], path: str, mount: MountLine) -> Group:
    """In a container the mount's root is the container's own group, and /proc may still print the way from above."""
    inside = posixpath.relpath(path, mount.root) if path.startswith("/") else path
    inside = "." if inside.startswith("..") else inside
    parts = [part for part in inside.split("/") if part not in ("", ".")]
    folders = [posixpath.join(mount.path, *parts[:depth]) for depth in range(len(parts), -1, -1)]
    return Group(version, path, tuple(folders))


def _read(folder: str, name: str) -> str | None:
    try:
        with open(f"{folder}/{name}", encoding="utf-8", errors="backslashreplace") as file:
            return file.read(1 << 16).strip()
    except OSError:
        return None


def _first_number(group: Group | None, *names: str) -> int | None:
    texts = (_read(group.folders[0], name) for name in names) if group else ()
    return next((int(text) for text in texts if text and text.isdigit()), None)


def _tightest(group: Group | None, *names: str) -> int | None:
    """None: no limit on the whole way up, or none that can be seen."""
    texts = (_read(folder, name) for folder in group.folders for name in names) if group else ()
    limits = [int(text) for text in texts if text and text.isdigit()]
    return min((limit for limit in limits if limit < _UNLIMITED), default=None)


def _oom_kills(group: Group | None) -> int | None:
    return _field(group, "oom_kill", "memory.events", "memory.oom_control")


def _quota(group: Group | None) -> float | None:
    """CPUs: quota over period, the smallest one on the way up."""
    return min((quota for folder in group.folders if (quota := _quota_of(folder))), default=None) if group else None


def _quota_of(folder: str) -> float | None:
    both = (_read(folder, "cpu.max") or "").split()
    if not both:
        both = [_read(folder, "cpu.cfs_quota_us") or "", _read(folder, "cpu.cfs_period_us") or ""]
    if len(both) != 2 or not (both[0].isdigit() and both[1].isdigit()) or int(both[1]) == 0:
        return None  # "max", or -1
    return round(int(both[0]) / int(both[1]), 3)


def _throttled_s(group: Group | None) -> float | None:
    """A group above that is held back holds back all in it, and counts that for itself: the largest one is told."""
    times = [time for folder in group.folders if (time := _throttled_s_of(folder)) is not None] if group else []
    return max(times, default=None)


def _throttled_s_of(folder: str) -> float | None:
    stat = _fields(folder, "cpu.stat")
    if "throttled_usec" in stat:
        return stat["throttled_usec"] / 1e6
    return stat["throttled_time"] / 1e9 if "throttled_time" in stat else None


def _throttled_share(group: Group | None) -> float | None:
    shares = []
    for folder in group.folders if group else ():
        stat = _fields(folder, "cpu.stat")
        if stat.get("nr_periods"):
            shares.append(round(stat.get("nr_throttled", 0) / stat["nr_periods"], 4))
    return max(shares, default=None)


def _times_at_limit(group: Group | None) -> int | None:
    """Counted where the limit is set, which may be a group above."""
    counts = []
    for folder in group.folders if group else ():
        events = _fields(folder, "memory.events")
        failures = _read(folder, "memory.failcnt") or ""
        if "max" in events or failures.isdigit():
            counts.append(events["max"] if "max" in events else int(failures))
    return max(counts, default=None)


def _frozen(freezer: Group | None, unified: Group | None) -> bool | None:
    """Either hierarchy can freeze, where both are there. freezer.state and cgroup.events count a freeze above too."""
    state = _read(freezer.folders[0], "freezer.state") if freezer else None
    frozen = _field(unified, "frozen", "cgroup.events")
    if state is None and frozen is None:
        return None
    return state in ("FROZEN", "FREEZING") or frozen == 1


def _field(group: Group | None, field: str, *names: str) -> int | None:
    tables = (_fields(group.folders[0], name) for name in names) if group else ()
    return next((table[field] for table in tables if field in table), None)


def _fields(folder: str, name: str) -> Mapping[str, int]:
    """A file of ``name number`` lines."""
    values = parse_fields((_read(folder, name) or "").replace(" ", ":"))
    return {field: int(value) for field, value in values.items() if value.isdigit()}
