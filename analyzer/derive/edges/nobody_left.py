"""Waits that no thread of the process is left to end: the one that was to do it has ended, or fork did not copy it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatline.bundle.facts import Strength, Thread, WaitEdge

from ..known import known_wait
from ..known_wait import standard_file
from ..scene import Scene, innermost_user
from .bystanders import sleepers_left
from .draw import edge, living
from .futexes import awaited_name, is_blocked_for_ever, wakers_by_signal

POOL_LIBRARIES = re.compile(r"/lib(gomp|omp|iomp5|openblas|scipy_openblas|mkl_\w+|tbb|tokio)[^/]*\.so")
"""Native pools that sleep in a system call of their own: the file in which the program counter lies."""
POOL_FRAMES = re.compile(r"\b(GOMP_|gomp_|__kmp|omp_|rayon|cv::parallel_for|tbb::|blas_thread|exec_blas|grpc_|tokio)")
"""The same in native frames, where some were taken."""
POOL_PACKAGES = re.compile(r"/(tokenizers|polars|grpc|lance|tensorstore|faiss|pyarrow)/|/tokenization_utils_fast\.py$")
POOL_CALLS = re.compile(r"\b(cv2|polars|pl|tokenizer|faiss)\.\w+\(|\btokenizer\(")
"""Packages with such a pool: by the library frame, or by the call from the job's own code, that is nearest."""


OF_PROCESSES = ("multiprocessing/synchronize.py", "multiprocessing/queues.py")
NEAR = 6
"""A barrier of multiprocessing is one of threading, around a condition between processes."""


def find_lost_pool(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """In a forked process without further threads: a call into a native pool whose threads fork() did not copy."""
    process = scene.processes.get(thread.process)
    forked = process is not None and process.start_method in ("fork", "forkserver")
    if not forked or any(not is_blocked_for_ever(other) for other in scene.threads_of(thread.process)):
        return
    pool, strength = _pool(scene, thread)
    if not pool:
        return
    alone = len(scene.threads_of(thread.process)) == 1 and scene.all_threads_seen(thread.process)
    where = innermost_user(scene.stack(thread.id))
    at = f" at {(where.file or '?').rpartition('/')[2]}:{where.line_no}" if where else ""
    yield edge(scene, thread, "nobody:", "futex", "proven" if alone and strength == "proven" else "strong",
               f"waits{at} for the threads of {pool}, which do not exist in this forked process", owner="nobody",
               inside_job=True, reason=f"blocked in {pool}; forked without exec, and no thread of it runs",
               resource=f"the threads of {pool}", rows=(where, process))  # fmt: skip


def _pool(scene: Scene, thread: Thread) -> tuple[str, Strength]:
    """The library whose pool it waits for, and how sure that is; "" for none."""
    library = (thread.syscall.library if thread.syscall is not None else None) or ""
    if POOL_LIBRARIES.search(library):
        return library.rpartition("/")[2], "proven"
    stack = scene.stack(thread.id)
    native = next((f for f in scene.native_stack(thread.id) if POOL_FRAMES.search(f.function)), None)
    if native is not None:
        return (native.file or native.module or native.function).rpartition("/")[2], "strong"
    nearest = stack[0] if stack else None
    package = POOL_PACKAGES.search(nearest.file or "") if nearest is not None else None
    code = next((s.text for s in nearest.source if s.line == nearest.line_no), "") if nearest is not None else ""
    called = POOL_CALLS.search(code)
    return (package[1] or "tokenizers", "strong") if package else (called[1] or "tokenizers", "strong") if called else (
        "", "suggested")  # fmt: skip


def find_nobody_left(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """An event, queue, lock or future of Python, while all other threads are blocked for ever or only serve a library.

    Weaker than the same from the kernel's word: a helper might run a callback of the job's.
    """
    found = known_wait(scene.stack(thread.id))
    if found is None or found[0].kind != "futex" or found[0].whom not in ("nobody-known", "future"):
        return
    if any(standard_file(f.file or "").endswith(OF_PROCESSES) for f in scene.stack(thread.id)[:NEAR]):
        return  # another process may
    if found[0].whom == "future" and living(scene.children_of(thread.process)):
        return  # a worker may still bring it
    left = sleepers_left(scene, thread)
    if left is None:
        return
    wakers = wakers_by_signal(scene.processes.get(thread.process))
    but = f" but a handler of {', '.join(wakers)}" if wakers else ""
    what = awaited_name(scene, thread)
    sleepers = ", ".join(sorted({other.name or str(other.tid) for other in left})[:3])
    sure = not left and thread.liveness == "frozen"
    who = f"its other threads only sleep ({sleepers})" if left else "its other threads serve libraries or wait for ever"
    yield edge(scene, thread, "nobody:", "futex", "strong" if sure else "suggested",
               f"waits for {what}, which no thread{but} is left to bring about: {who}", owner="nobody",
               inside_job=True, reason=who, resource=what,
               rows=(found[1], scene.processes.get(thread.process)))  # fmt: skip
