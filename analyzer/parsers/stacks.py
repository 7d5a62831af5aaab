"""What the parsers of stacks fill: processes, their threads and frames, turned into rows when the block has ended.

A dump may name its process after its threads (gdb prints the main thread last), so ids are made at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from flatline.bundle.facts import NATIVE_SAMPLE, Frame, Process, Thread, process_id, thread_id
from flatline.texts.stack_lines import RawFrame

from .frames import is_user_file
from .interface import HOST, NO_PID, Line

MAX_TID = 2**31
MAX_LOCAL = 300
MAX_WRAPPED = 30
"""Lines that one frame may go on over."""


@dataclass
class FrameText:
    """The frame of a debugger that is being read; the terminal or the paste may have wrapped it into several lines."""

    text: str = ""
    """Empty: there is none."""
    line: int = 0
    joined: int = 0

    def begin(self, text: str, line: Line, *, is_whole: bool = False) -> None:
        """The first line of the next one, or all of it."""
        self.text, self.line, self.joined = text, line.number, MAX_WRAPPED if is_whole else 0

    def join(self, bare: str) -> None:
        """A line further."""
        self.text += f" {bare}"
        self.joined += 1

    @property
    def may_go_on(self) -> bool:
        return bool(self.text) and self.joined < MAX_WRAPPED

    @property
    def is_within_arguments(self) -> bool:
        """Whether a parenthesis is open: the line was cut there."""
        return self.text.count("(") > self.text.count(")")


@dataclass
class StackOfThread:
    """One thread and its frames, innermost first."""

    line: int
    tid: int | None = None
    """The kernel's number."""
    pthread: int | None = None
    name: str | None = None
    is_main: bool = False
    rank: int | None = None
    active: bool | None = None
    owns_gil: bool | None = None
    frames: list[Frame] = field(default_factory=list)
    beside: list[Frame] = field(default_factory=list)
    """The C stack, where the dump prints it apart from Python's."""

    def add(self, raw: RawFrame, line: int, **more: Any) -> None:
        """The next frame outwards. A module of native code makes it a native one; `more` are fields of `Frame`."""
        native = bool(raw.module)
        short = raw.name if native else raw.name.rpartition(".")[2] or raw.name
        row = Frame(
            "", 0, len(self.frames), short, qualname=raw.name if short != raw.name else None,
            file=raw.file or None, line_no=raw.line,
            module=raw.module if native and raw.module != "?" else None, kind="native" if native else "python",
            is_user=not native and is_user_file(raw.file), line=line,
            locals={name: value[:MAX_LOCAL] for name, value in raw.locals} or None,
        )  # fmt: skip
        self.frames.append(replace(row, **more) if more else row)


@dataclass
class StacksOfProcess:
    """One process and its threads."""

    line: int
    pid: int = NO_PID
    rank: int | None = None
    known: dict[str, Any] = field(default_factory=dict)
    """Further fields of `Process`."""
    threads: list[StackOfThread] = field(default_factory=list)
    is_named: bool = False
    """Whether the text has a head for it."""
    _by_tid: dict[int, StackOfThread] = field(default_factory=dict)
    _by_pthread: dict[int, StackOfThread] = field(default_factory=dict)

    def thread(self, line: Line, **known: Any) -> StackOfThread:
        """Begin the next thread."""
        begun = StackOfThread(line.number, rank=line.rank, **known)
        self.threads.append(begun)
        if begun.tid:
            self._by_tid.setdefault(begun.tid, begun)
        if begun.pthread:
            self._by_pthread.setdefault(begun.pthread, begun)
        return begun

    def known_thread(self, tid: int | None, pthread: int | None) -> StackOfThread | None:
        """The thread that began with the kernel's number, else, when there is none, with that of pthreads."""
        return self._by_tid.get(tid) if tid else self._by_pthread.get(pthread) if pthread else None

    def has(self, tid: int | None, pthread: int | None) -> bool:
        """Whether a thread of this number is there already: then another dump begins."""
        return self.known_thread(tid, pthread) is not None


