"""Limits as shells and prlimit print them: ``ulimit -a`` of every shell, ``limit`` of csh, ``ulimit -n``, ``prlimit``.

They are those of the shell, which its children inherit. Soft ones, unless the prompt above asks for hard ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from flatline.bundle.facts import Limit, process_id

from .interface import HOST, NO_PID, Line, Lines, Parsed, Parser, any_of
from .prompts import command_before, command_in
from .spans import next_shown, rows_of

NOBODY = process_id(NO_PID, HOST)
_VALUE = r"(?P<value>unlimited|infinity|\d{1,20})"
_BY_LETTER = {
    "c": "core file size", "d": "data size", "e": "nice priority", "f": "file size", "i": "pending signals",
    "l": "locked memory", "m": "resident set", "n": "open files", "q": "msgqueue size", "r": "realtime priority",
    "s": "stack size", "t": "cpu time", "u": "processes", "v": "address space", "x": "file locks",
}  # fmt: skip
"""The option of ulimit -> what /proc/PID/limits calls the limit. R, y, N, k and P differ from shell to shell."""
_UNITS = {"kbytes": 1024, "kb": 1024, "kB": 1024, "KiB": 1024, "512 bytes": 512, "bytes": 1}
_LETTERED = re.compile(
    r"(?=[^()\n]{3,72}\()[A-Za-z][^()\n]{2,70}?(?: \((?P<apart>[\w ]{1,24})\))? {1,70}"
    r"\((?:(?P<unit>[\w -]{1,24}), )?-(?P<letter>[a-zA-Z])\)\s{1,8}"
    rf"{_VALUE}$"
)
"""bash, fish, and busybox with the unit apart."""
_BEFORE = re.compile(
    rf"-(?P<letter>[a-zA-Z])(?: \d{{1,3}})?: [a-z][\w /-]{{2,40}}?(?:\((?P<unit>[\w -]{{1,20}})\))? {{1,40}}{_VALUE}$"
)
"""zsh and mksh."""
_DASH = re.compile(
    r"(?P<name>(?:time|file|data|stack|coredump|memory|locked memory|vmemory)(?=\()|process|nofiles|locks|rtprio)"
    rf"(?:\((?P<unit>seconds|blocks|kbytes)\))? {{1,40}}{_VALUE}$"
)
_CSH = re.compile(
    r"(?P<name>cputime|filesize|datasize|stacksize|coredumpsize|memoryuse|vmemoryuse|descriptors|memorylocked|maxproc|"
    rf"maxlocks|maxsignal|maxmessage|maxnice|maxrtprio|maxrttime|threads|heapsize) {{1,20}}{_VALUE}"
    r"(?: (?P<unit>kbytes))?$"
)
_BY_NAME = {
    "time": "t", "file": "f", "data": "d", "stack": "s", "coredump": "c", "memory": "m", "locked memory": "l",
    "process": "u", "nofiles": "n", "vmemory": "v", "locks": "x", "rtprio": "r",
    "cputime": "t", "filesize": "f", "datasize": "d", "stacksize": "s", "coredumpsize": "c", "memoryuse": "m",
    "vmemoryuse": "v", "descriptors": "n", "memorylocked": "l", "maxproc": "u", "maxlocks": "x", "maxsignal": "i",
    "maxmessage": "q", "maxnice": "e", "maxrtprio": "r",
}  # fmt: skip
_ASKED = re.compile(r"ulimit -(?P<which>[HS]{0,2})(?P<letter>[a-zA-Z])$")
_ONE = re.compile(rf"{_VALUE}$")
_IN_KIB = frozenset("dlmsv")
"""What ``ulimit -s`` alone prints in KiB, without saying so."""
_PRLIMIT_HEAD = re.compile(r"RESOURCE\s+DESCRIPTION\s+SOFT\s+HARD(?:\s+UNITS)?$")
_PRLIMIT = re.compile(
    r"(?P<name>[A-Z]{2,12})\s+[A-Za-z][\w /-]{3,60}?\s+(?P<soft>unlimited|\d{1,20})\s+(?P<hard>unlimited|\d{1,20})"
    r"(?:\s+(?:bytes|seconds|locks|files|processes|microsecs|signals))?$"
)
_RESOURCES = {
    "AS": "v", "CORE": "c", "CPU": "t", "DATA": "d", "FSIZE": "f", "LOCKS": "x", "MEMLOCK": "l", "MSGQUEUE": "q",
    "NICE": "e", "NOFILE": "n", "NPROC": "u", "RSS": "m", "RTPRIO": "r", "SIGPENDING": "i", "STACK": "s",
}  # fmt: skip
_BLOCK = 1024
"""bash's; that of the other shells is 512 bytes, as POSIX has it."""


