"""Who waits for whom: asks every family of edges about every thread that does not get on.

The first finder that knows something has the word: kernel facts before stacks, what names a culprit before what only
names a place. Its edges are the thread's ways out; several mean "one of these".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from flatline.bundle.facts import Strength, Thread, WaitEdge

from .edges.bynative import find_by_native
from .edges.bystack import find_by_stack, find_idle_worker, find_join_by_stack, find_missing_file
from .edges.children import find_child, find_vfork
from .edges.databases import find_database_lock
from .edges.filelocks import find_file_lock
from .edges.files import find_device, find_fifo_open, find_mount, find_uninterruptible, is_in_fifo
from .edges.futexes import find_futex, find_futex_nobody_wakes, find_gil, find_thread_join
from .edges.futures import find_future
from .edges.imports import find_import_holder
from .edges.kernel_waits import find_kernel_wait
from .edges.loader import find_loader_lock
from .edges.lock_files import find_lock_loop
from .edges.loops import find_deaf_loop, find_loop_thread, find_watched_peer, find_watched_pipe
from .edges.nobody_left import find_lost_pool, find_nobody_left
from .edges.owners import find_lock_holder, find_lock_nobody_owns, find_lock_owner, find_shared_futex
from .edges.pipes import find_blocked_pipe_without_fds, find_pipe
from .edges.polled import find_polled
from .edges.queues import find_queue
from .edges.ranks import find_collective
from .edges.rendezvous import find_rendezvous
from .edges.signallers import find_signaller
from .edges.sockets import find_socket
from .edges.stopped import find_stopped, find_traced
from .edges.terminals import find_stdin_poll, find_terminal
from .edges.timers import find_poll, find_server, find_signal, find_stop_event, find_timer, find_told_by_kernel
from .known import known_wait
from .scene import Scene

Finder = Callable[[Scene, Thread], Iterator[WaitEdge]]
"""Given a thread that waits: its edges, or nothing when this family does not know."""

FINDERS: tuple[Finder, ...] = (
    find_stopped,
    find_traced,
    find_mount,
    find_child,
    find_vfork,
    find_terminal,
    find_stdin_poll,
    find_file_lock,
    find_fifo_open,
    find_device,
    find_lock_nobody_owns,
    find_lock_owner,
    find_idle_worker,
    find_rendezvous,
    find_collective,
    find_queue,
    find_pipe,
    find_socket,
    find_blocked_pipe_without_fds,
    find_signal,
    find_told_by_kernel,
    find_thread_join,
    find_lock_holder,
    find_loader_lock,
    find_stop_event,
    find_join_by_stack,
    find_import_holder,
    find_loop_thread,
    find_future,
    find_signaller,
    find_lost_pool,
    find_futex_nobody_wakes,
    find_gil,
    find_database_lock,
    find_lock_loop,
    find_missing_file,
    find_polled,
    find_deaf_loop,
    find_watched_peer,
    find_watched_pipe,
    find_nobody_left,
    find_shared_futex,
    find_by_stack,
    find_by_native,
    find_server,
    find_futex,
    find_timer,
    find_poll,
    find_kernel_wait,
    find_uninterruptible,
)

WAITING = frozenset({"frozen", "polling", "spinning", "stopped"})


WEAKER: Mapping[Strength, Strength] = {"proven": "strong", "strong": "suggested", "suggested": "suggested"}


def derive_waits(scene: Scene) -> list[WaitEdge]:
    """The edges of all waiting threads; sets their `waits_on`."""
    edges: list[WaitEdge] = []
    for thread in list(scene.threads.values()):
        own = edges_of(scene, thread) if thread.liveness in WAITING else _of_one_stack(scene, thread)
        if own:
            scene.judged(thread, waits_on=own[0].kind)
            edges += own
    return edges


def edges_of(scene: Scene, thread: Thread, *, looked_once: bool = False) -> list[WaitEdge]:
    """What the first finder that knows says. One look at a stack cannot tell that nobody will ever come."""
    for finder in FINDERS:
        found = [edge for edge in finder(scene, thread) if not (looked_once and edge.owner == "nobody")]
        if found:
            return found
    return []


def _of_one_stack(scene: Scene, thread: Thread) -> list[WaitEdge]:
    """Of a thread that was seen once, in its stack alone or in a call that may time out: the same edges, a step
    weaker."""
    stack, call = scene.stack(thread.id), thread.syscall
    if thread.liveness != "unknown" or len(scene.samples_of(thread.id)) > 1:
        return []
    in_wait = call is None and stack and not stack[0].active and (known_wait(stack) or stack[0].kind == "native")
    in_fifo = is_in_fifo(scene, thread)
    if not in_wait and not in_fifo and not (call is not None and call.watches):
        return []
    seen = "stack" if in_wait or in_fifo else "trace"
    return [
        replace(edge, strength=WEAKER[edge.strength], reason=f"{edge.reason}; one look at its {seen}, and no more")
        for edge in edges_of(scene, thread, looked_once=True)
    ]
