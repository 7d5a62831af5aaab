"""``py-spy dump`` as text, all versions, with --native, --locals and --subprocesses; ``ray stack`` prints the same.

    Process 12: python train.py
    Python v3.11.7 (/usr/bin/python3.11)

    Thread 12 (idle): "MainThread"
        wait (threading.py:327)
            Locals:
                gotit: False

A dump without its head, or with the head's lines lost, is one of a process that nothing names. From 3.11 on a thread's
number is the kernel's; before, and in 0.3 on some systems, it is the pthread (``0x7F…``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from flatline.texts.stack_lines import MAX_NAME, RawFrame, short_name

from .frames import is_c_source, is_library, place_of
from .interface import LOOKAHEAD, NO_PID, Line, Lines, Parsed, Parser
from .stacks import MAX_LOCAL, MAX_TID, StackOfThread, Stacks

_PROCESS = re.compile(r"Process (?P<pid>\d{1,10}): (?P<command>.*)")
_PARENT = re.compile(r"Parent Process (?P<pid>\d{1,10}): .*")
_VERSION = re.compile(r"Python v(?P<version>\d[\w.+]{0,20}) \((?P<exe>.{0,4096})\)$")
_THREAD = re.compile(
    r"Thread (?P<tid>\d{1,20}|0x[0-9a-fA-F]{1,16})(?:/\w+)? \((?P<state>(?:active|idle)[\w+]{0,12})\)"
    r'(?:: "?(?P<name>.{0,200}?)"?)?$'
)
_FRAME = re.compile(r"(?P<function>\S.{0,8000}) \((?P<place>[^()]{1,4096})\)$")
_PYTHON_PLACE = re.compile(r"(?:\.pyx?|<[\w. ]{1,60}>|\.so[.\d]*|\.(?:c|cpp|cc)):?\d*$")
FEWEST_FRAMES = 2
_LOCALS = re.compile(r"(?:Arguments|Locals):$")
_LOCAL = re.compile(r"(?P<name>[^\s:]{1,200}): (?P<value>.*)$")
_BETWEEN = re.compile(r"-{40,}$|Stack dump for .{1,300}$")
_BEGINS = re.compile(
    r"Process \d{1,10}: |Stack dump for |Thread (?:\d{1,20}|0x[0-9a-fA-F]{1,16})(?:/\w+)? \((?:active|idle)"
)


@dataclass
class _Dump:
    """What was read so far."""

    stacks: Stacks = field(default_factory=Stacks)
    thread: StackOfThread | None = None
    in_locals: bool = False
    pids: set[int] = field(default_factory=set)
    """Of the processes whose heads were read."""


def parse(lines: Lines, start: int) -> Parsed | None:
    """A whole dump: every process and thread until the first line that is not one of its own."""
    dump = _Dump()
    end = start
    blanks = 0
    for index in range(start, len(lines)):
        bare = lines[index].bare
        blanks = 0 if bare else blanks + 1
        if not bare and blanks < LOOKAHEAD:
            continue  # between the head and the threads, and where the paste doubled the line ends
        if not _take(dump, lines[index], bare):
            break
        end = index + 1
    if not dump.stacks.has_frames and not any(process.is_named for process in dump.stacks.processes):
        return None
    return Parsed(end, dump.stacks.rows(), frozenset({"frames"}), dump.stacks.about())


def _take(dump: _Dump, line: Line, bare: str) -> bool:
    """Whether the line belongs to the dump; then it is in it."""
    if found := _PROCESS.fullmatch(bare):
        return _begin_process(dump, line, found)
    if found := _THREAD.fullmatch(bare):
        return _begin_thread(dump, line, found)
    if _BETWEEN.fullmatch(bare):
        dump.thread = None
        return True
    return _take_within(dump, line, bare)


def _take_within(dump: _Dump, line: Line, bare: str) -> bool:
    """What stands below a head."""
    if dump.thread is None:
        return _take_head(dump, bare)
    if _LOCALS.fullmatch(bare):
        dump.in_locals = True
        return bool(dump.thread.frames)
    if found := _FRAME.fullmatch(bare):
        if dump.in_locals and _is_local(dump.thread, bare):
            return True
        dump.in_locals = False
        file, number = place_of(found["place"])
        dump.thread.add(_raw(found["function"], file, number), line.number)
        return True
    return dump.in_locals and _is_local(dump.thread, bare)


def _raw(function: str, file: str, number: int | None) -> RawFrame:
    if is_library(file):
        return RawFrame(short_name(function)[:MAX_NAME], "", None, module=file)
    module = "?" if is_c_source(file) else ""
    return RawFrame(function[:MAX_NAME], file, number, module=module)


def _take_head(dump: _Dump, bare: str) -> bool:
    if not dump.stacks.processes or not dump.stacks.last.is_named:
        return False
    process = dump.stacks.last
    if found := _VERSION.fullmatch(bare):
        process.known |= {"python": found["version"], "exe": found["exe"]}
        return True
    if found := _PARENT.fullmatch(bare):
        process.known["ppid"] = int(found["pid"])
        return True
    return False


def _is_local(thread: StackOfThread, bare: str) -> bool:
    found = _LOCAL.fullmatch(bare)
    if found is None or not thread.frames:
        return False
    frame = thread.frames[-1]
    values = {**(frame.locals or {}), found["name"]: found["value"][:MAX_LOCAL]}
    thread.frames[-1] = replace(frame, locals=values)
    return True


def _begin_process(dump: _Dump, line: Line, found: re.Match[str]) -> bool:
    pid = int(found["pid"])
    if pid in dump.pids:
        return False  # another dump of it, taken later
    dump.pids.add(pid)
    dump.stacks.process(line, pid, is_named=True, argv=tuple(found["command"].split()))
    dump.thread, dump.in_locals = None, False
    return True


def _begin_thread(dump: _Dump, line: Line, found: re.Match[str]) -> bool:
    number = int(found["tid"], 16 if found["tid"].startswith("0x") else 10)
    tid, pthread = (number, None) if number < MAX_TID else (None, number)
    is_new = not dump.stacks.processes
    process = dump.stacks.process(line) if is_new else dump.stacks.last
    if process.has(tid, pthread):
        return False
    name, state = found["name"] or None, found["state"]
    is_main = name == "MainThread" or (tid is not None and tid == process.pid)
    if is_main and any(thread.is_main for thread in process.threads):
        return False  # that of another process, whose head was lost
    if is_main and process.pid == NO_PID and tid:
        process.pid = tid
    dump.thread = process.thread(
        line, tid=tid, pthread=pthread, name=name, is_main=is_main, active=state.startswith("active"),
        owns_gil="gil" in state or None,
    )  # fmt: skip
    dump.in_locals = False
    return True


def parse_frames(lines: Lines, start: int) -> Parsed | None:
    """Frames that were cut out of a dump, without the head of their thread: the main thread of a process, as nobody
    pastes another one so."""
    end = start
    while end < len(lines) and (found := _FRAME.fullmatch(lines[end].bare)) and _PYTHON_PLACE.search(found["place"]):
        end += 1
    if end - start < FEWEST_FRAMES:
        return None
    stacks = Stacks()
    thread = stacks.process(lines[start]).thread(lines[start], name="MainThread", is_main=True)
    order = range(start, end) if _begins_inside(lines, start, end) else range(end - 1, start - 1, -1)
    for index in order:
        found = _FRAME.fullmatch(lines[index].bare)
        if found is not None:
            thread.add(_raw(found["function"], *place_of(found["place"])), lines[index].number)
    return Parsed(end, stacks.rows(), frozenset({"frames"}), stacks.about())


def _begins_inside(lines: Lines, start: int, end: int) -> bool:
    """Whether the innermost frame comes first; a stack that begins with the module was turned round."""
    return not lines[start].bare.startswith("<module> ") or lines[end - 1].bare.startswith("<module> ")


PARSERS = (
    Parser("py-spy-dump", _BEGINS, parse),
    Parser("py-spy-frames", re.compile(r"[^\s(\[{].{0,300} \([^()]{1,300}\.pyx?:\d{1,7}\)$"), parse_frames),
)
