"""The facts of a case, indexed once: who is whose child, which stack belongs to which look, who holds what.

Everything after this asks the scene and never walks a table, so that a job of 512 processes costs what it weighs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from flatline.bundle.facts import (
    Fd,
    File,
    Frame,
    Futex,
    Host,
    Lock,
    Log,
    Mount,
    Process,
    ProcessSample,
    Socket,
    Thread,
    ThreadSample,
    process_id,
    starts_jobs,
)

from ..case import FactStore
from ..frames import Stack
from .told import processes_told, roles_told, starts_told, threads_told

Row = TypeVar("Row")
_LIBRARY_PATHS = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen ", "<__array_function__", "<string>/")


def is_user(frame: Frame) -> bool:
    """Whether the frame is the job's own code; by its path where the collector did not say."""
    if frame.is_user is not None:
        return frame.is_user
    return frame.kind == "python" and not any(part in (frame.file or "<frozen ") for part in _LIBRARY_PATHS)


def innermost_user(stack: Stack) -> Frame | None:
    """The job's own frame that is nearest to the wait."""
    return next((frame for frame in stack if is_user(frame)), None)


def place(frame: Frame) -> tuple[str | None, str, int | None]:
    """File, function, line: what tells whether a stack moved."""
    return frame.file, frame.function, frame.line_no


def host_of_row(row: Any) -> str:
    """Of a row that names no process: ``2:facts/…`` was read from the second bundle, which is host h2."""
    number, colon, _ = row.artefact.partition(":")
    return f"h{number}" if colon and number.isdigit() else "h1"


def has_ended(process: Process) -> bool:
    """Whether it is only kept until its parent asks; not when its main thread alone has ended."""
    return process.state in ("Z", "X") and (process.threads_total or 1) <= 1


def host_of_id(node: str) -> str:
    """``h1`` of ``h1/12/13``."""
    return node.partition("/")[0]


def _by(rows: Iterable[Row], key: str) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[getattr(row, key)].append(row)
    return dict(groups)


