"""Who lives below us, from /proc/PID/task/TID/children and /proc/PID/stat (proc(5)).

Only our own children are read, and only files that never wait for the process they describe.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Standing:
    """What stat says of a process."""

    pid: int
    name: str
    state: str
    ppid: int
    pgrp: int
    start_ticks: int = 0
    """Since boot."""

    @property
    def identity(self) -> tuple[int, int]:
        """What names the process for good; its pid alone is given to another once it has ended."""
        return self.pid, self.start_ticks


def standing(pid: int) -> Standing | None:
    """None: no such process any more."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            head, _, tail = stat.read().rpartition(b")")
    except OSError:
        return None
    fields = tail.split()
    if len(fields) < 20:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "backslashreplace")
    return Standing(pid, name, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[19]))


def children(pid: int) -> list[int]:
    """Direct children, zombies included."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as listing:
                found += [int(child) for child in listing.read().split()]
        except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
            return _children_by_scan(pid)
        except OSError:
            continue
    return found


def _children_by_scan(pid: int) -> list[int]:
    everyone = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [found.pid for found in map(standing, everyone) if found is not None and found.ppid == pid]


def tree(pid: int) -> list[int]:
    """`pid` and everything below it, parents first."""
    found = [pid]
    for one in found:
        found += [child for child in children(one) if child not in found]
    return found


def stuck(pid: int) -> str:
    """``pid 12 (lsof) is in state D in folio_wait_bit_common``, the first of the tree in that state; or empty."""
    for one in tree(pid):
        found = standing(one)
        if found is not None and found.state == "D":
            where = _wchan(one)
            return f"pid {one} ({found.name}) is in state D" + (f" in {where}" if where else "")
    return ""


def _wchan(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/wchan", encoding="utf-8") as wchan:
            where = wchan.read()
    except (OSError, UnicodeDecodeError):
        return ""
    return "" if where == "0" else where  # 0 also where we may not know
