"""Terminals and standard input: what a person, or nobody, would have to type."""

from __future__ import annotations

from collections.abc import Iterator

from flatline.bundle.facts import Fd, Syscall, Thread, WaitEdge

from ..known import POLLS, READS, WRITES
from ..scene import Scene, host_of_id
from .draw import MAX_BRANCHES, called, edge, edge_to_process, living

MASTERS = ("/dev/ptmx", "/dev/pts/ptmx")


def find_terminal(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """read or write on a terminal; a select on descriptor 0 alone is readline's way to read one."""
    call = thread.syscall
    if call is None:
        return
    number = 0 if _selects_stdin(call) else call.fd if call.name in READS | WRITES else None
    fd = scene.fd(thread.process, number)
    if fd is None or fd.kind != "tty":
        return
    if fd.path in MASTERS:
        if call.name in READS:
            yield from _to_inside(scene, thread, fd)
        return
    process = scene.processes.get(thread.process)
    terminal = (process.tty if process and process.tty != "none" else None) or (fd.path or "").removeprefix("/dev/")
    yield _to_terminal(scene, thread, fd, terminal or "a terminal", writes=call.name in WRITES)


def _to_inside(scene: Scene, thread: Thread, fd: Fd) -> Iterator[WaitEdge]:
    """The master of a pseudo-terminal gives what the programs on that terminal write: those it has started there."""
    process = scene.processes.get(thread.process)
    own = process.tty if process is not None else None
    inside = [p for p in living(scene.children_of(thread.process)) if p.tty not in (None, "none", own)]
    for child in inside[:MAX_BRANCHES]:
        yield edge_to_process(scene, thread, child.id, "pipe-read", "strong" if len(inside) == 1 else "suggested",
                              f"reads what {called(scene, child.id, thread)} writes to its terminal {child.tty}",
                              reason="it reads the master of a pseudo-terminal", rows=(fd,))  # fmt: skip
    if not inside:
        yield edge(scene, thread, "unknown:", "pipe-read", "suggested", "reads what a program writes to a terminal "
                   "that it has made", reason="it reads the master of a pseudo-terminal", rows=(fd,))  # fmt: skip


def _selects_stdin(call: Syscall) -> bool:
    """Whether it looks at descriptor 0 and no other."""
    if call.watches is not None:
        return call.watches == (0,)
    return call.name in ("select", "pselect6") and call.args[:1] == (1,)


def _to_terminal(scene: Scene, thread: Thread, fd: Fd, terminal: str, *, writes: bool) -> WaitEdge:
    text = (
        f"writes to the terminal {terminal}, which takes no more output"
        if writes
        else f"waits for somebody to type on the terminal {terminal}"
    )
    return edge(scene, thread, f"terminal:{host_of_id(thread.process)}/{terminal}",
                "terminal-write" if writes else "terminal-read", "proven", text, owner="outside", inside_job=False,
                reason=f"blocked on descriptor {fd.fd}, a terminal", resource=terminal, rows=(fd,))  # fmt: skip


def find_stdin_poll(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A select on descriptor 0 alone where that is a pipe or a socket."""
    call = thread.syscall
    if call is None or call.name not in POLLS or not _selects_stdin(call):
        return
    fd = scene.fd(thread.process, 0)
    yield edge(scene, thread, f"file:{host_of_id(thread.process)}/stdin", "stdin-read", "strong",
               "waits for input on its standard input", owner="outside", inside_job=False,
               reason="it selects on descriptor 0 alone", resource=(fd.path if fd else None) or "standard input",
               rows=(fd,))  # fmt: skip
