"""Which threads of a process could end another one's wait, and which cannot: asked before "nobody will" is said."""

from __future__ import annotations

from collections.abc import Callable

from flatline.bundle.facts import Thread

from ..known import is_sleep, known_wait
from ..scene import Scene, Stack, innermost_user
from .futexes import is_blocked_for_ever

HELPERS: tuple[tuple[str, frozenset[str]], ...] = (
    ("tqdm/_monitor.py", frozenset({"run"})),
    ("multiprocessing/queues.py", frozenset({"_feed"})),
    ("multiprocessing/resource_sharer.py", frozenset({"_serve"})),
    ("multiprocessing/pool.py", frozenset({"_handle_workers", "_handle_tasks"})),
    ("torch/_inductor/compile_worker/subproc_pool.py", frozenset({"_read_thread"})),
    ("sentry_sdk/worker.py", frozenset({"_target"})),
    ("sentry_sdk/monitor.py", frozenset({"_thread"})),
    ("event_file_writer.py", frozenset({"run"})),
    ("ipykernel/heartbeat.py", frozenset({"run"})),
    ("zmq/utils/garbage.py", frozenset({"run"})),
    ("wandb/sdk/lib/run_moment.py", frozenset({"run"})),
    ("wandb/sdk/wandb_run.py", frozenset({"check_status", "check_network_status", "check_stop_status"})),
    ("opentelemetry/sdk/_shared_internal/__init__.py", frozenset({"worker"})),
)
"""Threads that libraries start to serve themselves: file and function at which they run."""


def others_of(scene: Scene, thread: Thread) -> list[Thread]:
    return [other for other in scene.threads_of(thread.process) if other.id != thread.id and other.liveness != "exited"]


def sleepers_left(scene: Scene, thread: Thread) -> list[Thread] | None:
    """The other threads of its process that are neither blocked for ever nor a library's, when they only sleep. None:
    one may still end its wait, or its stack is not known. Sorted out once for each process: all its threads ask."""
    active, sleepers = scene.once(f"bystanders {thread.process}", lambda: _sorted_out(scene, thread.process))
    if any(other != thread.id for other in active[:2]):
        return None
    return [scene.threads[other] for other in sleepers if other != thread.id]


def _sorted_out(scene: Scene, process: str) -> tuple[list[str], list[str]]:
    """The ids of its threads that may act, or of which too little is known; and of those that only sleep."""
    active: list[str] = []
    sleepers: list[str] = []
    for thread in scene.threads_of(process):
        if thread.liveness == "exited" or is_blocked_for_ever(thread):
            continue
        if not _is_understood(scene, thread):
            active.append(thread.id)
        elif (stack := scene.stack(thread.id)) and not _is_helper(stack):
            (sleepers if only_sleeps(scene, thread) else active).append(thread.id)
    return active, sleepers


def threads_where(scene: Scene, thread: Thread, what: str, is_one: Callable[[Stack], bool]) -> list[Thread]:
    """The other threads of its process whose stack is `what`: looked for once for each process."""
    found = scene.once(
        f"{what} of {thread.process}",
        lambda: [t.id for t in scene.threads_of(thread.process)
                 if t.liveness != "exited" and is_one(scene.stack(t.id))],
    )  # fmt: skip
    return [scene.threads[other] for other in found if other != thread.id]


def runs_loop(stack: Stack) -> bool:
    """Whether it is the stack of a thread that runs an event loop of asyncio."""
    return any(frame.function == "run_forever" for frame in stack)


def only_sleeps(scene: Scene, thread: Thread) -> bool:
    """A loop of the job's own around a sleep: nothing it does shows, and nothing it does has shown."""
    return thread.liveness == "polling" and is_sleep(thread.syscall)


def _is_understood(scene: Scene, thread: Thread) -> bool:
    """A thread without a Python stack runs C code only, which sets no event of Python's, while it sleeps at least."""
    if scene.stack(thread.id):
        return True
    return thread.liveness in ("frozen", "polling") and scene.once(
        f"has stacks {thread.process}", lambda: any(scene.stack(other.id) for other in scene.threads_of(thread.process))
    )


def _is_helper(stack: Stack) -> bool:
    if innermost_user(stack) is not None:
        return False
    if any((f.file or "").endswith(file) and f.function in names for f in stack for file, names in HELPERS):
        return True
    found = known_wait(stack)
    return found is not None and found[0].whom == "idle"
