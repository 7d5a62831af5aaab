"""One line of strace: whose it is, which call, with what arguments, and whether it came back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from flatline.bundle.facts import Syscall
from flatline.texts.syscall_numbers import NAMES
from flatline.texts.syscalls import descriptor_at, timeout_at, waits_for_ever

CALLS = frozenset(name for table in NAMES.values() for name in table.values()) | {"restart_syscall", "_newselect"}
PREFIX = (
    r"(?:\[pid {1,8}(?P<pid>\d{1,9})\] |(?P<bare_pid>\d{1,9}) {1,6})?"
    r"(?:(?P<time>\d\d:\d\d:\d\d(?:\.\d{1,9})?|\d{9,11}\.\d{6}|\d{4}-\d\d-\d\dT\S{8,30}) )?"
    r"(?: {0,6}[+ ]?\d{1,6}\.\d{6} |\(\+ {0,6}\d{1,6}\.\d{6}\) )?(?:\[[0-9a-f]{8,16}\] )?"
)
_CALL = re.compile(r"(?P<name>[a-z_][a-z0-9_]{1,30})\((?P<rest>.*)")
_RESUMED = re.compile(r"<\.\.\. (?P<name>[a-z_][a-z0-9_]{1,30}) resumed> ?(?P<rest>.*)")
_RESULT = re.compile(
    r"\)\s{1,60}= (?P<result>-?\d{1,20}|0x[0-9a-f]{1,16}|\?)(?: (?P<error>E[A-Z0-9]{1,20})\b)?(?:[ <].*)?$"
)
_OPEN_END = re.compile(r",? ?<(?:unfinished|detached) \.\.\.>\s*$")
_STRACES_OWN = re.compile(
    r"\d{1,9}(?:<.{0,4000}?>)?\s*(?:,|$)|0x[0-9a-f]{4,16}\s*(?:,|$)|NULL,|AT_FDCWD|-1, |[\[{\"]|<\.\.\. resuming"
    r"|P_(?:PID|ALL)|CLOCK_[A-Z]{4,20},|child_stack="
)
"""How the arguments of a call begin, where the end of the line is lost."""
_RESUMING = re.compile(r"<\.\.\. resuming interrupted (?P<name>\w{1,30}) \.\.\.>")
_DESCRIPTOR = re.compile(r"(?P<fd>\d{1,9})(?:<(?P<path>.*)>)?")
_SPAN = re.compile(r"\{(?:tv_sec=)?(?P<whole>\d{1,12}), (?:tv_n?u?sec=)?(?P<part>\d{1,9})\}")
_POLLED = re.compile(r"\{fd=(\d{1,9})(?:<(.{0,400}?)>)?, events=")
_SELECTED = re.compile(r"(?<![^\s\[])(\d{1,9})(?:<([^>]{0,400})>)?(?=[\s\]])")
MAX_ARGUMENTS, MAX_POLLED = 4096, 64
_NEVER_WAIT = frozenset({"brk", "clone", "clone3", "fcntl", "mmap", "mprotect", "rt_sigaction", "rt_sigprocmask"})
"""Where the line ends early without a mark, these were cut."""


@dataclass(frozen=True)
class Called:
    """What a line says of a call."""

    name: str
    arguments: tuple[str, ...] = ()
    result: str | None = None
    """None: it has not come back."""
    error: str | None = None
    resumed: bool = False
    """The second half of a call that another thread's line interrupted; its arguments are those not printed before."""
    path_of: dict[int, str] = field(default_factory=dict)
    """What descriptors among the arguments are, where strace prints that (-y)."""

    @property
    def fd(self) -> int | None:
        position = descriptor_at(self.name)
        return None if position is None else descriptor_in(self.argument(position))[0]

    def polled(self) -> dict[int, str | None]:
        """Of poll and select: the descriptors it watches, and what they are where strace prints that."""
        if self.name in ("poll", "ppoll"):
            found = _POLLED.findall(self.argument(0)[:MAX_ARGUMENTS])
        elif self.name in ("select", "_newselect", "pselect6"):
            found = [one for n in (1, 2, 3) for one in _SELECTED.findall(self.argument(n))]
        else:
            return {}
        return {int(fd): path or None for fd, path in found[:MAX_POLLED]}

    @property
    def sleeps(self) -> bool:
        """Whether it waits for time alone: also a poll or select of no descriptor (time.sleep before Python 3.11)."""
        if self.name in ("select", "_newselect", "pselect6"):
            return self.argument(0) == "0"
        if self.name in ("poll", "ppoll"):
            return self.argument(1) == "0"
        return self.name in ("nanosleep", "clock_nanosleep")

    def argument(self, position: int) -> str:
        return self.arguments[position] if position < len(self.arguments) else ""

    def quoted(self) -> str | None:
        """The first text among the arguments, a path mostly."""
        return next((a[1:-1] for a in self.arguments if len(a) > 2 and a[0] == a[-1] == '"'), None)


