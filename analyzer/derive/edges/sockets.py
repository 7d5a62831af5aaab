"""Sockets: the peer that does not read, does not answer, or cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flatline.bundle.facts import Fd, Socket, Strength, Thread, WaitEdge

from ..known import READS, WRITES, known_wait, library_call
from ..scene import Scene, host_of_id
from .draw import MAX_BRANCHES, called, edge, edge_to_process

KINDS = {
    **dict.fromkeys(READS, "socket-read"),
    **dict.fromkeys(WRITES, "socket-write"),
    "connect": "socket-connect",
    "accept": "socket-accept",
    "accept4": "socket-accept",
}


def find_socket(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A call on one socket: the kernel says on which."""
    call = thread.syscall
    fd = scene.fd(thread.process, call.fd) if call is not None else None
    if call is None or fd is None or fd.kind != "socket" or call.name not in KINDS:
        return
    kind, socket = KINDS[call.name], scene.socket(fd)
    peers = [peer for peer in peers_of(scene, fd, socket) if peer != thread.process]
    if (
        kind == "socket-read"
        and socket is not None
        and _took(scene, thread, socket)
        and not _waits_at_other_end(scene, socket, peers)
    ):
        yield _to_client(scene, thread, fd, socket, peers)
        return
    if kind == "socket-read" and fd.fd == 0 and not any(scene.in_job(peer) for peer in peers):
        kind = "stdin-read"
    for peer in peers[:MAX_BRANCHES]:
        strength = "proven" if len(peers) == 1 else "strong"
        at = f" ({socket.remote})" if socket is not None and socket.remote else ""
        text = _text(kind, f"{called(scene, peer, thread)}{at}") + within(scene, thread)
        yield edge_to_process(scene, thread, peer, kind, strength, text,
                              reason=f"blocked in {call.name}; {called(scene, peer)} has the other end",
                              resource=socket_name(fd, socket), rows=(fd, socket))  # fmt: skip
    if not peers:
        yield to_remote(scene, thread, kind, fd, socket, "proven", f"blocked in {call.name} on {fd.path or 'a socket'}")


def _took(scene: Scene, thread: Thread, socket: Socket) -> bool:
    """Whether its own process has taken this connection: it listens where the connection ends."""
    port = (socket.local or "").rpartition(":")[2]
    listening = (s for s in scene.sockets_of(thread.process) if s.state == "LISTEN" and s.family != "unix")
    return bool(port) and any((s.local or "").rpartition(":")[2] == port for s in listening)


def _waits_at_other_end(scene: Scene, socket: Socket, peers: Sequence[str]) -> bool:
    """Whether the client has sent all it means to send, and waits for an answer itself: then it owes no request."""
    other = scene.other_end(socket)
    if other is None or len(peers) != 1 or not scene.in_job(peers[0]):
        return False
    ends = {fd.fd for fd in scene.fds_of(peers[0]) if fd.inode == other.inode}
    calls = (thread.syscall for thread in scene.threads_of(peers[0]) if thread.liveness == "frozen")
    return any(call is not None and call.name in READS and call.fd in ends for call in calls)


def _to_client(scene: Scene, thread: Thread, fd: Fd, socket: Socket, peers: Sequence[str]) -> WaitEdge:
    """A server waits for the next request: by design, and nothing that its client owes it."""
    client = f"its client {socket.remote}" + (f", {called(scene, peers[0], thread)}" if len(peers) == 1 else "")
    return edge(scene, thread, f"socket:{host_of_id(thread.process)}/{socket.inode}", "socket-read", "proven",
                f"serves: it waits for the next request of {client}", owner="outside", inside_job=False,
                resource=client, reason="it listens on the port on which the connection came in",
                rows=(fd, socket))  # fmt: skip


def to_remote(
    scene: Scene, thread: Thread, kind: str, fd: Fd | None, socket: Socket | None, strength: Strength, reason: str
) -> WaitEdge:
    """An edge to the other end of a socket that no process in the bundle has."""
    inode = socket.inode if socket is not None else fd.inode if fd is not None else None
    name = socket_name(fd, socket)
    outside = kind == "socket-accept" or (socket is not None and bool(socket.remote))
    return edge(scene, thread, f"socket:{host_of_id(thread.process)}/{inode or '?'}", kind, strength,
                _text(kind, name) + within(scene, thread), owner="outside" if outside else "unknown",
                inside_job=False if outside else None, reason=reason, resource=name, rows=(fd, socket))  # fmt: skip


def within(scene: Scene, thread: Thread) -> str:
    """``, in requests.get``: the call into a library that waits for the peer; "" where none is known."""
    stack = scene.stack(thread.id)
    found = known_wait(stack)
    asks = found is not None and found[0].whom in ("peer", "loop-thread") and found[0].kind != "socket-accept"
    call = library_call(stack) if asks else ""
    return f", in {call}" if call else ""


def peers_of(scene: Scene, fd: Fd, socket: Socket | None) -> list[str]:
    """Processes that have the other end: as collected, else by the peer's inode."""
    if fd.peers:
        return list(dict.fromkeys(fd.peers))
    other = scene.other_end(socket) if socket is not None else None
    inode = other.inode if other is not None else socket.peer_inode if socket is not None else None
    return scene.holders_of_inode(fd.process, inode) if inode else []


def socket_name(fd: Fd | None, socket: Socket | None) -> str:
    """``10.0.0.7:443``, ``the listening socket 0.0.0.0:80``, ``its standard output, a socket``."""
    if socket is not None and socket.state == "LISTEN" and socket.local:
        return f"the listening socket {socket.local}"
    if socket is not None and socket.remote:
        return socket.remote
    streams = {0: "its standard input, a socket", 1: "its standard output, a socket", 2: "its standard error, a socket"}
    return "a peer" if fd is None else streams.get(fd.fd, f"a socket (its descriptor {fd.fd})")


def _text(kind: str, who: str) -> str:
    return {
        "socket-write": f"writes to a socket that is full and waits for {who} to read",
        "socket-connect": f"waits for {who} to take its connection",
        "socket-accept": f"waits for a client on {who}",
        "stdin-read": f"waits for input from {who}",
    }.get(kind, f"waits for an answer from {who}")
