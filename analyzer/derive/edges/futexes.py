"""Futexes: a thread that is joined, a lock nobody can release, the GIL, and locks whose owner is unknown.

The operation and the value tell the primitive (glibc, 64 bit); see futex(2).
"""

from __future__ import annotations

from collections.abc import Iterator

from flatline.bundle.facts import Futex, Process, Syscall, Thread, WaitEdge

from ...names import thread_named
from ..known import known_wait
from ..scene import Scene, innermost_user
from .draw import edge

PRIVATE, CLOCK_REALTIME, COMMAND = 0x80, 0x100, 0x7F
WAIT, WAIT_BITSET = 0, 9
PTHREAD_JOIN = WAIT_BITSET | CLOCK_REALTIME
HARMLESS_SIGNALS = frozenset({2, 4, 6, 7, 8, 11, 17, 32, 33, 34})
"""SIGINT, the faults, SIGCHLD and what glibc keeps for itself: no program counts on them to end a wait."""
SIGNAL_NAMES = {1: "SIGHUP", 10: "SIGUSR1", 12: "SIGUSR2", 14: "SIGALRM", 15: "SIGTERM", 18: "SIGCONT"}
GIL_PERIOD_S = (0.002, 0.02)
"""A thread that wants the GIL asks every 5 ms (sys.getswitchinterval)."""


