"""Locks on files, as the kernel lists them (/proc/locks)."""

from __future__ import annotations

from collections.abc import Iterator

from flatline.bundle.facts import Fd, Lock, Thread, WaitEdge

from ..scene import Scene, host_of_id
from .draw import MAX_BRANCHES, called, edge, edge_to_process

SETLKW = frozenset({7, 38})
"""fcntl(2): F_SETLKW and F_OFD_SETLKW, the commands that wait."""


def find_file_lock(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """flock, or fcntl that waits: the holder stands in /proc/locks."""
    call = thread.syscall
    if call is None or not _waits_for_lock(call.name, call.args):
        return
    fd = scene.fd(thread.process, call.fd)
    request = _request(scene, thread, fd)
    name = _lock_name(fd, request, call.path)
    holders = _holders(scene, request)
    if heirs := _heirs(scene, thread, fd, request, holders):
        yield from _to_heirs(scene, thread, name, heirs, (fd, request))
        return
    for holder in holders[:MAX_BRANCHES]:
        strength = "proven" if len(holders) == 1 else "strong"
        yield edge_to_process(scene, thread, holder, "file-lock", strength,
                              f"waits for the lock on {name}, which is held by {called(scene, holder, thread)}",
                              reason=f"/proc/locks: {called(scene, holder)} holds it, pid {thread.pid} waits",
                              resource=name, rows=(fd, request))  # fmt: skip
    if not holders:
        node = request.id if request else f"{host_of_id(thread.process)}/{name}"
        reason = "no lock table was collected" if not scene.store.collected("locks") else "the holder is not listed"
        yield edge(scene, thread, f"lock:{node}", "file-lock", "strong", f"waits for the lock on {name}",
                   reason=f"blocked in {call.name}; {reason}", resource=name, rows=(fd, request))  # fmt: skip


def _waits_for_lock(name: str, args: tuple[int, ...]) -> bool:
    return name == "flock" or (name == "fcntl" and len(args) > 1 and args[1] in SETLKW)


def _request(scene: Scene, thread: Thread, fd: Fd | None) -> Lock | None:
    requests = scene.waiting_locks.get(thread.process, [])
    same_file = [r for r in requests if fd is not None and r.inode == fd.inode]
    return next(iter(same_file or requests), None)


def _holders(scene: Scene, request: Lock | None) -> list[str]:
    if request is None:
        return []
    rows = [row for row in scene.locks.get(request.id, []) if not row.waiting and _conflicts(row, request)]
    return list(dict.fromkeys(row.owner_process for row in rows if row.owner_process))


def _heirs(scene: Scene, thread: Thread, fd: Fd | None, request: Lock | None, holders: list[str]) -> list[str]:
    """A flock belongs to the open file, not to who took it (flock(2)): when that one has closed it, a child that was
    given the descriptor still holds it. /proc/locks goes on to name the first."""
    if request is None or request.kind != "flock" or fd is None or fd.inode is None or len(holders) != 1:
        return []
    own = [one for one in scene.fds_of(holders[0]) if one.inode == fd.inode]
    if not scene.fds_of(holders[0]) or any(one.process != thread.process or one.fd != fd.fd for one in own):
        return []
    return [p for p in scene.holders_of_inode(thread.process, fd.inode) if p not in (thread.process, holders[0])]


def _to_heirs(
    scene: Scene, thread: Thread, name: str, heirs: list[str], rows: tuple[Fd | None, Lock | None]
) -> Iterator[WaitEdge]:
    for heir in heirs[:MAX_BRANCHES]:
        who = called(scene, heir, thread)
        yield edge_to_process(scene, thread, heir, "file-lock", "strong" if len(heirs) == 1 else "suggested",
                              f"waits for the lock on {name}, which {who} holds: it has inherited the open file",
                              reason="a flock lasts as long as the file it was taken on is open anywhere; who took it "
                              "has closed it", resource=name, rows=rows)  # fmt: skip


def _conflicts(held: Lock, wanted: Lock) -> bool:
    """Two readers never block each other, nor do ranges that do not meet."""
    if held.mode == "read" and wanted.mode == "read":
        return False
    starts, ends = (held.start or 0, wanted.start or 0), (held.end, wanted.end)
    return not any(end is not None and end < start for end, start in zip(ends, reversed(starts), strict=True))


def _lock_name(fd: Fd | None, request: Lock | None, path: str | None) -> str:
    return (fd.path if fd else None) or (request.path if request else None) or path or "a file"
