"""What one look tells of the whole job: a queue, a listing of processes, calls that a trace or a stack stands in.

One look is one look: that somebody waits is seen, that nothing will end the wait is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from flatline.bundle.facts import Frame, Process, RdmaPort, Scheduler, Thread

from ..case import FactStore
from ..findings import VerdictState
from .known import known_wait
from .known_wait import short_function

PENDING = re.compile(
    r"(?i)^(pending|PD|queued|configuring|CF|unschedulable|suspended|containercreating|(?:err)?imagepull\w*)\b"
)
FAILED = re.compile(
    r"(?i)^(failed|F|out_of_memory|OOM|node_fail|NF|boot_fail|BF|crashloopbackoff|error|evicted|oomkilled)$"
)
EXITED = re.compile(r"Exited \([1-9]\d*\)")
"""Of a container, with the status that says that it failed."""
RUNNING = re.compile(r"(?i)^(running|R|completing|CG)$")
SLEEPS = frozenset({"nanosleep", "clock_nanosleep", "pause", "sleep", "usleep", "time_sleep", "pysleep"})
FROM_OUTSIDE = frozenset({
    "accept", "accept4", "recv", "recvfrom", "recvmsg", "recvmmsg", "connect", "poll", "ppoll", "select", "pselect6",
    "epoll_wait", "epoll_pwait", "epoll_pwait2",
})  # fmt: skip
"""Calls that end when somebody outside does something."""
WRITES = frozenset({"write", "writev"})
POOLS = re.compile(
    r"blas_thread_server|exec_blas_async|kmp_(?:launch_worker|suspend|fork_barrier)|gomp_thread_start|gomp_\w*barrier_wait"
    r"|rayon|tokio|crossbeam|ThreadPool|threadpool|thread_pool|worker_(?:main|loop|thread)|tbb::|rml::|jemalloc|watchdog"
    r"|[Mm]onitor|heartbeat|\b_?worker$|pin_memory|feed$|_worker_loop|run_forever|serve_forever|poller|AsyncManager"
    r"|_loop_check_status|check_(?:network|stop)_status"
)
"""Functions of threads that rest until there is work for them."""
HELPERS = ("tqdm/_monitor.py", "event_file_writer.py", "ipykernel/heartbeat.py", "compile_worker/subproc_pool.py")
"""Files whose threads do."""
NATIVE_WAIT = re.compile(
    r"(?i)wait|lock|futex|poll|select|sleep|read|recv|accept|connect|join|sem_|syscall|ioctl|barrier|sync|yield|mutex"
    r"|write|send|park|pause|cond_|query|abort|\?\?|^cu|^nccl|^nvml"
)
"""Functions of C in which a thread stands; in any other it computes, or the stack is cut off above it."""
LOST: dict[str, int] = {"local_ack_timeout_err": 100, "out_of_sequence": 100_000, "packet_seq_err": 10_000}
"""Counters of an RDMA port, and from where on they tell of more than a cable that was plugged in."""
MAX_NAMED = 3
STANDS = 0.4
"""How sure it is that what stands in a stack that somebody has pasted stands there for good."""


@dataclass(frozen=True)
class Told:
    """What one source says of the whole job."""

    state: VerdictState
    confidence: float
    because: str


def told_by_looks(store: FactStore) -> Iterator[Told]:
    """Everything that a look at something other than a log says of the job."""
    yield from _queue(store.rows("scheduler"))
    yield from _states(store.rows("processes"))
    yield from _calls(store.rows("threads"), store.rows("frames"))
    yield from _output(store.rows("threads"))
    yield from _ports(store.rows("rdma_ports"))


def _queue(rows: Sequence[Scheduler]) -> Iterator[Told]:
    """A job that has not been given its resources, or has failed. Where any runs, the list is of more than this job."""
    if any(RUNNING.match(row.state or "") for row in rows):
        return
    pending = next((row for row in rows if PENDING.match(row.state or "")), None)
    if pending is not None:
        yield Told("waiting", 0.7, f"{_listed(pending)} waits in the queue: {_state(pending)}")
        return
    failed = next((row for row in rows if row.job and (FAILED.match(row.state or "") or _exited(row))), None)
    if failed is not None:
        yield Told("crashed", 0.6, f"{_listed(failed)} has failed: {_state(failed)}")


def _exited(row: Scheduler) -> bool:
    return row.state == "exited" and EXITED.match(row.reason or "") is not None


def _listed(row: Scheduler) -> str:
    return f"{row.artefact}:{row.line}: {f'job {row.job}' if row.job else 'the job'}"


def _state(row: Scheduler) -> str:
    return f"{row.state} ({row.reason})" if row.reason else f"{row.state}"


def _states(processes: Iterable[Process]) -> Iterator[Told]:
    """States of a listing. A stop lasts until somebody ends it; whether a wait in the kernel is a long one does not
    show. What is no part of the job may be there for reasons of its own."""
    for process in processes:
        if process.relation != "unknown" and process.state in ("T", "t"):
            yield Told("hung", 0.55, f"{_at(process)}: pid {process.pid} is stopped ({process.state})")
            return


def _calls(threads: Sequence[Thread], frames: Sequence[Frame]) -> Iterator[Told]:
    """Every thread that was seen stands in a call that time or somebody outside ends; some may wait for those."""
    innermost = {f.thread: short_function(f) for f in frames if f.depth == 0}
    stands = {t.id: t.syscall.name if t.syscall is not None else innermost.get(t.id) for t in threads}
    known = {name: t for t in threads if (name := stands[t.id]) and name != "futex"}
    reader = known.get("read")
    asks = reader is not None and reader.syscall is not None and reader.syscall.fd == 0
    waits = SLEEPS | FROM_OUTSIDE | ({"read"} if asks else set())
    if not known or not set(known) <= waits or any(t.liveness in ("moving", "busy") for t in threads):
        return
    where = ", ".join(sorted(known)[:MAX_NAMED])
    what = "time" if set(known) <= SLEEPS else "somebody outside"
    first = next(iter(known.values()))
    yield Told("waiting", 0.5, f"{_at(first)}: its threads stand in {where}, which {what} ends")


def _output(threads: Iterable[Thread]) -> Iterator[Told]:
    """A write of standard output or standard error takes no time, unless nobody takes it."""
    for thread in threads:
        call = thread.syscall
        if call is not None and call.name in WRITES and call.fd in (1, 2) and thread.liveness not in ("moving", "busy"):
            yield Told("hung", STANDS, f"{_at(thread)}: a thread stands in {call.name} of descriptor {call.fd}")
            return


def told_by_stacks(store: FactStore) -> Told | None:
    """Somebody has taken, and pasted, the stack of a thread that is not at work and not at rest in a pool."""
    threads, stacks = store.rows("threads"), store.frames.of
    if any(t.state == "R" or t.liveness in ("moving", "busy") for t in threads):
        return None
    shown = [t for t in threads if t.id in stacks]
    stands = [t for t in shown if not any(_tells_nothing(frame) for frame in stacks[t.id])]
    if not stands or any(frame.active and not _goes_round(stacks[frame.thread]) for frame in store.rows("frames")):
        return None
    first = next((t for t in stands if t.is_main or t.tid == t.pid), stands[0])
    inner = min(stacks[first.id], key=lambda frame: frame.depth)
    where = f"{inner.artefact or first.artefact}:{inner.line or first.line}: a thread stood in {short_function(inner)}"
    return Told("hung", STANDS, f"{where}, and nothing shows that it is at work; one look does not tell for how long")


def _tells_nothing(frame: Frame) -> bool:
    """Whether it is of a thread at rest, or of one that stands nowhere."""
    at_rest = POOLS.search(frame.function) is not None or (frame.file or "").endswith(HELPERS)
    return at_rest or (frame.depth == 0 and frame.kind == "native" and NATIVE_WAIT.search(frame.function) is None)


def _goes_round(stack: Sequence[Frame]) -> bool:
    """Whether it is in a call that uses a processor while it waits for other ranks or for the GPU."""
    wait = known_wait(tuple(sorted(stack, key=lambda frame: frame.depth)))
    return wait is not None and wait[0].burns_cpu and wait[0].kind in ("collective", "device")


def _ports(ports: Iterable[RdmaPort]) -> Iterator[Told]:
    for port in ports:
        lost = [name for name, limit in LOST.items() if (port.counters or {}).get(name, 0) > limit]
        if lost:
            counts = ", ".join(f"{name} {(port.counters or {})[name]}" for name in lost)
            yield Told("degraded", 0.45, f"{_at(port)}: the network port {port.device} loses packets ({counts})")
            return


def _at(row: Process | Thread | RdmaPort) -> str:
    return f"{row.artefact}:{row.line}"
