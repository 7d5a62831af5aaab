"""What the links of /proc/PID/fd lead to (proc_pid_fd(5)): also as ls, lsof and strace print them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from flatline.bundle.facts import FdKind

ANONYMOUS: Mapping[str, FdKind] = {
    "eventpoll": "eventpoll", "eventfd": "eventfd", "timerfd": "timerfd", "pidfd": "pidfd", "signalfd": "signalfd",
    "inotify": "inotify",
}  # fmt: skip
_NUMBERED: Mapping[str, FdKind] = {"pipe": "pipe", "socket": "socket", "pidfd": "pidfd"}
_NUMBER = re.compile(r"(pipe|socket|pidfd):\[(\d{1,20})\]")
_TERMINAL = re.compile(r"/dev/(pts/\d+|tty\w*|console|hvc\d+|ptmx|pts/ptmx)")


def kind_of_link(link: str) -> tuple[FdKind, int | None]:
    """Its kind, and the number of a pipe or socket. ``unknown``: a path, which may be that of anything; ``other``: what
    has none, and is none of these."""
    numbered = _NUMBER.fullmatch(link)
    if numbered:
        return _NUMBERED[numbered[1]], int(numbered[2])
    if link.startswith("anon_inode:"):
        return ANONYMOUS.get(link.removeprefix("anon_inode:").strip("[]"), "other"), None
    if link.startswith("/memfd:"):
        return "memfd", None
    if link == "/dev/null":
        return "null", None
    if _TERMINAL.fullmatch(link):
        return "tty", None
    return ("unknown" if link.startswith("/") else "other"), None


def kind_of_printed(link: str) -> FdKind:
    """The same where only the text is there: a path below /dev is a device, any other a file."""
    kind, _ = kind_of_link(link)
    if kind != "unknown":
        return kind
    return "device" if link.startswith("/dev/") and not link.startswith("/dev/shm/") else "file"
