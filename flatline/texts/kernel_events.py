"""What the lines of the kernel's log say about a hang.

The lines are those of mm/oom_kill.c, kernel/hung_task.c, kernel/watchdog.c, net/sunrpc/clnt.c, arch/*/mm/fault.c,
block/blk-core.c, the drivers of NVIDIA, AMD and Mellanox, and NVIDIA's list of Xid errors. Pids in it are those of the
host's first namespace: from a container they name nobody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from flatline.bundle.facts import READ_AHEAD, KernelEvent
from flatline.visible import visible

from .kernel_lines import Head, head_of
from .kernel_patterns import ANSWERS, PATTERNS, XIDS, Kind
from .kernel_stacks import KernelFrame, frame_of, is_frame, waits_in

MOST_LINE = 8192
MOST_FRAMES = 64
_DUMP = re.compile(
    r"task:(?P<name>.{1,16}?)\s+state:(?P<state>\w)\s.*?\bpid:\s*(?P<pid>\d{1,9})|Call [Tt]race:|</?TASK>"
)
_STACKED = frozenset({"hung-task", "soft-lockup"})


def events(text: str, *, boot_s: float | None = None) -> list[KernelEvent]:
    """What can explain a hang, in the order of the log; `line` counts the text's own lines from 1.

    `boot_s` is what a stamp counts from, in seconds since 1970; without it a bare stamp is no time.
    """
    log = KernelLog(boot_s)
    for number, line in enumerate(text.split("\n"), 1):
        log.take(number, line)
    return log.events


@dataclass
class KernelLog:
    """A log as far as it was read."""

    boot_s: float | None = None
    events: list[KernelEvent] = field(default_factory=list)
    stacks: dict[int, list[KernelFrame]] = field(default_factory=dict)
    """By the index of the event: the stack of the task that it is about, innermost first."""
    _open: int | None = None
    """The event whose stack follows."""
    _silent: dict[str, list[int]] = field(default_factory=dict)
    """By the server: the events of which it has not answered yet."""

    def take(self, number: int, line: str) -> None:
        """The next line."""
        head = head_of(line[:MOST_LINE])
        if self._is_of_stack(head.message):
            return
        event = _event(head.message)
        if event is not None:
            self._add(replace(event, time=head.utc(self.boot_s), line=number))
        elif " OK" in head.message or "restored" in head.message:
            self._answered(head.message)

    def _add(self, event: KernelEvent) -> None:
        last = self.events[-1] if self.events else None
        if event.kind == "oom" and last is not None and last.kind == "oom" and last.pid in (None, event.pid):
            scope = "cgroup" if "cgroup" in (last.scope, event.scope) else event.scope
            self.events[-1] = replace(event, scope=scope)  # the kernel tells one kill in several lines
            return
        self.events.append(event)
        self._open = len(self.events) - 1 if event.kind in _STACKED else None
        if event.resolved is False and event.name is not None:
            self._silent.setdefault(event.name, []).append(len(self.events) - 1)

    def _answered(self, message: str) -> None:
        """An answer of a server ends all its silences before."""
        server = _answers(message)
        for index in self._silent.pop(server, ()) if server is not None else ():
            self.events[index] = replace(self.events[index], resolved=True)

    def _is_of_stack(self, message: str) -> bool:
        """Whether the line belongs to the stack of the last event; then it is in it."""
        if self._open is None or not is_frame(message):
            dump = _DUMP.match(message) if self._open is not None else None
            if dump and dump["pid"] and int(dump["pid"]) != self.events[self._open or 0].pid:
                self._open = None  # the stack of another task follows
            return False
        frames = self.stacks.setdefault(self._open, [])
        frame = frame_of(message)
        if frame is not None and len(frames) < MOST_FRAMES:
            frames.append(frame)
            part = waits_in(frames[-1:])
            event = self.events[self._open]
            if part and event.waits_in is None:
                self.events[self._open] = replace(event, waits_in=part)
        return True


def is_event(head: Head) -> bool:
    """Whether the message itself is one that is known."""
    return _event(head.message) is not None or _answers(head.message) is not None


def _event(message: str) -> KernelEvent | None:
    for pattern in PATTERNS:
        found = pattern.expression.search(message) if pattern.mark in message else None
        if found:
            return _made(pattern.kind, found.groupdict(), message)
    return None


def _made(kind: Kind, groups: Mapping[str, str | None], message: str) -> KernelEvent:
    pid, code, name = groups.get("pid"), groups.get("code"), groups.get("name")
    number = int(code) if code else 79 if "fallen off the bus" in message else None
    seconds = groups.get("seconds")
    return KernelEvent(
        kind=kind,
        pid=int(pid) if pid else None,
        device=groups.get("device"),
        name=visible(name) if name else None,
        code=number,
        meaning=XIDS.get(number) if kind == "xid" and number else None,
        seconds=float(seconds) if seconds else None,
        scope=_scope(groups, message) if kind == "oom" else None,
        text=visible(message[:READ_AHEAD]),
        resolved=False if kind == "nfs" or "was lost" in message else None,
    )


def _scope(groups: Mapping[str, str | None], message: str) -> Literal["host", "cgroup", "unknown"]:
    if groups.get("cgroup") or groups.get("constraint") == "CONSTRAINT_MEMCG":
        return "cgroup"
    return "unknown" if groups.get("asked") else "host"


def _answers(message: str) -> str | None:
    """The server that answers again."""
    answers = (expression.search(message) for expression in ANSWERS)
    return next((visible(answer["name"]) for answer in answers if answer), None)