def find_thread_join(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """pthread_join waits for the word that holds the id of the thread, until the kernel clears it."""
    call = thread.syscall
    if call is None or call.name != "futex" or _operation(call) != PTHREAD_JOIN or len(call.args) < 3:
        return
    joined = next((t for t in scene.threads_of(thread.process) if call.args[2] in (t.ns_tid or t.tid, t.tid)), None)
    row = scene.futex(thread)
    if joined is None or joined.id == thread.id or (row is not None and row.primitive not in ("join", "unknown")):
        return
    yield edge(scene, thread, f"thread:{joined.id}", "thread-join", "proven",
               f"waits for its thread {thread_named(joined)} to end", owner="thread", inside_job=True,
               reason="the futex holds the id of the thread it joins", rows=(joined,))  # fmt: skip


def find_futex_nobody_wakes(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A private futex can be woken from its own process only; when every thread there waits for ever, by nobody."""
    call = thread.syscall
    if call is None or not _is_private_for_ever(call) or not all_blocked(scene, thread.process):
        return
    threads, what = len(scene.threads_of(thread.process)), awaited_name(scene, thread)
    reason = "it is the only thread of its process" if threads == 1 else f"all {threads} threads of it wait for ever"
    does = "release" if "lock" in what.partition(" at ")[0] else "bring about"
    wakers = wakers_by_signal(scene.processes.get(thread.process))
    but = f" but a handler of {', '.join(wakers)}" if wakers else ""
    exact = not wakers and scene.all_threads_seen(thread.process)
    yield edge(scene, thread, "nobody:", "futex", "proven" if exact else "strong",
               f"waits for {what}, which no living thread{but} can {does}: {reason}", owner="nobody",
               inside_job=True, reason=f"a private futex without a timeout; {reason}", resource=what,
               rows=(scene.processes.get(thread.process),))  # fmt: skip


def find_gil(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A thread that asks for the GIL every few milliseconds, and the one that has it."""
    low, high = GIL_PERIOD_S
    if thread.liveness != "polling" or not low <= (thread.period_s or 0) <= high:
        return
    holder = scene.gil_holder(thread.process)
    if holder is None or holder.id == thread.id or (thread.syscall and thread.syscall.name not in ("futex", "running")):
        return
    yield edge(scene, thread, f"thread:{holder.id}", "gil", "strong",
               f"waits for the GIL, which its thread {thread_named(holder)} has", owner="thread",
               inside_job=True, resource="the GIL", rows=(holder, *scene.stack(holder.id)[:1]),
               reason=f"it wakes every {thread.period_s} s, and the other thread has the GIL in the stack")  # fmt: skip


def find_futex(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """Any other futex: its owner is not known."""
    call = thread.syscall
    if call is None or call.name not in ("futex", "futex_waitv"):
        return
    row = scene.futex(thread)
    address = f"{call.args[0]:#x}" if call.args else "?"
    shared = bool(call.args) and len(call.args) > 1 and not call.args[1] & PRIVATE
    text = f"waits for {awaited_name(scene, thread)}{' shared between processes' if shared else ''}"
    yield edge(scene, thread, f"futex:{thread.process}/{address}", "futex", "suggested", text,
               inside_job=None if shared else True, reason=_why_unknown(scene, thread, row),
               resource=awaited_name(scene, thread), rows=(row,))  # fmt: skip


def _why_unknown(scene: Scene, thread: Thread, row: Futex | None) -> str:
    if row is not None and row.owner_state == "none":
        return f"a {row.primitive.replace('-', ' ')} has no owner that could be read"
    if row is not None and row.note:
        return f"whose it is could not be read: {row.note}"
    gaps = [gap for gap in scene.store.rows("gaps") if gap.table == "futexes" and gap.process in (None, thread.process)]
    if row is None and gaps:
        return f"whose it is could not be read: {gaps[0].message}" + (f" ({gaps[0].hint})" if gaps[0].hint else "")
    return "who holds it does not show from outside"


def wakers_by_signal(process: Process | None) -> list[str]:
    """Signals whose handler could end a wait for ever. In a DataLoader worker SIGTERM only ends it."""
    if process is None:
        return []
    harmless = HARMLESS_SIGNALS | ({15} if process.role == "dataloader-worker" else set())
    return [SIGNAL_NAMES.get(s, f"signal {s}") for s in sorted(set(process.sig_caught or ()) - harmless)]


def awaited_name(scene: Scene, thread: Thread) -> str:
    """``the lock at dataset.py:10``, ``an event or a condition at run.py:12``: as the stack names it."""
    stack = scene.stack(thread.id)
    found, frame = known_wait(stack), innermost_user(stack)
    named = found is not None and found[0].whom in ("nobody-known", "future")
    at = f" at {frame.file.rpartition('/')[2]}:{frame.line_no or '?'}" if frame and frame.file else ""
    if found and named:
        return found[0].text.removeprefix("waits for ") + at
    if not _may_be_lock(thread, scene.futex(thread)):
        return "a signal of another thread" + at
    return ("the lock" if at else "a lock") + at


def _may_be_lock(thread: Thread, row: Futex | None) -> bool:
    """A lock of glibc sleeps for the value 2 (1 where it spins before), one that is a semaphore for 0 in another
    operation; runtimes with barriers of their own, such as OpenMP's, pass other ones."""
    if row is not None and row.primitive != "unknown":
        return row.primitive not in ("condition", "barrier", "join")
    call = thread.syscall
    if call is None or len(call.args) < 3 or _operation(call) & COMMAND != WAIT:
        return True
    return call.args[2] & 0xFFFFFFFF in (1, 2)


def _operation(call: Syscall) -> int:
    return call.args[1] if len(call.args) > 1 else -1


def _is_private_for_ever(call: Syscall) -> bool:
    operation = _operation(call)
    waits = call.name == "futex" and operation >= 0 and operation & PRIVATE and operation & COMMAND in (
        WAIT, WAIT_BITSET, 6, 13)  # fmt: skip
    return bool(waits) and call.timed is False


def all_blocked(scene: Scene, process: str) -> bool:
    """Whether every thread of a process waits for what only a thread of this very process could end."""
    return scene.once(f"all blocked {process}", lambda: all(
        is_blocked_for_ever(t) or _is_shared_by_none(scene, t) for t in scene.threads_of(process)))  # fmt: skip


def is_blocked_for_ever(thread: Thread) -> bool:
    """Whether only another thread of its own process could wake it; or it has ended."""
    if thread.liveness == "exited":
        return True
    call = thread.syscall
    return thread.liveness == "frozen" and call is not None and (_joins(call) or _is_private_for_ever(call))


def _joins(call: Syscall) -> bool:
    """Locks shared between processes pass the same operation, with 0 (semaphores), 2 or 3 (rwlocks)."""
    return call.name == "futex" and _operation(call) == PTHREAD_JOIN and call.args[2:3] > (3,)


def _is_shared_by_none(scene: Scene, thread: Thread) -> bool:
    """In a semaphore between processes that no other one has any more."""
    row, call = scene.futex(thread), thread.syscall
    if row is None or call is None or thread.liveness != "frozen":
        return False
    return row.mapped_by == () and row.all_asked is True and call.timed is False
