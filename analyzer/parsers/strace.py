"""``strace`` of a process or a tree, with any of -f, -t, -tt, -ttt, -r, -T, -y, -yy, -k.

A thread's last call, when it has not come back, is what it waits in. Of the calls before it the descriptors are
remembered (strace_tasks.py): what was opened, where it was connected to, what an epoll watches; and which path was
asked for again and again in vain. Numbers of which nothing tells whether they are threads or processes are taken for
threads of one process that nothing names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from flatline.bundle.facts import Fd, File, Process, Socket, Thread, process_id, thread_id

from .interface import HOST, LOOKAHEAD, NO_PID, Line, Lines, Parsed, Parser
from .job_control import STOP_NUMBERS
from .prompts import command_before
from .strace_calls import CALLS, PREFIX, Called, called, syscall_of
from .strace_tasks import MOST_ASKED, OPENS, Task, Trace, note

_PREFIX = re.compile(PREFIX)
_ATTACHED = re.compile(
    r"(?:strace: )?Process (?P<pid>\d{1,9}) (?P<what>attached|detached)(?P<threads> with \d{1,6} threads)?"
)
_EVENT = re.compile(
    r"(?:\+\+\+ (?P<ended>exited with \d{1,3}|killed by \w{1,20}.{0,20}) \+\+\+"
    r"|--- (?:SIG\w{1,12}|stopped by SIG\w{1,12}) .{0,400}---)"
)
_STOPS = re.compile(r"--- (?:stopped by )?SIG(?P<name>STOP|TSTP|TTIN|TTOU)\b")
MOST_FIFOS = 64
_DETACHED = re.compile(r"strace: Process \d{1,9} detached$")
"""Printed behind a call that did not return."""
_STACK = re.compile(r" {0,4}> \S{1,400}\(.{0,400}\) \[0x[0-9a-f]{1,16}\]$")
_BROKEN = re.compile(r"(?:strace: )?Process (?P<pid>\d{1,9}) attached$")
_GOES_ON = re.compile(r"=> |, |\)\s{1,60}= ")
_NAMES = "|".join(sorted(CALLS, key=len, reverse=True))


def parse(lines: Lines, start: int) -> Parsed | None:
    """All lines until one that strace did not print."""
    trace, end, calls = _asked_for(lines, start), start, 0
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.bare:
            if index - end > 1:
                break
            continue
        found = _take(trace, line)
        if found is None:
            if calls == 0 or index - end >= LOOKAHEAD or not _is_program_output(lines, index):
                break
            continue
        calls += found
        end = index + 1
    return Parsed(end, tuple(_rows(trace)), about=_about(trace)) if calls else None


def _is_program_output(lines: Lines, index: int) -> bool:
    """Whether a line that is not strace's stands between two that are: the program prints to the same terminal."""
    following = lines[index + 1].bare if index + 1 < len(lines) else ""
    return bool(_BEGINS.match(following)) and _call_in(following) is not None


def _call_in(text: str) -> Called | None:
    prefix = _PREFIX.match(text)
    return called(_DETACHED.sub(" <detached ...>", text[prefix.end() :])) if prefix else None


def _take(trace: Trace, line: Line) -> int | None:
    """How many calls the line tells of; None: it is not strace's."""
    text = line.bare
    if attached := _ATTACHED.match(text):
        if attached["what"] == "attached":
            trace.attached(int(attached["pid"]), with_threads=bool(attached["threads"]))
        return 0
    if _STACK.match(line.text) or text == "<detached ...>":
        return 0
    prefix = _PREFIX.match(text)
    rest = _DETACHED.sub(" <detached ...>", text[prefix.end() :] if prefix else text)
    name = prefix and (prefix["pid"] or prefix["bare_pid"])
    number = int(name) if name else None
    if trace.half is not None and _GOES_ON.match(rest):
        number, rest = trace.half[0], trace.half[1] + rest
    trace.half = None
    if event := _EVENT.match(rest):
        if event["ended"]:
            trace.end(trace.task(number, line))
        elif stop := _STOPS.match(rest):
            trace.task(number, line).stopped = STOP_NUMBERS[stop["name"]]
        return 0
    if broken := _BROKEN.search(rest, max(0, len(rest) - 60)):
        return _broken(trace, number, rest[: broken.start()], int(broken["pid"]), line)
    return _call(trace, number, rest, line)


def _broken(trace: Trace, number: int | None, text: str, born: int, line: Line) -> int | None:
    """A clone that strace broke off to say that the new task is attached: the next line goes on, or its own does."""
    count = _call(trace, number, f"{text} <unfinished ...>", line)
    if count:
        trace.attached(born, with_threads=False)
        trace.half = (number, text)
    return count


def _call(trace: Trace, number: int | None, text: str, line: Line) -> int | None:
    call = called(text)
    if call is None:
        return None
    if "S_IFIFO" in text and (path := call.quoted()) and len(trace.fifos) < MOST_FIFOS:
        trace.fifos.add(path)
    note(trace, trace.task(number, line), call, line)
    return 1


def _asked_for(lines: Lines, start: int) -> Trace:
    """``strace -f -p 12`` in the prompt above says whose threads are traced."""
    asked = command_before(lines, start)
    words = asked.text.split() if asked else []
    pid = re.search(r"(?:-\w*p|--attach=?) ?(\d{1,9})\b", asked.text) if asked and words[:1] == ["strace"] else None
    if pid is None:
        return Trace()
    follows = any(re.fullmatch(r"-[a-zA-Z]*f[a-zA-Z]*|--follow-forks", word) for word in words)
    return Trace(first=int(pid[1]), leader=int(pid[1]) if follows else None)


