"""The tasks of a trace, and what strace has told of each: its last call, its descriptors, what it asked for in vain.

With -f a number is that of a thread or of a process. Which, say the flags of the clone that made it, strace's own words
when it attaches, and calls that only the one or the other makes; else its kind is unknown.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from flatline.bundle.facts import FdKind, Socket
from flatline.texts.descriptor_links import kind_of_printed

from .interface import NO_PID, Line
from .strace_calls import Called

Family = Literal["unix", "inet", "inet6"]
MOST_ASKED = 3
"""From here on a path that is not there is asked for in a loop."""
MAX_DESCRIPTORS, MAX_EPOLLS = 1024, 16
"""Of one process: a fork copies them."""
_LATELY = 32
"""Calls among which they must be."""
_ASKS = frozenset(
    {"open", "openat", "openat2", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"}
)
OPENS = frozenset({"open", "openat", "openat2", "creat"})
POLLING = frozenset({"poll", "ppoll", "select", "_newselect", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"})
NO_ANSWER = frozenset({"ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"})
_MAKES: Mapping[str, tuple[str, FdKind]] = {
    "socket": ("socket", "socket"), "eventfd": ("anon_inode:[eventfd]", "eventfd"),
    "eventfd2": ("anon_inode:[eventfd]", "eventfd"), "epoll_create": ("anon_inode:[eventpoll]", "eventpoll"),
    "epoll_create1": ("anon_inode:[eventpoll]", "eventpoll"), "timerfd_create": ("anon_inode:[timerfd]", "timerfd"),
    "signalfd": ("anon_inode:[signalfd]", "signalfd"), "signalfd4": ("anon_inode:[signalfd]", "signalfd"),
    "inotify_init": ("anon_inode:inotify", "inotify"), "inotify_init1": ("anon_inode:inotify", "inotify"),
    "pidfd_open": ("anon_inode:[pidfd]", "pidfd"), "memfd_create": ("memfd", "memfd"),
}  # fmt: skip
"""Calls whose result is a descriptor of one kind."""
_ADDRESS = re.compile(
    r"sa_family=AF_(?P<family>INET6?|UNIX|LOCAL)(?:, sun_path=@?\"(?P<path>[^\"]{0,200})\")?"
    r"(?:, sin6?_port=htons\((?P<port>\d{1,5})\))?"
    r"(?:.{0,40}inet_addr\(\"(?P<v4>[\d.]{7,15})\"\)|.{0,80}inet_pton\(AF_INET6, \"(?P<v6>[\da-fA-F:.]{2,45})\")?"
)
_NAMED = re.compile(
    r"(?P<family>TCP|UDP)(?:v6)?:\[(?P<local>[^\s>]{3,80}:\d{1,5})(?:->(?P<remote>[^\s>]{3,80}:\d{1,5}))?\]$"
)
"""A socket as -yy prints it: ``TCP:[10.0.0.1:4242->10.0.0.2:443]``."""


@dataclass
class Descriptors:
    """What the descriptors of one process are, as far as the trace tells."""

    files: dict[int, tuple[str, FdKind, int]] = field(default_factory=dict)
    """Descriptor -> what it is, its kind, the line that told it."""
    sockets: dict[int, Socket] = field(default_factory=dict)
    watched: dict[int, dict[int, None]] = field(default_factory=dict)
    """Of an epoll: what was added to it, and not taken away."""

    def name(self, fd: int, what: str, kind: FdKind, line: int) -> None:
        """Remember it; a program that opens more than any job does gets no further."""
        if len(self.files) < MAX_DESCRIPTORS or fd in self.files:
            self.files[fd] = (what, kind, line)

    def connect(self, fd: int, socket: Socket) -> None:
        """What kind of socket it is, and to whom."""
        if fd in self.files:
            self.sockets[fd] = socket

    def copied(self) -> Descriptors:
        """Those of a child that was forked."""
        return Descriptors({**self.files}, {**self.sockets}, {fd: {**added} for fd, added in self.watched.items()})

    def forget(self, fd: int) -> None:
        for table in (self.files, self.sockets, self.watched, *self.watched.values()):
            table.pop(fd, None)


@dataclass
class Task:
    """One thread of the trace."""

    pid: int
    tid: int
    line: int
    parent: int | None = None
    """The pid of the process that forked it, where the trace shows that."""
    known: bool = True
    """Whether it is told which process it is of."""
    last: Called | None = None
    last_line: int = 0
    ended: bool = False
    stopped: int | None = None
    """The signal that has stopped it, when no call followed."""
    slept: bool = False
    """Whether a call of its last ones was a sleep that ended."""
    open: Descriptors = field(default_factory=Descriptors)
    unanswered: dict[str, Socket] = field(default_factory=dict)
    """Peers whose answer to a connect it has waited for in vain, since one last answered."""
    asked: deque[tuple[str, int]] = field(default_factory=lambda: deque(maxlen=_LATELY))
    """Of its last calls those that asked for a path that is not there: the path and the line; ("", 0) for others."""

    @property
    def waits(self) -> Called | None:
        """Its last call, when that has not come back."""
        return self.last if self.last is not None and self.last.result is None and not self.ended else None


@dataclass
class Trace:
    """All of them."""

    tasks: dict[int, Task] = field(default_factory=dict)
    leader: int | None = None
    """Of ``strace -f -p``: the process whose threads it attached to."""
    first: int | None = None
    """Whose the lines without a number are, where strace says which process it attached to."""
    alone: int | None = None
    """Whose the lines without a number were before there was a second task, and are when the others have ended."""
    fifos: set[str] = field(default_factory=set)
    """Paths that a call of stat or mknod showed to be named pipes."""
    living: dict[int, None] = field(default_factory=dict)
    """Tasks that have not ended."""
    half: tuple[int | None, str] | None = None
    """The line that strace broke off to say that the new task is attached: its number, its text."""
    born: set[int] = field(default_factory=set)
    """Tasks that began while they were traced: somebody's clone tells what they are, if it is shown."""

    def task(self, number: int | None, line: Line) -> Task:
        """The one that a line is about."""
        tid = number if number is not None else self.leader or self.first or self._only()
        if tid not in self.tasks:
            self.tasks[tid] = self._begun(tid, line) if number is not None else Task(tid, tid, line.number)
            self.living[tid] = None
        return self.tasks[tid]

    def end(self, task: Task) -> None:
        """It has exited or was killed."""
        task.ended = True
        self.living.pop(task.tid, None)

    def _only(self) -> int:
        """The one task that is left, of which strace prints no number."""
        if self.alone is None or self.alone in self.living or len(self.living) != 1:
            return self.alone or NO_PID
        return next(iter(self.living))

    def _begun(self, tid: int, line: Line) -> Task:
        if self.leader is not None and tid not in self.born:
            return Task(self.leader, tid, line.number)
        alone = self.tasks.get(NO_PID)
        if alone is not None and tid not in self.born and alone.known:
            # so far it had no number: strace prints them from the second task on
            del self.tasks[NO_PID]
            self.living.pop(NO_PID, None)
            for task in self.tasks.values():
                task.pid = tid if task.pid == NO_PID and task.known else task.pid
            alone.pid = alone.tid = self.alone = tid
            return alone
        if tid == self.first:
            return Task(tid, tid, line.number)
        return Task(NO_PID, tid, line.number, known=False)

    def attached(self, pid: int, *, with_threads: bool) -> None:
        """``strace: Process 12 attached``: the first names the process, a later one a task that has just begun."""
        if self.first is None and not self.tasks:
            self.first = pid
            self.leader = pid if with_threads else None
        elif pid not in self.tasks and self.tasks:
            self.born.add(pid)

    def is_process(self, number: int) -> None:
        """A call treats this number as that of a process."""
        task = self.tasks.get(number)
        if task is not None and not task.known:
            task.pid, task.known = number, True

    def is_thread(self, number: int, of: int) -> None:
        """A call treats this number as that of a thread of that process."""
        task = self.tasks.get(number)
        if task is not None and not task.known and of in self.tasks:
            task.pid, task.known = of, True
            self.is_process(of)


