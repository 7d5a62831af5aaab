"""Deriving liveness, waits, chains and verdict of large jobs, from facts that are in memory.

    python bench/derive.py [--ranks 4096] [--processes 512] [--threads 50] [--rules]

Prints for each job the seconds at half and at full size and how much longer the full one takes; near 2 is linear.
With --rules also what the rules and the report cost on top.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from flatline.analyzer.analysis import analyze
from flatline.analyzer.case import FactStore, case_of
from flatline.analyzer.derive import derive
from flatline.analyzer.reports import render

from flatline.bundle.facts import Frame, Host, Process, Syscall, Thread, ThreadSample

SITE, LIB = "/opt/venv/lib/python3.11/site-packages/torch", "/usr/lib/python3.11"
LOOKS = 3
FUTEX = Syscall("futex", 202, (0x7F00, 0x189, 0, 0), timed=False)
READ = Syscall("read", 0, (5,), fd=5, timed=False)
Rows = dict[str, list[Any]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--processes", type=int, default=512)
    parser.add_argument("--threads", type=int, default=50)
    parser.add_argument("--rules", action="store_true")
    args = parser.parse_args()
    jobs: dict[str, tuple[Callable[[int], Rows], int]] = {
        f"{args.ranks} ranks, one late": (lambda n: ranks(n, late=1), args.ranks),
        f"{args.ranks} ranks in two collectives": (lambda n: ranks(n, late=0), args.ranks),
        f"{args.ranks} ranks, stacks alone": (lambda n: {"frames": ranks(n, late=1)["frames"]}, args.ranks),
        f"{args.processes} processes x {args.threads} threads": (lambda n: threads(n, args.threads), args.processes),
    }
    for name, (make, size) in jobs.items():
        half, full = seconds(make(size // 2), rules=args.rules), seconds(make(size), rules=args.rules)
        print(f"{name:36} half {half:6.2f} s   full {full:6.2f} s   x {full / half:.2f}", flush=True)
    return 0


def seconds(tables: Rows, *, rules: bool) -> float:
    case = case_of(FactStore(tables))
    begun = time.perf_counter()
    if rules:
        render("html", analyze(case), case)
    else:
        derive(case)
    return time.perf_counter() - begun


def ranks(count: int, *, late: int) -> Rows:
    """Ranks in all_reduce; the first `late` in a DataLoader; without a late one every other rank in broadcast."""
    tables: Rows = {name: [] for name in ("hosts", "processes", "threads", "thread_samples", "frames")}
    tables["hosts"].append(Host("h1", machine="x86_64", processes_fds_unseen=0))
    for rank in range(count):
        pid = 1000 + rank
        tables["processes"].append(
            Process(f"h1/{pid}", "h1", pid, ppid=1, relation="target", role="rank", rank=rank, world_size=count,
                    state="S", is_python=True, threads_total=1)
        )  # fmt: skip
        wait = loader() if rank < late else collective("all_reduce" if late or rank % 2 else "broadcast")
        add_thread(tables, pid, pid, FUTEX, [*wait, *program()])
    return tables


def threads(processes: int, each: int) -> Rows:
    """A launcher and its children, all in wait4, in locks, in queues, in pipes or asleep."""
    tables: Rows = {name: [] for name in ("hosts", "processes", "threads", "thread_samples", "frames")}
    tables["hosts"].append(Host("h1", machine="x86_64", processes_fds_unseen=0))
    for number in range(processes):
        pid = 1000 + number * each
        tables["processes"].append(
            Process(f"h1/{pid}", "h1", pid, ppid=1000 if number else 1, relation="descendant" if number else "target",
                    state="S", is_python=True, threads_total=each)
        )  # fmt: skip
        for tid in range(pid, pid + each):
            wait = WAITS[tid % len(WAITS)]
            add_thread(tables, pid, tid, READ if wait is WAITS[-1] else FUTEX, [*wait, *program()])
    return tables


def add_thread(tables: Rows, pid: int, tid: int, call: Syscall, stack: list[tuple[str, str, int]]) -> None:
    name = f"h1/{pid}/{tid}"
    at = f"/tables/threads/{len(tables['threads'])}"
    tables["threads"].append(
        Thread(name, f"h1/{pid}", pid, tid, name="MainThread" if pid == tid else f"Thread-{tid}", is_main=pid == tid,
               state="S", syscall=call, artefact="facts/threads.json", pointer=at)
    )  # fmt: skip
    for look in range(LOOKS):
        tables["thread_samples"].append(
            ThreadSample(name, look, look * 10**9, "S", syscall=f"{call.nr} 0x1", user_ms=5, system_ms=5, voluntary=9)
        )
        tables["frames"].extend(frames(name, look, stack))


def frames(thread: str, look: int, stack: list[tuple[str, str, int]]) -> Iterator[Frame]:
    for depth, (file, function, line) in enumerate(stack):
        yield Frame(
            thread, look, depth, function, file=file, line_no=line, is_user=file.startswith("/job"), active=False,
            artefact=f"stacks/{thread}.{look}.json", pointer=f"/tables/frames/{depth}",
        )  # fmt: skip


def collective(op: str) -> list[tuple[str, str, int]]:
    folder = f"{SITE}/distributed"
    return [(f"{folder}/distributed_c10d.py", op, 2801), (f"{folder}/c10d_logger.py", "wrapper", 83)]


def loader() -> list[tuple[str, str, int]]:
    return [
        (f"{LIB}/threading.py", "wait", 327), (f"{LIB}/queue.py", "get", 171),
        (f"{SITE}/utils/data/dataloader.py", "_try_get_data", 1120),
    ]  # fmt: skip


def program() -> list[tuple[str, str, int]]:
    return [("/job/train.py", f"step_{depth}", depth) for depth in range(12)]


WAITS = [
    [(f"{LIB}/threading.py", "wait", 327), (f"{LIB}/queue.py", "get", 171)],
    [(f"{LIB}/threading.py", "__enter__", 100)],
    [(f"{LIB}/threading.py", "_wait_for_tstate_lock", 1139), (f"{LIB}/threading.py", "join", 1119)],
    [(f"{LIB}/threading.py", "wait", 327), (f"{LIB}/concurrent/futures/_base.py", "result", 451)],
    [(f"{LIB}/multiprocessing/connection.py", "_recv", 395), (f"{LIB}/multiprocessing/queues.py", "get", 103)],
]


if __name__ == "__main__":
    sys.exit(main())
