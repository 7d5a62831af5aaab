"""Python tracebacks: what the error was, and, of an interrupted program, where it stood when the user gave up.

    Traceback (most recent call last):
      File "/job/train.py", line 12, in main
        loader.next()
    KeyboardInterrupt

Chained ones and groups are one block. Several ranks print at the same time; each is followed by its prefix. A traceback
whose head was lost begins at its first ``File`` line; the lines stay part of the log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flatline.bundle.facts import LoggedError, SourceLine, process_id
from flatline.texts.stack_lines import RawFrame

from .frames import is_user_file
from .interface import HOST, NO_PID, Line, Lines, Parsed, Parser
from .stacks import Stacks
from .streams import follow

_HEAD = re.compile(r".{0,200}?Traceback \(most recent call last\):$")
_FRAME = re.compile(r'File "(?P<file>[^"\n]{1,4096})", line (?P<line>\d{1,9})(?:, in (?P<name>\S.{0,400}))?$')
_BEGINS = re.compile(r'.{0,200}?Traceback \(most recent call last\):$|File "[^"\n]{1,4096}", line \d{1,9}, in \S')
_REPEATED = re.compile(r"\[Previous line repeated \d{1,9} more times?\]$")
_ERROR = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,200})(?:: ?(?P<message>.*))?$")
_TELLING_ERROR = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}(?:[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit|Warning|Failure|Timeout|Killed"
    r"|Group|Expired|Cancelled|Failed)|Error|Exception|StopIteration|Empty|Full|Timeout))(?:: ?(?P<message>.*))?$"
)
_BECAUSE = re.compile(
    r"(?:The above exception was the direct cause of the following exception|"
    r"During handling of the above exception, another exception occurred):$"
)
_GROUP = re.compile(r"(?:[|+] ?)+")
_RULE = re.compile(r"\+-[+-]+(?: (?:\d{1,6}|\.\.\.) -+)?$")
_INTERRUPTED = frozenset({"KeyboardInterrupt", "SignalException", "CancelledError"})
_BY_USER = frozenset({"KeyboardInterrupt", "SignalException"})
_HANDLERS = frozenset({"_terminate_process_handler", "signal_handler", "_handle_sigterm", "sigterm_handler"})
_ENDLESS = frozenset({"_shutdown", "_wait_for_tstate_lock"})
MAX_CODE = 300
_SIGNALLED = re.compile(r"Process (?P<pid>\d{1,10}) got signal: ")


@dataclass
class _Part:
    """One traceback of a chain, as printed: the innermost frame last."""

    frames: list[tuple[RawFrame, int]] = field(default_factory=list)
    code: dict[int, str] = field(default_factory=dict)
    """The source printed below a ``File`` line, by the number of that line."""
    type: str | None = None
    message: str | None = None
    line: int = 0
    handled: bool = False


_IGNORED = ("Exception ignored in", "Exception ignored on")
"""What Python prints above a traceback after which it goes on."""


@dataclass
class _Traceback:
    """What one rank has printed: see `streams.Reader`."""

    rank: int | None
    pid: int | None
    time: str | None
    parts: list[_Part] = field(default_factory=list)
    has_head: bool = False
    is_group: bool = False
    is_done: bool = False
    indent: int = 0
    """Of the ``File`` lines."""
    below: int = 0
    """Lines since the last ``File`` line."""
    is_between: bool = True
    """Whether no frame may follow before another head."""

    def take(self, line: Line) -> bool | None:
        text, bare = _without_group(line) if self.is_group or "Exception Group" in line.bare else (line.text, line.bare)
        if not bare:
            return None if self.parts else False
        if _HEAD.match(bare):
            return self._take_head(line, bare)
        frame = _FRAME.match(bare)
        if frame:
            return self._take_frame(line, text, frame)
        if not self.parts:
            return False
        if self.is_between:
            return self._take_between(line, bare)
        return self._take_below(line, text, bare)

    def _take_head(self, line: Line, bare: str) -> bool:
        goes_on = not self.is_done or (self.is_group and line.bare.startswith(("|", "+")))
        if self.parts and not (self.is_between and goes_on):
            return False
        self.is_group |= "Exception Group Traceback" in bare
        self.parts.append(_Part())
        self.has_head, self.is_between, self.is_done, self.below = True, False, False, 0
        return True

    def _take_frame(self, line: Line, text: str, found: re.Match[str]) -> bool:
        if self.parts and self.is_between:
            return False
        if not self.parts:
            if not found["name"]:
                return False
            self.parts.append(_Part())
            self.is_between = False
        raw = RawFrame(found["name"] or "<module>", found["file"], int(found["line"]))
        if found["name"]:  # else it is the place of a syntax error
            self.parts[-1].frames.append((raw, line.number))
        self.indent, self.below = len(text) - len(text.lstrip()), 0
        return True

    def _take_below(self, line: Line, text: str, bare: str) -> bool:
        """Source, marks below it, or the error that ends the traceback."""
        indent = len(text) - len(text.lstrip())
        self.below += 1
        if _REPEATED.match(bare):
            return True
        part = self.parts[-1]
        if part.frames and indent > self.indent:
            if self.below == 1:
                part.code[part.frames[-1][1]] = bare[:MAX_CODE]
            return self.below <= 40
        error = (_TELLING_ERROR if self._is_flat(indent) else _ERROR).match(bare)
        if error is None or not self._is_believed(error["type"]) or not (part.frames or self.has_head):
            return self._is_flat(indent)
        part.type, part.message, part.line = error["type"], error["message"] or None, line.number
        self.is_between = self.is_done = True
        return True

    def _is_believed(self, name: str) -> bool:
        """Whether that is an error and not a line of the log between those of a traceback: ``Epoch: 3``."""
        return self.below <= 2 or "." in name or bool(_TELLING_ERROR.match(name))

    def _is_flat(self, indent: int) -> bool:
        """Whether the paste has lost the indentation, so that only its words tell an error from source."""
        return self.indent == 0 and indent == 0 and self.below <= 2

    def _take_between(self, line: Line, bare: str) -> bool | None:
        """After an error: the words that lead to the next one of the chain, or further lines of its message."""
        if _BECAUSE.match(bare):
            self.parts[-1].handled = True
            self.is_done = False
            return True
        if self.is_group and (_RULE.match(line.bare.lstrip("| ")) or line.bare.startswith("|")):
            return True
        return None


def _without_group(line: Line) -> tuple[str, str]:
    """A line within a group, without the rules at its left."""
    bare = line.bare
    found = _GROUP.match(bare)
    if found is None or _RULE.match(bare):
        return line.text, bare
    text = bare[found.end() :]
    return text, text.strip()


def parse(lines: Lines, start: int) -> Parsed | None:
    """One traceback with all that it is chained to; of several ranks those that are printed at once."""
    end, readers = follow(lines, start, lambda line: _Traceback(line.rank, line.pid, line.time))
    told = [r for r in readers if isinstance(r, _Traceback) and _is_one(r)]
    if not told:
        return None
    ignored = start > 0 and lines[start - 1].bare.startswith(_IGNORED)
    rows = [
        row
        for number, reader in enumerate(told)
        for row in _rows(reader, lines[start], NO_PID - number, ignored=ignored)
    ]
    return Parsed(end, tuple(rows), about=_about(told))


def _is_one(reader: _Traceback) -> bool:
    frames = sum(len(part.frames) for part in reader.parts)
    has_error = any(part.type for part in reader.parts)
    return (reader.has_head and bool(frames or has_error)) or frames > 1 or (frames == 1 and has_error)


def _rows(reader: _Traceback, first: Line, nobody: int, *, ignored: bool) -> list[Any]:
    parts = [part for part in reader.parts if part.type]
    interrupted = _interrupted(reader)
    pid = _pid(reader)
    process = None if pid is None and interrupted is None else process_id(nobody if pid is None else pid, HOST)
    errors = [_error(reader, part, process, is_last=part is parts[-1]) for part in parts]
    if interrupted is None:
        return [replace(error, handled=True) for error in errors] if ignored else errors
    stacks = Stacks()
    line = replace(first, number=interrupted.frames[0][1], rank=reader.rank)
    named = stacks.process(line, nobody if pid is None else pid)
    thread = named.thread(line, tid=None if pid is None else pid, name="MainThread", is_main=True)
    for raw, number in _innermost_first(interrupted.frames):
        code = interrupted.code.get(number)
        thread.add(raw, number, source=(SourceLine(raw.line or 0, code),) if code else ())
    return [*errors, *stacks.rows()]


def _interrupted(reader: _Traceback) -> _Part | None:
    """The traceback that shows where the program was when it was told to end; None: it ended by itself."""
    if not any(_last_name(part.type) in _BY_USER for part in reader.parts):
        return _stands_in_wait(reader)
    found = (part for part in reader.parts if _last_name(part.type) in _INTERRUPTED and part.frames)
    return next(found, None)


def _stands_in_wait(reader: _Traceback) -> _Part | None:
    """A traceback cut before its error, whose innermost call never raises but when it is interrupted."""
    part = reader.parts[-1] if reader.parts else None
    if part is None or part.type or not part.frames:
        return None
    raw = part.frames[-1][0]
    return part if raw.file.endswith("threading.py") and raw.name in _ENDLESS else None


def _innermost_first(frames: Sequence[tuple[RawFrame, int]]) -> list[tuple[RawFrame, int]]:
    """Without the handler of the signal that ended it."""
    order = list(reversed(frames))
    while len(order) > 1 and order[0][0].name in _HANDLERS:
        del order[0]
    return order


def _pid(reader: _Traceback) -> int | None:
    for part in reader.parts:
        found = _SIGNALLED.match(part.message or "")
        if found:
            return int(found["pid"])
    return reader.pid


def _last_name(name: str | None) -> str:
    return (name or "").rpartition(".")[2]


def _error(reader: _Traceback, part: _Part, process: str | None, *, is_last: bool) -> LoggedError:
    raw = part.frames[-1][0] if part.frames else None
    return LoggedError(
        "exception", part.type, (part.message or "")[:500] or None, process=process, rank=reader.rank,
        function=raw.name if raw else None, file=raw.file if raw else None, line_no=raw.line if raw else None,
        is_user=is_user_file(raw.file) if raw else None, handled=part.handled and not is_last, time=reader.time,
        line=part.line,
    )  # fmt: skip


def _about(told: Sequence[_Traceback]) -> str:
    last = next((part for part in reversed(told[0].parts) if part.type), None)
    what = last.type if last and last.type else "its end is missing"
    ranks = [str(reader.rank) for reader in told if reader.rank is not None]
    where = f" on rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks[:8])}" if ranks else ""
    return f"{what}{where}"


PARSERS = (Parser("python-traceback", _BEGINS, parse, is_log=True),)
