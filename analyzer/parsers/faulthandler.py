"""What Python's faulthandler prints: after a wait (``Timeout (0:05:00)!``), on a signal, when the interpreter dies.

    Fatal Python error: Segmentation fault

    Current thread 0x00007f10b4f68b80 [python] (most recent call first):
      File "/job/train.py", line 4 in step

Threads go by their pthread; no process is named. From 3.14 on the C stack of the current thread may follow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from flatline.bundle.facts import Frame, LoggedError, process_id
from flatline.texts.stack_lines import faulthandler_frame, faulthandler_head, short_name

from .interface import HOST, NO_PID, Line, Lines, Parsed, Parser
from .stacks import StackOfThread, Stacks
from .streams import follow

_TIMEOUT = re.compile(
    r"Timeout \((?:(?P<days>\d{1,6}) days?, )?(?P<h>\d{1,9}):(?P<m>\d\d):(?P<s>\d\d(?:\.\d{1,9})?)\)!$"
)
_FATAL = re.compile(r"Fatal Python error: (?P<what>.{1,2000})$")
_WINDOWS = re.compile(r"Windows fatal exception: (?P<what>.{1,200})$")
_THREAD = r"(?:Current thread|Thread) 0x[0-9a-fA-F]{1,16}(?: \[[^\n]{0,100}\])? \(most recent call first\)"
_HEADLESS = r'File (?:"[^"\n]{0,4096}"|\?\?\?), line (?:\d{1,9}|\?\?\?) in \S'
_BEGINS = re.compile(f"{_THREAD}|{_HEADLESS}|Timeout \\(\\d|Fatal Python error: |Windows fatal exception: ")
_C_STACK = re.compile(r"Current thread's C stack trace \(most recent call first\):$")
_C_FRAME = re.compile(
    r'Binary file "(?P<module>[^"\n]{0,4096})",? (?:at )?(?P<name>[^+\n]{0,1000}?)(?:\+0x[0-9a-fA-F]{1,16})?'
    r" ?\[(?P<address>0x[0-9a-fA-F]{1,16})\]$"
)
_ASIDE = re.compile(
    r"Python runtime state: \w|<no Python frame>|<tstate is |<invalid frame>|<truncated rest of |<freed |"
    r"<Cannot show all threads|<timed out|<cannot get C stack|Garbage-collecting$|\.\.\.$|Extension modules: |"
    r"Stack \(most recent call first\):$"
)
_IN_THREADS = "_bootstrap"
_ABORTED = -6
_SIGNALS = {
    "Segmentation fault": -11, "Bus error": -7, "Floating point exception": -8, "Floating-point exception": -8,
    "Illegal instruction": -4,
}  # fmt: skip
"""Exit status by the word of the dump; after any other fatal error the interpreter aborts."""


@dataclass
class _Dump:
    """What one process has printed."""

    stacks: Stacks = field(default_factory=Stacks)
    thread: StackOfThread | None = None
    error: LoggedError | None = None
    current: StackOfThread | None = None
    in_c: bool = False
    frames: int = 0
    has_head: bool = False

    def take(self, line: Line) -> bool | None:
        """See `streams.Reader`."""
        bare = line.bare
        if not bare:
            return None
        if not self.stacks.processes:
            self.stacks.process(line)
        return self._take_cause(line, bare) or self._take_thread(line, bare) or self._take_frame(line, bare)

    def _take_cause(self, line: Line, bare: str) -> bool:
        wait, died = _TIMEOUT.match(bare), _FATAL.match(bare) or _WINDOWS.match(bare)
        if wait is None and died is None:
            return False
        if self.error is not None or self.frames:
            return False  # the next dump
        where: dict[str, Any] = {"rank": line.rank, "time": line.time, "line": line.number}
        if wait is not None:
            self.error = LoggedError("timeout", timeout_s=_seconds(wait), handled=False, **where)
        elif died is not None:
            kind, _, message = died["what"].partition(": ")
            self.error = LoggedError("fatal", kind, message or None, handled=False, **where)
            self.stacks.last.known |= {"state": "X", "exit_status": _SIGNALS.get(kind, _ABORTED)}
        return True

    def _take_thread(self, line: Line, bare: str) -> bool:
        if _C_STACK.match(bare):
            self.in_c = self.thread is not None
            return self.in_c
        head = faulthandler_head(bare)
        if head is None or self.stacks.last.has(None, head.pthread):
            return False
        self.thread = self.stacks.last.thread(line, pthread=head.pthread, name=head.name)
        self.current = self.thread if head.is_current else self.current
        self.in_c, self.has_head = False, True
        return True

    def _take_frame(self, line: Line, bare: str) -> bool:
        if _ASIDE.match(bare):
            return self.has_head or self.error is not None
        frame = faulthandler_frame(bare)
        if frame is not None:
            thread = self.thread or self.stacks.last.thread(line)
            self.thread = thread
            thread.add(frame, line.number)
            self.frames += 1
            return True
        native = _C_FRAME.match(bare) if self.in_c else None
        if native is None or self.current is None:
            return False
        name = short_name(native["name"].strip()) or native["address"]
        self.current.beside.append(Frame(
            "", 0, len(self.current.beside), name, module=native["module"] or None, kind="native", is_user=False,
            line=line.number,
        ))  # fmt: skip
        return True


def parse(lines: Lines, start: int) -> Parsed | None:
    """One dump; of every rank one, where several print at once."""
    end, readers = follow(lines, start, lambda line: _Dump())
    dumps = [reader for reader in readers if isinstance(reader, _Dump)]
    told = [dump for dump in dumps if dump.error is not None or dump.has_head or dump.frames > 1]
    if not told:
        return None
    for dump in told:
        _find_main(dump)
    rows = [row for number, dump in enumerate(told) for row in _rows(dump, NO_PID - number)]
    has_frames = any(dump.stacks.has_frames for dump in told)
    about = f"dumps of {len(told)} ranks" if len(told) > 1 else f"{_cause(told[0])} {told[0].stacks.about()}".strip()
    return Parsed(end, tuple(rows), frozenset({"frames"}) if has_frames else frozenset(), about)


def _rows(dump: _Dump, nobody: int) -> list[Any]:
    """`nobody`: the pid that stands for this process, which the dump does not name."""
    process = dump.stacks.last
    process.pid = nobody
    errors = [replace(error, process=process_id(nobody, HOST)) for error in _errors(dump)]
    return [*errors, *dump.stacks.rows()]


def _errors(dump: _Dump) -> tuple[LoggedError, ...]:
    return (dump.error,) if dump.error is not None else ()


def _cause(dump: _Dump) -> str:
    if dump.error is None:
        return ""
    return (
        f"after {dump.error.timeout_s:g} s:"
        if dump.error.kind == "timeout" and dump.error.timeout_s
        else (f"{dump.error.type}:" if dump.error.type else "")
    )


def _seconds(found: re.Match[str]) -> float:
    return int(found["days"] or 0) * 86400 + int(found["h"]) * 3600 + int(found["m"]) * 60 + float(found["s"])


def _find_main(dump: _Dump) -> None:
    """The main thread is printed last, as the oldest; a thread that threading has started is none."""
    threads = dump.stacks.last.threads
    candidates = [t for t in threads if t.frames and t.frames[-1].function != _IN_THREADS]
    candidates += [t for t in threads if t.frames and t.frames[-1].function == _IN_THREADS
                   and not (t.frames[-1].file or "").endswith("threading.py")]  # fmt: skip
    if not candidates:
        return
    main = dump.current if dump.current in candidates else candidates[-1]
    if main is not None:
        main.is_main = True


PARSERS = (Parser("faulthandler", _BEGINS, parse, is_log=True),)
