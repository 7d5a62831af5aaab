"""Ranks of one job are where they meet: the address, port and world size in their environments.

That joins ranks which nothing else joins, and tells jobs apart which one program has started side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..linux.patience import Patience
from ..linux.procfs import ProcFS, Unread, parse_environ
from ..probes.interface import Target
from .jobtree import ProcessTable
from .roles import is_python

Meeting = tuple[tuple[str, ...], str]
"""((address, port, world size), rank)."""


class Meetings:
    """Where processes meet, each environment read once: on a sick host a read may cost its limit."""

    def __init__(self, proc: ProcFS, patience: Patience) -> None:
        self._proc, self._patience = proc, patience
        self._known: dict[int, Meeting | None] = {}

    def of(self, pid: int) -> Meeting | None:
        """None for a process that says nothing of it."""
        if pid not in self._known:
            self._known[pid] = self._read(pid)
        return self._known[pid]

    def of_all(self, targets: Sequence[Target]) -> list[Meeting]:
        """Those of the Python programs among them."""
        return [meeting for target in targets if target.is_python and (meeting := self.of(target.pid))]

    def _read(self, pid: int) -> Meeting | None:
        raw = self._patience.read(lambda: self._proc.environ(pid))
        env = {} if isinstance(raw, Unread) else parse_environ(raw)[0]
        place = tuple(env.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"))
        return (place, env["RANK"]) if all(place) and env.get("RANK") else None


def other_ranks(
    processes: ProcessTable, targets: Sequence[Target], own_pids: Collection[int], meetings: Meetings
) -> list[int]:
    """Ranks of the same rendezvous outside the tree: started by hand in another terminal, or left by a dead launcher.

    The same user's Python programs with the same address, port and world size, and with another rank.
    """
    members = [target for target in targets if target.relation != "ancestor" and target.is_python]
    met = meetings.of_all(members)
    if not met:
        return []
    inside = {target.pid for target in targets} | set(own_pids)
    uids, places, ranks = {t.uid for t in members}, {place for place, _ in met}, {rank for _, rank in met}
    outside = [p.pid for p in processes.values() if p.pid not in inside and p.uid in uids and is_python(p)]
    told = {pid: meetings.of(pid) for pid in outside}
    return [pid for pid, meeting in told.items() if meeting and meeting[0] in places and meeting[1] not in ranks]


def ranks_of_others(targets: Sequence[Target], meetings: Meetings) -> list[int]:
    """Of what stands beside the targets those whose ranks meet elsewhere: who starts several jobs (a sweep, a test)
    starts them as if they were one. A rank that says no meeting place in its environment stays."""
    beside = {target.pid: target for target in targets if target.relation == "sibling"}
    own = [target for target in targets if target.relation in ("target", "descendant")]
    places = {place for place, _ in meetings.of_all(own)}
    if not places or not beside:
        return []
    families: dict[int, list[Target]] = {}
    for target in beside.values():
        families.setdefault(_head(beside, target), []).append(target)
    found: list[int] = []
    for family in families.values():
        theirs = {place for place, _ in meetings.of_all(family)}
        if theirs and theirs.isdisjoint(places):
            found += [target.pid for target in family]
    return sorted(found)


def _head(beside: dict[int, Target], target: Target) -> int:
    """The first of them from which it descends."""
    seen = {target.pid}
    while target.ppid in beside and target.ppid not in seen:
        target = beside[target.ppid]
        seen.add(target.pid)
    return target.pid
