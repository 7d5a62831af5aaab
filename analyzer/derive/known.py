"""Waits that a stack alone gives away: one row each, matched by the file's end and the function's name.

A stack shows where a thread waits, not for whom; every edge made from this table is "strong" at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from flatline.bundle.facts import Frame, Syscall

from .known_wait import KnownWait, short_name, standard_file
from .native_waits import NATIVE_WAITS
from .scene import Stack, is_user

COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single",
    "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list", "gather", "gather_object",
    "monitored_barrier", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send",
)  # fmt: skip

WAITS: tuple[KnownWait, ...] = (
    KnownWait("torch/distributed/distributed_c10d.py", COLLECTIVES, "collective", "ranks",
              "waits in {op} for the other ranks", burns_cpu=True),
    KnownWait("torch/nn/parallel/distributed.py",
              ("_distributed_broadcast_coalesced", "_sync_module_states", "_verify_params_across_processes"),
              "collective", "ranks", "waits in {op} for the other ranks", burns_cpu=True),
    KnownWait("torch/distributed/distributed_c10d.py", ("wait",), "collective", "ranks",
              "waits for a collective to end", burns_cpu=True),
    KnownWait("torch/distributed/distributed_c10d.py",
              ("init_process_group", "_new_process_group_helper", "_store_based_barrier", "new_group"), "rendezvous",
              "ranks", "waits in {op} for the other ranks to join", burns_cpu=True),
    KnownWait("torch/distributed/rendezvous.py", (), "rendezvous", "ranks", "waits at the rendezvous for its peers"),
    KnownWait("elastic/rendezvous/dynamic_rendezvous.py", (), "rendezvous", "ranks",
              "waits at the rendezvous for its peers"),
    KnownWait("elastic/rendezvous/static_tcp_rendezvous.py", (), "rendezvous", "ranks",
              "waits at the rendezvous for its peers"),
    KnownWait("elastic/rendezvous/c10d_rendezvous_backend.py", (), "rendezvous", "ranks",
              "waits at the rendezvous for its peers"),
    KnownWait("elastic/rendezvous/etcd_rendezvous.py", (), "rendezvous", "ranks",
              "waits at the rendezvous in etcd for its peers"),
    KnownWait("elastic/rendezvous/etcd_rendezvous_backend.py", (), "rendezvous", "ranks",
              "waits at the rendezvous in etcd for its peers"),
    KnownWait("elastic/rendezvous/etcd_store.py", (), "rendezvous", "ranks",
              "waits for a key that another rank puts into etcd"),
    KnownWait("torch/distributed/elastic/agent/server/api.py", ("_invoke_run", "run", "_monitor_workers"), "child",
              "child", "watches {who}"),
    KnownWait("torch/cuda/__init__.py", ("synchronize",), "device", "device", "waits for the GPU to finish its work",
              burns_cpu=True),
    KnownWait("torch/cuda/streams.py", ("synchronize", "wait"), "device", "device",
              "waits for a GPU stream or event", burns_cpu=True),
    KnownWait("torch/utils/file_baton.py", ("wait",), "lock-file", "lock-file", "waits for the lock file {path}"),
    KnownWait("filelock/_core/_lock.py", ("acquire",), "lock-file", "lock-file", "waits for the lock file {path}"),
    KnownWait("filelock/_api.py", ("acquire",), "lock-file", "lock-file", "waits for the lock file {path}"),
    KnownWait("fasteners/process_lock.py", ("acquire",), "lock-file", "lock-file", "waits for the lock file {path}"),
    KnownWait("portalocker/utils.py", ("acquire",), "lock-file", "lock-file", "waits for the lock file {path}"),
    KnownWait("torch/utils/data/dataloader.py", ("_shutdown_workers",), "worker", "dataloader-worker",
              "waits for {who} to end", is_final=True),
    KnownWait("wandb/sdk/lib/retry.py", ("__call__", "_sleep_check_cancelled"), "socket-read", "peer",
              "tries again and again to reach {who}", is_final=True),
    KnownWait("torch/utils/data/dataloader.py", ("_try_get_data", "_get_data", "_next_data"), "worker",
              "dataloader-worker", "waits for a batch from {who}"),
    KnownWait("torch/utils/data/_utils/worker.py", ("_worker_loop",), "worker", "parent",
              "is idle: it waits for work from {who}"),
    KnownWait("multiprocessing/pool.py", ("worker",), "worker", "parent", "is idle: it waits for work from {who}"),
    KnownWait("concurrent/futures/process.py", ("_process_worker",), "worker", "parent",
              "is idle: it waits for work from {who}"),
    KnownWait("multiprocessing/pool.py", ("get", "wait", "join", "next", "_terminate_pool"), "worker", "pool-worker",
              "waits for a result from {who}"),
    KnownWait("multiprocessing/spawn.py", ("join",), "child", "child", "waits for {who}"),
    KnownWait("torch/multiprocessing/spawn.py", ("join",), "child", "child", "waits for {who}"),
    KnownWait("multiprocessing/process.py", ("join",), "child", "child", "waits for {who}"),
    KnownWait("multiprocessing/popen_fork.py", ("poll", "wait"), "child", "child", "waits for {who}"),
    KnownWait("multiprocessing/popen_forkserver.py", ("poll",), "child", "child", "waits for {who}"),
    KnownWait("subprocess.py", ("communicate", "_communicate"), "child", "child", "reads all the output of {who}"),
    KnownWait("subprocess.py", ("wait", "_wait", "_try_wait"), "child", "child", "waits for {who}"),
    KnownWait("multiprocessing/resource_tracker.py", ("main",), "poll", "parent", "is idle: it waits for {who}"),
    KnownWait("multiprocessing/forkserver.py", ("main",), "poll", "parent", "is idle: it waits for {who}"),
    KnownWait("concurrent/futures/thread.py", ("shutdown", "_python_exit"), "thread-join", "thread",
              "waits for {who} to end"),
    KnownWait("threading.py", ("join", "_wait_for_tstate_lock", "_shutdown"), "thread-join", "thread",
              "waits for {who} to end"),
    KnownWait("concurrent/futures/_base.py", ("result", "exception", "wait", "as_completed"), "futex", "future",
              "waits for a future's result"),
    KnownWait("queue.py", ("get",), "futex", "nobody-known", "waits for an item to be put into a queue"),
    KnownWait("queue.py", ("put",), "futex", "nobody-known", "waits for room in a full queue"),
    KnownWait("queue.py", ("join",), "futex", "nobody-known", "waits for all items of a queue to be done"),
    KnownWait("multiprocessing/queues.py", ("get",), "pipe-read", "queue", "waits for an item from a queue"),
    KnownWait("multiprocessing/queues.py", ("put",), "futex", "nobody-known",
              "waits for room in a full queue between processes"),
    KnownWait("multiprocessing/synchronize.py", ("wait", "wait_for"), "futex", "nobody-known",
              "waits for an event or a condition between processes"),
    KnownWait("multiprocessing/connection.py", ("recv", "recv_bytes", "poll"), "pipe-read", "queue",
              "waits for a message"),
    KnownWait("concurrent/futures/thread.py", ("_worker",), "futex", "idle", "is idle: it waits for work"),
    KnownWait("fsspec/asyn.py", ("sync",), "futex", "loop-thread", "waits for {who}, which does its input and output"),
    KnownWait("wandb/sdk/lib/asyncio_manager.py", ("run", "join"), "futex", "loop-thread",
              "waits for {who}, which talks to the service of wandb"),
    KnownWait("wandb/sdk/lib/mailbox.py", ("wait", "_wait"), "futex", "nobody-known",
              "waits for an answer from the service of wandb"),
    KnownWait("importlib/_bootstrap", ("acquire",), "futex", "nobody-known", "waits for the lock of a module's import"),
    KnownWait("<frozen importlib._bootstrap>", ("acquire",), "futex", "nobody-known",
              "waits for the lock of a module's import"),
    KnownWait("logging/__init__.py", ("acquire", "_acquireLock", "handle"), "futex", "nobody-known",
              "waits for the lock of a logging handler"),
    KnownWait("threading.py", ("acquire", "__enter__"), "futex", "nobody-known", "waits for a lock"),
    KnownWait("threading.py", ("wait", "wait_for"), "futex", "nobody-known", "waits for an event or a condition"),
    KnownWait("huggingface_hub/file_download.py", (), "socket-read", "peer", "downloads from {who}"),
    KnownWait("huggingface_hub/hf_api.py", (), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("requests/api.py", ("request",), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("requests/sessions.py", ("request", "send"), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("urllib3/connectionpool.py", ("urlopen",), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("httpx/_client.py", ("request", "send"), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("httpx2/_client.py", ("request", "send"), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("httpcore/_backends/sync.py", ("read",), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("aiohttp/client.py", ("_request",), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("etcd/client.py", ("api_execute", "read", "write", "watch", "eternal_watch"), "socket-read", "peer",
              "waits for an answer from etcd at {who}"),
    KnownWait("wandb/sdk/lib/sock_client.py", (), "socket-read", "peer", "waits for the service of wandb"),
    KnownWait("botocore/httpsession.py", ("send",), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("grpc/_channel.py", ("_blocking", "__call__", "result", "_next"), "socket-read", "peer",
              "waits for an answer from {who}"),
    KnownWait("urllib/request.py", ("urlopen", "urlretrieve"), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("http/client.py", ("getresponse", "read"), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("socket.py", ("accept",), "socket-accept", "peer", "waits for a client to connect"),
    KnownWait("socketserver.py", ("serve_forever",), "poll", "peer", "serves: it waits for requests"),
    KnownWait("socket.py", ("create_connection", "connect"), "socket-connect", "peer", "connects to {who}"),
    KnownWait("socket.py", ("getaddrinfo", "gethostbyname", "getfqdn"), "socket-connect", "peer",
              "waits for a name to be resolved"),
    KnownWait("ssl.py", ("do_handshake",), "socket-read", "peer", "waits for {who} in the TLS handshake"),
    KnownWait("ssl.py", ("read", "recv", "recv_into"), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("socket.py", ("readinto",), "socket-read", "peer", "waits for an answer from {who}"),
    KnownWait("asyncio/base_events.py", ("_run_once",), "poll", "loop", "waits in its event loop"),
)  # fmt: skip

DEVICE_READS = re.compile(r"\.(item|cpu|tolist|numpy|nonzero|cuda|synchronize|to)\(")
"""Calls from C that wait for the GPU and leave no Python frame: only the source line shows them."""

READS = frozenset({"read", "readv", "pread64", "recvfrom", "recvmsg", "recv", "splice"})
WRITES = frozenset({"write", "writev", "pwrite64", "sendto", "sendmsg", "send", "sendfile", "tee"})
CHILD_WAITS = frozenset({"wait4", "waitid", "waitpid"})
SLEEPS = frozenset({"nanosleep", "clock_nanosleep"})
POLLS = frozenset({"poll", "ppoll", "epoll_wait", "epoll_pwait", "epoll_pwait2", "select", "pselect6"})
SIGNAL_WAITS = frozenset({"pause", "rt_sigtimedwait", "rt_sigsuspend"})
PATH_CALLS = frozenset({
    "open", "openat", "openat2", "stat", "lstat", "newfstatat", "statx", "fstat", "access", "faccessat",
    "faccessat2", "statfs", "fstatfs", "readlink", "readlinkat", "unlink", "unlinkat", "rename", "renameat",
    "renameat2", "mkdir", "mkdirat", "rmdir", "getdents64", "chdir", "execve", "fsync", "fdatasync", "ftruncate",
    "truncate", "utimensat", "close", "mmap", "munmap", "msync", "lseek", "fallocate",
})  # fmt: skip
UNTIMED = READS | WRITES | CHILD_WAITS | {"pause", "rt_sigsuspend", "flock", "accept", "accept4", "connect"}
"""Calls that wait for ever unless told otherwise by the descriptor."""


DEPTH = 40
"""How many frames from the innermost are looked at."""
AT_REST = ("idle", "parent")
"""Loops of workers: whether they wait for a task or work on one shows in what they have called."""
TAKES_TASKS = ("queue.py", "/queues.py", "/connection.py", "/synchronize.py", "/selectors.py", "/threading.py")
"""Files through which a worker's loop takes its next task. Anything else below it is the task."""


