"""Queues of multiprocessing: a pipe, whose writing end every process of the family holds."""

from __future__ import annotations

from collections.abc import Iterator

from flatline.bundle.facts import Fd, Frame, Process, Thread, WaitEdge

from ...names import process_named
from ..known import known_wait
from ..scene import Scene
from .draw import MAX_BRANCHES, called_all, edge, edge_to_process


def find_queue(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A reader of a queue or connection: its writers, among those of the job that hold the other end."""
    found = known_wait(scene.stack(thread.id))
    if found is None or found[0].whom != "queue":
        return
    wait, frame = found
    pipes = _pipes(scene, thread)
    if not pipes:
        return
    writers = list(dict.fromkeys(p for fd in pipes for p in fd.peers or () if p != thread.process))
    living = [w for w in writers if scene.processes[w].state not in ("Z", "X")] if _known(scene, writers) else writers
    if not living:
        yield _to_nobody(scene, thread, wait.text, frame, pipes)
        return
    strength = "strong" if len(living) == 1 else "suggested"
    text = f"{wait.text}, which {called_all(scene, living, thread)} may fill"
    for writer in living[:MAX_BRANCHES]:
        yield edge_to_process(scene, thread, writer, "pipe-read", strength, text, resource="a queue",
                              reason=f"its stack is in {frame.function}; that process can write to its queue",
                              rows=(frame, *pipes[:2]))  # fmt: skip


def _pipes(scene: Scene, thread: Thread) -> list[Fd]:
    """The one it reads; else pipes it reads and, as queues have it, writes itself."""
    call = thread.syscall
    named = scene.fd(thread.process, call.fd) if call is not None else None
    if named is not None:
        is_end = named.kind == "pipe" or (named.kind == "socket" and bool(named.peers))
        return [named] if is_end and named.peers is not None else []
    fds = [fd for fd in scene.fds_of(thread.process) if fd.kind == "pipe" and fd.fd > 2]
    written = {fd.inode for fd in fds if fd.mode == "write"}
    return [fd for fd in fds if fd.mode == "read" and fd.inode in written and fd.peers is not None]


def _known(scene: Scene, processes: list[str]) -> bool:
    return all(process in scene.processes for process in processes)


def _to_nobody(scene: Scene, thread: Thread, text: str, frame: Frame, pipes: list[Fd]) -> WaitEdge:
    dead = [child for child in scene.children_of(thread.process) if child.state in ("Z", "X")]
    ended = f"; {_ended(dead)}" if dead else ""
    sure = len(pipes) == 1 and thread.liveness == "frozen"
    alone = sure and len(scene.threads_of(thread.process)) == 1 and scene.all_threads_seen(thread.process)
    strength = "proven" if alone and scene.all_fds_seen(thread.process) else "strong" if sure else "suggested"
    return edge(scene, thread, "nobody:", "pipe-read", strength,
                f"{text}, which no other process can fill{ended}", owner="nobody", inside_job=True,
                resource=f"a queue of {process_named(thread.pid)}", rows=(frame, *pipes[:2], *dead[:2]),
                reason="no living process but itself has the writing end")  # fmt: skip


def _ended(dead: list[Process]) -> str:
    status = dead[0].exit_status
    killed = status is not None and status < 0
    how = f"was killed by signal {-(status or 0)}" if killed else "has ended"
    return f"its child {dead[0].pid} {how}"
