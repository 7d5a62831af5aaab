"""The kernel's log as dmesg (also -T, -x, --time-format=iso), journalctl -k, /var/log/messages or /dev/kmsg give it.

A task that the kernel calls hung is one in state D, with the kernel's stack below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatline.bundle.facts import KERNEL_SAMPLE, Frame, KernelEvent, Process, Thread, process_id, thread_id
from flatline.texts.kernel_events import MOST_FRAMES, KernelLog, is_event
from flatline.texts.kernel_lines import Head, head_of
from flatline.texts.kernel_stacks import KernelFrame, frame_of, is_frame

from .interface import HOST, LOOKAHEAD, Line, Lines, Parsed, Parser

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DATE = rf"(?:{_MONTH} {{1,2}}\d{{1,2}} (?:\d{{4}} )?\d\d:\d\d:\d\d|\d{{4}}-\d\d-\d\dT\S{{8,24}})"
_SYSTEM_LOG = rf"{_DATE} [\w.⟪·⟫-]{{1,255}}"
_UNMISTAKABLE = (
    r"(?:Lustre(?:Error)?: \d"
    r"|NVRM: |INFO: task .{1,16}:\d{1,9} blocked |(?:Memory cgroup out|Out) of memory: Kill|oom-kill:constraint="
    r"|.{1,16} invoked oom-killer: |(?:nfs\d?|lockd): server \S{1,255} (?:not responding|OK)"
    r"|rcu: INFO: rcu|BUG: (?:unable to handle|kernel NULL)|CIFS:? VFS: |(?:lib)?ceph: (?:mds|osd|mon)\d"
    r"|habanalabs [0-9a-f]{4}:"
    r"|(?:watchdog: )?BUG: soft lockup - |\S{1,16}\[\d{1,9}\]: segfault at |traps: \S{1,16}\[\d{1,9}\] "
    r"|(?:Buffer )?I/O error,? (?:on )?dev |amdgpu [0-9a-f]{4}:|mlx5_core [0-9a-f]{4}:|task:\S{1,16}\s+state:[A-Z] )"
)
"""Messages that nobody but the kernel writes, whatever stands before them."""
_MESSAGE = re.compile(_UNMISTAKABLE)
_TIME = r"\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
_TYPED_STAMP = (
    r"(?:<\d{1,3}>)?[\[(]? {0,12}(?:\d{1,12}(?:[.,]\d{1,9})?"
    rf"|(?:\w{{2,4}} )?{_MONTH} {{0,2}}\d{{1,2}} (?:\d{{4}} )?{_TIME}(?: \d{{4}})?"
    rf"|(?:\d{{4}}-\d\d-\d\d[T ])?{_TIME}(?:Z|[+-]\d\d:?\d\d)?) ?[\])]?:? {{1,4}}"
)
_TYPED = re.compile(rf"(?:{_TYPED_STAMP}(?:[\w.-]{{1,255}} )?)?(?:(?:kern(?:el)?|dmesg): ?)?(?={_UNMISTAKABLE})")
"""What people leave of a stamp who type a line into a ticket, or cut its columns: ``[812345.118]``, ``02:14:07``."""
_BEGINS = re.compile(
    r"(?:<\d{1,3}>)?\[ {0,12}\+?\d{1,12}\.\d{6}\](?:\[ {0,12}[TC]\d{1,9}\])? ?\S"
    rf"|\[\w{{2,4}} {_MONTH} [ \d]\d \d\d:\d\d:\d\d \d{{4}}\] \S"
    r"|\d{1,4},\d{1,20},\d{1,20},[-c+](?:,[\w=]{1,40})?;"
    r"|(?:kern|user|daemon|syslog|auth)\s{0,4}:(?:emerg|alert|crit|err|warn|notice|info|debug)\s{0,3}:\s"
    r"|kernel(?:\[\d{1,7}\])?: ?(?:\[ {0,12}\d{1,12}\.\d{1,9}\]|NMI |watchdog: |BUG: |INFO: |mce: )"
    rf"|{_SYSTEM_LOG} kernel(?:\[\d{{1,7}}\])?: "
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d \S"
    rf"|{_TYPED.pattern}"
)
_CHATTER = re.compile(
    r'(?:Not t|T)ainted|"echo 0 > /proc/sys|task:\S{1,16}\s+state:|\S{1,16}\s+D[ \d]|Call [Tt]race:|</?TASK>|'
    r"RIP: |RSP: |RAX: |RDX: |RBP: |R10: |R13: |Code: |CPU: |CR2: |FS: |Hardware name: |Modules linked in|Workqueue: |"
    r"Killed process |\[ *(?:pid|\d{1,9})\s?\]|Mem-Info:|memory: usage|Tasks state|oom_reaper: |\S{1,16} invoked oom|"
    r"Memory cgroup|Task in /|\S{1,60} cpuset=|(?:[0-9a-f]{16} ){2,3}[0-9a-f]{16}$"
)
"""What the kernel prints around such lines, where no stamp marks them as its own."""
_DUMP = re.compile(r"task:(?P<name>\S.{0,15}?)\s+state:D\s.*?\bpid:\s*(?P<pid>\d{1,9})")
_SYSLOG = re.compile(rf"{_SYSTEM_LOG} \S{{1,80}}: ")


def parse(lines: Lines, start: int) -> Parsed | None:
    """All lines until one that is not the kernel's; the system log's other programs may stand between."""
    log, dumped = KernelLog(), Dumped()
    end = start
    if not _is_own(head_of(_text_of(lines[start]))):
        return None
    for index in range(start, len(lines)):
        line, text = lines[index], _text_of(lines[index])
        head = head_of(text)
        if _is_own(head) or (index == end and _goes_on(text, head)):
            log.take(line.number, text)
            dumped.take(line.number, head.message)
            end = index + 1
        elif (line.bare and not _SYSLOG.match(line.bare)) or index - end > LOOKAHEAD:
            break
    return Parsed(end, (*log.events, *_tasks(log), *dumped.rows(log)), about=_about(end - start, log))


def _text_of(line: Line) -> str:
    """The line; without a stamp of which not enough is left to be read as the kernel's."""
    head = head_of(line.text)
    typed = None if head.is_kernel or _MESSAGE.match(head.message) else _TYPED.match(line.text)
    return line.text[typed.end() :] if typed else line.text


