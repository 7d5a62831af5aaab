"""``pystack remote`` and ``pystack core``, with and without --native and --locals.

    Traceback for thread 5530 (python) [Has the GIL] (most recent call last):
        (Python) File "/job/train.py", line 17, in <module>
            main()

The innermost frame is printed last. The first thread is the main one; of a core the process is named above.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from flatline.bundle.facts import SourceLine
from flatline.texts.stack_lines import RawFrame, pystack_frame, pystack_head

from .interface import Line, Lines, Parsed, Parser
from .stacks import MAX_LOCAL, StackOfThread, Stacks

_BEGINS = re.compile(r"Traceback for thread \d{1,10} |Using executable found in the core file|Core file information:")
_CORE_PID = re.compile(r"pid: (?P<pid>\d{1,10}) ppid: (?P<ppid>\d{1,10})")
_CORE = re.compile(
    r"Using executable found in|Core file information:|state: |uid: |executable: |The process died due |"
    r"This core file |The frame stack for thread \d|The core file |\U0001f4c1|\U0001f52c|\U0001f4be|\U0001f4a5"
)
_SECTION = re.compile(r"(?:Locals|Arguments):$")
_LOCAL = re.compile(r"(?P<name>[\w.]{1,200}): (?P<value>.*)$")


@dataclass
class _Frame:
    raw: RawFrame
    line: int
    locals: dict[str, str] = field(default_factory=dict)
    code: str = ""
    """Its own line of the script."""


@dataclass
class _Dump:
    stacks: Stacks = field(default_factory=Stacks)
    thread: StackOfThread | None = None
    frames: list[_Frame] = field(default_factory=list)
    in_locals: bool = False


def parse(lines: Lines, start: int) -> Parsed | None:
    """All threads of one look at one process."""
    dump = _Dump()
    dump.stacks.process(lines[start], is_python=True)
    end = start
    for index in range(start, len(lines)):
        if not lines[index].bare:
            continue
        if not _take(dump, lines[index], lines[index].bare):
            break
        end = index + 1
    _close(dump)
    if not dump.stacks.last.threads and not dump.stacks.last.is_named:
        return None
    return Parsed(end, dump.stacks.rows(), frozenset({"frames"}), dump.stacks.about())


def _take(dump: _Dump, line: Line, bare: str) -> bool:
    head = pystack_head(bare)
    if head is not None:
        _close(dump)
        process = dump.stacks.last
        if process.has(head.tid, None):
            return False
        is_main = not process.threads if not process.is_named else head.tid == process.pid
        dump.thread = process.thread(line, tid=head.tid, is_main=is_main, owns_gil="Has the GIL" in bare or None)
        return True
    if dump.thread is None:
        return _take_core(dump, bare)
    frame = pystack_frame(bare)
    if frame is not None:
        dump.frames.append(_Frame(frame, line.number))
        dump.in_locals = False
        return True
    return _take_below(dump, line, bare) if dump.frames else bool(_CORE.match(bare))


def _take_below(dump: _Dump, line: Line, bare: str) -> bool:
    """A line of source, or of variables: they stand further in than the frame."""
    if not line.text[:1].isspace():
        return bool(_CORE.match(bare))
    if _SECTION.match(bare):
        dump.in_locals = True
    elif dump.frames[-1].line == line.number - 1:
        dump.frames[-1].code = bare[:MAX_LOCAL]
    elif dump.in_locals and (found := _LOCAL.match(bare)):
        dump.frames[-1].locals[found["name"]] = found["value"][:MAX_LOCAL]
    return True


def _take_core(dump: _Dump, bare: str) -> bool:
    found = _CORE_PID.match(bare)
    if found:
        process = dump.stacks.last
        process.pid, process.is_named = int(found["pid"]), True
        process.known["ppid"] = int(found["ppid"])
        return True
    return bool(_CORE.match(bare))


def _close(dump: _Dump) -> None:
    """The stack of a thread is whole; it was printed from its outer end."""
    if dump.thread is not None:
        for frame in reversed(dump.frames):
            own = (SourceLine(frame.raw.line, frame.code),) if frame.code and frame.raw.line else ()
            dump.thread.add(frame.raw, frame.line, source=own, **({"locals": frame.locals} if frame.locals else {}))
    dump.frames, dump.in_locals = [], False


PARSERS = (Parser("pystack", _BEGINS, parse),)