def note(trace: Trace, task: Task, call: Called, line: Line) -> None:
    """Remember what a call tells."""
    if call.resumed and task.last is not None and task.last.name == call.name and task.last.result is None:
        paths = {**task.last.path_of, **call.path_of}
        call = replace(call, arguments=(*task.last.arguments, *call.arguments), resumed=False, path_of=paths)
    task.last, task.last_line = call, line.number
    for fd, path in {**call.path_of, **{fd: path for fd, path in call.polled().items() if path}}.items():
        _named(task, fd, path, line)
    if call.name == "connect":
        _connected(task, call, line)
    if call.result is not None:
        _awaits_answer(task, call)
        _remember(trace, task, call, line)


def _awaits_answer(task: Task, call: Called) -> None:
    """A connect that does not wait (EINPROGRESS), and what the polls behind it bring: an answer, or their time-out."""
    if call.name == "connect" and call.error in NO_ANSWER and (at := _address(call.argument(1))):
        task.unanswered[at[1]] = Socket(-task.last_line, at[0], "stream", state="SYN_SENT", remote=at[1],
                                        line=task.last_line)  # fmt: skip
    elif call.name == "getsockopt" and "SO_ERROR" in call.arguments and (socket := _asked_for(task, call.fd)):
        _answered(task, socket, failed=call.argument(3) in ("[110]", "[113]"))
    elif call.name in POLLING:
        watched = call.polled() or task.open.watched.get(-1 if call.fd is None else call.fd, {})
        for socket in filter(None, (_asked_for(task, fd) for fd in watched)):
            if call.result == "0":
                _answered(task, socket, failed=True)
            elif len(watched) == 1:
                _answered(task, socket, failed=call.result == "-1")


