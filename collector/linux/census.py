"""Who else on this host has it open: one pass over the descriptors of every process that can be seen."""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from . import descriptors
from .descriptors import DELETED
from .mounts import by_id
from .procfs import ProcFS, Stat, Unread

INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of the kernel: whoever is in it sees every process of the host."""
_HIDEPID = re.compile(r"\bhidepid=([124]|noaccess|invisible|ptraceable)")


Holding = tuple[int, int, str]
"""pid, descriptor, link text."""


@dataclass
class Census:
    """The links of all processes outside the job that could be seen."""

    links: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    """pid -> (descriptor, link text)."""
    seen: int = 0
    """Processes met, the job's among them; kernel threads and zombies have no descriptors and do not count."""
    unseen: int = 0
    """Of these, how many would not show their descriptors or were not reached in time."""
    blind: str = ""
    """Why there may be processes that were not even met."""
    own_links: set[str] = field(default_factory=set)
    """What the collector itself holds: no evidence, but not "nobody" either."""

    @property
    def is_complete(self) -> bool:
        """True: what is not in here is held by nobody."""
        return not self.unseen and not self.blind

    def holders(self, link: str) -> list[Holding]:
        """Who has this link open, or one whose path ends in the same name: another mount namespace spells the way
        there differently, and device and inode decide."""
        return self._by_name.get(_base(link), [])

    @cached_property
    def _by_name(self) -> dict[str, list[Holding]]:
        index: dict[str, list[Holding]] = defaultdict(list)
        for pid, links in self.links.items():
            for fd, link in links:
                index[_base(link)].append((pid, fd, link))
        return index


def _base(link: str) -> str:
    """``data.lock`` of ``/x/data.lock (deleted)``; pipes and sockets have no path and stay as they are."""
    if link.endswith(DELETED):
        link = link[: -len(DELETED)]
    return link.rpartition("/")[2]


def take(proc: ProcFS, *, job: Collection[int], own: Collection[int], limit_s: float) -> Census:
    """Read the links of every process but the job's and the collector's own, at most `limit_s` seconds."""
    deadline = time.monotonic() + limit_s
    pids = proc.numbers()
    stats = {pid: proc.stat(pid) for pid in pids} if isinstance(pids, list) else {}
    alive = {pid: stat for pid, stat in stats.items() if isinstance(stat, Stat)}
    skipped = _descendants(own, alive) - set(job)
    census = Census(blind=blindness(proc))
    for pid, stat in alive.items():
        if stat.is_kernel_thread or stat.state in ("Z", "X"):
            continue
        if pid in skipped:
            _note_own(census, proc, pid)
            continue
        census.seen += 1
        if pid not in job:
            _count_in(census, proc, pid, in_time=time.monotonic() < deadline)
    return census


def _note_own(census: Census, proc: ProcFS, pid: int) -> None:
    found = descriptors.links(proc, pid)
    if not isinstance(found, Unread):
        census.own_links.update(link for _, link in found)


def _count_in(census: Census, proc: ProcFS, pid: int, *, in_time: bool) -> None:
    found = descriptors.links(proc, pid) if in_time else Unread("error", "no time left")
    if not isinstance(found, Unread):
        census.links[pid] = list(found)
    elif found.reason == "absent":  # it ended in between
        census.seen -= 1
    else:
        census.unseen += 1


def _descendants(roots: Collection[int], stats: Mapping[int, Stat]) -> set[int]:
    children = defaultdict(list)
    for pid, stat in stats.items():
        children[stat.ppid].append(pid)
    found, queue = set(roots), list(roots)
    while queue:
        new = [child for child in children[queue.pop()] if child not in found]
        found.update(new)
        queue += new
    return found


def blindness(proc: ProcFS) -> str:
    """What may hide whole processes: hidepid, and a PID namespace of our own."""
    options = next((mount.options for mount in by_id(proc, "self").values() if mount.path == proc.root), "")
    if _HIDEPID.search(options) and os.geteuid() != 0:
        return "/proc is mounted with hidepid"
    namespace = proc.link("self", "ns", "pid")
    inside = not isinstance(namespace, Unread) and namespace != INITIAL_PID_NAMESPACE
    return "the collector is in a PID namespace of its own" if inside else ""
