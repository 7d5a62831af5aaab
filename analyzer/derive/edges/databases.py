"""SQLite's busy handler: it sleeps and tries again while another process has the data base locked."""

from __future__ import annotations

from collections.abc import Iterator

from flatline.bundle.facts import Fd, Lock, Thread, WaitEdge

from ..known import SLEEPS
from ..scene import Scene
from .draw import MAX_BRANCHES, called, edge_to_process

PENDING, SHARED_END = 0x40000000, 0x40000000 + 511
"""The bytes of the data base that SQLite locks (https://www.sqlite.org/lockingv3.html)."""
WAL_FIRST, WAL_LAST = 120, 127
"""The same in the -shm file, in WAL mode."""


def find_database_lock(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A thread that sleeps between its tries, and the processes that hold SQLite's locks on a file it has open."""
    call = thread.syscall
    if thread.liveness != "polling" or call is None or call.name not in SLEEPS:
        return
    held = [(fd, lock) for fd in scene.fds_of(thread.process) if fd.kind == "file" and fd.inode
            for lock in scene.locks_on(fd.inode, fd.device) if _blocks(lock, fd, thread)]  # fmt: skip
    holders = {lock.owner_process: (fd, lock) for fd, lock in held if lock.owner_process}
    for holder, (fd, lock) in list(holders.items())[:MAX_BRANCHES]:
        name = (fd.path or "a data base").removesuffix("-shm").removesuffix("-wal")
        yield edge_to_process(scene, thread, holder, "file-lock", "strong",
                              f"tries for the data base {name}, which {called(scene, holder, thread)} has locked",
                              reason="it sleeps between its tries; /proc/locks shows SQLite's lock of the other",
                              resource=name, rows=(fd, lock))  # fmt: skip


def _blocks(lock: Lock, fd: Fd, thread: Thread) -> bool:
    if lock.waiting or lock.kind not in ("posix", "ofd") or lock.owner_process == thread.process:
        return False
    start, in_wal = lock.start or 0, (fd.path or "").endswith("-shm")
    if in_wal:
        return WAL_FIRST <= start <= WAL_LAST and lock.mode == "write"
    return PENDING <= start <= SHARED_END
