"""The files that a polling stack waits for: a lock file somebody left, or one that never appears.

A thread that sleeps, looks and sleeps again names in its locals what it looks for. Only strings that are paths are
kept. They are looked at as the job's user, and lock files in the folders they name as well: a baton such as
``<folder>/lock`` is often an attribute, and only its folder a local.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flatline.bundle.facts import READ_AHEAD, File, Lock, process_id
from flatline.texts.stack_lines import RawThread

from ..confine import Confined, ConfineFailed, device_of, kind_of, run_as_target
from ..files.lock_authors import Authors
from ..linux import locks
from ..linux.grandchild import Answer, ask
from ..linux.mounts import MountLine, by_id, mount_of
from ..linux.procfs import ProcFS, Unread
from ..probes.interface import Gap, Target, View
from .pyspy import unquoted

MAX_PATH = 400
MAX_PATHS = 40
MAX_ENTRIES = 500
MAX_LOCKS = 40
LOOK_LIMIT_S = 1.0
HOLDERS_LIMIT_S = 1.0

_SUFFIXES = (
    ".lock", ".lck", ".pid", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".pt", ".pth", ".ckpt", ".safetensors",
    ".bin", ".npy", ".npz", ".h5", ".parquet", ".arrow", ".csv", ".txt", ".log", ".so", ".done", ".ready", ".tmp",
)
_SECRET_NAME = re.compile(r"(?i)pass|secret|token|credential|(?:^|_)key$|api_?key|auth")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Wanted:
    """A path and which local of which function names it; `printed` is the local as py-spy prints it."""

    path: str
    named_by: str
    printed: str


@dataclass
class Found:
    """What a look brought; `paths` are the locals worth keeping, as printed -> path."""

    files: list[File] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    locks: list[Lock] = field(default_factory=list)
    """The kernel's locks on these files. A thread that tries, closes and sleeps has them open only for moments."""
    people: set[int] = field(default_factory=set)
    """Who has one of the files open, has it locked, or wrote it and lives."""


def look(target: Target, threads: Iterable[RawThread], view: View) -> Found:
    """Everything the locals of these threads name. Never raises; what could not be looked at is a gap."""
    found = Found()
    wanted = list(path_locals(threads))
    if not wanted:
        return found
    limit_s = max(0.0, min(LOOK_LIMIT_S, view.left_s() - 0.5))
    for answer in run_as_target(target, lambda job: _files(job, wanted), proc=view.proc, limit_s=limit_s):
        if isinstance(answer, ConfineFailed):
            left = f"; pid {answer.left_running} is left running" if answer.left_running else ""
            message = f"not all files that polling threads wait for were looked at: {answer.message}{left}"
            found.gaps.append(Gap("partial", message, target=process_id(target.pid), tables=("files",)))
        else:
            found.files.append(replace(answer, process=process_id(target.pid)))
    looked_at = {file.named_by for file in found.files}
    found.paths = {one.printed: one.path for one in wanted if one.path.startswith("/") or one.named_by in looked_at}
    proc = ProcFS(view.proc)
    found.files = _on_mounts(found.files, list(by_id(proc, target.pid).values()))
    _add_people(found, Authors(target, proc))
    return found


def path_locals(threads: Iterable[RawThread]) -> Iterator[Wanted]:
    """Locals that are strings and look like paths, each path once, at most `MAX_PATHS`."""
    seen: set[str] = set()
    for thread in threads:
        for frame in thread.frames:
            for name, printed in frame.locals:
                path = unquoted(printed)
                if path is None or path in seen or not is_path_like(name, path):
                    continue
                seen.add(path)
                yield Wanted(path, f"{frame.name}.{name}", printed)
                if len(seen) >= MAX_PATHS:
                    return


def is_path_like(name: str, text: str) -> bool:
    """A short text on one line with a slash or a file's ending; no URL, and nothing that is named like a secret."""
    if not 1 < len(text) < MAX_PATH or "://" in text or _CONTROL.search(text) or _SECRET_NAME.search(name):
        return False
    return "/" in text or text.endswith(_SUFFIXES)


def is_lock_name(path: str) -> bool:
    """``lock``, ``x.lock``, ``x.lck``, ``.~lock.x#``, ``lockfile``."""
    name = os.path.basename(path).lower()
    return name in ("lock", "lockfile") or name.endswith((".lock", ".lck", ".lockfile")) or name.startswith(".~lock")


# --- as the job's user ---


def _files(job: Confined, wanted: Iterable[Wanted]) -> Iterator[File]:
    seen: set[str] = set()
    for one in wanted:
        path = job.absolute(one.path)
        file = _file(job, path, one.named_by)
        is_guess = not one.path.startswith("/") and not one.path.endswith(_SUFFIXES)
        if path in seen or (is_guess and not file.exists):
            continue  # "a/b" need not be a path: believed only when something is there
        seen.add(path)
        yield file
        if file.kind == "directory":
            yield from (_file(job, lock, one.named_by) for lock in _locks_in(job, path) if lock not in seen)


