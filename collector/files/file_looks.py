"""Looks at paths as the job would see them, each in a child that may be lost, and none twice on a mount that stalls."""

from __future__ import annotations

import os
import posixpath
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from flatline.bundle.facts import READ_AHEAD, File

from ..confine import Confined, ConfineFailed, device_of, kind_of, run_as_target
from ..linux.mounts import MountLine, mount_of
from ..probes.interface import Target
from ..stacks.polled_files import is_lock_name
from . import permissions

T = TypeVar("T")
Why = Literal["argument", "environment", "log", "cache", "cwd", "stack", "usual", "unknown"]

MOST_STALLS = 3
_BATCH = 50
_BATCH_S = 1.5


@dataclass
class Looker:
    """Looks with the eyes of one target; remembers what did not answer."""

    target: Target
    mounts: Sequence[MountLine]
    proc: str = "/proc"
    cwd: str = "/"
    dead: set[str] = field(default_factory=set)
    """Mounts that did not answer; shared by all who look at one job, so that each costs one limit."""
    stalled_paths: list[str] = field(default_factory=list)
    """Paths whose file system did not answer, and those that were not asked for as they lie there too."""
    failed: list[ConfineFailed] = field(default_factory=list)
    _stalls: int = 0

    def mount_at(self, path: str) -> MountLine | None:
        return mount_of(posixpath.normpath(posixpath.join(self.cwd, path)), self.mounts)

    def each(
        self, paths: Sequence[str], look: Callable[[Confined, str], T], *, together: int = _BATCH
    ) -> Iterator[tuple[str, T]]:
        """`look` at each path, `together` of them within one limit. Those that could not be looked at are left out,
        and noted here."""
        pending = list(paths)
        while pending and self._stalls < MOST_STALLS:
            batch = [path for path in pending[:together] if not self._is_known_dead(path)]
            pending = pending[together:]
            done = 0
            for answer in run_as_target(self.target, _looks(batch, look), proc=self.proc, limit_s=_BATCH_S):
                if not isinstance(answer, ConfineFailed):
                    yield batch[done], answer
                    done += 1
                elif answer.reason != "timeout" or done == len(batch):
                    self.failed.append(answer)
                    return
                else:
                    self._note_stall(batch[done])
                    pending = batch[done + 1 :] + pending
        self.stalled_paths += pending

    def _is_known_dead(self, path: str) -> bool:
        mount = self.mount_at(path)
        if mount is None or mount.path not in self.dead:
            return False
        self.stalled_paths.append(path)
        return True

    def _note_stall(self, path: str) -> None:
        """On a local file system it was a link that led to a dead one."""
        mount = self.mount_at(path)
        if mount is not None and not mount.is_local:
            self.dead.add(mount.path)
        self.stalled_paths.append(path)
        self._stalls += 1


def _looks(batch: Sequence[str], look: Callable[[Confined, str], T]) -> Callable[[Confined], Iterator[T]]:
    return lambda confined: (look(confined, path) for path in batch)


# --- in the child, as the job's user ---


def describe(confined: Confined, path: str) -> File:
    """One path as a row. It may be there and yet not be seen: then `exists` is unknown and nothing is permitted."""
    row = File(confined.absolute(path))
    try:
        found = confined.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return replace(row, kind="missing", exists=False)
    except PermissionError:
        return replace(row, readable=False, writable=False, why_not_writable="hidden")
    except OSError:
        return row
    is_lock = stat.S_ISREG(found.st_mode) and is_lock_name(path)
    acl = permissions.access_list(confined, path)
    return replace(
        row,
        kind="lock" if is_lock else kind_of(found.st_mode),
        exists=found.st_nlink > 0,
        readable=_may(confined, path, os.R_OK),
        **_writing(confined, path, found, acl),
        mode=stat.S_IMODE(found.st_mode),
        acl=acl,
        uid=found.st_uid,
        gid=found.st_gid,
        size=found.st_size,
        age_s=round(max(0.0, time.time() - found.st_mtime), 1),
        inode=found.st_ino,
        device=device_of(found.st_dev),
        content=_content(confined, path) if is_lock else None,
    )