def _asked_for(task: Task, fd: int | None) -> Socket | None:
    """The connection that a descriptor was to become, of which nothing is known yet; a question to a name server."""
    socket = task.open.sockets.get(fd) if fd is not None else None
    if socket is None or socket.family == "unix" or not socket.remote:
        return None
    return replace(socket, state="SYN_SENT") if socket.state == "SYN_SENT" or socket.remote.endswith(":53") else None


def _answered(task: Task, socket: Socket, *, failed: bool) -> None:
    """When one answers, those that were asked before it do not matter any more: it is the second address of a name."""
    if not failed:
        task.unanswered.clear()
    elif socket.remote and len(task.unanswered) < MAX_EPOLLS:
        task.unanswered[socket.remote] = socket


def _named(task: Task, fd: int, path: str, line: Line) -> None:
    """What -y and -yy print of a descriptor."""
    task.open.name(fd, path, kind_of(path), line.number)
    found = _NAMED.match(path)
    if found is not None:
        state = "ESTABLISHED" if found["remote"] and found["family"] == "TCP" else None
        task.open.connect(fd, Socket(
            -line.number, "inet6" if "v6:" in path[:6] else "inet", "stream" if found["family"] == "TCP" else "dgram",
            state=state, local=found["local"], remote=found["remote"], line=line.number,
        ))  # fmt: skip


def _remember(trace: Trace, task: Task, call: Called, line: Line) -> None:
    path, result = call.quoted(), call.result or ""
    number = int(result) if re.fullmatch(r"\d{1,9}", result) else None
    task.stopped = None
    task.slept |= call.sleeps and call.result is not None
    task.asked.append((path, line.number) if call.name in _ASKS and path and call.error == "ENOENT" else ("", 0))
    if number is None:
        return
    files = task.open.files
    if call.name in OPENS and path:
        task.open.name(number, path, kind_of(path), line.number)
    elif call.name in _MAKES:
        task.open.forget(number)
        task.open.name(number, *_MAKES[call.name], line.number)
    elif call.name in ("accept", "accept4"):
        _accepted(task, call, number, line)
    elif call.name in ("dup", "dup2", "dup3", "fcntl") and call.fd in files:
        if call.name != "fcntl" or "F_DUPFD" in call.argument(1):
            task.open.name(number, *files[call.fd])
            if call.fd in task.open.sockets:
                task.open.connect(number, task.open.sockets[call.fd])
    elif call.name in ("close", "epoll_ctl", "bind", "listen"):
        _changed(task, call, line)
    elif call.name in ("pipe", "pipe2", "socketpair"):
        kind: FdKind = "socket" if call.name == "socketpair" else "pipe"
        text = call.argument(3 if call.name == "socketpair" else 0)
        for fd in re.findall(r"(?<![\d<:\[])\d{1,9}(?![\d\]>])", text.strip("[]")):
            task.open.name(int(fd), kind, kind, line.number)
    elif call.name in ("clone", "clone3", "fork", "vfork") and number:
        _born(trace, task, call, number, line)
    else:
        _tells_kind(trace, task, call, number)


