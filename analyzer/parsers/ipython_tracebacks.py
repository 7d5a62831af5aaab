"""Tracebacks as notebooks print them.

    KeyboardInterrupt                         Traceback (most recent call last)
    /opt/venv/lib/python3.8/site-packages/fsspec/asyn.py in wrapper(*args, **kwargs)
        113         self = obj or args[0]
    --> 114         return maybe_sync(func, self, *args, **kwargs)

Newer ones print ``File /opt/…/asyn.py:114, in wrapper(*args)`` and ``Cell In[3], line 4``. The error is named first
and last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from flatline.bundle.facts import LoggedError, SourceLine, process_id
from flatline.texts.stack_lines import RawFrame

from .frames import is_user_file
from .interface import HOST, LOOKAHEAD, NO_PID, Line, Lines, Parsed, Parser
from .stacks import Stacks

_HEAD = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,200})\s{2,}Traceback \(most recent call last\)$")
_BEGINS = re.compile(r"[A-Za-z_][\w.]{0,200}\s{2,}Traceback \(most recent call last\)$")
_FRAME = re.compile(
    r"(?:File )?(?P<file>[/~<\w.-][^\n:()]{0,4096}?\.py|<(?:ipython|string|frozen)[^>\n]{1,200}>"
    r"|[A-Za-z]:\\[^\n:()]{1,4096}?\.py)"
    r"(?::(?P<line>\d{1,9}),)? in (?P<name>[^\s(]{1,400})"
)
_CELL = re.compile(r"(?:Input In \[\d+\]|Cell In ?\[\d+\]),? (?:line (?P<line>\d{1,9})|in (?P<name>.{1,200}))")
_ARROW = re.compile(r"-{1,6}> ?(?P<line>\d{1,9})(?:\s+(?P<code>\S.{0,2000}))?$")
_CODE = re.compile(r"\d{1,9}(?:\s|$)|\(\.\.\.\)|\.\.\.|[\^~ ]+$")
_DASHES = re.compile(r"-{20,}$")


@dataclass
class _Reader:
    type: str
    line: int
    frames: list[tuple[RawFrame, int]] = field(default_factory=list)
    sources: dict[int, SourceLine] = field(default_factory=dict)
    """Of which of `frames`: the line that an arrow marks."""
    message: str | None = None
    is_done: bool = False


def parse(lines: Lines, start: int) -> Parsed | None:
    """One such traceback."""
    head = _HEAD.match(lines[start].bare)
    if head is None:
        return None
    reader = _Reader(head["type"], lines[start].number)
    end, idle = start + 1, 0
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if line.bare and not _take(reader, line, line.bare):
            break
        idle = 0 if line.bare else idle + 1
        if idle > LOOKAHEAD:
            break
        end = index + 1 if line.bare else end
        if reader.is_done:
            break
    return Parsed(end, _rows(reader, lines[start]), about=reader.type) if reader.frames else None


def _take(reader: _Reader, line: Line, bare: str) -> bool:
    arrow = _ARROW.match(bare)
    if arrow:
        if not reader.frames:
            return True
        raw, number = reader.frames[-1]
        at = int(arrow["line"])
        if raw.line is None:
            reader.frames[-1] = (RawFrame(raw.name, raw.file, at), number)
        if arrow["code"] and raw.line in (None, at):
            reader.sources[len(reader.frames) - 1] = SourceLine(at, arrow["code"])
        return True
    cell, frame = _CELL.match(bare), _FRAME.match(bare)
    if cell:
        at = int(cell["line"]) if cell["line"] else None
        reader.frames.append((RawFrame("<module>", "<ipython-input>", at), line.number))
    elif frame:
        at = int(frame["line"]) if frame["line"] else None
        reader.frames.append((RawFrame(frame["name"], frame["file"].removeprefix("File ").strip(), at), line.number))
    elif bare == reader.type or bare.startswith(f"{reader.type}:"):
        reader.message = bare[len(reader.type) :].lstrip(": ") or None
        reader.line, reader.is_done = line.number, True
    else:
        return bool(_CODE.match(bare) or _DASHES.match(bare)) or line.text[:1].isspace()
    return True


def _rows(reader: _Reader, first: Line) -> tuple[object, ...]:
    raw = reader.frames[-1][0]
    is_interrupt = reader.type.rpartition(".")[2] == "KeyboardInterrupt"
    error = LoggedError(
        "exception", reader.type, (reader.message or "")[:500] or None, rank=first.rank, function=raw.name,
        process=process_id(NO_PID, HOST) if is_interrupt else None, file=raw.file, line_no=raw.line,
        is_user=is_user_file(raw.file), handled=False, time=first.time, line=reader.line,
    )  # fmt: skip
    if not is_interrupt:
        return (error,)
    stacks = Stacks()
    thread = stacks.process(first).thread(first, name="MainThread", is_main=True)
    for index, (frame, number) in reversed(list(enumerate(reader.frames))):
        source = reader.sources.get(index)
        thread.add(frame, number, **({"source": (source,)} if source else {}))
    return (error, *stacks.rows())


PARSERS = (Parser("ipython-traceback", _BEGINS, parse, is_log=True),)
