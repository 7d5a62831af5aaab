"""The start of a distributed job: who waits for the store of rank 0, and who for the other ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatline.bundle.facts import Frame, Socket, Thread, WaitEdge

from ..known import known_wait
from ..scene import Scene, host_of_id
from .draw import edge

NODES = re.compile(r"--nnodes[= ](\d+(?::\d+)?)")
STORE_FRAMES = frozenset({
    "_create_c10d_store", "_create_store_from_options", "create_c10d_store", "_create_tcp_store", "next_rendezvous",
    "_env_rendezvous_handler", "_tcp_rendezvous_handler", "_rendezvous_helper", "rendezvous",
})  # fmt: skip


STORE_CALLS = re.compile(r"^c10d::(TCPStore|PrefixStore)::(wait|doWait|get|doGet)\b")
CONNECTS = re.compile(
    r"^c10d::(detail::Socket::connect|detail::\(anonymous namespace\)::SocketConnectOp|tcputil::connect)\b"
)
"""A script that makes its TCPStore itself has no frame of Python there: what it waits in are these."""


def find_rendezvous(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A rank that is still joining: the store it looks for does not answer, or it waits there for those to come."""
    found = known_wait(scene.stack(thread.id))
    if found is not None and found[0].kind in ("rendezvous", "collective") and _joins(scene, thread):
        yield from _joining(scene, thread, found[1])
    elif found is None and (frame := _native(scene, thread, CONNECTS)) and not _is_connected(scene, thread, None):
        yield _unanswered(scene, thread, frame, None)
    elif (
        found is None
        and (frame := _native(scene, thread, STORE_CALLS))
        and (listening := _store_without_guests(scene, thread))
    ):
        yield _to_guests(scene, thread, frame, listening)


def _joining(scene: Scene, thread: Thread, frame: Frame) -> Iterator[WaitEdge]:
    address, port = (scene.env(thread.process, name) for name in ("MASTER_ADDR", "MASTER_PORT"))
    in_store = any(f.function in STORE_FRAMES for f in scene.stack(thread.id))
    if in_store and not _is_connected(scene, thread, port):
        yield _unanswered(scene, thread, frame, port)
    elif missing := _missing(scene, thread):
        yield _to_missing(scene, thread, frame, f"{address or '?'}:{port or '?'}", missing)
    elif nodes := _nodes(scene, thread):
        yield _to_nodes(scene, thread, frame, nodes)
    elif listening := _store_without_guests(scene, thread):
        yield _to_guests(scene, thread, frame, listening)


def _joins(scene: Scene, thread: Thread) -> bool:
    """Whether init_process_group, or a rendezvous, is on its stack."""
    return any(f.function in ("init_process_group", "init_distributed_environment") or f.function in STORE_FRAMES
               for f in scene.stack(thread.id))  # fmt: skip


def _native(scene: Scene, thread: Thread, names: re.Pattern[str]) -> Frame | None:
    if thread.liveness not in ("frozen", "polling"):
        return None
    return next((frame for frame in scene.native_stack(thread.id) if names.search(frame.function)), None)


def _sockets_at(scene: Scene, thread: Thread, port: str | None) -> list[Socket]:
    """Its connections with that port at either end; all, where the script has set the port after its start."""
    ends = [(s, s.local or "", s.remote or "") for s in scene.sockets_of(thread.process) if s.family != "unix"]
    return [s for s, *names in ends if port is None or any(name.endswith(f":{port}") for name in names)]


def _is_connected(scene: Scene, thread: Thread, port: str | None) -> bool:
    """Unknown descriptors count as connected: then nothing is claimed of the store."""
    if not scene.store.collected("sockets") or not scene.fds_of(thread.process):
        return True
    return any(s.state in ("ESTABLISHED", "LISTEN") for s in _sockets_at(scene, thread, port))


