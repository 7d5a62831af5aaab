"""Locks on files: ``lslocks`` (any columns, or rows without their headline) and the kernel's own list, /proc/locks.

COMMAND   PID  TYPE SIZE MODE   M START END PATH
python  31264 FLOCK   0B WRITE* 0     0   0 /data/cache/set.lock

3: FLOCK  ADVISORY  WRITE 31264 08:02:131 0 EOF
3: -> FLOCK  ADVISORY  WRITE 33590 08:02:131 0 EOF
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal

from flatline.bundle.facts import Lock, Process, process_id

from .interface import HOST, Line, Lines, Parsed, Parser, any_of
from .process_rows import named

Kind = Literal["flock", "posix", "ofd", "lease"]
_KINDS: dict[str, Kind] = {"FLOCK": "flock", "POSIX": "posix", "OFDLCK": "ofd", "LEASE": "lease", "DELEG": "lease"}
_MODES: dict[str, Literal["read", "write"]] = {"READ": "read", "WRITE": "write"}
_TYPE = "|".join(_KINDS)

# --- lslocks ---

_NAMES = "COMMAND|PID|TYPE|SIZE|MODE|M|START|END|PATH|BLOCKER|INODE|MAJ:MIN|HOLDERS"
_HEAD = re.compile(
    rf"(?=.{{0,80}}\bPID\b)(?=.{{0,80}}\b(?:PATH|MODE|TYPE)\b)(?:{_NAMES})(?:\s+(?:{_NAMES})){{2,12}}\s*$"
)
_COLUMNS = ("COMMAND", "PID", "TYPE", "SIZE", "MODE", "M", "START", "END", "PATH")
_ROW = re.compile(
    rf"\S{{1,64}}\s+-?\d{{1,9}}\s+(?:{_TYPE})\s+(?:\S{{1,12}}\s+)?(?:READ|WRITE)\*?\s+[01]\s+\d{{1,20}}\s+\d{{1,20}}(?:\s|$)"
)
_WORDS = {
    "PID": r"-?\d{1,9}", "TYPE": rf"(?:{_TYPE}|UNKNOWN)", "SIZE": r"\d{1,18}(?:\.\d{1,3})?[BKMGTP]?",
    "MODE": r"(?:READ|WRITE|UNKNOWN)\*?", "BLOCKER": r"\d{1,9}", "PATH": r"/.{0,1000}?", "INODE": r"\d{1,20}",
}  # fmt: skip
_MAY_LACK = ("SIZE", "PATH", "BLOCKER", "HOLDERS")
"""Of a file that may not be read no size and no path are shown; what does not wait has nobody who blocks it."""


def parse_lslocks(lines: Lines, start: int) -> Parsed | None:
    """Holders and those who wait; the file tells which belong together."""
    head = bool(_HEAD.match(lines[start].bare))
    columns = tuple(lines[start].bare.split()) if head else _COLUMNS
    rows: list[Process | Lock] = []
    files: dict[str, int] = {}
    begun = end = start + head
    for index in range(begun, len(lines)):
        row = _fields(lines[index].bare, columns)
        if row is None:
            break
        rows += _of_row(row, lines[index], files)
        end = index + 1
    return Parsed(end, tuple(rows), about=f"{end - begun} locks") if rows else None


@cache
def _row_of(columns: tuple[str, ...]) -> re.Pattern[str]:
    words = ((name, rf"(?P<c{number}>{_WORDS.get(name, r'[^ ]{1,64}')})") for number, name in enumerate(columns))
    return re.compile("".join(rf"(?:{word}(?:\s+|$)){'?' if name in _MAY_LACK else ''}" for name, word in words) + "$")


def _fields(bare: str, columns: tuple[str, ...]) -> dict[str, str] | None:
    """The words by their columns; None: no row."""
    found = _row_of(columns).match(bare)
    if found is None:
        return None
    return {name: word for number, name in enumerate(columns) if (word := found[f"c{number}"])}


def _of_row(row: dict[str, str], line: Line, files: dict[str, int]) -> Iterator[Process | Lock]:
    path, mode, pid = row.get("PATH"), row.get("MODE", ""), int(row["PID"])
    inode = (
        int(row["INODE"])
        if row.get("INODE", "").isdecimal()
        else files.setdefault(path or f"line {line.number}", -line.number)
    )
    owner = process_id(pid, HOST) if pid > 0 else None

    def lock(owner: str | None, *, waiting: bool) -> Lock:
        return Lock(
            f"{HOST}/lock/{path or -line.number}", inode, kind=_KINDS.get(row.get("TYPE", ""), "unknown"),
            mode=_MODES.get(mode.rstrip("*"), "unknown"), waiting=waiting, owner_process=owner,
            # It ends in dots where only the mount point is known.
            path=None if path is None or path.endswith("...") else path, line=line.number,
        )  # fmt: skip

    if owner is not None:
        yield Process(owner, HOST, pid, name=named(row.get("COMMAND", ""))[0], line=line.number)
    yield lock(owner, waiting=mode.endswith("*") or "BLOCKER" in row)
    if "BLOCKER" in row:
        blocker = int(row["BLOCKER"])
        yield Process(process_id(blocker, HOST), HOST, blocker, line=line.number)
        yield lock(process_id(blocker, HOST), waiting=False)


# --- /proc/locks ---

_KERNEL_ROW = re.compile(
    rf"(?:\d{{1,6}}: )?(?P<waits>-> )?(?P<kind>{_TYPE})\s+(?:ADVISORY|MANDATORY|ACTIVE|BREAKING|BREAKER|MSNFS)\s+"
    r"(?P<mode>READ|WRITE|NONE|RW)\s+(?P<pid>-?\d{1,9})\s+"
    r"(?P<major>[0-9a-f]{2,4}):(?P<minor>[0-9a-f]{2,6}):(?P<inode>\d{1,20})\s+(?P<start>\d{1,20})\s+(?P<end>\d{1,20}|EOF)$"
)


def parse_kernel_locks(lines: Lines, start: int) -> Parsed | None:
    """Its lines: a request has the file of the lock that it waits for. Their numbers may have been taken for ranks."""
    rows: list[Process | Lock] = []
    end = start
    for index in range(start, len(lines)):
        found = _KERNEL_ROW.match(lines[index].bare)
        if found is None:
            break
        device = f"{int(found['major'], 16)}:{int(found['minor'], 16)}"
        pid, inode = int(found["pid"]), int(found["inode"])
        owner = process_id(pid, HOST) if pid > 0 else None
        if owner is not None:
            rows.append(Process(owner, HOST, pid, line=lines[index].number))
        rows.append(Lock(
            f"{HOST}/lock/{device}:{inode}", inode, device, _KINDS[found["kind"]], _MODES.get(found["mode"], "unknown"),
            waiting=bool(found["waits"]), owner_process=owner,
            start=int(found["start"]), end=None if found["end"] == "EOF" else int(found["end"]),
            line=lines[index].number,
        ))  # fmt: skip
        end = index + 1
    return Parsed(end, tuple(rows), about=f"{end - start} locks") if rows else None


PARSERS = (
    Parser("lslocks", any_of(_HEAD, _ROW), parse_lslocks),
    Parser("proc-locks", _KERNEL_ROW, parse_kernel_locks),
)