def called(text: str) -> Called | None:
    """The call of a line without its prefix; None when it is none that strace prints so."""
    resumed = _RESUMED.match(text)
    found = resumed or _CALL.match(text)
    if found is None or found["name"] not in CALLS:
        return None
    rest = found["rest"]
    result = _RESULT.search(rest, max(0, len(rest) - 600))
    if result is None and not resumed:
        open_end = _OPEN_END.search(rest)
        rest = rest[: open_end.start()] if open_end else rest
        if not open_end and (not _STRACES_OWN.match(rest) or rest.rstrip().endswith(")")):
            return None
        again = _RESUMING.match(rest)
        if again:
            return Called(again["name"])
        if not open_end and (found["name"] in _NEVER_WAIT or not is_whole(rest)):
            return Called(found["name"], split(rest), "?")  # the paste is cut here, and nobody knows
    arguments = () if resumed and not result else split(rest[: result.start()] if result else rest)
    paths = {fd: path for fd, path in map(descriptor_in, arguments) if fd is not None and path}
    return Called(found["name"], arguments, result["result"] if result else None if not resumed else "?",
                  result["error"] if result else None, bool(resumed), paths)  # fmt: skip


def split(text: str) -> tuple[str, ...]:
    """The arguments, at the commas that are in no brackets and no quotes."""
    pieces: list[str] = []
    depth, begun, quoted, escaped = 0, 0, False, False
    for index, letter in enumerate(text[:MAX_ARGUMENTS]):
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = letter == "\\", letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>":
            depth -= 1
        elif letter == "," and depth <= 0:
            pieces.append(text[begun:index].strip())
            begun = index + 1
    pieces.append(text[begun:MAX_ARGUMENTS].strip())
    return tuple(piece for piece in pieces if piece)


def is_whole(text: str) -> bool:
    """Whether the last argument is printed to its end: strace stops behind one when the call does not return."""
    plain = re.sub(r'"(?:[^"\\]|\\.)*"(?:\.\.\.)?', "", text[:MAX_ARGUMENTS])
    balanced = all(plain.count(opening) == plain.count(closing) for opening, closing in ("()", "[]", "{}"))
    return balanced and '"' not in plain and not plain.rstrip().endswith(("|", "=", "_"))


def descriptor_in(text: str) -> tuple[int | None, str | None]:
    """``3`` and ``3</data/x>``: the number, and what it is."""
    found = _DESCRIPTOR.fullmatch(text)
    if found is None:
        return None, None
    path = found["path"]
    return int(found["fd"]), re.sub(r"<(?:char|block) \d+:\d+$", "", path) if path else None


def syscall_of(call: Called, path: str | None, watched: Iterable[int] = ()) -> Syscall:
    """The call as a fact: one that has not come back. `watched`: of an epoll."""
    timed, seconds = _timeout(call)
    numbers: list[int] = []
    for argument in call.arguments:
        fd, _ = descriptor_in(argument)
        if fd is None and not re.fullmatch(r"-?\d{1,18}|0x[0-9a-f]{1,16}", argument):
            break
        numbers.append(fd if fd is not None else int(argument, 0) if argument.startswith("0x") else int(argument))
    return Syscall(call.name, args=tuple(numbers), fd=call.fd, path=path, timed=timed, timeout_s=seconds,
                   target_pid=_target(call), watches=tuple(call.polled() or watched) or None)  # fmt: skip


def _timeout(call: Called) -> tuple[bool | None, float | None]:
    if waits_for_ever(call.name):
        return False, None
    position = timeout_at(call.name)
    text = call.argument(position) if position is not None else ""
    if call.name in ("poll", "epoll_wait", "epoll_pwait"):
        if not re.fullmatch(r"-?\d{1,12}", text):
            return None, None
        return (False, None) if int(text) < 0 else (True, int(text) / 1000)
    span = _SPAN.match(text)
    if span:
        if "TIMER_ABSTIME" in call.arguments:
            return True, None
        micro = call.name in ("select", "_newselect")
        return True, int(span["whole"]) + int(span["part"]) / (1e6 if micro else 1e9)
    return (False, None) if text == "NULL" else (None, None)


def _target(call: Called) -> int | None:
    text = call.argument(0)
    if call.name == "waitid" and text == "P_PID":
        text = call.argument(1)
    elif call.name not in ("wait4", "kill", "tgkill"):
        return None
    return int(text) if re.fullmatch(r"[1-9]\d{0,8}", text) else None
