"""The facts: one vocabulary for collector, parsers, rules and report.

Every table is a frozen dataclass; the collector's probes and the parsers of pasted text fill the same ones.
Conventions, which hold for every field:

* ``None`` means *unknown*: it could not be read, or the source does not say. It never means "no".
* A table that was not collected is absent from `FactTables`, not empty.
* Ages and intervals are seconds, sizes bytes, CPU times milliseconds. `..._ns` fields are CLOCK_MONOTONIC
  nanoseconds of the host named. Wall-clock times are ISO 8601 UTC text.
* Enumerations carry ``unknown`` (or ``other``), so that a newer collector can be read by an older analyzer.
* Identifiers are text: host ``h1``; process ``h1/PID``; thread ``h1/PID/TID``; see `process_id` and `thread_id`.
* Every row ends with its provenance: `artefact` (a member of the bundle) and `line` (1-based, text) or `pointer`
  (RFC 6901, JSON). A row the collector wrote as a fact leaves them empty; the reader fills in its own place.

Python 3.9 syntax, standard library only: the collector runs this on the host that is falling apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

State = Literal["R", "S", "D", "T", "t", "Z", "X", "I", "unknown"]
"""The kernel's letter for a task (proc_pid_stat(5)); P, W, K and newer ones read as unknown."""

Liveness = Literal["moving", "busy", "spinning", "polling", "frozen", "stopped", "exited", "unknown"]
Role = Literal[
    "launcher", "rank", "dataloader-worker", "pool-worker", "resource-tracker", "compile-worker", "shell",
    "tracker-service", "other", "unknown",
]
Relation = Literal["target", "descendant", "sibling", "ancestor", "holder", "unknown"]
"""Why a process is in the bundle. ``sibling``: beside the target, under one launcher, script or pipeline, or of one
rendezvous. ``holder``: outside the tree, but it has the other end of a pipe, socket or lock."""

StartMethod = Literal["fork", "spawn", "forkserver", "exec", "unknown"]
Strength = Literal["proven", "strong", "suggested"]
Doing = Literal[
    "collective", "point-to-point", "rendezvous", "backward", "device", "batch", "compile", "load", "save", "prepare",
    "import", "fetch", "exit", "unknown",
]
"""``batch``: the next one from the loader; ``fetch``: from the network; ``prepare``: of data, before the training;
``load`` and ``save``: of weights. ``backward``: a collective within it included, since that is how it goes on."""
GpuVendor = Literal["nvidia", "amd", "huawei", "intel", "habana", "unknown"]
FdKind = Literal[
    "file", "directory", "pipe", "fifo", "socket", "tty", "null", "device", "eventfd", "eventpoll", "timerfd",
    "signalfd", "inotify", "memfd", "pidfd", "other", "unknown",
]


READ_AHEAD = 4096
"""How many characters a probe takes of a text of which the bundle holds the beginning: it is cut to that after its
secrets are hidden, since half of one no longer shows what it is."""


def _cut_at(longest: int) -> Mapping[str, Any]:
    """Metadata of a field that the bundle holds at most so many characters of."""
    return {"longest": longest}


def process_id(pid: int, host: str = "h1") -> str:
    """``h1/4242``."""
    return f"{host}/{pid}"


def thread_id(pid: int, tid: int, host: str = "h1") -> str:
    """``h1/4242/4243``."""
    return f"{host}/{pid}/{tid}"


def runs_script(argv: Sequence[str]) -> bool:
    """Whether a shell was started to run a script or ``-c CODE``; else a person types into it. See bash(1), dash(1)."""
    words = iter(argv[1:])
    for word in words:
        if word in ("--rcfile", "--init-file"):
            next(words, None)
        elif not word.startswith(("-", "+")) or (word[:2] != "--" and word.endswith("c")):
            return True
    return False


def starts_jobs(role: Role, is_python: bool | None, argv: Sequence[str] | None) -> bool:
    """Whether an ancestor is part of the job it stands above: a launcher, a Python or Node.js program, a script. A
    person's shell is not, nor is what stands above that."""
    return runs_script(argv or ()) if role == "shell" else bool(is_python) or role == "launcher"


# --- the host and its processes ---


