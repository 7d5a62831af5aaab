"""One line of a list of processes, by its columns, as the facts of a process and of one of its threads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from flatline.bundle.facts import Process, State, Thread, process_id, thread_id
from flatline.texts.command_lines import is_python_command, python_version, rank_flags, role_of

from .interface import HOST, Line

_STATES = frozenset("RSDTtZXI")
_ART = re.compile(r"(?:[|`\\ ─│└├-]*?[\\└├][_─]{1,2} )")
_DURATION = re.compile(
    r"(?:(?P<days>\d{1,6})-)?(?:(?P<hours>\d{1,4}):)?(?P<minutes>\d{1,6}):(?P<seconds>\d\d)(?:\.\d{1,2})?"
)
_SIZE = re.compile(r"(?P<number>\d{1,20}(?:[.,]\d{1,4})?)(?P<unit>[kKmMgGtTpP])?i?B?")
_UNITS = {"": 1024, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}
_KERNEL_THREAD = re.compile(r"\[[^\]]{1,200}\]")
_DEFUNCT = re.compile(r" <def(?:unct?|u?n?)>?$")
"""What ps prints behind the name of a zombie; the width of the terminal may cut it."""


@dataclass(frozen=True)
class Listed:
    """What one line says."""

    process: Process
    thread: Thread
    is_thread: bool
    """It is about one thread: the list has a line for each."""
    depth: int | None = None
    """Where a tree is drawn: how deep it stands."""
    has_threads: bool | None = None
    """The letter l of STAT; a list that prints no such letters has it nowhere."""


def listed(row: Mapping[str, str], line: Line) -> Listed | None:
    """None when it has no number of a process."""
    pid = _number(row.get("PID") or row.get("TGID"))
    tid = _number(row.get("LWP") or row.get("TID") or row.get("SPID"))
    if pid is None:
        pid = tid
    if pid is None:
        return None
    drawn = row.get("COMMAND") or row.get("CMD") or row.get("ARGS") or ""
    command, depth = without_art(drawn)
    state = "Z" if _DEFUNCT.search(command) else state_of(row.get("STAT") or row.get("S") or row.get("STATE") or "")
    name, argv = named(command)
    wchan = row.get("WCHAN")
    wchan = wchan if wchan not in (None, "-", "*", "?") else None
    process = _process(pid, row, line, name, argv, state)
    used = _cpu_ms(row)
    thread = Thread(
        thread_id(pid, tid or pid, HOST), process.id, pid, tid or pid, name=name if tid else None,
        is_main=(tid or pid) == pid, role=process.role, rank=process.rank, state=state, wchan=wchan,
        cpu_ms=used if tid else None, line=line.number,
    )  # fmt: skip
    process = replace(process, cpu_ms=None if tid else used)
    letters = row.get("STAT", "")
    return Listed(process, thread, is_thread=tid is not None, depth=depth,
                  has_threads="l" in letters if letters[:1] in ("R", "S", "D", "T") else None)  # fmt: skip


def _process(
    pid: int, row: Mapping[str, str], line: Line, name: str | None, argv: tuple[str, ...] | None, state: State
) -> Process:
    user = next((row[n] for n in ("USER", "UID", "EUSER", "RUSER", "EUID", "RUID") if row.get(n, "-") != "-"), None)
    uid = _number(row.get("UID") or row.get("EUID") or (user if user and user.isdecimal() else None))
    tty = row.get("TTY") or row.get("TT")
    letters = row.get("STAT", "")
    pgrp = _number(row.get("PGID") or row.get("PGRP"))
    foreground = _number(row.get("TPGID"), negative=True)
    is_python = _is_python(name, argv)
    flags = rank_flags(argv or ())
    return Process(
        process_id(pid, HOST), HOST, pid, ppid=_number(row.get("PPID")), age_s=_seconds(row.get("ELAPSED")),
        uid=uid, user=None if user is None or user.isdecimal() else user, name=name, argv=argv,
        role=role_of(argv or (), name or "") or "unknown",
        rank=line.rank if line.rank is not None else flags.get("rank"), local_rank=flags.get("local_rank"),
        world_size=flags.get("world_size"), node=flags.get("node"),
        python=python_version(argv or (), name), is_python=is_python, state=state, pgrp=pgrp,
        session=_number(row.get("SID") or row.get("SESS")) or (pid if "s" in letters[1:] else None),
        tty=None if tty is None else "none" if tty in ("?", "-") else tty.removeprefix("/dev/"),
        tty_foreground_pgrp=foreground if foreground is not None else pgrp if "+" in letters else None,
        rss=_bytes(row.get("RSS") or row.get("RSZ") or row.get("RES")), threads_total=_number(row.get("NLWP")),
        cgroup=_cgroup(row.get("CGROUP")), line=line.number,
    )  # fmt: skip


def _is_python(name: str | None, argv: tuple[str, ...] | None) -> bool | None:
    """None: nothing says so, or the list was cut at the width of a terminal in the middle of the path."""
    if is_python_command(argv or (), name):
        return True
    cut = argv is not None and len(argv) == 1 and "/" in argv[0]
    return None if name is None or cut else False


def without_art(drawn: str) -> tuple[str, int | None]:
    """The command without the tree before it, and how deep it stands there; None: no tree is drawn."""
    art = _ART.match(drawn)
    if art is None:
        return drawn.strip(), None
    return drawn[art.end() :].strip(), (art.end() + 1) // 4


def named(command: str) -> tuple[str | None, tuple[str, ...] | None]:
    """(comm, argv) of what a list prints as the command: a name alone, a command line, ``[kthreadd]``."""
    command = command.strip()
    if not command or command == "-":
        return None, None
    plain = _DEFUNCT.sub("", command).strip()
    if _KERNEL_THREAD.fullmatch(plain):
        return plain[1:-1][:15], None
    words = tuple(plain.split())
    if not words:
        return None, None
    if len(words) == 1 and not plain.startswith(("/", "./", "../", "-")):
        return plain[:15], None
    first = words[0].rstrip(":").rpartition("/")[2] or words[0]
    return first.lstrip("-")[:15] or None, words


def state_of(letters: str) -> State:
    """The first of ps's letters: ``Ssl+`` is S."""
    return cast(State, letters[0]) if letters[:1] in _STATES else "unknown"


def _number(text: str | None, *, negative: bool = False) -> int | None:
    if text is None:
        return None
    digits = text.removeprefix("-") if negative else text
    return int(text) if digits.isdecimal() and digits.isascii() and len(digits) <= 18 else None


def _seconds(text: str | None) -> float | None:
    """``[[DD-]HH:]MM:SS``."""
    found = _DURATION.fullmatch(text or "")
    if found is None:
        return None
    days, hours, minutes, seconds = (int(found[n] or 0) for n in ("days", "hours", "minutes", "seconds"))
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _cpu_ms(row: Mapping[str, str]) -> int | None:
    used = _seconds(row.get("TIME") or row.get("TIME+"))
    return None if used is None else int(used * 1000)


def _bytes(text: str | None) -> int | None:
    """Of a number in KiB, or with top's own unit behind it."""
    found = _SIZE.fullmatch(text or "")
    if found is None:
        return None
    return int(float(found["number"].replace(",", ".")) * _UNITS[(found["unit"] or "").lower()])


def _cgroup(text: str | None) -> str | None:
    if not text or text == "-":
        return None
    return text.rpartition(":")[2] if ":" in text else text
