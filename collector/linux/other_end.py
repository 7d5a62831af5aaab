"""Who holds the other end of a pipe, FIFO, socket or terminal of the job, inside the job or anywhere on the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from flatline.bundle.facts import Socket

from . import descriptors
from .census import Census
from .descriptors import Descriptor
from .mounts import MountLine, by_id
from .procfs import ProcFS

Held = tuple[int, Descriptor]
"""A process and one of its descriptors."""
TERMINAL_MASTERS = ("/dev/ptmx", "/dev/pts/ptmx")
EVENTPOLL = "anon_inode:[eventpoll]"
_EVENTPOLLS = 20
"""Of one process outside the job: a server may have one per thread."""


class OtherEnds:
    """Answers "who else has it" for the job's descriptors, and remembers every holder outside it that it named."""

    def __init__(
        self, proc: ProcFS, job: Mapping[int, Sequence[Descriptor]], census: Census, *, job_complete: bool = True
    ) -> None:
        self._proc = proc
        self._census = census
        self._complete = job_complete and census.is_complete
        self._sockets: dict[int, Socket] = {}
        self._mounts: dict[int, Mapping[int, MountLine]] = {}
        self._outside: dict[tuple[int, int], Descriptor] = {}
        self._by_link: dict[str, list[Held]] = defaultdict(list)
        self._by_file: dict[tuple[str, int], list[Held]] = defaultdict(list)
        for pid, seen in job.items():
            for one in seen:
                self._by_link[one.link].append((pid, one))
                if one.file:
                    self._by_file[one.file].append((pid, one))

    def learn_sockets(self, rows: Iterable[Socket]) -> None:
        """What leads from a socket to its peer."""
        self._sockets.update((row.inode, row) for row in rows if row.inode)

    def holders(self) -> dict[int, list[Descriptor]]:
        """The processes outside the job that were named, with the descriptors that name them and their eventpolls:
        who watches a pipe's end is told from who has forgotten it."""
        held: dict[int, list[Descriptor]] = defaultdict(list)
        for (pid, _), one in sorted(self._outside.items()):
            held[pid].append(one)
        for pid, seen in held.items():
            polls = [fd for fd, link in self._census.links[pid] if link == EVENTPOLL][:_EVENTPOLLS]
            seen += [descriptors.describe(self._proc, pid, fd, EVENTPOLL, {}) for fd in polls]
        return held

    def peers(self, pid: int, one: Descriptor) -> tuple[int, ...] | None:
        """Processes at the other end, sorted. (): nobody on this host. None: cannot be said, or has no other end."""
        if one.kind in ("pipe", "fifo"):
            return self._across_pipe(pid, one)
        if one.kind == "socket" and one.inode:
            return self._across_socket(one.inode)
        if one.kind == "tty":
            return self._across_terminal(one)
        return None

    def sharing(self, file: tuple[str, int], link: str) -> list[Held]:
        """Everybody who has this file open, by device and inode."""
        return self._by_file.get(file, []) + [held for held in self._named_like(link) if held[1].file == file]

    def _across_pipe(self, pid: int, one: Descriptor) -> tuple[int, ...] | None:
        if one.mode == "unknown":
            return None
        everybody = self._same_pipe(one)
        others = [held for held in everybody if held != (pid, one) and _is_opposite(one.mode, held[1].mode)]
        return self._conclude(others, one.link)

    def _same_pipe(self, one: Descriptor) -> list[Held]:
        if one.kind == "fifo":
            return self.sharing(one.file, one.link) if one.file else self._by_link[one.link]
        return self._by_link[one.link] + list(self._described(one.link))

    def _across_socket(self, inode: int) -> tuple[int, ...] | None:
        row = self._sockets.get(inode)
        if row is None or (row.state != "ESTABLISHED" and not row.peer_inode):
            return None
        if row.peer_inode:
            link = f"socket:[{row.peer_inode}]"
            return self._conclude(self._by_link.get(link, []) + list(self._described(link)), link)
        closed = row.family == "unix" and row.source == "sock_diag" and row.type != "dgram"
        return () if closed else None

    def _across_terminal(self, one: Descriptor) -> tuple[int, ...] | None:
        if one.link in TERMINAL_MASTERS:
            if one.tty_index is None:
                return None
            link = f"/dev/pts/{one.tty_index}"
            return self._conclude(self._by_link.get(link, []) + list(self._described(link)), link)
        if not one.link.startswith("/dev/pts/"):
            return None
        masters = [held for name in TERMINAL_MASTERS for held in self._masters(name)]
        index = one.link.rpartition("/")[2]
        return self._conclude([held for held in masters if str(held[1].tty_index) == index], *TERMINAL_MASTERS)

    def _masters(self, name: str) -> Iterator[Held]:
        yield from self._by_link.get(name, [])
        yield from self._described(name)

    def _described(self, link: str) -> Iterator[Held]:
        """Holders outside the job of exactly this link."""
        return (held for held in self._named_like(link) if held[1].link == link)

    def _named_like(self, link: str) -> Iterator[Held]:
        for pid, fd, found in self._census.holders(link):
            yield pid, self._describe(pid, fd, found)

    def _describe(self, pid: int, fd: int, link: str) -> Descriptor:
        if link.startswith("/") and pid not in self._mounts:
            self._mounts[pid] = by_id(self._proc, pid)
        return descriptors.describe(self._proc, pid, fd, link, self._mounts.get(pid, {}))

    def _conclude(self, found: list[Held], *links: str) -> tuple[int, ...] | None:
        self.keep(found)
        if found:
            return tuple(sorted({pid for pid, _ in found}))
        ours = any(link in self._census.own_links for link in links)
        return () if self._complete and not ours else None

    def keep(self, found: Iterable[Held]) -> None:
        """Remember those of them that are outside the job."""
        for pid, one in found:
            if pid in self._census.links:
                self._outside[pid, one.fd] = one


def _is_opposite(mode: str, other: str) -> bool:
    return other == "both" or (other != "unknown" and (mode == "both" or mode != other))