@dataclass(frozen=True)
class Host:
    """The machine and what we were allowed to see on it."""

    host: str
    kernel: str | None = None
    machine: str | None = None
    """``x86_64``, ``aarch64``: decides what a syscall number means."""
    cpus: int | None = None
    memory_total: int | None = None
    memory_available: int | None = None
    swap_total: int | None = None
    swap_free: int | None = None
    load_1m: float | None = None
    pressure: Mapping[str, float] | None = None
    """``memory full``, ``io some`` … -> percent of the last 10 s in which tasks stood still for it (/proc/pressure)."""
    boot_id: str | None = None
    uptime_s: float | None = None
    container: str | None = None
    """``docker``, ``kubernetes``, ``podman``, ``lxc``, ``none``; how *we* run, not the target."""
    collector_uid: int | None = None
    collector_caps: tuple[str, ...] | None = None
    """Effective capabilities that matter here: CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_DAC_READ_SEARCH, CAP_SYSLOG …"""
    ptrace_scope: int | None = None
    """Yama: 0 to 3; unknown where Yama is absent (then 0 applies)."""
    seccomp: int | None = None
    """Mode of the collector itself: 0 off, 1 strict, 2 filter."""
    hidepid: str | None = None
    processes_seen: int | None = None
    processes_fds_unseen: int | None = None
    """How many processes' descriptors could not be read; 0 makes "nobody else holds it" a fact."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Process:
    """One process of the job's tree, or one outside it that holds what the job waits for."""

    id: str
    host: str
    pid: int
    """As seen by the collector."""
    ns_pid: int | None = None
    """As the process sees itself (last field of NSpid)."""
    ppid: int | None = None
    start_ticks: int | None = None
    """Field 22 of stat, clock ticks since boot: with the pid it names one process for ever."""
    age_s: float | None = None
    relation: Relation = "unknown"
    uid: int | None = None
    user: str | None = None
    name: str | None = None
    """comm, at most 15 bytes."""
    exe: str | None = None
    argv: tuple[str, ...] | None = None
    cwd: str | None = None
    root: str | None = None
    role: Role = "unknown"
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    node: int | None = None
    start_method: StartMethod = "unknown"
    python: str | None = None
    """``3.11``; None: not known to be Python. See `is_python`."""
    is_python: bool | None = None
    state: State = "unknown"
    liveness: Liveness = "unknown"
    """Filled by the analyzer; a collector leaves ``unknown``."""
    exit_status: int | None = None
    """Of a zombie: the exit code, or minus the signal."""
    stop_signal: int | None = None
    """Of a stopped process, while its parent has not asked (field 52 of stat): 19 SIGSTOP, 21 SIGTTIN, 22 SIGTTOU."""
    pgrp: int | None = None
    session: int | None = None
    tty: str | None = None
    """``pts/3``, ``none``."""
    tty_foreground_pgrp: int | None = None
    """tpgid; -1 when the process has no terminal."""
    tracer_pid: int | None = None
    sig_pending: tuple[int, ...] | None = None
    """Process-wide (ShdPnd) and main thread (SigPnd), signal numbers."""
    sig_caught: tuple[int, ...] | None = None
    sig_ignored: tuple[int, ...] | None = None
    rss: int | None = None
    swap: int | None = None
    cpu_ms: int | None = None
    """User and system time of all its threads since its start, where a list of processes tells it; of what was
    collected see `Thread.cpu_ms`."""
    threads_total: int | None = None
    threads_read: int | None = None
    oom_score: int | None = None
    cgroup: str | None = None
    pid_namespace: str | None = None
    net_namespace: str | None = None
    mnt_namespace: str | None = None
    container: str | None = None
    """What it runs in, as its group and its root tell: ``docker``, ``kubernetes``, ``podman``, ``lxc`` …, ``none``."""
    environ_state: Literal["read", "overwritten", "denied", "empty", "unknown"] = "unknown"
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Syscall:
    """What /proc/PID/task/TID/syscall says, decoded with the machine's own table."""

    name: str
    """``read``; ``running`` when the task was on a CPU; ``syscall-451`` when the table does not know it."""
    nr: int | None = None
    args: tuple[int, ...] = ()
    """The six raw arguments; signed meaning is the reader's business."""
    fd: int | None = None
    """The descriptor argument, where the call has one."""
    path: str | None = None
    """What that descriptor is: ``/data/train.bin``, ``pipe:[123]``."""
    timeout_s: float | None = None
    """Decoded where it is an argument or readable memory; None: unknown. See `timed`."""
    timed: bool | None = None
    """False: the call waits for ever. True: it has a timeout, known or not."""
    target_pid: int | None = None
    """wait4/waitid/kill: whom (collector's numbering where mapped)."""
    library: str | None = None
    """The mapped file in which the program counter lies."""
    watches: tuple[int, ...] | None = None
    """Of poll, select and epoll: the descriptors, from a trace or from readable memory. In /proc they are only an
    address."""