def is_sleep(call: Syscall | None) -> bool:
    """A call that only lets time pass; time.sleep of Python before 3.11 is a select on nothing."""
    if call is None:
        return False
    return call.name in SLEEPS or (call.name in ("select", "pselect6") and call.args[:1] == (0,))


def known_wait(stack: Stack) -> tuple[KnownWait, Frame] | None:
    """The wait a stack is in: the outermost known one of the library frames that lie around the innermost frame.

    Outermost, because ``DataLoader._try_get_data`` says more than the ``poll`` it ends in; and no further out than
    the job's own innermost frame, because what called that is not what it waits in.
    """
    found, at_rest = None, True
    for frame in _library_part(stack):
        if found is not None and found[0].is_final:
            break
        outer = _row_of(frame.kind, frame.function, frame.file or "", frame.module or "")
        if outer is not None and not _says_less(outer, found[0] if found else None, at_rest=at_rest):
            found = outer, frame
        at_rest = at_rest and (frame.file or "").endswith(TAKES_TASKS)
    return found


def _says_less(outer: KnownWait, inner: KnownWait | None, *, at_rest: bool) -> bool:
    """A worker that works on a task, a dataset of some library say, is not idle; and an agent that is still at the
    rendezvous has no child to watch yet."""
    if outer.whom in AT_REST:
        return not at_rest
    return inner is not None and inner.kind == "rendezvous" and outer.whom == "child"