@dataclass
class Stacks:
    """All processes of one block."""

    processes: list[StacksOfProcess] = field(default_factory=list)

    @property
    def last(self) -> StacksOfProcess:
        return self.processes[-1]

    def process(self, line: Line, pid: int = NO_PID, *, is_named: bool = False, **known: Any) -> StacksOfProcess:
        """Begin the next process."""
        self.processes.append(StacksOfProcess(line.number, pid, line.rank, known, is_named=is_named))
        return self.last

    @property
    def has_frames(self) -> bool:
        return any(thread.frames for process in self.processes for thread in process.threads)

    def rows(self) -> tuple[Process | Thread | Frame, ...]:
        """Processes, then threads, then frames."""
        for process in self.processes:
            _find_pid(process)
        threads = [(process, thread, n) for process in self.processes for n, thread in enumerate(process.threads, 1)]
        return (
            *(_process(process) for process in self.processes),
            *(_thread(process, thread, number) for process, thread, number in threads),
            *(frame for process, thread, number in threads for frame in _frames(process, thread, number)),
        )

    def about(self) -> str:
        """``3 threads of pid 12``, ``7 threads of 3 processes``."""
        total = sum(len(process.threads) for process in self.processes)
        pid = self.processes[0].pid if len(self.processes) == 1 else NO_PID
        several = len(self.processes) > 1
        whose = f" of {len(self.processes)} processes" if several else f" of pid {pid}" if pid > NO_PID else ""
        return f"{total} thread{'s' if total != 1 else ''}{whose}"


def _find_pid(process: StacksOfProcess) -> None:
    """The main thread's number is the process's."""
    main = next((thread for thread in process.threads if thread.is_main), None)
    if main is None:
        main = next((thread for thread in process.threads if thread.tid and thread.tid == process.pid), None)
        if main is not None:
            main.is_main = True
    elif process.pid <= NO_PID and main.tid:
        process.pid = main.tid
    elif main.tid is None and not main.pthread and process.pid > NO_PID:
        main.tid = process.pid


def _process(process: StacksOfProcess) -> Process:
    known = {"rank": process.rank, "is_python": True, **process.known}
    return Process(process_id(process.pid, HOST), HOST, process.pid, line=process.line, **known)


def _id(process: StacksOfProcess, thread: StackOfThread, number: int) -> str:
    """`number`: which of its process it is, for one that has none of its own."""
    if thread.tid:
        return thread_id(process.pid, thread.tid, HOST)
    if thread.pthread:
        return f"{process_id(process.pid, HOST)}/pthread-{thread.pthread:#x}"
    return thread_id(process.pid, number, HOST)


def _thread(process: StacksOfProcess, thread: StackOfThread, number: int) -> Thread:
    return Thread(
        _id(process, thread, number), process_id(process.pid, HOST), process.pid,
        thread.tid or thread.pthread or number, name=thread.name,
        is_main=thread.is_main, rank=thread.rank if thread.rank is not None else process.rank, line=thread.line,
    )  # fmt: skip


def _frames(process: StacksOfProcess, thread: StackOfThread, number: int) -> list[Frame]:
    identity = _id(process, thread, number)
    sample = NATIVE_SAMPLE if any(frame.kind == "native" for frame in thread.frames) else 0
    looks = [(sample, frame) for frame in thread.frames] + [(NATIVE_SAMPLE, frame) for frame in thread.beside]
    return [
        replace(frame, thread=identity, sample=sample, active=thread.active, owns_gil=thread.owns_gil,
                thread_name=thread.name, pthread=thread.pthread)
        for sample, frame in looks
    ]  # fmt: skip


def ranked(row: Any, rank: int) -> Any:
    """A process or thread with a rank that its heading tells; one that has a rank keeps it."""
    return replace(row, rank=rank) if isinstance(row, Process | Thread) and row.rank is None else row