@dataclass(frozen=True)
class Thread:
    """One thread, as of the last sample."""

    id: str
    process: str
    pid: int
    tid: int
    ns_tid: int | None = None
    name: str | None = None
    """The Python thread's name where stacks give one, else comm."""
    is_main: bool = False
    role: Role = "unknown"
    """Of its process, repeated so that a rule need not join."""
    rank: int | None = None
    relation: Relation = "unknown"
    state: State = "unknown"
    wchan: str | None = None
    syscall: Syscall | None = None
    cpu_ms: int | None = None
    """User and system time since its start."""
    switches: int | None = None
    """Voluntary and involuntary, since its start."""
    syscalls_seen: Mapping[str, int] | None = None
    """Of a thread on a CPU: how often each call was met in short looks over the window; ``running``: none was.
    The kernel names the call of a running thread to root only (in its stack), so to others all may be ``running``."""
    liveness: Liveness = "unknown"
    """Filled by the analyzer."""
    liveness_reason: str | None = None
    period_s: float | None = None
    """Of a polling thread: how often it wakes."""
    waits_on: str | None = None
    """Filled by the analyzer: kind of the wait edge that leaves this thread (see `WaitEdge.kind`)."""
    doing: Doing | None = None
    """Filled by the analyzer, of main threads: the part of a training program that its stack is in."""
    doing_in: str | None = None
    """What of it tells two ranks apart: the collective and whose it is, ``all_gather of fetch_sub_module``."""
    since_s: float | None = None
    """How long it has waited there, at least."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class ThreadSample:
    """One look at one thread; the series that liveness is derived from."""

    thread: str
    sample: int
    """0, 1, 2 …: the round; the same number in `Frame.sample` was taken at about the same time."""
    mono_ns: int
    state: State = "unknown"
    wchan: str | None = None
    syscall: str | None = None
    """The raw line of /proc/…/syscall; None: refused."""
    user_ms: int | None = None
    system_ms: int | None = None
    voluntary: int | None = None
    involuntary: int | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class ProcessSample:
    """One look at one process."""

    process: str
    sample: int
    mono_ns: int
    state: State = "unknown"
    threads: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    rchar: int | None = None
    wchar: int | None = None
    rss: int | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class LogSample:
    """Size of a log file at one moment."""

    path: str
    sample: int
    mono_ns: int
    size: int | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class SourceLine:
    """One line of the program, with its number."""

    line: int
    text: str = field(metadata=_cut_at(300))


HEAVY_SAMPLE = 900
"""Samples of stacks from here on are one deeper look, see `Frame.sample`: they stand beside the rounds, and take a
round's place only for a thread that no round has shown."""
NATIVE_SAMPLE, LOCALS_SAMPLE, KERNEL_SAMPLE = 900, 901, 910