def library_call(stack: Stack) -> str:
    """``requests.get``: what the job's own code called and what has not returned, ``grpc`` where no part of it has a
    name for others; "" when no own frame is there."""
    called = list(_library_part(stack))
    if not called or len(called) == len(stack[:DEPTH]):
        return ""
    public = (frame for frame in reversed(called) if not _is_private(frame))
    named = (f"{name}.{f.function.rpartition('.')[2]}" for f in public if (name := _package(f.file or "")))
    return next(named, _package(called[-1].file or ""))


def _is_private(frame: Frame) -> bool:
    """A step of the library's own, such as a wrapper that a decorator has put around the function."""
    name = frame.qualname or frame.function
    return "<" in name or frame.function.rpartition(".")[2].startswith("_")


_INSTALLED = re.compile(r"/(?:site|dist)-packages/([^/]+?)(?:\.py)?(?:/|$)")
_STANDARD = re.compile(r"/lib/python3(?:\.\d+)?/([\w/]+?)(?:/__init__)?\.py$")


def _package(file: str) -> str:
    """``requests`` of an installed package, ``http.client`` of the standard library."""
    if installed := _INSTALLED.search(file):
        return installed[1]
    standard = _STANDARD.search(file)
    return standard[1].replace("/", ".") if standard else ""


