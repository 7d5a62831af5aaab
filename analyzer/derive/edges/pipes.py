"""Pipes: a writer before a full one, a reader before an empty one, and who holds the other end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flatline.bundle.facts import Fd, Strength, Thread, WaitEdge

from ..known import READS, WRITES
from ..scene import Scene, host_of_id
from .draw import MAX_BRANCHES, called, edge, edge_to_process


def find_pipe(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """read or write on a pipe or an opened FIFO."""
    call = thread.syscall
    fd = scene.fd(thread.process, call.fd) if call is not None else None
    if call is None or fd is None or fd.kind not in ("pipe", "fifo") or call.name not in READS | WRITES:
        return
    writes = call.name in WRITES
    if fd.peers is None:
        yield _unknown_end(scene, thread, fd, writes=writes, reason="who holds its other end could not be read")
        return
    yield from _to_peers(scene, thread, fd, fd.peers, writes=writes)


def find_blocked_pipe_without_fds(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """Where descriptors could not be read, the kernel function a thread sleeps in still says "pipe"."""
    if (thread.wchan or "").removeprefix("anon_") not in ("pipe_write", "pipe_read", "pipe_wait_readable",
                                                          "pipe_wait_writable"):  # fmt: skip
        return
    writes = "writ" in (thread.wchan or "")
    text = "writes to a pipe that is full" if writes else "reads from an empty pipe"
    yield edge(scene, thread, "unknown:", "pipe-write" if writes else "pipe-read", "strong", text,
               reason=f"it sleeps in {thread.wchan}; its descriptors could not be read", resource="a pipe")  # fmt: skip


def _to_peers(scene: Scene, thread: Thread, fd: Fd, peers: Sequence[str], *, writes: bool) -> Iterator[WaitEdge]:
    others = [peer for peer in dict.fromkeys(peers) if peer != thread.process]
    if not peers:
        yield _unknown_end(scene, thread, fd, writes=writes, reason="nobody seen holds its other end")
    elif not others:
        yield _to_itself(scene, thread, fd, writes=writes)
    for peer in _nearest_first(scene, thread, others)[:MAX_BRANCHES]:
        yield edge_to_process(
            scene, thread, peer, _kind(fd, writes=writes, inside=scene.in_job(peer)), _strength(scene, peer, others),
            _text(scene, thread, fd, peer, others, writes=writes), resource=_pipe_name(fd, thread), rows=(fd,),
            reason=f"pid {thread.pid} is blocked on {fd.path or 'the pipe'}; {called(scene, peer)} has its other end",
        )  # fmt: skip


def _kind(fd: Fd, *, writes: bool, inside: bool | None) -> str:
    if writes:
        return "pipe-write"
    return "stdin-read" if fd.fd == 0 and not inside else "pipe-read"


def _strength(scene: Scene, peer: str, peers: Sequence[str]) -> Strength:
    """Proven while one process alone can end the wait, and no other thread of it might be the one that does."""
    if len(peers) > 1:
        return "strong"
    awake = [t for t in scene.threads_of(peer) if not t.is_main and t.liveness not in ("frozen", "stopped", "exited")]
    return "strong" if awake else "proven"


def _text(scene: Scene, thread: Thread, fd: Fd, peer: str, peers: Sequence[str], *, writes: bool) -> str:
    does = f"writes to {_stream(fd)} that is full" if writes else f"reads from {_stream(fd)} that is empty"
    end = "reader" if writes else "writer"
    only = len(peers) == 1 and scene.all_fds_seen(thread.process)
    whose = f"whose only {end} is" if only else f"whose {end} is" if len(peers) == 1 else f"one {end} of which is"
    return f"{does}, {whose} {called(scene, peer, thread)}"


def _stream(fd: Fd) -> str:
    names = {0: "its standard input, a pipe", 1: "its standard output, a pipe", 2: "its standard error, a pipe"}
    return names.get(fd.fd, "a pipe" if fd.kind == "pipe" else f"the FIFO {fd.path}")


def _pipe_name(fd: Fd, thread: Thread) -> str:
    """``its standard error, a pipe to pid 12``, as a person would say it."""
    others = [peer.rpartition("/")[2] for peer in fd.peers or () if peer != thread.process]
    if fd.kind == "fifo" or not others:
        return _stream(fd)
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"{_stream(fd)} {'from' if fd.mode == 'read' else 'to'} pid {others[0]}{more}"


def _nearest_first(scene: Scene, thread: Thread, peers: Sequence[str]) -> list[str]:
    """The parent, then children, then the rest of the job, then strangers."""
    own = scene.processes.get(thread.process)

    def distance(peer: str) -> tuple[int, int]:
        row = scene.processes.get(peer)
        if row is None:
            return 4, 0
        if own is not None and row.pid == own.ppid:
            return 0, row.pid
        return (1 if row.ppid == thread.pid else 2 if scene.in_job(peer) else 3), row.pid

    return sorted(peers, key=distance)


def _to_itself(scene: Scene, thread: Thread, fd: Fd, *, writes: bool) -> WaitEdge:
    end = "reader" if writes else "writer"
    does = f"{'writes to' if writes else 'reads from'} {_stream(fd)}"
    alone = len(scene.threads_of(thread.process)) == 1 and scene.all_threads_seen(thread.process)
    if not alone:
        node = f"pipe:{host_of_id(thread.process)}/{fd.inode}"
        return edge(scene, thread, node, _kind(fd, writes=writes, inside=True), "suggested",
                    f"{does}, whose other end is in its own process", owner="unknown", inside_job=True,
                    reason=f"the only {end} seen is its own process", resource=_pipe_name(fd, thread),
                    rows=(fd,))  # fmt: skip
    strength = "proven" if scene.all_fds_seen(thread.process) else "strong"
    return edge(scene, thread, "nobody:", _kind(fd, writes=writes, inside=True), strength,
                f"{does}, whose only {end} is this very thread", owner="nobody", inside_job=True,
                reason=f"the process has one thread and is the only {end}", resource=_pipe_name(fd, thread),
                rows=(fd,))  # fmt: skip


def _unknown_end(scene: Scene, thread: Thread, fd: Fd, *, writes: bool, reason: str) -> WaitEdge:
    does = f"{'writes to' if writes else 'reads from'} {_stream(fd)}"
    return edge(scene, thread, f"pipe:{host_of_id(thread.process)}/{fd.inode}", _kind(fd, writes=writes, inside=None),
                "strong", f"{does}; {reason}", reason=reason, resource=_pipe_name(fd, thread), rows=(fd,))  # fmt: skip
