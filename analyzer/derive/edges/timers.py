"""Waits that end by themselves or by a visitor: sleeps, event loops, servers, signals."""

from __future__ import annotations

from collections.abc import Iterator

from flatline.bundle.facts import Thread, WaitEdge

from ..known import POLLS, READS, SIGNAL_WAITS, is_sleep
from ..scene import Scene, host_of_id, innermost_user
from .draw import edge
from .futexes import wakers_by_signal

MAX_NAMED = 8
"""Descriptors that a sentence lists."""


def find_signal(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """pause, sigwait: somebody has to send a signal."""
    call = thread.syscall
    if call is not None and call.name in SIGNAL_WAITS:
        yield edge(scene, thread, f"signal:{thread.process}", "signal", "proven", "waits for a signal", owner="outside",
                   inside_job=False, reason=f"blocked in {call.name}", resource="a signal")  # fmt: skip


TOLD_BY_KERNEL = {
    "inotify": ("resource", "waits to be told of a change in what it watches in the file system (inotify)",
                "a change in the file system"),
    "signalfd": ("signal", "waits for a signal", "a signal"),
    "timerfd": ("timer", "waits for a timer of its own", "a timer"),
}  # fmt: skip
"""Kinds of descriptors that are read until the kernel has something to tell."""


def find_told_by_kernel(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A read of a descriptor that has no other end: what it waits for happens elsewhere, or at its time."""
    call = thread.syscall
    fd = scene.fd(thread.process, call.fd) if call is not None and call.name in READS else None
    if call is None or fd is None or fd.kind not in TOLD_BY_KERNEL:
        return
    kind, text, resource = TOLD_BY_KERNEL[fd.kind]
    yield edge(scene, thread, f"{kind}:{thread.process}/{fd.fd}", kind, "proven", text, owner="outside",
               inside_job=False, reason=f"blocked in {call.name} on {fd.path or fd.kind}", resource=resource,
               rows=(fd,))  # fmt: skip


def find_stop_event(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """``stop.wait()`` in the main thread, with a handler that sets it: how a service waits for its end."""
    frames = scene.stack(thread.id)
    process = scene.processes.get(thread.process)
    wakers = [name for name in wakers_by_signal(process) if name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")]
    waits = bool(frames) and frames[0].function == "wait" and (frames[0].file or "").endswith("threading.py")
    by_the_job = len(frames) > 2 and innermost_user(frames[1:3]) is not None
    serves = process is not None and process.role not in ("dataloader-worker", "pool-worker")
    if thread.is_main and waits and by_the_job and wakers and serves:
        yield edge(scene, thread, f"signal:{thread.process}", "signal", "strong",
                   f"waits for an event that a handler of {', '.join(wakers)} may set", owner="outside",
                   inside_job=False, reason="an Event.wait in the main thread, and a handler is installed",
                   resource="a signal", rows=(process,))  # fmt: skip


def find_server(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """poll, epoll and select before a listening socket: nothing is wrong, nobody asks."""
    call = thread.syscall
    if call is None or call.name not in POLLS:
        return
    listening = _listening(scene, thread)
    if listening:
        yield edge(scene, thread, f"socket:{host_of_id(thread.process)}/listen", "poll",
                   "proven" if call.fd is not None else "strong", f"serves: it waits for clients on {listening}",
                   owner="outside", inside_job=False, reason=f"blocked in {call.name} with a listening socket",
                   resource=listening)  # fmt: skip


def find_poll(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """Any other poll: for what does not show."""
    call = thread.syscall
    if call is None or call.name not in POLLS:
        return
    if is_sleep(call):
        yield _timer(scene, thread)
        return
    numbers = (call.watches or ())[:MAX_NAMED]
    known = [_described(scene, thread, number) for number in numbers if scene.fd(thread.process, number)]
    unknown = f"what its descriptors {', '.join(map(str, numbers))} are is not known" if numbers else (
        "which descriptors it watches is not known")
    reason = f"it watches {', '.join(known)}" if known else unknown
    yield edge(scene, thread, "unknown:", "poll", "suggested", f"waits in {call.name} for one of its descriptors",
               reason=reason, resource=call.name)  # fmt: skip


def _described(scene: Scene, thread: Thread, number: int) -> str:
    """``13 (socket:[9])``."""
    fd = scene.fd(thread.process, number)
    return f"{number} ({fd.path})" if fd is not None and fd.path else str(number)


def find_timer(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """sleep."""
    if is_sleep(thread.syscall):
        yield _timer(scene, thread)


def _timer(scene: Scene, thread: Thread) -> WaitEdge:
    frame = innermost_user(scene.stack(thread.id))
    at = f" at {(frame.file or '?').rpartition('/')[2]}:{frame.line_no}" if frame else ""
    again = f", again and again, about every {thread.period_s:.2g} s" if thread.period_s else ""
    return edge(scene, thread, f"timer:{thread.id}", "timer", "proven", f"sleeps{at}{again}", owner="thread",
                inside_job=True, resource="a timer", rows=(frame,),
                reason="a sleep ends by itself; what it is repeated for shows in the code only")  # fmt: skip


def _listening(scene: Scene, thread: Thread) -> str | None:
    """Of those it watches, where that is known; else any listening socket of the process."""
    call = thread.syscall
    fd = scene.fd(thread.process, call.fd) if call is not None else None
    watched = (call.watches if call is not None else None) or (fd.watches if fd is not None else None)
    if watched is not None:
        sockets = [scene.socket(scene.fd(thread.process, number)) for number in watched]
    else:
        sockets = scene.sockets_of(thread.process)
    return next((s.local for s in sockets if s is not None and s.state == "LISTEN" and s.local), None)