def _locks_in(job: Confined, folder: str) -> list[str]:
    try:
        names = job.listdir(folder, MAX_ENTRIES)
    except OSError:
        return []
    return [f"{folder.rstrip('/')}/{name}" for name in sorted(names) if is_lock_name(name)][:MAX_LOCKS]


def _file(job: Confined, path: str, named_by: str) -> File:
    file = File(path, why_looked="stack", named_by=named_by)
    try:
        seen = job.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return replace(file, kind="missing", exists=False)
    except OSError:
        return file
    is_lock = stat.S_ISREG(seen.st_mode) and is_lock_name(path)
    return replace(
        file,
        kind="lock" if is_lock else kind_of(seen.st_mode),
        exists=True,
        readable=_may(job, path, os.R_OK),
        writable=_may(job, path, os.W_OK),
        mode=stat.S_IMODE(seen.st_mode),
        uid=seen.st_uid,
        gid=seen.st_gid,
        size=seen.st_size,
        age_s=round(max(0.0, time.time() - seen.st_mtime), 1),
        inode=seen.st_ino,
        device=device_of(seen.st_dev),
        content=_content(job, path) if is_lock else None,
    )


def _may(job: Confined, path: str, mode: int) -> bool | None:
    try:
        return job.access(path, mode)
    except OSError:
        return None


def _content(job: Confined, path: str) -> str | None:
    try:
        return job.read(path, 0, READ_AHEAD).decode("utf-8", "backslashreplace")
    except OSError:
        return None


# --- with the collector's rights again: who has it open, and does its author live ---


def _on_mounts(files: Sequence[File], mounts: Sequence[MountLine]) -> list[File]:
    placed = ((file, mount_of(os.path.normpath(file.path), mounts)) for file in files)
    return [replace(file, on_mount=mount.path) if mount else file for file, mount in placed]


def _add_people(found: Found, authors: Authors) -> None:
    found.files = with_people(found.files, authors)
    found.locks = list(_kernel_locks(authors.proc, found.files))
    named = [name for file in found.files for name in file.holders or ()]
    named += [lock.owner_process for lock in found.locks if lock.owner_process]
    found.people = authors.living | {int(name.rpartition("/")[2]) for name in named}


def with_people(files: Sequence[File], authors: Authors) -> list[File]:
    """The files with who has them open and, of lock files, who wrote them and whether that one lives."""
    identified = {(f.device, f.inode): f for f in files if f.exists and f.kind in ("file", "lock")}
    names = {os.path.basename(f.path) for f in identified.values()}
    answer = ask(lambda: holders(authors.proc, names), HOLDERS_LIMIT_S) if names else Answer(value={})
    held: Mapping[tuple[str, int], tuple[str, ...]] | None = answer.value
    return [authors.of(_with_holders(file, held)) for file in files]


def _kernel_locks(proc: ProcFS, files: Sequence[File]) -> Iterator[Lock]:
    """The lines of /proc/locks about these files. Who asked for a flock may have ended and left it to a child: then it
    is whoever has the file open."""
    by_place = {(f.device, f.inode): f for f in files if f.exists and f.kind in ("file", "lock")}
    text = proc.text("locks", limit=1 << 22) if by_place else ""
    for line in locks.parse(text) if isinstance(text, str) else ():
        file = by_place.get((line.device, line.inode))
        if file is None:
            continue
        named = process_id(line.pid) if line.pid is not None else None
        others = file.holders or ()
        owner = others[0] if named not in others and line.kind != "posix" and len(others) == 1 else named
        yield Lock(
            f"h1/lock/{line.device}:{line.inode}", line.inode, device=line.device,
            kind=line.kind, mode=line.mode,  # type: ignore[arg-type]
            waiting=line.waiting, owner_process=owner, path=file.path, start=line.start, end=line.end,
        )  # fmt: skip


def _with_holders(file: File, held: Mapping[tuple[str, int], tuple[str, ...]] | None) -> File:
    if held is None or file.kind not in ("file", "lock") or file.device is None or file.inode is None:
        return file
    return replace(file, holders=held.get((file.device, file.inode), ()))


def holders(proc: ProcFS, names: set[str]) -> dict[tuple[str, int], tuple[str, ...]]:
    """(device, inode) -> processes that have a file of one of these names open, of all that can be seen.

    Names first: stat(2) of every descriptor on the host would end up on every dead mount there is.
    """
    found: dict[tuple[str, int], list[str]] = {}
    pids = proc.numbers()
    for pid in pids if isinstance(pids, list) else ():
        fds = proc.numbers(pid, "fd")
        for fd in fds if isinstance(fds, list) else ():
            link = proc.link(pid, "fd", fd)
            if isinstance(link, Unread) or os.path.basename(link.removesuffix(" (deleted)")) not in names:
                continue
            try:
                seen = os.stat(proc.path(pid, "fd", fd))
            except OSError:
                continue
            who = found.setdefault((device_of(seen.st_dev), seen.st_ino), [])
            if process_id(pid) not in who:
                who.append(process_id(pid))
    return {key: tuple(who) for key, who in found.items()}