def _changed(task: Task, call: Called, line: Line) -> None:
    fd, table = call.fd, task.open
    if fd is None:
        return
    if call.name == "close":
        table.forget(fd)
    elif call.name == "epoll_ctl":
        other = re.match(r"\d{1,9}", call.argument(2))
        watched = table.watched.setdefault(fd, {}) if len(table.watched) < MAX_EPOLLS else table.watched.get(fd, {})
        if other and "DEL" in call.argument(1):
            watched.pop(int(other[0]), None)
        elif other and len(watched) < MAX_DESCRIPTORS:
            watched[int(other[0])] = None
    elif call.name == "bind" and (at := _address(call.argument(1))):
        table.name(fd, "socket", "socket", line.number)
        table.connect(fd, Socket(-line.number, at[0], "stream", local=at[1], line=line.number))
    elif call.name == "listen" and fd in table.sockets:
        table.sockets[fd] = replace(table.sockets[fd], state="LISTEN")


def _born(trace: Trace, task: Task, call: Called, number: int, line: Line) -> None:
    """A task that another one has made. Of half a line the flags may be lost: then its kind is unknown."""
    flags = " ".join(call.arguments)
    told = call.name in ("fork", "vfork") or "CLONE_" in flags or "flags=" in flags
    shares = "CLONE_THREAD" in flags
    child = trace.tasks.get(number) or Task(NO_PID, number, line.number, known=False)
    if told:
        child.pid = task.pid if shares else number
        child.known = task.known or not shares
        child.parent = task.pid if task.known and not shares else None
        child.open = task.open if shares or "CLONE_FILES" in flags else _inherited(task, child)
    trace.tasks[number] = child
    trace.living.update({} if child.ended else {number: None})
    trace.born.add(number)


def _inherited(task: Task, child: Task) -> Descriptors:
    """What it was born with, and what it told since: its first lines may stand before the clone's end."""
    own, copy = child.open, task.open.copied()
    copy.files.update(own.files)
    copy.sockets.update(own.sockets)
    copy.watched.update(own.watched)
    return copy


def _tells_kind(trace: Trace, task: Task, call: Called, number: int) -> None:
    """Calls that only a process's first thread makes, or that name another task as a process or a thread."""
    if call.name == "execve" or (call.name == "getpid" and number == task.tid):
        trace.is_process(task.tid)
    elif call.name in ("wait4", "waitpid") and number:
        trace.is_process(number)
    elif call.name == "tgkill" and all(re.fullmatch(r"[1-9]\d{0,8}", call.argument(n)) for n in (0, 1)):
        trace.is_thread(int(call.argument(1)), of=int(call.argument(0)))


def _connected(task: Task, call: Called, line: Line) -> None:
    at, fd = _address(call.argument(1)), call.fd
    state = (
        "SYN_SENT"
        if call.result is None or call.error == "EINPROGRESS"
        else "ESTABLISHED"
        if call.result == "0"
        else None
    )
    if state is None or at is None or fd is None:
        return
    task.open.name(fd, "socket", "socket", line.number)
    socket = Socket(-line.number, at[0], "stream", state=state, remote=at[1], line=line.number)
    task.open.connect(fd, socket)


def _accepted(task: Task, call: Called, number: int, line: Line) -> None:
    task.open.name(number, "socket", "socket", line.number)
    if at := _address(call.argument(1)):
        task.open.connect(
            number, Socket(-line.number, at[0], "stream", state="ESTABLISHED", remote=at[1], line=line.number)
        )


def _address(text: str) -> tuple[Family, str] | None:
    """Its family, and ``10.0.0.2:443``, ``[::1]:22`` or a path."""
    found = _ADDRESS.search(text)
    if found is None:
        return None
    if found["family"] in ("UNIX", "LOCAL"):
        return ("unix", found["path"]) if found["path"] else None
    if found["v6"]:
        return "inet6", f"[{found['v6']}]:{found['port']}"
    return ("inet", f"{found['v4']}:{found['port']}") if found["v4"] else None


def kind_of(path: str) -> FdKind:
    """Of a descriptor, by what the kernel or strace calls it."""
    if path.startswith(("socket", "TCP", "UDP", "UNIX")):
        return "socket"
    if path.startswith("pipe"):
        return "pipe"
    return kind_of_printed(path) if path.startswith(("/", "anon_inode:")) else "file"