def _rows(trace: Trace) -> Iterator[Any]:
    told: set[int] = set()
    unknown = sorted(task.tid for task in trace.tasks.values() if not task.known)
    tasks = sorted(trace.tasks.values(), key=lambda t: t.tid != t.pid)
    for task in tasks:
        if task.pid not in told:
            told.add(task.pid)
            stopped = next((t.stopped for t in tasks if t.pid == task.pid and t.stopped), None)
            yield Process(process_id(task.pid, HOST), HOST, task.pid, ppid=task.parent, line=task.line,
                          state="T" if stopped else "unknown", stop_signal=stopped)  # fmt: skip
        is_main = task.tid == task.pid or (not task.known and task.tid == unknown[0] and NO_PID not in trace.tasks)
        yield _thread(task, is_main=is_main)
    yield from _descriptors(tasks)
    for task in trace.tasks.values():
        yield from _missing(task)
        yield from _opening(task, trace.fifos)


def _missing(task: Task) -> Iterator[File]:
    """Paths that it asks for in a loop."""
    counts = Counter(path for path, _ in task.asked if path)
    for path, count in counts.items():
        sleeps = " with sleeps between" if task.slept else ""
        if count >= (MOST_ASKED - 1 if sleeps else MOST_ASKED):
            line = max(number for asked, number in task.asked if asked == path)
            yield File(path, process_id(task.pid, HOST), "missing", "stack", exists=False,
                       named_by=f"{count} calls{sleeps}", line=line)  # fmt: skip


def _opening(task: Task, fifos: Collection[str]) -> Iterator[File]:
    """The path of an open that has not come back."""
    call = task.waits
    path = call.quoted() if call is not None and call.name in OPENS else None
    if path:
        yield File(path, process_id(task.pid, HOST), "fifo" if path in fifos else "unknown", "stack", named_by="open",
                   line=task.last_line)  # fmt: skip


def _thread(task: Task, *, is_main: bool) -> Thread:
    waits = task.waits
    watched = task.open.watched.get(waits.fd, ()) if waits is not None and waits.fd is not None else ()
    path = task.open.files[waits.fd][0] if waits is not None and waits.fd in task.open.files else None
    return Thread(
        thread_id(task.pid, task.tid, HOST), process_id(task.pid, HOST), task.pid, task.tid, is_main=is_main,
        state="T" if task.stopped else "S" if waits else "X" if task.ended else "unknown",
        syscall=syscall_of(waits, path, watched) if waits else None, line=task.last_line or task.line,
    )  # fmt: skip


def _descriptors(tasks: list[Task]) -> Iterator[Fd | Socket]:
    """Of the descriptors that threads wait on: the others say nothing about the wait. Tasks of unknown kind may be of
    several processes: where they disagree on a number, nothing is said of it."""
    found: dict[tuple[str, int], tuple[Fd, Socket | None]] = {}
    disagreed: set[tuple[str, int]] = set()
    for task in tasks:
        for fd, socket in _awaited(task):
            key = (fd.process, fd.fd)
            if key in found and found[key][0].path != fd.path:
                disagreed.add(key)
            found.setdefault(key, (fd, socket))
    told = [one for key, one in found.items() if key not in disagreed]
    yield from (fd for fd, _ in told)
    waited_for = {socket.inode: socket for _, socket in told if socket is not None}
    for socket in (one for task in tasks for one in task.unanswered.values()):
        waited_for.setdefault(socket.inode, socket)
    yield from waited_for.values()


def _awaited(task: Task) -> Iterator[tuple[Fd, Socket | None]]:
    call = task.waits
    if call is None:
        return
    watched = task.open.watched.get(call.fd) if call.fd is not None else None
    for number in dict.fromkeys((*([call.fd] if call.fd is not None else ()), *(watched or call.polled()))):
        if number in task.open.files:
            yield _descriptor(task, number)


def _descriptor(task: Task, number: int) -> tuple[Fd, Socket | None]:
    path, kind, line = task.open.files[number]
    socket = task.open.sockets.get(number)
    named = re.search(r"\[(\d{1,18})\]", path)
    inode = socket.inode if socket else int(named[1]) if named else None
    shown = f"socket to {socket.remote}" if socket and socket.remote else path
    watched = task.open.watched.get(number)
    watches = tuple(watched) if watched is not None and kind == "eventpoll" else None
    return Fd(process_id(task.pid, HOST), number, kind, path=shown, inode=inode, watches=watches, line=line), socket


def _about(trace: Trace) -> str:
    calls = [task.waits.name for task in trace.tasks.values() if task.waits]
    at = f", in {calls[0]}" if len(calls) == 1 else f", {len(calls)} in a call" if calls else ""
    return f"{len(trace.tasks)} thread{'s' if len(trace.tasks) != 1 else ''}{at}"


_BEGINS = re.compile(
    PREFIX.replace("?P<pid>", "?:").replace("?P<bare_pid>", "?:").replace("?P<time>", "?:")
    + rf"(?:(?:{_NAMES})\(|<\.\.\. \w{{1,30}} resumed>|\+\+\+ (?:exited with|killed by) )"
    + r"|strace: Process \d{1,9} (?:attached|detached)|Process \d{1,9} attached(?: with \d| - interrupt)"
)
PARSERS = (Parser("strace", _BEGINS, parse, is_log=True),)
