"""Event loops and polls: what can wake them, and the thread whose loop another thread waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flatline.bundle.facts import Fd, Frame, Process, Socket, Strength, Thread, WaitEdge

from ...names import thread_named
from ..known import CHILD_WAITS, POLLS, known_wait
from ..scene import Scene, host_of_id
from .bystanders import others_of, runs_loop, threads_where
from .draw import called, edge, living, seen_in
from .futexes import is_blocked_for_ever, wakers_by_signal
from .sockets import peers_of, socket_name, to_remote, within

CONNECTING = "SYN_SENT"
PIPES = ("pipe", "fifo")
MAX_PEERS = 4
CHILDREN = frozenset({"child", "dataloader-worker", "pool-worker", "parent"})


def find_deaf_loop(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """An epoll without a timeout that watches sockets of its own process only: how an event loop of asyncio waits
    when nothing is scheduled. Another thread or a signal handler can wake it, and nothing else."""
    call = thread.syscall
    watched = _watched(scene, thread)
    if call is None or not call.name.startswith("epoll") or call.timed is not False or thread.liveness != "frozen":
        return
    if not watched:
        return
    if not all(one.peers == (thread.process,) for one in watched):
        return
    others = others_of(scene, thread)
    watchers = [other for other in others if _waits_for_child(other)]
    if watchers:
        yield from _to_watchers(scene, thread, watchers)
        return
    still = all(is_blocked_for_ever(other) for other in others)
    wakers = wakers_by_signal(scene.processes.get(thread.process))
    exact = not others and not wakers and scene.all_threads_seen(thread.process)
    strength: Strength = "proven" if exact else "strong" if still and not wakers else "suggested"
    nobody = strength != "suggested"
    only = "only its own wake-up socket" if exact else "only its own wake-up socket, for another thread or a signal"
    yield edge(scene, thread, "nobody:" if nobody else "unknown:", "poll", strength,
               f"waits in an event loop that watches {only}: nothing it awaits can come from outside",
               owner="nobody" if nobody else "unknown", inside_job=True, resource="the event loop",
               reason="an epoll without a timeout, and its process holds the other end of all it watches",
               rows=watched)  # fmt: skip


def _waits_for_child(thread: Thread) -> bool:
    return thread.syscall is not None and thread.syscall.name in CHILD_WAITS


def _to_watchers(scene: Scene, thread: Thread, watchers: Sequence[Thread]) -> Iterator[WaitEdge]:
    """Before Python 3.12 asyncio has a thread for every child, which waits for its end and then wakes the loop."""
    strength: Strength = "strong" if len(watchers) == 1 else "suggested"
    for watcher in watchers[:MAX_PEERS]:
        yield edge(scene, thread, f"thread:{watcher.id}", "poll", strength,
                   f"waits in its event loop for its thread {thread_named(watcher)}, which waits for a child",
                   owner="thread", inside_job=True, resource="the end of a child", rows=(watcher,),
                   reason="an epoll without a timeout on its own wake-up socket, and a thread that waits for a child")


def find_watched_peer(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """An event loop or a poll that listens to nobody and watches a few connections: one of those peers has to act. The
    stack of a known client says better what it asks for."""
    found = known_wait(scene.stack(thread.id))
    if found is not None and found[0].whom == "peer":
        return
    outward = [(fd, s) for fd in _watched(scene, thread) if fd.peers != (thread.process,) and (s := scene.socket(fd))]
    if not outward or len(outward) > MAX_PEERS or any(s.state == "LISTEN" for _, s in outward):
        return
    strength: Strength = "strong" if len(outward) == 1 else "suggested"
    for fd, socket in outward:
        yield _to_watched(scene, thread, fd, socket, strength)


def find_watched_pipe(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A poll of a few pipes alone, as when the output of a child is read: who has the other end has to act."""
    found = known_wait(scene.stack(thread.id))
    ended = found is not None and found[0].whom == "child" and _has_ended(scene.children_of(thread.process))
    if found is not None and found[0].whom in CHILDREN and not ended:
        return  # whose end it is, or what all of it is, the stack says better
    watched = _watched(scene, thread)
    call = thread.syscall
    if call is None or not watched or len(watched) > MAX_PEERS or any(fd.kind not in PIPES for fd in watched):
        return
    holders = {peer for fd in watched for peer in fd.peers or () if peer != thread.process}
    if found is not None and ended and len(holders) == 1:
        yield _to_heir(scene, thread, found[1], holders.pop(), watched)
        return
    strength: Strength = "strong" if len(watched) == 1 else "suggested"
    for fd in watched:
        peer = next((peer for peer in fd.peers or () if peer != thread.process), None)
        who = f", whose other end is {called(scene, peer, thread)}" if peer else ""
        text = f"waits in {call.name} for something in a pipe (its descriptor {fd.fd}){who}"
        node = f"process:{peer}" if peer else f"pipe:{host_of_id(thread.process)}/{fd.inode or '?'}"
        yield edge(scene, thread, node, "pipe-read", strength, text, owner="process" if peer else "unknown",
                   inside_job=scene.in_job(peer) if peer else None, resource=f"a pipe (its descriptor {fd.fd})",
                   reason=f"blocked in {call.name}, which watches this pipe", rows=(fd,))  # fmt: skip


