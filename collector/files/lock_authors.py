"""Who wrote a lock file, and whether that process still lives: a pid means something on one host, in one container.

On a shared file system, or in a folder that two containers share, the number in a lock file may be that of a process
nobody here can see. Its life is then unknown, and never "ended".
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flatline.bundle.facts import File

from ..linux import hostname
from ..linux.census import INITIAL_PID_NAMESPACE
from ..linux.procfs import ProcFS, Unread
from ..probes.interface import Target

TOLERANCE_S = 5.0
"""By how much a process may seem younger than the lock file it wrote: clocks jump."""

_HOST = r"[\w.-]+(?:\?\w+)*(?:\?pidns-[0-9a-f]+)?"
_PID = re.compile(r"(?i)\A\s*(\d{1,8})\s*(?:\n|\Z|@)|\bpid\W{0,4}(\d{1,8})\b")
_NAMED_HOST = re.compile(rf"(?i)\bhost(?:name)?\W{{1,4}}({_HOST})|\A\s*\d{{1,8}}@({_HOST})")
_SECOND_LINE = re.compile(rf"\A\s*\d{{1,8}}[ \t]*\n({_HOST})[ \t]*(?:\n|\Z)")
_NAMESPACE = "?pidns-"
"""filelock 4 puts the PID namespace behind the host's name, in hexadecimal, when it is not the initial one."""


@dataclass(frozen=True)
class Author:
    """What a lock file says of who wrote it."""

    pid: int
    host: str | None = None
    namespace: str | None = None
    """``pid:[4026532201]`` where the file says so."""


def author_in(content: str) -> Author | None:
    """The pid a lock file names: alone on its first line, after ``pid``, or as JSON; and the host beside it."""
    found = _in_json(content) or _in_text(content)
    if found is None or found.host is None or _NAMESPACE not in found.host:
        return found
    host, _, number = found.host.partition(_NAMESPACE)
    return Author(found.pid, host, f"pid:[{int(number, 16)}]")


def _in_json(content: str) -> Author | None:
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict) or type(parsed.get("pid")) is not int:
        return None
    names = (parsed.get(key) for key in ("host", "hostname", "node"))
    return Author(parsed["pid"], next((name for name in names if isinstance(name, str) and name), None))


def _in_text(content: str) -> Author | None:
    pid = _PID.search(content)
    if pid is None:
        return None
    second = _SECOND_LINE.search(content)
    beside = second[1] if second and not second[1].replace(".", "").isdigit() else None
    named = _NAMED_HOST.search(content)
    return Author(int(pid[1] or pid[2]), beside or (named and (named[1] or named[2])) or None)


@dataclass
class Authors:
    """Answers for the lock files that one process meets. What must be looked up is looked up once."""

    target: Target
    proc: ProcFS
    living: set[int] = field(default_factory=set)
    """Our numbers of those that were found to live."""
    _namespace: Any = field(init=False)

    def __post_init__(self) -> None:
        self._namespace = self.proc.link(self.target.pid, "ns", "pid")

    def of(self, file: File) -> File:
        """The file with its author, and whether that one lives; None: it cannot be told from here."""
        author = None if file.content is None else author_in(file.content)
        if author is None:
            return file
        return replace(
            file, author_pid=author.pid, author_host=author.host, author_alive=self._is_alive(author, file)
        )

    def _is_alive(self, author: Author, file: File) -> bool | None:
        if isinstance(self._namespace, Unread) or (author.namespace or self._namespace) != self._namespace:
            return None
        if author.host is not None and not self._is_here(author.host):
            return None
        for pid in self._candidates(author.pid):
            seen = self.proc.stat(pid)
            if isinstance(seen, Unread) or seen.state in ("Z", "X"):
                continue
            # A younger process has only inherited the number.
            if file.age_s is not None and self.proc.age_s(seen.start_ticks) + TOLERANCE_S < file.age_s:
                return False
            self.living.add(pid)
            return True
        return None if self._may_be_out_of_sight(author, file) else False

    def _is_here(self, host: str) -> bool:
        """Whether this is a name of the host the job sees itself on, with or without its domain."""
        name = self._hostname
        if name is None:
            return False
        domains = "." in host and "." in name
        return host == name if domains else host.partition(".")[0] == name.partition(".")[0]

    @cached_property
    def _hostname(self) -> str | None:
        return hostname.of_process(self.target.pid, self.proc)

    @cached_property
    def _sees_itself_in(self) -> str:
        link = self.proc.link("self", "ns", "pid")
        return "" if isinstance(link, Unread) else link

    def _candidates(self, number: int) -> Iterator[int]:
        """Processes that have this number in the job's own numbering."""
        if self._sees_itself_in == self._namespace:
            yield number
            return
        for pid in self._inner_numbers.get(number, ()):
            if self.proc.link(pid, "ns", "pid") == self._namespace:
                yield pid

    @cached_property
    def _inner_numbers(self) -> Mapping[int, list[int]]:
        """Number in its own container -> our numbers of the processes that have it, of all in a container."""
        found: dict[int, list[int]] = defaultdict(list)
        pids = self.proc.numbers()
        for pid in pids if isinstance(pids, list) else ():
            status = self.proc.status(pid)
            numbers = [] if isinstance(status, Unread) else status.get("NSpid", "").split()
            if len(numbers) > 1:
                found[int(numbers[-1])].append(pid)
        return found

    def _may_be_out_of_sight(self, author: Author, file: File) -> bool:
        """Whether a living process may have written this number all the same: hidden, or in another container."""
        if self._is_hidden(author.pid) or self._inner_numbers.get(author.pid):
            return True
        sees_every_container = self._sees_itself_in == INITIAL_PID_NAMESPACE
        return not (sees_every_container or author.host or author.namespace or self._is_in_own_root(file))

    def _is_in_own_root(self, file: File) -> bool:
        """A file of the container's own root was written in that container; one of a volume may be shared."""
        try:
            root = os.stat(self.proc.path(self.target.pid, "root")).st_dev
        except OSError:
            return False
        return file.device == f"{os.major(root)}:{os.minor(root)}"

    def _is_hidden(self, number: int) -> bool:
        """hidepid: not in our /proc, and yet there."""
        if self._sees_itself_in != self._namespace or not isinstance(self.proc.stat(number), Unread):
            return False
        try:
            os.kill(number, 0)
        except PermissionError:
            return True
        except (ProcessLookupError, OverflowError):
            return False
        return True