@dataclass(frozen=True)
class Frame:
    """One frame of one thread's stack in one sample. depth 0 is the innermost (the most recent call)."""

    thread: str
    """``h1/4242/4243``; ``h1/4242/pthread-0x7f…`` where the kernel's number of a Python thread is not known."""
    sample: int
    """The round, as in `ThreadSample`; from 100 on extra looks between the rounds: at threads that stay busy at one
    line, and at the locals of polling ones. `mono_ns` orders them all. From `HEAVY_SAMPLE` on looks of another kind:
    900 with the C stack in between, 901 with all locals, 910 the kernel's stack alone."""
    depth: int
    function: str
    """Short name: ``get``."""
    qualname: str | None = None
    """``Queue.get`` where the tool gives it (Python 3.11+)."""
    file: str | None = None
    """Full path as the tool printed it."""
    line_no: int | None = None
    """Line in `file` (not the artefact's line)."""
    module: str | None = None
    kind: Literal["python", "native", "kernel"] = "python"
    is_user: bool | None = None
    """Not in the standard library and not below site-packages or dist-packages."""
    source: tuple[SourceLine, ...] = ()
    """The line and its neighbours, when the file could be read as the target's user."""
    enclosing: tuple[SourceLine, ...] = ()
    """Headers of the `with`, `for`, `while`, `if` and `try` blocks around the line, outermost first."""
    locals: Mapping[str, str] | None = None
    """name -> text. Only strings that look like paths, and only of polling stacks; in sample 901 all, as printed."""
    active: bool | None = None
    """py-spy's: the thread is on a CPU or not idle. Of the whole thread, repeated."""
    owns_gil: bool | None = None
    """Of the whole thread, repeated."""
    thread_name: str | None = None
    """The Python thread's name. Of the whole thread, repeated."""
    pthread: int | None = None
    """pthread_self of the thread (py-spy's thread_id): what an RLock stores as its owner. Repeated."""
    mono_ns: int | None = None
    """When this sample of the stack was taken. Repeated."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


# --- descriptors, sockets, locks ---


@dataclass(frozen=True)
class Fd:
    """One open descriptor. Of processes outside the tree only those that share a pipe, socket, terminal or lock."""

    process: str
    fd: int
    kind: FdKind = "unknown"
    path: str | None = None
    """What /proc/PID/fd/N links to, as printed by the kernel."""
    inode: int | None = None
    device: str | None = None
    """``maj:min`` of the file system the inode is on."""
    flags: int | None = None
    """Open flags (O_ACCMODE: 0 read, 1 write, 2 both)."""
    mode: Literal["read", "write", "both", "unknown"] = "unknown"
    pos: int | None = None
    deleted: bool | None = None
    watches: tuple[int, ...] | None = None
    """Of an eventpoll: the descriptors it watches."""
    peers: tuple[str, ...] | None = None
    """Ids of the processes that hold the other end (of a pipe: the opposite mode; of a socket: the peer inode)."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Socket:
    """One socket of the tree, from sock_diag or, without it, from /proc/PID/net."""

    inode: int
    family: Literal["unix", "inet", "inet6", "netlink", "packet", "unknown"] = "unknown"
    type: Literal["stream", "dgram", "seqpacket", "raw", "unknown"] = "unknown"
    state: str | None = None
    """``ESTABLISHED``, ``SYN_SENT``, ``LISTEN``, ``CLOSE_WAIT`` …"""
    local: str | None = None
    remote: str | None = None
    peer_inode: int | None = None
    rx_queue: int | None = None
    tx_queue: int | None = None
    timer: str | None = None
    """``retransmit``, ``keepalive``, ``time-wait``, ``probe``, ``off``."""
    retransmits: int | None = None
    netns: str | None = None
    source: Literal["sock_diag", "proc", "unknown"] = "unknown"
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Lock:
    """One line of /proc/locks that concerns a file of the tree: a lock held, or a request that waits for one."""

    id: str
    """``h1/lock/MAJ:MIN:INODE``; a waiting request has the id of the lock it waits for."""
    inode: int
    device: str | None = None
    kind: Literal["flock", "posix", "ofd", "lease", "unknown"] = "unknown"
    mode: Literal["read", "write", "unknown"] = "unknown"
    waiting: bool = False
    """True: this process waits for the lock. False: it holds it."""
    owner_process: str | None = None
    """Holder or waiter; None when the kernel names none (OFD) and no descriptor shows it."""
    path: str | None = None
    start: int | None = None
    end: int | None = None
    """None: to the end of the file."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Futex:
    """The word one thread sleeps on, and what the memory around it says: which lock it is, and who owns it.

    A thread has a row when it slept there in two looks; what was read is kept when it was the same in both.
    """

    thread: str
    process: str
    address: int
    op: int
    """As it was passed: 0x80 is FUTEX_PRIVATE_FLAG, 0x100 FUTEX_CLOCK_REALTIME (futex(2))."""
    value: int
    """The value it sleeps for; of pthread_join the id of the thread."""
    private: bool
    timed: bool | None = None
    word: int | None = None
    """What is at the address; None: memory could not be read, or changed meanwhile."""
    primitive: Literal[
        "mutex", "rwlock", "condition", "semaphore", "barrier", "join", "pi-mutex", "python-lock", "python-rlock",
        "python-semaphore", "unknown",
    ] = "unknown"
    """``python-semaphore``: of multiprocessing. Only locks of a known layout are named."""
    owner_tid: int | None = None
    """As memory has it: in the numbering of the owner's PID namespace."""
    owner_pthread: int | None = None
    """Of a Python RLock: pthread_self of its owner, as in `Frame.pthread`."""
    owner_thread: str | None = None
    """The owner, where it is a thread that lives."""
    owner_state: Literal["alive", "self", "not-a-thread-of-the-process", "none", "unknown"] = "unknown"
    """``none``: this primitive has no owner, or nobody owns it."""
    depth: int | None = None
    """Of a recursive lock: how often its owner has taken it."""
    waiters: int | None = None
    """Of a semaphore: how many sleep on it."""
    mapping: str | None = None
    """Of a shared futex: what is mapped there, ``/dev/shm/sem.x (deleted)``."""
    device: str | None = None
    inode: int | None = None
    mapped_by: tuple[str, ...] | None = None
    """Of a shared futex: the other living processes that are known to have it mapped."""
    all_asked: bool | None = None
    """Whether every process that is not older than the job showed what it has mapped: then `mapped_by` has no further
    ones."""
    held_by: tuple[str, ...] | None = None
    """Of a lock of multiprocessing: the processes whose own object says that they hold it; None: one of those that have
    it mapped could not be asked."""
    note: str = ""
    """Why something is unknown, and what the search was bounded to."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Timeout:
    """How long a call of a thread waits at most, where that stands in memory. The reader puts it into its `Syscall`."""

    thread: str
    syscall: str
    seconds: float
    """What it asked for; of a call that names a moment, what was left of it. Below 0: the moment has passed."""
    until: Literal["length", "moment"] = "length"
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class PollSet:
    """Which descriptors a poll or a select of a thread watches, read from its memory. The reader puts them into its
    `Syscall`. Of an epoll they stand in the `Fd`."""

    thread: str
    syscall: str
    fds: tuple[int, ...]
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


# --- files, mounts, environment ---


@dataclass(frozen=True)
class Mount:
    """One mount as the target sees it."""

    path: str
    kind: str | None = None
    source: str | None = None
    options: str | None = None
    device: str | None = None
    """``maj:min``."""
    mnt_namespace: str | None = None
    network: bool | None = None
    """NFS, CIFS, Lustre, FUSE …: it can stop answering."""
    asked: bool = False
    answers: bool | None = None
    """False: statvfs had not returned within the limit."""
    answer_s: float | None = None
    size: int | None = None
    free: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Quota:
    """What one user may store on one file system, where the kernel or the server counts it."""

    uid: int
    path: str
    """Where it is mounted; of a server's answer the file system as the tool prints it."""
    used: int | None = None
    soft: int | None = None
    hard: int | None = None
    """None: no limit."""
    inodes_used: int | None = None
    inodes_soft: int | None = None
    inodes_hard: int | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class File:
    """A path somebody named, looked at as the job's user below the job's root."""

    path: str
    process: str | None = None
    kind: Literal[
        "file", "directory", "fifo", "socket", "device", "link", "lock", "missing", "other", "unknown"
    ] = "unknown"
    """``lock``: a lock file (its name says so)."""
    why_looked: Literal["argument", "environment", "log", "cache", "cwd", "stack", "usual", "unknown"] = "unknown"
    """``usual``: nobody named it, but such jobs use it: /dev/shm, a device, where a variable that is not set points."""
    named_by: str | None = None
    """The variable, the flag or the frame that names it."""
    exists: bool | None = None
    readable: bool | None = None
    writable: bool | None = None
    why_not_writable: Literal["read-only", "mode", "acl", "immutable", "hidden", "other", "unknown"] | None = None
    """Of what is not writable. ``read-only``: the mount; ``mode``, ``acl``: the permission bits, or the list that
    stands for them; ``hidden``: a folder above may not be passed; ``other``: a module of the kernel, or the server."""
    mode: int | None = None
    acl: tuple[str, ...] | None = None
    """Its access list as getfacl prints it: ``user::rw-``, ``user:1000:r--``, ``mask::r--``. (): it has none."""
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    age_s: float | None = None
    """Since the last modification."""
    inode: int | None = None
    device: str | None = None
    on_mount: str | None = None
    holders: tuple[str, ...] | None = None
    """Processes that have it open; () together with Host.processes_fds_unseen == 0 means nobody has."""
    content: str | None = field(default=None, metadata=_cut_at(200))
    """Of small lock files only: the first 200 characters."""
    author_pid: int | None = None
    """Of lock files that name one."""
    author_host: str | None = None
    """The host a lock file names beside the pid."""
    author_alive: bool | None = None
    """None also where the number may be that of a process elsewhere: on another host, in another container."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class EnvVar:
    """One variable of a process, redacted."""

    process: str
    name: str
    value: str | None = None
    from_launcher: Literal["same", "changed", "added", "unknown"] = "unknown"
    """Against the environment of its launcher (the nearest Python or Node.js ancestor, else the parent)."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Package:
    """One distribution on the target's sys.path."""

    process: str
    """The first of the job's processes that see it; others with the same list are not repeated."""
    name: str
    version: str | None = None
    path: str | None = None
    """Its ``.dist-info`` or ``.egg-info``; a file below ``conda-meta`` for what conda alone knows."""
    direct_url: str | None = None
    """Where it was installed from: ``git+https://…@commit``, ``file:///…``; an editable one begins with ``-e ``."""
    broken: tuple[str, ...] = ()
    """What is wrong with it: ``torch/lib/libtorch_cpu.so: missing``, ``….so: 1024 bytes instead of 431``."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Library:
    """One shared library mapped into a process."""

    process: str
    path: str
    package: str | None = None
    soname: str | None = None
    """As the file name tells it."""
    version: str | None = None
    family: str | None = None
    """``OpenMP``, ``cuDNN``, ``NCCL``, ``libstdc++`` …"""
    deleted: bool | None = None
    """Its file was removed or replaced while the process runs."""
    duplicate_of: tuple[str, ...] | None = None
    """Paths of other files in this process of which there should be one only: a second OpenMP, a second libnccl."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Limit:
    """One line of /proc/PID/limits. None: unlimited is `unlimited` True."""

    process: str
    name: str
    """``open files``, ``processes``, ``address space`` … as /proc/PID/limits spells them, lower case, without "Max"."""
    soft: int | None = None
    hard: int | None = None
    unlimited: bool | None = None
    """Of the soft limit."""
    used: int | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Cgroup:
    """The control group a process is in."""

    process: str
    path: str
    version: Literal["1", "2", "unknown"] = "unknown"
    memory_current: int | None = None
    memory_max: int | None = None
    memory_high: int | None = None
    """Above it the group is slowed down, not killed (version 2)."""
    memory_at_max: int | None = None
    """How often its use met the limit."""
    memory_oom_kills: int | None = None
    cpu_quota: float | None = None
    """CPUs the quota allows; None: none set or unknown."""
    cpu_throttled_s: float | None = None
    cpu_throttled_share: float | None = None
    """Of the periods since the group began: in how many it was held back, 0 to 1."""
    pids_current: int | None = None
    pids_max: int | None = None
    frozen: bool | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