def _library_part(stack: Stack) -> Iterator[Frame]:
    for frame in stack[:DEPTH]:
        if is_user(frame):
            return
        yield frame


def native_wait(frame: Frame) -> KnownWait | None:
    """The wait that one frame of C or C++ is, whatever is around it."""
    return _row_of("native", frame.function, "", frame.module or "") if frame.kind == "native" else None


def _by_function(rows: Iterable[KnownWait]) -> dict[str, list[KnownWait]]:
    index: dict[str, list[KnownWait]] = {}
    for row in rows:
        for function in row.functions or ("",):
            index.setdefault(function, []).append(row)
    return index


_INDEX = _by_function((*WAITS, *NATIVE_WAITS))


@lru_cache(maxsize=8192)
def _row_of(kind: str, function: str, file: str, module: str) -> KnownWait | None:
    """The row of a function: file by its end, function by its short name. Thousands of threads wait in the same."""
    name = short_name(kind, function)
    library, source = module.rpartition("/")[2], module.replace(".", "/") + ".py"
    file = standard_file(file)
    for row in _INDEX.get(name, []) + _INDEX.get("", []):
        if row.native != (kind == "native"):
            continue
        if library.startswith(row.file) if row.native else file.endswith(row.file) or source == row.file:
            return row
    return None