class Scene:
    """Indexes over a `FactStore`. Liveness is written back through `judged`; the rest is read only."""

    def __init__(self, store: FactStore, repeating: Mapping[str, str] | None = None) -> None:
        self.store = store
        self.repeating = repeating or {}
        """Logs whose growth tells nothing: path -> the complaint that comes again and again (see `logs.repeats`)."""
        self.processes: dict[str, Process] = dict(store.by_id("processes"))
        self.threads: dict[str, Thread] = dict(store.by_id("threads"))
        unknown = (rows[0] for thread, rows in store.frames.of.items() if thread not in self.threads)
        self.threads |= {told.id: told for told in threads_told(unknown, self.threads)}
        self.processes |= {told.id: told for told in processes_told(self.threads.values(), self.processes)}
        roles = {told.id: told for told in roles_told(self.processes, self.threads.values(), self.stack)}
        self.processes |= roles
        self.processes |= {told.id: told for told in starts_told(self.processes, self.threads.values(), self.stack)}
        worked_out = [thread for thread in self.threads.values() if thread.process in roles]
        self.threads |= {thread.id: replace(thread, role=roles[thread.process].role) for thread in worked_out}
        for armed in store.rows("recorder_events"):  # faulthandler's handler prints; it ends no wait
            process = self.processes.get(armed.process) if armed.kind == "armed" and armed.text.isdigit() else None
            if process is not None and process.sig_caught:
                caught = tuple(signal for signal in process.sig_caught if signal != int(armed.text))
                self.processes[process.id] = replace(process, sig_caught=caught)
        self._memo: dict[str, Any] = {}
        self._thread_ids: dict[str, list[str]] = {
            process: [t.id for t in sorted(rows, key=lambda t: (not t.is_main, t.tid))]
            for process, rows in _by(self.threads.values(), "process").items()
        }

    def judged(self, thread: Thread, **fields: Any) -> None:
        """Put what the analyzer found into the thread's row."""
        self.threads[thread.id] = replace(thread, **fields)

    def once(self, key: str, make: Callable[[], Row]) -> Row:
        """What `make` gives, made once for this scene: for answers that every thread would ask for again."""
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    # --- processes ---

    def threads_of(self, process: str) -> list[Thread]:
        """Main thread first."""
        return [self.threads[thread] for thread in self._thread_ids.get(process, ())]

    def main_thread(self, process: str) -> Thread | None:
        threads = self.threads_of(process)
        return next((t for t in threads if t.is_main or t.tid == t.pid), None)

    def all_threads_seen(self, process: str) -> bool:
        """Whether "no other thread" can be said of this process."""
        row = self.processes.get(process)
        return row is not None and row.threads_total is not None and len(self._thread_ids.get(process, ())) >= (
            row.threads_total
        )

    @cached_property
    def job(self) -> frozenset[str]:
        """The job's processes: the tree that was named, what stands beside it, and the launchers and scripts above it;
        without relations (pasted text) all there are."""
        above = {p.id for p in self.processes.values()
                 if p.relation == "ancestor" and starts_jobs(p.role, p.is_python, p.argv)}  # fmt: skip
        inside = {p.id for p in self.processes.values() if p.relation in ("target", "descendant", "sibling")}
        return frozenset(inside | above if inside else self.processes)

    @cached_property
    def named(self) -> frozenset[str]:
        """What was asked about: the target, what descends from it, and, of a rank, the other ranks of its job; without
        relations all there is."""
        own = [p for p in self.processes.values() if p.relation in ("target", "descendant")]
        is_rank = any(p.rank is not None for p in own)
        peers = [p for p in self.processes.values()
                 if is_rank and p.relation == "sibling" and p.role == "rank" and p.rank is not None]  # fmt: skip
        return frozenset(p.id for p in [*own, *peers]) or self.job

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        children: dict[str, list[str]] = defaultdict(list)
        for process in sorted(self.processes.values(), key=lambda p: p.pid):
            if process.ppid:
                children[process_id(process.ppid, process.host)].append(process.id)
        return dict(children)

    def children_of(self, process: str) -> list[Process]:
        """In order of their pid."""
        return [self.processes[child] for child in self._children.get(process, ())]

    @cached_property
    def rank_threads(self) -> list[Thread]:
        """Main threads of the job's ranks, in order of rank."""
        ranks = [p for p in self.processes.values() if p.rank is not None and p.role in ("rank", "unknown", "other")]
        ranks = sorted((p for p in ranks if p.id in self.job), key=lambda p: (p.rank or 0, p.id))
        return [thread for p in ranks if (thread := self.main_thread(p.id)) is not None]

    def in_job(self, process: str | None) -> bool | None:
        """None: a process nobody described."""
        return None if process not in self.processes else process in self.job

    def host_of(self, process: str) -> Host | None:
        return self._hosts.get(host_of_id(process))

    def all_fds_seen(self, process: str) -> bool:
        """Whether "nobody else holds it" is a fact on this host."""
        host = self.host_of(process)
        return host is not None and host.processes_fds_unseen == 0

    @cached_property
    def _hosts(self) -> dict[str, Host]:
        return {host.host: host for host in self.store.rows("hosts")}

    # --- what was seen of threads and processes over the window ---

    def stacks_of(self, thread: str) -> Sequence[Stack]:
        """In the order they were taken."""
        return self._stacks.get(thread, ())

    def stack(self, thread: str) -> Stack:
        """The last stack, or () when there is none."""
        stacks = self._stacks.get(thread)
        return stacks[-1] if stacks else ()

    @cached_property
    def _stacks(self) -> dict[str, tuple[Stack, ...]]:
        return self.store.frames.stacks

    @cached_property
    def _native(self) -> dict[str, list[Frame]]:
        return self.store.frames.of_language("native")

    def native_stack(self, thread: str) -> list[Frame]:
        """Native frames of any look, in no order that matters."""
        return self._native.get(thread, [])

    @cached_property
    def _kernel(self) -> dict[str, list[Frame]]:
        return self.store.frames.of_language("kernel")

    def kernel_stack(self, thread: str) -> list[Frame]:
        """The kernel's frames of its last look, innermost first."""
        frames = self._kernel.get(thread, [])
        last = max((frame.sample for frame in frames), default=0)
        return sorted((frame for frame in frames if frame.sample == last), key=lambda f: f.depth)

    def gil_holder(self, process: str) -> Thread | None:
        """The thread that its last stack shows with the GIL."""
        stacks = ((thread, self.stack(thread.id)) for thread in self.threads_of(process))
        return next((thread for thread, stack in stacks if stack and stack[0].owns_gil), None)

    @cached_property
    def _samples(self) -> dict[str, list[ThreadSample]]:
        samples = _by(self.store.rows("thread_samples"), "thread")
        return {thread: sorted(rows, key=lambda s: (s.sample, s.mono_ns)) for thread, rows in samples.items()}

    def samples_of(self, thread: str) -> list[ThreadSample]:
        return self._samples.get(thread, [])

    @cached_property
    def _process_samples(self) -> dict[str, list[ProcessSample]]:
        samples = _by(self.store.rows("process_samples"), "process")
        return {process: sorted(rows, key=lambda s: (s.sample, s.mono_ns)) for process, rows in samples.items()}

    def process_samples_of(self, process: str) -> list[ProcessSample]:
        return self._process_samples.get(process, [])

    # --- futexes, descriptors, sockets, locks, files ---

    @cached_property
    def _futexes(self) -> dict[str, Futex]:
        return {row.thread: row for row in self.store.rows("futexes")}

    def futex(self, thread: Thread) -> Futex | None:
        """What memory says of the word the thread sleeps on now; None: nothing, or of another one."""
        row, call = self._futexes.get(thread.id), thread.syscall
        elsewhere = row is not None and call is not None and (call.name != "futex" or call.args[:1] != (row.address,))
        return None if elsewhere else row

    @cached_property
    def _fds(self) -> dict[str, list[Fd]]:
        return _by(self.store.rows("fds"), "process")

    @cached_property
    def _fd_numbers(self) -> dict[tuple[str, int], Fd]:
        return {(fd.process, fd.fd): fd for fd in self.store.rows("fds")}

    def fds_of(self, process: str) -> list[Fd]:
        return self._fds.get(process, [])

    def fd(self, process: str, number: int | None) -> Fd | None:
        return None if number is None else self._fd_numbers.get((process, number))

    @cached_property
    def _inodes(self) -> dict[tuple[str, int], list[Fd]]:
        inodes: dict[tuple[str, int], list[Fd]] = defaultdict(list)
        for fd in self.store.rows("fds"):
            if fd.inode is not None:
                inodes[host_of_id(fd.process), fd.inode].append(fd)
        return dict(inodes)

    def holders_of_inode(self, near: str, inode: int) -> list[str]:
        """Processes on the host of `near` that have this socket or pipe open."""
        return list(dict.fromkeys(fd.process for fd in self._inodes.get((host_of_id(near), inode), ())))

    @cached_property
    def _sockets(self) -> dict[tuple[str, int], Socket]:
        return {(host_of_row(socket), socket.inode): socket for socket in self.store.rows("sockets")}

    def socket(self, fd: Fd | None) -> Socket | None:
        if fd is None or fd.inode is None:
            return None
        return self._sockets.get((host_of_id(fd.process), fd.inode))

    @cached_property
    def _socket_ends(self) -> dict[tuple[str, str | None, str | None], Socket]:
        sockets = [s for s in self.store.rows("sockets") if s.family in ("inet", "inet6")]
        return {(host_of_row(s), s.local, s.remote): s for s in sockets}

    def other_end(self, socket: Socket) -> Socket | None:
        """The peer of a local connection: by inode (unix), or by its addresses turned round (loopback)."""
        host = host_of_row(socket)
        if socket.peer_inode:
            return self._sockets.get((host, socket.peer_inode))
        return self._socket_ends.get((host, socket.remote, socket.local)) if socket.remote else None

    def sockets_of(self, process: str) -> list[Socket]:
        return [s for fd in self.fds_of(process) if (s := self.socket(fd)) is not None]

    @cached_property
    def locks(self) -> dict[str, list[Lock]]:
        return _by(self.store.rows("locks"), "id")

    @cached_property
    def _locks_by_inode(self) -> dict[int, list[Lock]]:
        return _by(self.store.rows("locks"), "inode")

    def locks_on(self, inode: int, device: str | None) -> list[Lock]:
        """Locks and requests on one file; a device that is not known fits any."""
        rows = self._locks_by_inode.get(inode, [])
        return [row for row in rows if device is None or row.device in (None, device)]

    @cached_property
    def waiting_locks(self) -> dict[str, list[Lock]]:
        """process -> the requests in which it waits."""
        return _by((lock for lock in self.store.rows("locks") if lock.waiting), "owner_process")

    @cached_property
    def files(self) -> dict[str | None, list[File]]:
        """process -> the paths it named."""
        return _by(self.store.rows("files"), "process")

    @cached_property
    def _mounts(self) -> dict[str, list[Mount]]:
        mounts: dict[str, list[Mount]] = defaultdict(list)
        for mount in sorted(self.store.rows("mounts"), key=lambda m: -len(m.path)):
            mounts[host_of_row(mount)].append(mount)
        return dict(mounts)

    def mounts_near(self, process: str) -> list[Mount]:
        """Of the host a process runs on, longest mount point first."""
        return self._mounts.get(host_of_id(process), [])

    def mount_of(self, process: str, path: str | None) -> Mount | None:
        """The mount a path lies on: the longest mount point that is a prefix of it."""
        if path is None or not path.startswith("/"):
            return None
        below = f"{path}/"
        return next((m for m in self.mounts_near(process) if below.startswith(f"{m.path.rstrip('/')}/")), None)

    @cached_property
    def _env(self) -> dict[tuple[str, str], str | None]:
        return {(row.process, row.name): row.value for row in self.store.rows("env")}

    def env(self, process: str, name: str) -> str | None:
        """What a process was started with; None: not set, or not known."""
        return self._env.get((process, name))

    def lacks(self, process: str, name: str) -> bool:
        """Whether a process was surely started without a variable: its environment was read, and has none."""
        row = self.processes.get(process)
        return row is not None and row.environ_state in ("read", "empty") and (process, name) not in self._env

    @cached_property
    def logs(self) -> list[Log]:
        return self.store.rows("logs")

    @cached_property
    def log_growth(self) -> dict[str, int]:
        """Path -> bytes by which a log grew within the window."""
        sizes: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for row in self.store.rows("log_samples"):
            if row.size is not None:
                sizes[row.path].append((row.sample, row.size))
        return {path: max(seen)[1] - min(seen)[1] for path, seen in sizes.items()}

    @cached_property
    def grown_logs(self) -> frozenset[str]:
        """Paths of the logs that grew within the window, and not by the same complaint alone."""
        return frozenset(path for path, by in self.log_growth.items() if by > 0 and path not in self.repeating)

    @cached_property
    def gpu_processes(self) -> frozenset[str]:
        """Processes that have an accelerator open."""
        by_driver = {process_id(row.pid, row.host) for row in self.store.rows("gpu_processes")}
        by_fd = {fd.process for fd in self.store.rows("fds") if (fd.path or "").startswith(("/dev/nvidia", "/dev/kfd"))}
        return frozenset(by_driver | by_fd)