def parse_ulimit(lines: Lines, start: int) -> Parsed | None:
    """All limits of a shell. A line of bash stands for itself, those without an option do not."""
    for pattern, block, least in ((_LETTERED, _BLOCK, 1), (_BEFORE, 512, 1), (_DASH, 512, 2), (_CSH, 512, 2)):
        if pattern.match(lines[start].bare):
            is_hard = _asks_for_hard(lines, start)
            read = _reader(pattern, block, is_hard=is_hard)
            end, rows = rows_of(lines, start, read)
            known = tuple(row for row in rows if row.name)
            return Parsed(end, known, about=f"{len(rows)} limits") if len(rows) >= least else None
    return None


def _reader(pattern: re.Pattern[str], block: int, *, is_hard: bool) -> Callable[[Line], Limit | None]:
    def read(line: Line) -> Limit | None:
        found = pattern.match(line.bare)
        if found is None:
            return None
        said = found.groupdict()
        name = _BY_LETTER.get(said.get("letter") or _BY_NAME.get(said.get("name") or "", ""), "")
        unit = said.get("unit") or said.get("apart") or ""
        each = block if unit == "blocks" else _UNITS.get(unit, 1)
        if pattern is _BEFORE and said["letter"] == "p":
            name = "processes"  # of mksh; that of bash is the size of a pipe
        return _limit(name, found["value"], each, line, is_hard=is_hard)

    return read


def _limit(name: str, value: str, unit: int, line: Line, *, is_hard: bool = False) -> Limit:
    number = int(value) * unit if value.isdecimal() else None
    if is_hard:
        return Limit(NOBODY, name, hard=number, line=line.number)
    return Limit(NOBODY, name, number, unlimited=number is None, line=line.number)


def _asks_for_hard(lines: Lines, start: int) -> bool:
    """``ulimit -aH``, ``limit -h``."""
    asked = command_before(lines, start)
    return asked is not None and bool(re.match(r"ulimit -\w?H|ulimit -H |limit -h", asked.text))


def parse_asked(lines: Lines, start: int) -> Parsed | None:
    """The prompt with ``ulimit -n``, and the one number below it."""
    command = command_in(lines[start].bare)
    asked = _ASKED.match(command.text) if command else None
    at = next_shown(lines, start)
    if asked is None or at is None or asked["letter"] not in _BY_LETTER:
        return None
    found = _ONE.match(lines[at].bare)
    if found is None:
        return None
    letter = asked["letter"]
    unit = 1024 if letter in _IN_KIB else _BLOCK if letter in "cf" else 1
    row = _limit(_BY_LETTER[letter], found["value"], unit, lines[at], is_hard=asked["which"] == "H")
    return Parsed(at + 1, (row,), about=f"{row.name}: {found['value']}")


def parse_prlimit(lines: Lines, start: int) -> Parsed | None:
    """``prlimit``, of the shell or of ``--pid N``, with or without its headline."""
    begun = start + bool(_PRLIMIT_HEAD.match(lines[start].bare))
    asked = command_before(lines, start)
    pid = re.search(r"(?:--pid|-p)[ =]{0,2}(\d{1,9})\b", asked.text) if asked else None
    whose = process_id(int(pid[1]) if pid else NO_PID, HOST)
    end, rows = rows_of(lines, begun, lambda line: _resource(line, whose))
    return Parsed(end, tuple(rows), about=f"{len(rows)} limits") if rows else None


def _resource(line: Line, whose: str) -> Limit | None:
    found = _PRLIMIT.match(line.bare)
    letter = _RESOURCES.get(found["name"]) if found else None
    if found is None or (letter is None and found["name"] != "RTTIME"):
        return None
    name = _BY_LETTER[letter] if letter else "realtime timeout"
    soft, hard = (int(text) if text.isdecimal() else None for text in (found["soft"], found["hard"]))
    return Limit(whose, name, soft, hard, unlimited=soft is None, line=line.number)


PARSERS = (
    Parser("ulimit", re.compile(r".{0,400}\bulimit -[HS]{0,2}[a-zA-Z]$"), parse_asked),
    Parser("ulimit", any_of(_LETTERED, _BEFORE, _DASH, _CSH), parse_ulimit),
    Parser("prlimit", any_of(_PRLIMIT_HEAD, _PRLIMIT), parse_prlimit),
)