# --- accelerators, tools, logs ---


@dataclass(frozen=True)
class Gpu:
    """One accelerator, as its driver tells of it."""

    host: str
    index: int
    """As the vendor's tool counts them; not what CUDA_VISIBLE_DEVICES makes of it."""
    vendor: GpuVendor = "unknown"
    uuid: str | None = None
    name: str | None = None
    bus_id: str | None = None
    """``00000000:3b:00.0``, lower case: what the kernel log names."""
    minor: int | None = None
    """The N of /dev/nvidiaN."""
    memory: int | None = None
    used: int | None = None
    utilisation: float | None = None
    """Percent."""
    temperature: float | None = None
    """Degrees Celsius."""
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    clock: int | None = None
    """Of the multiprocessors, MHz."""
    clock_max: int | None = None
    throttle: tuple[str, ...] | None = None
    """What holds the clock down now: ``power-cap``, ``hw-slowdown``, ``hw-thermal``, ``hw-power-brake``,
    ``sw-thermal``, ``sync-boost``; (): nothing does."""
    compute_mode: Literal["default", "exclusive-process", "exclusive-thread", "prohibited"] | None = None
    mig: bool | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    """Whether it is on."""
    ecc_uncorrected: int | None = None
    """Errors that could not be corrected since the driver was loaded."""
    retired_pages: int | None = None
    remapped_rows: int | None = None
    repair_pending: bool | None = None
    """Pages or rows wait for a reset to be taken out of use."""
    repair_failed: bool | None = None
    lost: bool | None = None
    """It no longer answers on its bus."""
    errors: tuple[str, ...] = ()
    """What the driver complains of, in its words."""
    driver: str | None = None
    cuda: str | None = None
    """The newest CUDA this driver can serve."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class GpuProcess:
    """A process that the driver says uses an accelerator."""

    host: str
    gpu: int
    """Its `Gpu.index`."""
    pid: int
    """As the driver says: in the numbering of the host, also when we are in a container."""
    name: str | None = None
    type: Literal["compute", "graphics", "both", "mps", "unknown"] = "unknown"
    memory: int | None = None
    process: str | None = None
    """Its id, when this pid is one of the job's processes."""
    in_job: bool | None = None
    """None: no process here has this pid, so whose it is cannot be told."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class GpuSample:
    """One look at one accelerator."""

    host: str
    gpu: int
    sample: int
    """The round, as in `ThreadSample`."""
    mono_ns: int
    utilisation: float | None = None
    """Percent of the time in which a kernel ran, over the driver's own last interval (up to one second)."""
    used: int | None = None
    power: float | None = None
    clock: int | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class ResourcePoint:
    """One look at the whole job by `flatline run` or `flatline watch`, in the half hour before the bundle."""

    host: str
    mono_ns: int
    age_s: float | None = None
    """Before the bundle."""
    seconds: float | None = None
    """Since the point before; what follows as a rate or an amount is of this time."""
    processes: int | None = None
    cpu: float | None = None
    """Processors in use: 2.0 is two. None: a process has ended, and what it had used is not known."""
    rss: int | None = None
    read: int | None = None
    """Bytes that read calls have returned, pipes and terminals included."""
    written: int | None = None
    printed: int | None = None
    """Bytes of output that came through `flatline run`."""
    logs: int | None = None
    """Size of the logs that are files, as far as their descriptors tell."""
    gpu: float | None = None
    """Percent, of the busiest of the job's accelerators."""
    gpu_used: int | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class GpuDriver:
    """Whether a vendor's driver and its library work together. No row: nothing of this vendor is here."""

    host: str
    vendor: GpuVendor
    state: Literal[
        "ok", "no-devices", "not-loaded", "library-missing", "version-mismatch", "device-lost", "hangs",
        "no-permission", "error", "unknown",
    ] = "unknown"
    """``hangs``: a tool or the library did not come back, ours or one that was stuck before we came."""
    message: str | None = None
    """In the words of the tool or the library; of a hang, who has hung and for how long."""
    source: str | None = None
    """Who said so: ``nvml``, ``nvidia-smi``, ``proc`` (a tool found stuck) …"""
    module: str | None = None
    """Version of the kernel module that is loaded; it needs no tool to be read."""
    library: str | None = None
    """Version of the library in user space, where it said so."""
    cuda: str | None = None
    devices: tuple[str, ...] | None = None
    """The vendor's nodes in the job's own /dev: ``nvidia0``, ``nvidiactl``."""
    gpus: int | None = None
    """How many accelerators the kernel module has, whether or not the tools answer."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class PciAcs:
    """Access Control Services of one PCI bridge, as they are set (lspci -vvv): what redirects traffic between devices
    through the root breaks direct transfers between GPUs."""

    host: str
    bus_id: str | None = None
    """As `Gpu.bus_id`; None where the text was cut down to the lines of ACS."""
    name: str | None = None
    validates: bool | None = None
    """SrcValid: NCCL's guide takes it as the sign that ACS may be on."""
    redirects: bool | None = None
    """ReqRedir, CmpltRedir or UpstreamFwd: requests, answers or both go up to the root."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class RdmaPort:
    """One port of an InfiniBand or RoCE adapter (ibstat, ibstatus, ibv_devinfo, show_gids, /sys/class/infiniband)."""

    host: str
    device: str
    """``mlx5_0``; ``unknown`` where the text does not name it."""
    port: int = 1
    state: Literal["active", "init", "armed", "down", "unknown"] = "unknown"
    physical: str | None = None
    """``LinkUp``, ``Polling``, ``Disabled`` …, as printed."""
    layer: Literal["infiniband", "ethernet", "unknown"] = "unknown"
    rate: float | None = None
    """Gb/s."""
    firmware: str | None = None
    gids: tuple[str, ...] | None = None
    """``INDEX ADDRESS TYPE``: ``3 ::ffff:192.0.2.65 RoCE v2``."""
    counters: Mapping[str, int] | None = None
    """Those of the hardware, by name: ``local_ack_timeout_err`` …"""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class ToolRun:
    """One run of a host tool (py-spy, nvidia-smi, lsof …)."""

    tool: str
    outcome: Literal["ok", "timeout", "denied", "absent", "error", "flooded", "left-running", "not-started", "unknown"]
    seconds: float | None = None
    stuck_pid: int | None = None
    process: str | None = None
    """The process it was pointed at."""
    sample: int | None = None
    message: str | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Log:
    """One stream of text the job writes, or could have written."""

    stream: Literal["file", "stdout", "stderr", "argument", "unknown"]
    """``argument``: named with --log."""
    kind: FdKind = "unknown"
    path: str | None = None
    """Of a file; else what the descriptor links to."""
    text: str = ""
    """The member that holds its text (logs/…); empty: nothing could be taken (see `kind` and the ledger)."""
    text_first: int | None = None
    text_last: int | None = None
    """Of a text that holds other things as well: the first and the last line that are this log, 1-based."""
    process: str | None = None
    writers: tuple[str, ...] = ()
    readers: tuple[str, ...] | None = None
    """Of a pipe: the processes that hold its reading end."""
    size: int | None = None
    last_write_age_s: float | None = None
    ends_with_newline: bool | None = None
    last_line: str | None = field(default=None, metadata=_cut_at(500))
    """The last non-empty line, at most 500 characters."""
    omitted_bytes: int | None = None
    """Bytes between head and tail that were not taken."""
    inode: int | None = None
    device: str | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class LogLine:
    """One line of a log, with what its prefixes say."""

    log: str
    text: str
    time: str | None = None
    rank: int | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class KernelEvent:
    """One event of the kernel log that can explain a hang."""

    time: str | None = None
    kind: Literal[
        "xid", "oom", "hung-task", "nfs", "segfault", "soft-lockup", "io-error", "gpu-driver", "network", "other"
    ] = "other"
    """``gpu-driver``: what a driver of accelerators complains of without an Xid; ``network``: a card or its link."""
    pid: int | None = None
    device: str | None = None
    name: str | None = None
    """Of the process (comm, at most 15 bytes); of an ``nfs`` event the server."""
    code: int | None = None
    """Of an ``xid``: its number."""
    meaning: str | None = None
    """Of an ``xid`` whose number is known: what it means, in few words."""
    waits_in: str | None = None
    """Of a ``hung-task`` or ``soft-lockup`` with a stack: the part of the kernel it is in, as its functions tell:
    ``nvidia``, ``amdgpu``, ``nfs``, ``lustre``, ``fuse``, ``ceph``, ``gpfs``, ``local-disk``, ``rdma`` …"""
    seconds: float | None = None
    """Of a ``hung-task`` or ``soft-lockup``: for how long, at least."""
    scope: Literal["host", "cgroup", "unknown"] | None = None
    """Of an ``oom``: whether the machine or a control group had no memory left."""
    text: str = field(default="", metadata=_cut_at(500))
    resolved: bool | None = None
    """Of an ``nfs`` event: whether the server answered again later."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class LoggedError:
    """An error that a text tells of. Of a chain of exceptions every one has a row."""

    kind: Literal["exception", "fatal", "timeout", "unknown"] = "unknown"
    """``exception``: Python's, with a traceback. ``fatal``: the interpreter's own word (``Fatal Python error``), a
    signal that it died of. ``timeout``: faulthandler's dump after a wait (``Timeout (0:05:00)!``): nothing ended."""
    type: str | None = None
    """As printed: ``torch.OutOfMemoryError``, ``KeyboardInterrupt``, ``Segmentation fault``."""
    message: str | None = field(default=None, metadata=_cut_at(500))
    process: str | None = None
    thread: str | None = None
    rank: int | None = None
    function: str | None = None
    """Where it was raised: the innermost frame of its traceback."""
    file: str | None = None
    line_no: int | None = None
    """Line in `file` (not the artefact's line)."""
    is_user: bool | None = None
    """Whether that frame is the job's own code; see `Frame.is_user`."""
    handled: bool | None = None
    """True: another one was raised because of it, or while it was handled. The last of a chain is False."""
    is_last: bool | None = None
    """Whether nothing but errors follows in its log. None: unknown."""
    timeout_s: float | None = None
    """Of a ``timeout``: how long was waited before the dump."""
    time: str | None = None
    """As the line's prefix prints it."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


# --- what the job itself told ---


@dataclass(frozen=True)
class Phase:
    """A phase entered, and left when `left` is set."""

    process: str
    name: str
    entered: str | None = None
    left: str | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class RecorderEvent:
    """One event of the in-job recorder; see docs/run.md."""

    process: str
    kind: str
    """What happened (``start``, ``import-enter``, ``thread-exception`` …); or what is so at the look: ``import-open``,
    ``phase-open`` (entered, and not left), ``looked-for`` (the module that was looked for last), ``armed`` (the signal
    on which it prints its stacks)."""
    mono_ns: int | None = None
    text: str = ""
    thread: str | None = None
    age_s: float | None = None
    """Before the look."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Collective:
    """One collective of one process group, as a flight recorder or a watchdog line tells it."""

    process: str | None = None
    rank: int | None = None
    group: str | None = None
    seq: int | None = None
    op: str | None = None
    sizes: tuple[tuple[int, ...], ...] | None = None
    dtype: str | None = None
    state: Literal["scheduled", "started", "completed", "unknown"] = "unknown"
    frame: str | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Scheduler:
    """The batch system or CI the job runs under."""

    kind: Literal["slurm", "kubernetes", "ray", "lsf", "pbs", "github", "gitlab", "jenkins", "other"]
    job: str | None = None
    state: str | None = None
    reason: str | None = None
    process: str | None = None
    """The process whose environment tells it."""
    node: str | None = None
    queue: str | None = None
    """Partition, queue, namespace or pipeline."""
    ends_at: str | None = None
    """When the scheduler will end the job, as it prints it."""
    source: Literal["environment", "tool", "unknown"] = "unknown"
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


