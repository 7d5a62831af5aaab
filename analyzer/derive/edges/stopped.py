"""Stopped by a signal, by job control, or held by a tracer."""

from __future__ import annotations

from collections.abc import Iterator

from flatline.bundle.facts import Process, Thread, WaitEdge

from ..known import READS, WRITES
from ..scene import Scene, host_of_id
from .draw import called, edge, edge_to_process

STOP_SIGNALS = {19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU"}
_WHY_STOPPED = "the kernel's state T: it does not run before SIGCONT"


def find_stopped(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """State ``T``: who stopped it, and what ends it."""
    process = scene.processes.get(thread.process)
    if thread.state != "T":
        return
    signal = STOP_SIGNALS.get(process.stop_signal or 0) if process else None
    terminal = _terminal_that_stopped(scene, process, thread) if process else None
    if terminal:
        did = "changed or wrote to" if signal == "SIGTTOU" else "read from"
        text = f"is stopped because it {did} the terminal {terminal} from the background ({signal})"
        if signal is None:  # its parent has taken the number; Ctrl-Z at a question looks the same
            text = f"is stopped in the background of the terminal {terminal}, in the middle of using it"
        node = f"terminal:{host_of_id(thread.process)}/{terminal}"
        strength = "proven" if signal else "strong"
        yield edge(scene, thread, node, "stopped", strength, text, reason=_WHY_STOPPED, owner="outside",
                   inside_job=False, resource=terminal, rows=(process,))  # fmt: skip
        return
    text = f"is stopped{f' by {signal}' if signal else ''} and goes on only after SIGCONT"
    yield edge(scene, thread, f"signal:{thread.process}", "stopped", "proven", text, reason=_WHY_STOPPED,
               owner="outside", inside_job=False, resource=signal or "a stop signal", rows=(process,))  # fmt: skip


def find_traced(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """State ``t``: a debugger or profiler holds it."""
    process = scene.processes.get(thread.process)
    if thread.state != "t":
        return
    tracer = process.tracer_pid if process else None
    reason = "the kernel's state t: a tracer decides when it runs"
    if not tracer:
        yield edge(scene, thread, "unknown:", "traced", "strong", "is held by a tracer", reason=reason, rows=(process,))
        return
    node = f"{host_of_id(thread.process)}/{tracer}"
    text = f"is held by its tracer, {called(scene, node)}"
    yield edge_to_process(scene, thread, node, "traced", "proven", text, reason=reason, rows=(process,))


def _terminal_that_stopped(scene: Scene, process: Process, thread: Thread) -> str | None:
    if process.stop_signal in (21, 22):
        return process.tty or "terminal"
    if process.stop_signal is not None or process.tty in (None, "none"):
        return None
    in_background = process.tty_foreground_pgrp not in (None, -1, process.pgrp)
    return process.tty if in_background and _uses_terminal(scene, thread) else None


def _uses_terminal(scene: Scene, thread: Thread) -> bool:
    call = thread.syscall
    if call is None or call.name not in READS | WRITES | {"ioctl"}:
        return False
    fd = scene.fd(thread.process, call.fd)
    return fd is not None and fd.kind == "tty"