class Dumped:
    """Tasks in state D whose stack the kernel prints, where the line that says for how long is not in the text."""

    def __init__(self) -> None:
        self.tasks: list[tuple[KernelEvent, list[KernelFrame]]] = []

    def take(self, number: int, message: str) -> None:
        """The next line of the kernel's."""
        begun = _DUMP.match(message)
        if begun:
            event = KernelEvent("other", pid=int(begun["pid"]), name=begun["name"], text=message, line=number)
            self.tasks.append((event, []))
        elif self.tasks and is_frame(message) and (frame := frame_of(message)) and len(self.tasks[-1][1]) < MOST_FRAMES:
            self.tasks[-1][1].append(frame)

    def rows(self, log: KernelLog) -> Iterator[Process | Thread | Frame]:
        told = {event.pid for event in log.events if event.kind == "hung-task"}
        last = {event.pid: (event, stack) for event, stack in self.tasks if event.pid not in told}
        for event, stack in last.values():
            yield from _task(event, stack)


def _is_own(head: Head) -> bool:
    return head.is_kernel or is_event(head) or bool(_CHATTER.match(head.message.strip()) and head.iso is None)


def _goes_on(text: str, head: Head) -> bool:
    """A line of a stack, or the second line of a message that has several."""
    return is_frame(head.message) or text.startswith("        ")


def _tasks(log: KernelLog) -> Iterator[Process | Thread | Frame]:
    """The last that the log says of every task that hung."""
    last = {event.pid: index for index, event in enumerate(log.events) if event.kind == "hung-task" and event.pid}
    for index in last.values():
        yield from _task(log.events[index], log.stacks.get(index, []))


def _task(event: KernelEvent, stack: list[KernelFrame]) -> Iterator[Process | Thread | Frame]:
    pid = event.pid or 0
    process, thread = process_id(pid, HOST), thread_id(pid, pid, HOST)
    yield Process(process, HOST, pid, name=event.name, state="D", line=event.line)
    yield Thread(thread, process, pid, pid, name=event.name, is_main=True, state="D", line=event.line)
    for depth, frame in enumerate(stack):
        yield Frame(thread, KERNEL_SAMPLE, depth, frame.function, module=frame.module, kind="kernel", is_user=False,
                    line=event.line)  # fmt: skip


def _about(count: int, log: KernelLog) -> str:
    return f"{count} lines, {len(log.events)} events" if log.events else f"{count} lines"


PARSERS = (Parser("kernel-log", _BEGINS, parse, is_log=True),)
