"""Head and tail of a log, taken without ever waiting for it, and only from regular files."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass

from flatline.bundle.facts import READ_AHEAD
from flatline.bundle.format import LOG_HEAD, LOG_TOTAL

from ..confine import MAX_LINKS, Confined, NotRegularError, chunks, kind_of
from ..linux import unnoticed

_SEAM = 4096
"""How far from a cut a line's end is looked for: whole lines keep characters, and secrets the redactor can see."""
_SNIFFED = 4096
_O_PATH = getattr(os, "O_PATH", 0o10000000)
_WORDS = re.compile(rb"""(?:[^\s,;&(){}\[\]<>"']*[\s,;&(){}\[\]<>"']+)+""")
_WORD = re.compile(rb"""\s[\w.]+\s+|[,;&)}\]]""", re.ASCII)
"""Not ``--token`` nor ``password:``, whose value would follow."""
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Excerpt:
    """What was taken of one log."""

    size: int
    modified: float
    """st_mtime: seconds since the epoch."""
    inode: int
    device: int
    """st_dev."""
    head: bytes = b""
    tail: bytes = b""
    """Empty when `head` is all of it."""
    cut: tuple[int, int] | None = None
    """The bytes [from, to) that were not taken."""

    @property
    def content(self) -> bytes:
        """What the bundle keeps: the lines of the head, a line that says what is missing, the lines of the tail."""
        if not self.cut:
            return self.head + self.tail
        seam = "" if self.head.endswith(b"\n") else "\n"
        marker = f"{seam}[… {self.cut[1] - self.cut[0]} bytes not taken …]\n"
        return self.head + marker.encode() + self.tail

    @property
    def is_binary(self) -> bool:
        """Zero bytes at both ends. A log that was truncated under its writer begins with zeros, and ends in text."""
        end = self.tail or self.head
        return b"\0" in self.head[:_SNIFFED] and b"\0" in end[-_SNIFFED:]

    @property
    def ends_with_newline(self) -> bool | None:
        """None: it is empty."""
        end = self.tail or self.head
        return end.endswith(b"\n") if end else None

    @property
    def last_line(self) -> str | None:
        """The last line with something on it, as a terminal would show it: a bar overwrites itself after CR."""
        lines = (self.tail or self.head).decode("utf-8", "backslashreplace").rsplit("\n", 200)
        shown = (line.rstrip().rpartition("\r")[2].strip("\0") for line in reversed(lines))
        return next((line[:READ_AHEAD] for line in shown if line.strip()), None)


def take(descriptor: int, budget: int = LOG_TOTAL) -> Excerpt:
    """At most `budget` bytes of an open regular file: up to LOG_HEAD from its beginning, the rest from its end."""
    found = os.fstat(descriptor)
    size = found.st_size
    if size <= budget:
        head, tail, cut = _bytes(descriptor, 0, size), b"", None
    else:
        head = _whole_lines(_bytes(descriptor, 0, min(LOG_HEAD, budget)))
        begin = size - max(0, budget - LOG_HEAD)
        tail = _bytes(descriptor, begin, size - begin)
        skipped = _first_whole(tail)
        tail, cut = tail[skipped:], (len(head), begin + skipped)
    return Excerpt(size, found.st_mtime, found.st_ino, found.st_dev, head, tail, cut)


def _whole_lines(head: bytes) -> bytes:
    """Without the line at the end that is cut; without the word where a line is longer than the seam."""
    seam = max(0, len(head) - _SEAM)
    end = head.rfind(b"\n", seam) + 1
    words = _WORDS.match(head, seam)
    return head[: end or (words.end() if words else seam)]


def _first_whole(tail: bytes) -> int:
    """Where the first whole line begins; where there is none in reach, the first word that no name belongs to."""
    line = tail.find(b"\n", 0, _SEAM) + 1
    word = None if line else _WORD.search(tail, 0, _SEAM)
    return line or (word.end() if word else min(len(tail), _SEAM))


def _bytes(descriptor: int, offset: int, size: int) -> bytes:
    return b"".join(chunks(descriptor, offset, size))


def open_held(held: str, path: str, confined: Confined) -> int:
    """The file that ``/proc/PID/fd/N`` (`held`) stands for, opened with the rights of the job's user; by its `path`
    where the link may not be followed (a process that is not dumpable)."""
    try:
        found = os.open(held, _O_PATH | os.O_CLOEXEC)
    except PermissionError:
        return confined.open_regular(path)
    return _reopen_regular(found, path, confined.folder_of(path))


def open_given(path: str) -> int:
    """Open what the person who runs the collector named, with that person's rights.

    The way there may lead through links that somebody else made. Such a link is followed only to a file of its maker:
    a job must not point ``train.log`` at what only root may read. Walked by hand, so that nothing can be exchanged
    between the check and the opening. PermissionError when a link leads astray, NotRegularError for what is no file.
    """
    directory, makers, links = os.open("/", _O_PATH | os.O_CLOEXEC), set(), 0
    folder = None
    pending = [part for part in reversed(os.path.abspath(path).split("/")) if part]
    while pending:
        name = pending.pop()
        found = os.open(name, _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        seen = os.fstat(found)
        if not stat.S_ISLNK(seen.st_mode):
            folder = os.fstat(directory).st_ino
            os.close(directory)
            directory = found
            continue
        text = os.readlink("", dir_fd=found)
        os.close(found)
        makers.add(seen.st_uid)
        links += 1
        if links > MAX_LINKS:
            raise PermissionError("too many links on the way")
        pending += [part for part in reversed(text.split("/")) if part not in ("", ".")]
        if text.startswith("/"):
            os.close(directory)
            directory = os.open("/", _O_PATH | os.O_CLOEXEC)
    owner = os.fstat(directory).st_uid
    if makers - {0, os.geteuid(), owner}:
        os.close(directory)
        raise PermissionError("a link that another user made leads to a file that is not theirs")
    return _reopen_regular(directory, path, folder)


def _reopen_regular(found: int, path: str, folder: int | None) -> int:
    """Closes `found`. Nothing but a regular file is ever opened: a FIFO would gain a reader, a device would wake."""
    try:
        kind = kind_of(os.fstat(found).st_mode)
        if kind != "file":
            raise NotRegularError(kind, path)
        return unnoticed.open_file(found, folder=folder)
    finally:
        os.close(found)


def member_name(number: int, path: str) -> str:
    """``logs/03-train.log.txt``."""
    base = path[: -len(" (deleted)")] if path.endswith(" (deleted)") else path
    name = _NOT_A_NAME.sub("_", base.rstrip("/").rpartition("/")[2])[:60].lstrip(".") or "log"
    return f"logs/{number:02d}-{name}.txt"