def describe_parent(confined: Confined, path: str) -> File:
    """The nearest folder above that is there: whether what is missing could be made."""
    while True:
        path = posixpath.dirname(path.rstrip("/")) or ("/" if path.startswith("/") else ".")
        row = describe(confined, path)
        if row.exists is not False or path in ("/", "."):
            return row


def _may(confined: Confined, path: str, mode: int) -> bool | None:
    try:
        return confined.access(path, mode)
    except OSError:
        return None


def _writing(confined: Confined, path: str, found: os.stat_result, acl: tuple[str, ...] | None) -> dict[str, Any]:
    """Whether the job may write there (in a folder: make files), and if not, why."""
    wanted = os.W_OK | os.X_OK if stat.S_ISDIR(found.st_mode) else os.W_OK
    try:
        refused = confined.access_error(path, wanted)
    except OSError:
        return {}
    if not refused:
        return {"writable": True}
    return {"writable": False, "why_not_writable": permissions.why_not(refused, wanted, found, acl)}


def _content(confined: Confined, path: str) -> str | None:
    try:
        return confined.read(path, 0, READ_AHEAD).decode("utf-8", "backslashreplace")
    except OSError:
        return None


def listing(confined: Confined, folder: str, most: int, around: Collection[str] = ()) -> str:
    """A folder as ``ls -l`` would print it; of mount points (`around`), of which one may be dead, the name only."""
    names = confined.listdir(folder, most + 1)
    lines = [_listed(confined, folder, name, around) for name in sorted(names[:most])]
    if len(names) > most:
        lines.append(f"[… more than {most} names, the rest was not read …]")
    return "".join(f"{line}\n" for line in lines)


def _listed(confined: Confined, folder: str, name: str, around: Collection[str]) -> str:
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if confined.absolute(name if folder == "." else posixpath.join(folder, name)) in around:
        return f"d????????? {shown} (another file system)"
    try:
        found = confined.stat(posixpath.join(folder, name), follow=False)
    except OSError as error:
        return f"?????????? {shown} ({error.strerror})"
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime))
    return f"{stat.filemode(found.st_mode)} {found.st_uid:>6} {found.st_size:>14} {when} {shown}"


@dataclass(frozen=True)
class Walk:
    """How far lock files are looked for."""

    depth: int
    most: int
    """Names that are read, in all folders together."""
    limit_s: float
    around: frozenset[str] = frozenset()
    """Absolute paths that are not entered: mount points, of which one may be dead."""


def find_locks(confined: Confined, folder: str, walk: Walk) -> list[str]:
    """Lock files below a folder, nearest first."""
    end = time.monotonic() + walk.limit_s
    left = walk.most
    found: list[str] = []
    level = [folder]
    for _ in range(walk.depth):
        below: list[str] = []
        for here in level:
            names = _names(confined, here, left) if left > 0 and time.monotonic() < end else []
            left -= len(names)
            for name in names:
                path = name if here == "." else posixpath.join(here, name)
                if is_lock_name(name):
                    found.append(path)
                elif confined.absolute(path) not in walk.around and _could_be_folder(name):
                    below += [path] if _is_folder(confined, path) else []
        level = below
    return found


def _could_be_folder(name: str) -> bool:
    """Spares a look at each of a million images; folders with a suffix are those of versions."""
    suffix = posixpath.splitext(name)[1]
    return name not in (".git", "__pycache__", "node_modules") and (not suffix or suffix[1:2].isdigit())


def _names(confined: Confined, folder: str, most: int) -> list[str]:
    try:
        return sorted(confined.listdir(folder, most))
    except OSError:
        return []


def _is_folder(confined: Confined, path: str) -> bool:
    try:
        return stat.S_ISDIR(confined.stat(path, follow=False).st_mode)
    except OSError:
        return False
