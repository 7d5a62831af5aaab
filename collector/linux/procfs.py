"""Reading and parsing /proc: small parsers, and a reader that answers with a value or with the reason why not.

Which reads can block: ``cmdline``, ``environ`` and ``maps`` take the process's mmap lock, and wait for as long as a
page fault on a dead mount holds it. ``stat``, ``status``, ``wchan``, ``syscall``, ``io``, ``fd`` and the links
(``exe``, ``cwd``, ``root``, ``ns``) do not. Read those first, the three others last, in a child that may be lost.

Sources: proc_pid_stat(5), proc_pid_status(5), proc_pid_maps(5), proc_pid_limits(5), proc_pid_syscall(5).
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Union, cast

from flatline.bundle.facts import State
from flatline.texts.proc_files import (  # noqa: F401  the probes ask for them beside the reader
    LimitLine,
    parse_cgroup,
    parse_fields,
    parse_kilobytes,
    parse_last_pid,
    parse_limits,
    parse_signals,
)

BLOCKING = frozenset({"cmdline", "environ", "maps"})
"""The files below /proc/PID that take the mmap lock."""
SMALL = 64 * 1024
LARGE = 5 * 1024**2
KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in the flags of stat."""
NO_TERMINAL = "none"

_LETTERS = frozenset("RSDTtZXI")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Unread:
    """Why something could not be read. ``absent``: the process is gone, or this kernel has no such file."""

    reason: Literal["denied", "absent", "error"]
    detail: str = ""


@dataclass(frozen=True)
class Stat:
    """What /proc/PID/stat or /proc/PID/task/TID/stat says."""

    pid: int
    name: str
    """comm as it is; it may hold spaces, parentheses and newlines."""
    state: State
    ppid: int
    pgrp: int
    session: int
    tty_nr: int
    tty_foreground_pgrp: int
    flags: int
    minor_faults: int
    major_faults: int
    user_ticks: int
    system_ticks: int
    threads: int
    start_ticks: int
    rss_pages: int
    start_code: int
    """0 or 1 when we may not see it: compare it only when it is larger."""
    start_stack: int
    exit_code: int
    """A wait status; 0 too when we may not see it. Of a stopped process the signal, until its parent has asked."""

    @property
    def is_kernel_thread(self) -> bool:
        return bool(self.flags & KERNEL_THREAD)


@dataclass(frozen=True)
class Mapping:
    """One line of /proc/PID/maps."""

    start: int
    end: int
    permissions: str
    offset: int
    device: str
    inode: int
    path: str
    """Empty for anonymous memory; ``[heap]``, ``/lib/libc.so.6``, ``/dev/shm/x (deleted)``."""

    def offset_of(self, address: int) -> int:
        """Where in the file an address of this mapping is."""
        return address - self.start + self.offset


def text_of(raw: bytes) -> str:
    """Bytes as text that can be written anywhere: what is not UTF-8 becomes ``\\xff``."""
    return raw.decode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """A name on one line: control characters become ``\\x0a``, so that no terminal obeys them."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def state_of(letter: str) -> State:
    """The kernel's letter; one we do not know is ``unknown``."""
    return cast(State, letter) if letter in _LETTERS else "unknown"


def parse_stat(text: str) -> Stat:
    """ValueError when the line is not one of stat. comm may itself hold ``) R 1``: the last parenthesis ends it."""
    opening, closing = text.index("("), text.rindex(")")
    rest = text[closing + 1 :].split()
    if len(rest) < 22:
        raise ValueError("a stat line that ends early")
    number = [0, 0, 0] + [int(field) if _is_number(field) else 0 for field in rest[1:]]

    def field(position: int) -> int:
        """As proc_pid_stat(5) counts them, from 1."""
        return number[position - 1] if position <= len(number) else 0

    return Stat(
        pid=int(text[:opening]),
        name=text[opening + 1 : closing],
        state=state_of(rest[0]),
        ppid=field(4),
        pgrp=field(5),
        session=field(6),
        tty_nr=field(7),
        tty_foreground_pgrp=field(8),
        flags=field(9),
        minor_faults=field(10),
        major_faults=field(12),
        user_ticks=field(14),
        system_ticks=field(15),
        threads=field(20),
        start_ticks=field(22),
        rss_pages=field(24),
        start_code=field(26),
        start_stack=field(28),
        exit_code=field(52),
    )


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdecimal()


def parse_maps(text: str) -> Iterator[Mapping]:
    """The mappings, in order of address; lines that do not parse are left out."""
    for line in text.splitlines():
        fields = line.split(None, 5)
        try:
            start, _, end = fields[0].partition("-")
            yield Mapping(
                int(start, 16),
                int(end, 16),
                fields[1],
                int(fields[2], 16),
                fields[3],
                int(fields[4]),
                printable(fields[5]) if len(fields) > 5 else "",
            )
        except (ValueError, IndexError):
            continue


def terminal_name(tty_nr: int) -> str:
    """``pts/3``, ``tty1``, ``none``; the numbers are those of Documentation/admin-guide/devices.txt."""
    if tty_nr == 0:
        return NO_TERMINAL
    major, minor = (tty_nr >> 8) & 0xFFF, (tty_nr & 0xFF) | ((tty_nr >> 12) & 0xFFF00)
    if 136 <= major <= 143:
        return f"pts/{(major - 136) * 256 + minor}"
    if major == 4:
        return f"tty{minor}" if minor < 64 else f"ttyS{minor - 64}"
    return f"{major}:{minor}"