# --- derived by the analyzer ---


@dataclass(frozen=True)
class WaitEdge:
    """`waiter` cannot go on before `awaited` does something.

    (The words are not from/to because `from` cannot be a Python field name.)
    Nodes are text with a kind in front: ``thread:h1/12/13``, ``process:h1/12``, ``pipe:h1/771``,
    ``socket:h1/771``, ``lock:h1/8:1:44``, ``file:h1/path``, ``mount:h1/path``, ``terminal:h1/pts/3``,
    ``timer:h1/12/13``, ``futex:h1/12/0x7f…``, ``nobody:``, ``unknown:``.
    """

    waiter: str
    awaited: str
    kind: Literal[
        "pipe-write", "pipe-read", "socket-write", "socket-read", "socket-connect", "socket-accept", "file-lock",
        "lock-file", "child", "futex", "thread-join", "terminal-read", "terminal-write", "stdin-read", "mount",
        "device", "fifo-open", "stopped", "traced", "timer", "poll", "signal", "resource", "worker", "collective",
        "rendezvous", "gil", "unknown",
    ]
    strength: Strength
    owner: Literal["thread", "process", "nobody", "outside", "unknown"] = "unknown"
    """Who can end the wait: a thread or process that is named, nobody, somebody outside the bundle, or unknown."""
    reason: str = ""
    text: str = ""
    """The step as half a sentence: ``waits for the flock on cache.lock, which is held by pid 12``."""
    process: str | None = None
    pid: int | None = None
    rank: int | None = None
    resource: str | None = None
    """The pipe, socket, lock, file, mount or terminal in between, as a person would name it."""
    inside_job: bool | None = None
    """Whether what is awaited belongs to the job's own tree."""
    evidence: tuple[str, ...] = ()
    """``artefact#pointer`` or ``artefact:line`` references."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Chain:
    """One path through the wait graph, from a root thread to its end."""

    id: str
    root: str
    steps: tuple[str, ...]
    """Node ids, root first, end last."""
    end: str
    """Id of the row in `ends`."""
    text: str = ""
    strength: Strength = "suggested"
    """Of its weakest edge."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class End:
    """Where a chain ends."""

    id: str
    chain: str
    kind: Literal["sink", "cycle", "cut", "moving", "none"]
    """sink: the cause is here; cycle: a deadlock; cut: evidence is missing; moving: it advances; none: no wait."""
    node: str
    what: str
    """The kind of the last edge, or the liveness of the last thread."""
    inside_job: bool | None = None
    strength: Strength = "suggested"
    why: str = ""
    process: str | None = None
    thread: str | None = None
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class Rank:
    """One rank of a distributed job."""

    rank: int
    process: str | None = None
    host: str | None = None
    present: bool | None = None
    liveness: Liveness = "unknown"
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