def _has_ended(children: Sequence[Process]) -> bool:
    return bool(children) and not living(children)


def _to_heir(scene: Scene, thread: Thread, frame: Frame, holder: str, watched: Sequence[Fd]) -> WaitEdge:
    """The output of a child ends when the last process that has the pipe closes it: also one that the child left."""
    who = called(scene, holder, thread)
    return edge(scene, thread, f"process:{holder}", "pipe-read", "strong",
                f"reads all the output of a child that has ended, which {who} still holds open", owner="process",
                inside_job=scene.in_job(holder), resource=f"the output of an ended child, held open by {who}",
                reason=f"{seen_in(frame)}; its children have ended, and {who} alone has the other end of the pipe",
                rows=(frame, *watched))  # fmt: skip


def find_loop_thread(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A thread that has handed its work to an event loop in another thread (fsspec)."""
    found = known_wait(scene.stack(thread.id))
    if found is None or found[0].whom != "loop-thread":
        return
    loops = threads_where(scene, thread, "loops", runs_loop)
    package = found[0].file.partition("/")[0]  # which names its thread: fsspecIO, wandb-AsyncioManager
    named = [loop for loop in loops if package in (loop.name or "")]
    for loop in (named or loops)[:1]:
        name = loop.name or str(loop.tid)
        strength: Strength = "strong" if len(named or loops) == 1 else "suggested"
        text = found[0].text.format(who=f"the event loop of its thread {name}") + within(scene, thread)
        yield edge(scene, thread, f"thread:{loop.id}", "futex", strength, text, owner="thread", inside_job=True,
                   reason=f"its stack is in {found[1].function}, that thread runs an event loop",
                   rows=(found[1], loop))  # fmt: skip


def _watched(scene: Scene, thread: Thread) -> list[Fd]:
    call = thread.syscall
    if call is None or call.name not in POLLS:
        return []
    fd = scene.fd(thread.process, call.fd)
    numbers = call.watches or (fd.watches if fd is not None else None) or ()
    watched = [scene.fd(thread.process, number) for number in numbers]
    return [one for one in watched if one is not None] if None not in watched else []


def _to_watched(scene: Scene, thread: Thread, fd: Fd, socket: Socket, strength: Strength) -> WaitEdge:
    kind = "socket-connect" if socket.state == CONNECTING else "socket-read"
    call = thread.syscall
    loop = "its event loop" if call is None or call.name.startswith("epoll") else call.name
    found = to_remote(scene, thread, kind, fd, socket, strength, f"{loop} watches this connection")
    peers = [p for p in peers_of(scene, fd, socket) if p != thread.process]
    process = peers[0] if len(peers) == 1 else None
    does = "to take its connection" if kind == "socket-connect" else "to send something"
    return edge(scene, thread, f"process:{process}" if process else found.awaited, kind, strength,
                f"waits in {loop} for {socket_name(fd, socket)} {does}",
                owner="process" if process else found.owner, resource=found.resource, rows=(fd, socket),
                inside_job=scene.in_job(process) if process else found.inside_job, reason=found.reason)  # fmt: skip
