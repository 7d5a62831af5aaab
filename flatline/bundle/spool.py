"""Names and locks of the files a writer leaves beside the bundle while it works: ``<final>.part`` and siblings.

A living writer holds an flock(2) on each of them, so whoever gets that lock knows the writer is dead.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path

from .container import Source, parse_local
from .format import BUNDLE_JSON, PART_SUFFIX

try:
    import fcntl
except ImportError:  # no Unix
    fcntl = None

NEW_SUFFIX = ".new" + PART_SUFFIX
"""A bundle on its way to the final name: a copy of what the spool holds."""

_OPEN = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_ENDING = re.compile(r"(\.new)?(\.\d{1,3})?\.part$")
_UNLOCKED_YET_S = 60
"""An empty spool younger than this may belong to a writer between creating and locking it."""


def create(final: Path, suffix: str = PART_SUFFIX) -> tuple[int, Path]:
    """A new file beside `final`, locked, mode 0600: (descriptor, path). Never an existing one, never through a link.

    OSError when the folder takes no file.
    """
    for number in range(1, 1000):
        ending = suffix if number == 1 else f"{suffix[: -len(PART_SUFFIX)]}.{number}{PART_SUFFIX}"
        path = final.with_name(final.name + ending)
        try:
            descriptor = os.open(path, _OPEN, 0o600)
        except FileExistsError:
            continue
        lock(descriptor)
        return descriptor, path
    raise FileExistsError(f"a thousand spools beside {final}")


def final_name(spool: Path) -> str:
    """The name of the bundle that `spool` was to become."""
    return _ENDING.sub("", spool.name)


def lock(descriptor: int) -> bool:
    """Take the writer's lock without waiting. False: a living writer has it, or locks do not work here."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_abandoned(path: Path) -> bool:
    """True for a file that a writer of bundles left and that no living writer holds."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or not lock(descriptor):
            return False
        if status.st_size == 0:
            return time.time() - status.st_mtime > _UNLOCKED_YET_S
        first = parse_local(Source(file), 0)
        return first is not None and first.name == BUNDLE_JSON


def sweep(folder: Path, *, spare: Callable[[os.stat_result], bool] = lambda found: False) -> list[Path]:
    """The spools in `folder` that are worth salvaging: their writers are dead. Oldest first.

    Unfinished copies and empty spools of dead writers hold nothing that is not elsewhere; they are removed.
    Another program's ``.part`` files are left alone: only our own files, beginning with our first member, count. What
    `spare` says of is not even opened.
    """
    try:
        names = [
            entry.name
            for entry in os.scandir(folder)
            if _ENDING.search(entry.name) and not spare(entry.stat(follow_symlinks=False))
        ]
    except OSError:
        return []
    spools = []
    for path in sorted(folder / name for name in names):
        if not is_abandoned(path):
            continue
        if _ENDING.search(path.name)[1] or path.stat().st_size == 0:  # type: ignore[index]
            path.unlink()
        else:
            spools.append(path)
    return sorted(spools, key=lambda path: path.stat().st_mtime)