def exit_status(wait_status: int) -> int:
    """The exit code, or minus the signal."""
    signal = wait_status & 0x7F
    return -signal if signal else (wait_status >> 8) & 0xFF


def parse_argv(raw: bytes) -> tuple[str, ...]:
    """The arguments. A title that is written over them is padded with NUL, which are no empty arguments."""
    padded = raw.endswith(b"\0\0\0")
    pieces = (raw.rstrip(b"\0") if padded else raw[:-1] if raw.endswith(b"\0") else raw).split(b"\0")
    return tuple(text_of(piece) for piece in pieces) if raw.strip(b"\0") else ()


def parse_environ(raw: bytes) -> tuple[dict[str, str], Literal["read", "overwritten", "empty"]]:
    """The variables, and whether they are still there: a long process title overwrites them, and has no ``=``."""
    entries = [entry for entry in raw.split(b"\0") if entry]
    if not entries:
        return {}, "empty" if not raw else "overwritten"
    named = [text_of(entry).partition("=") for entry in entries]
    variables = {name: value for name, equals, value in named if equals and name}
    return variables, "read" if 2 * len(variables) > len(entries) else "overwritten"


Text = Union[str, Unread]


class ProcFS:
    """/proc, or a stand-in for it. No read raises: a process that vanished or refuses is an `Unread`."""

    def __init__(self, root: str = "/proc") -> None:
        self.root = root
        self.ticks_per_second = os.sysconf("SC_CLK_TCK")
        self.page_size = os.sysconf("SC_PAGE_SIZE")

    def path(self, *parts: object) -> str:
        return "/".join((self.root, *map(str, parts)))

    def raw(self, *parts: object, limit: int = SMALL) -> bytes | Unread:
        """At most `limit` bytes of a file. Never opens what could be a device or a FIFO for writing."""
        try:
            descriptor = os.open(self.path(*parts), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            return _unread(error)
        try:
            return _read(descriptor, limit)
        except OSError as error:
            return _unread(error)
        finally:
            os.close(descriptor)

    def text(self, *parts: object, limit: int = SMALL) -> Text:
        raw = self.raw(*parts, limit=limit)
        return raw if isinstance(raw, Unread) else text_of(raw)

    def link(self, *parts: object) -> Text:
        """Where a link points, on one line."""
        try:
            return printable(text_of(os.readlink(os.fsencode(self.path(*parts)))))
        except OSError as error:
            return _unread(error)

    def numbers(self, *parts: object) -> list[int] | Unread:
        """The names of a folder that are numbers, sorted: processes, threads, descriptors."""
        try:
            return sorted(int(name) for name in os.listdir(self.path(*parts)) if name.isdecimal())
        except OSError as error:
            return _unread(error)

    def stat(self, pid: int, tid: int | None = None) -> Stat | Unread:
        parts = (pid,) if tid is None else (pid, "task", tid)
        text = self.text(*parts, "stat")
        if isinstance(text, Unread):
            return text
        try:
            return parse_stat(text)
        except ValueError as error:
            return Unread("error", str(error))

    def status(self, pid: int, tid: int | None = None) -> dict[str, str] | Unread:
        parts = (pid,) if tid is None else (pid, "task", tid)
        text = self.text(*parts, "status")
        return text if isinstance(text, Unread) else parse_fields(text)

    def argv(self, pid: int) -> tuple[str, ...] | Unread:
        """May block (see the module). Empty for a kernel thread and a zombie; one piece after setproctitle."""
        raw = self.raw(pid, "cmdline", limit=LARGE)
        return raw if isinstance(raw, Unread) else parse_argv(raw)

    def environ(self, pid: int) -> bytes | Unread:
        """May block (see the module). `parse_environ` tells what it is worth."""
        return self.raw(pid, "environ", limit=LARGE)

    def maps(self, pid: int) -> list[Mapping] | Unread:
        """May block (see the module)."""
        text = self.text(pid, "maps", limit=LARGE)
        return text if isinstance(text, Unread) else list(parse_maps(text))

    def is_permitted(self, pid: int) -> bool:
        """Whether we have ptrace rights: without them some files lie (wchan reads 0, exit codes read 0)."""
        link = self.link(pid, "exe")
        return not isinstance(link, Unread) or link.reason != "denied"

    def age_s(self, start_ticks: int) -> float:
        """Seconds since a process started. Not from /proc/uptime, which lxcfs replaces with the container's."""
        return max(0.0, time.clock_gettime(_SINCE_BOOT) - start_ticks / self.ticks_per_second)

    def milliseconds(self, ticks: int) -> int:
        return ticks * 1000 // self.ticks_per_second


_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _read(descriptor: int, limit: int) -> bytes:
    pieces, left = [], limit
    while left > 0:
        piece = os.read(descriptor, min(left, 1024 * 1024))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _unread(error: OSError) -> Unread:
    if error.errno in (errno.EACCES, errno.EPERM):
        return Unread("denied", error.strerror or "")
    if error.errno in (errno.ENOENT, errno.ESRCH, errno.ENOTDIR):
        return Unread("absent", error.strerror or "")
    return Unread("error", error.strerror or str(error))