@dataclass(frozen=True)
class MissingFact:
    """A fact that could not be had, and why: the ledger's gaps as rows (table `gaps`)."""

    table: str
    probe: str
    status: Literal["partial", "timeout", "denied", "absent", "error", "skipped"]
    process: str | None = None
    message: str = ""
    hint: str = ""
    """The one line that would get it."""
    artefact: str = ""
    line: int | None = None
    pointer: str | None = None


COLLECTED: Mapping[str, type] = {
    "cgroups": Cgroup,
    "collectives": Collective,
    "env": EnvVar,
    "errors": LoggedError,
    "fds": Fd,
    "files": File,
    "frames": Frame,
    "futexes": Futex,
    "gpu_drivers": GpuDriver,
    "gpu_processes": GpuProcess,
    "gpu_samples": GpuSample,
    "gpus": Gpu,
    "hosts": Host,
    "kernel_events": KernelEvent,
    "libraries": Library,
    "limits": Limit,
    "locks": Lock,
    "log_lines": LogLine,
    "log_samples": LogSample,
    "logs": Log,
    "mounts": Mount,
    "packages": Package,
    "pci_acs": PciAcs,
    "phases": Phase,
    "process_samples": ProcessSample,
    "poll_sets": PollSet,
    "processes": Process,
    "quotas": Quota,
    "rdma_ports": RdmaPort,
    "recorder_events": RecorderEvent,
    "resource_points": ResourcePoint,
    "scheduler": Scheduler,
    "sockets": Socket,
    "thread_samples": ThreadSample,
    "threads": Thread,
    "timeouts": Timeout,
    "tool_runs": ToolRun,
}
"""Tables that probes and parsers fill."""

DERIVED: Mapping[str, type] = {
    "chains": Chain,
    "ends": End,
    "gaps": MissingFact,
    "ranks": Rank,
    "wait_edges": WaitEdge,
}
"""Tables that only the analyzer fills."""

TABLES: Mapping[str, type] = {**COLLECTED, **DERIVED}


def field_names(table: str) -> tuple[str, ...]:
    """Names of a table's fields, in order. KeyError for an unknown table."""
    return tuple(f.name for f in fields(TABLES[table]))
