"""Stacks of all threads or tasks that a program has printed itself: traceback.print_stack() of sys._current_frames(),
pytest-timeout, hanging_threads, Task.print_stack().

    # ThreadID: 140213
    File: "/job/cache.py", line 88, in purge
      with self._lock:

Above each stack stands whose it is, in whatever words; the innermost frame is printed last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from flatline.bundle.facts import SourceLine
from flatline.texts.stack_lines import RawFrame

from .interface import Line, Lines, Parsed, Parser
from .spans import next_shown
from .stacks import MAX_TID, Stacks

MAX_CODE = 300
_DECORATION = " \t-#*=~+>_|"
_BEGINS = re.compile(
    r"[-#*=~+>_|\s]{0,100}(?:(?:[Cc]urrent |[Pp]ython )?[Tt]hread|THREAD|MainThread|"
    r"(?:[Dd]ump|[Ss]tack)(?:[ -]?trace)?s? (?:of|for)\b)"
)
_WHOSE = re.compile(r"(?i)\bthread|\btask\b|MainThread|\bstack(?:[ -]?trace)?s? (?:of|for)\b")
_NOT_WHOSE = re.compile(r"(?i)most recent call first|exception|error|timed? ?out")
_FRAME = re.compile(r'File:? "(?P<file>[^"\n]{1,4096})", line (?P<line>\d{1,9}),? in (?P<name>\S.{0,400})$')
_NAME = re.compile(
    r"MainThread|name=(?P<a>'[^']{1,100}'|[\w.-]{1,100})|(?P<b>[\"'][^\"']{1,100}[\"'])|[Tt]hread-\d+(?: ?\([\w.]+\))?"
    r"|(?:[Tt]hread|of|for)[ :=]+(?P<c>[A-Za-z_][\w.-]{1,80})"
)
_TASK = re.compile(r"<(?:Task|Future|coroutine)\b")
_IDENT = re.compile(r"(?<![\w-])(?P<number>0x[0-9a-fA-F]{1,16}|\d{2,20})(?!\w)")
_ERROR = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)(?::|$)")
_MARKS = re.compile(r"[\s^~]+$")
_STARTED = frozenset({"_bootstrap", "_bootstrap_inner", "run"})
"""Where the stack of a thread begins that is not the first one."""
_PRINTS_IT = re.compile(
    r"\b(?:extract_stack|format_stack|print_stack|_current_frames|format_list|StackSummary|walk_stack)\b"
)
"""The handler of the signal at which the stacks were printed stands innermost in the thread that ran it."""


@dataclass
class _Stack:
    """One thread or task."""

    head: Line
    frames: list[tuple[RawFrame, int]] = field(default_factory=list)
    code: dict[int, str] = field(default_factory=dict)
    """By the number of the frame's line."""


def parse(lines: Lines, start: int) -> Parsed | None:
    """All stacks that follow one another."""
    found: list[_Stack] = []
    end, at = start, start
    while (stack := _stack_at(lines, at)) is not None:
        found.append(stack[0])
        at = end = stack[1]
        while at < len(lines) and at - end < 8 and not (lines[at].bare and _is_head(lines, at)):
            if lines[at].bare.strip(_DECORATION):
                break
            at += 1
    after = next_shown(lines, end - 1)
    if not found or (after is not None and _ERROR.match(lines[after].bare)):
        return None
    stacks = Stacks()
    process = stacks.process(lines[start], is_python=True)
    for stack in found:
        _add(stacks, stack)
    threads = process.threads
    mains = [thread for thread in threads if thread.is_main]
    if not mains:
        outer = [t for t in threads if t.frames and t.frames[-1].function not in _STARTED]
        for thread in outer[-1:]:
            thread.is_main = True
    return Parsed(end, stacks.rows(), frozenset({"frames"}), stacks.about())


def _is_head(lines: Lines, at: int) -> bool:
    bare = lines[at].bare
    if len(bare) > 300 or not _WHOSE.search(bare) or _NOT_WHOSE.search(bare) or _FRAME.match(bare):
        return False
    below = next_shown(lines, at)
    return below is not None and _FRAME.match(lines[below].bare) is not None


def _stack_at(lines: Lines, at: int) -> tuple[_Stack, int] | None:
    """The stack whose head this line is, and the index after its last line."""
    if at >= len(lines) or not lines[at].bare or not _is_head(lines, at):
        return None
    stack, end, below = _Stack(lines[at]), at + 1, 0
    for index in range(at + 1, len(lines)):
        line, bare = lines[index], lines[index].bare
        frame = _FRAME.match(bare)
        if frame:
            stack.frames.append((RawFrame(frame["name"], frame["file"], int(frame["line"])), line.number))
            below, end = 0, index + 1
            continue
        if not bare:
            if stack.frames and below:
                break
            continue
        below += 1
        if not stack.frames or below > 2 or _is_head(lines, index) or _ERROR.match(bare):
            break
        if below == 1 and not _MARKS.match(bare):
            stack.code[stack.frames[-1][1]] = bare[:MAX_CODE]
        end = index + 1
    return (stack, end) if stack.frames else None


def _add(stacks: Stacks, stack: _Stack) -> None:
    bare = stack.head.bare.strip(_DECORATION + ":")
    named, number = _NAME.search(bare), None if _TASK.search(bare) else _IDENT.search(bare)
    name = (named["a"] or named["b"] or named["c"] or named[0]).strip("\"'") if named else None
    if name and name.lower() in ("thread", "id", "ident", "threadid"):
        name = None
    ident = int(number["number"], 0) if number and not number["number"].startswith("00") else None
    process = stacks.last
    if process.has(ident, ident):
        ident = None
    is_kernel = ident is not None and ident < MAX_TID
    thread = process.thread(
        stack.head, tid=ident if is_kernel else None, pthread=None if is_kernel else ident, name=name,
        is_main=name == "MainThread",
    )  # fmt: skip
    frames = list(reversed(stack.frames))
    while len(frames) > 1 and _PRINTS_IT.search(stack.code.get(frames[0][1], "")):
        del frames[0]
    for raw, line in frames:
        code = stack.code.get(line)
        thread.add(raw, line, source=(SourceLine(raw.line or 0, code),) if code else ())


PARSERS = (Parser("python-stacks", _BEGINS, parse, is_log=True),)