def _unanswered(scene: Scene, thread: Thread, frame: Frame, port: str | None) -> WaitEdge:
    tries = next((s for s in _sockets_at(scene, thread, port) if s.state == "SYN_SENT"), None)
    how = "its connection gets no answer" if tries is not None else "it has no connection and tries again"
    store = f"{scene.env(thread.process, 'MASTER_ADDR') or '?'}:{port}" if port else tries.remote if tries else None
    at = f" at {store}" if store else ""
    return edge(scene, thread, f"socket:{host_of_id(thread.process)}/{store or 'store'}", "rendezvous", "strong",
                f"looks for the store of rank 0{at}, where nobody answers", owner="outside", inside_job=False,
                reason=f"its stack is in {frame.function}; {how}", resource=store, rows=(frame, tries))  # fmt: skip


def _missing(scene: Scene, thread: Thread) -> list[int]:
    """Ranks of its world of which no process is in the bundle."""
    process = scene.processes.get(thread.process)
    size = process.world_size if process is not None else None
    if process is None or not size or size > 100_000:
        return []
    here = scene.once("ranks here", lambda: {p.rank for p in scene.processes.values() if p.rank is not None})
    return [rank for rank in range(size) if rank not in here]


def _to_missing(scene: Scene, thread: Thread, frame: Frame, store: str, missing: list[int]) -> WaitEdge:
    shown = ", ".join(map(str, missing[:4])) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
    plural = "s" if len(missing) > 1 else ""
    local = (scene.env(thread.process, "MASTER_ADDR") or "") in ("127.0.0.1", "localhost", "::1")
    return edge(scene, thread, f"rank:{missing[0]}", "rendezvous", "strong" if local else "suggested",
                f"waits at {store} for rank{plural} {shown}, which no process here is", owner="outside",
                inside_job=False, resource=f"rank{plural} {shown}", rows=(frame, scene.processes.get(thread.process)),
                reason=f"its stack is in {frame.function}; the bundle has no such rank")  # fmt: skip


def _nodes(scene: Scene, thread: Thread) -> str:
    """How many nodes an agent of torchrun was told to wait for; "" for one, and for what is no agent."""
    process = scene.processes.get(thread.process)
    words = " ".join((process.argv if process is not None else None) or ())
    told = NODES.search(words)
    return told[1] if told and told[1] not in ("1", "1:1") else ""


def _store_without_guests(scene: Scene, thread: Thread) -> Socket | None:
    """The listening socket of a process that has the store, when all connections to it are its own."""
    sockets = [(fd, socket) for fd in scene.fds_of(thread.process) if (socket := scene.socket(fd)) is not None]
    for _, listening in sockets:
        if listening.state == "LISTEN" and (port := (listening.local or "").rpartition(":")[2]):
            taken = [fd for fd, s in sockets if s.state == "ESTABLISHED" and (s.local or "").endswith(f":{port}")]
            if taken and all(fd.peers == (thread.process,) for fd in taken):
                return listening
    return None


def _to_guests(scene: Scene, thread: Thread, frame: Frame, listening: Socket) -> WaitEdge:
    return edge(scene, thread, "unknown:", "rendezvous", "strong",
                f"waits in {frame.function} for the other ranks, none of which has come to its store", owner="outside",
                inside_job=False, resource="ranks of its world", rows=(frame, listening),
                reason=f"it has the store at {listening.local}, to which only itself is connected")  # fmt: skip


def _to_nodes(scene: Scene, thread: Thread, frame: Frame, nodes: str) -> WaitEdge:
    agents = sum(1 for p in scene.processes.values() if p.role == "launcher" and NODES.search(" ".join(p.argv or ())))
    strength = "suggested" if agents > 1 else "strong"
    return edge(scene, thread, "unknown:", "rendezvous", strength,
                f"waits at the rendezvous for the agents of the other nodes: it was told that there are {nodes}",
                owner="outside", inside_job=False, resource=f"the agents of the other nodes ({nodes} in all)",
                reason=f"its stack is in {frame.function}",
                rows=(frame, scene.processes.get(thread.process)))  # fmt: skip
