"""Where the bundle goes: the place that was asked for, or TMPDIR when that one cannot be written.

The output folder may lie on a mount that has stopped answering, or stops later: it is tried in a disposable child, and
written by another.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatline.bundle.format import SUFFIX, UNREDACTED_SUFFIX
from flatline.bundle.shelf import what_is_there, why_refused
from flatline.bundle.writer import BundleWriter, Closing, Rename, Replace

from .linux import unnoticed
from .probes.interface import Doing, Item, Result, View
from .supervision.writing import StalledError, WritingProcess

EARLY_S = 3.0
"""How long the early publication may keep us from listening to the probes."""
PUBLISH_S = 10.0
LEAST_S = 0.8


@dataclass(frozen=True)
class Place:
    """The final name, and why it is not the one that was asked for (empty when it is)."""

    final: Path | None
    moved: str = ""
    refused: str = ""
    """Why nothing may be written under that name at all: it is a device, a link, or somebody's file."""
    replaces: str = ""
    """What is there now, and will not be: ``the bundle of 2026-11-29T03:15:02Z``."""


class OutputPlace:
    """Whether the wanted folder takes the bundle."""

    name = "output-place"
    tables: tuple[str, ...] = ()
    limit_s = 2.0
    spans_window = False

    def __init__(self, wanted: str, file_name: str) -> None:
        self.wanted = wanted
        self.file_name = file_name

    def gather(self, view: View) -> Iterator[Item]:
        """Yield one `Place`."""
        final = final_name(self.wanted, self.file_name)
        yield Doing(f"trying {final.parent}")
        problem, refused = self._problem(final), why_refused(final)
        yield Result(Place(None if problem or refused else final, problem, refused, what_is_there(final)))

    def _problem(self, final: Path) -> str:
        if final.name == self.file_name and os.path.lexists(final):  # a generated name is nobody's to replace
            return f"{final} exists"
        if unnoticed.is_watched(final.parent):
            return f"{final.parent} has a watch: writing there would signal a process of the job"
        return why_not(final.parent)


def choose(wanted: str, file_name: str, answer: Place | None) -> tuple[Place, list[Path]]:
    """The place to write to, given what the child found (None: it did not answer; `final` None: not there), and where
    to go instead, in order: TMPDIR, /tmp, shared memory. Nothing here touches a file system."""
    asked = final_name(wanted, file_name, look=False)
    name = asked.name if asked.suffix == ".zip" else file_name
    folders = [os.environ.get("TMPDIR") or "/tmp", "/tmp", "/dev/shm"]
    others = [absolute(folder) / name for folder in folders]
    place = answer or Place(None, f"{asked.parent} does not answer")
    taken = (place.final or asked).parent
    return place, [other for other in dict.fromkeys(others) if other.parent != taken]


class Output:
    """The bundle on its way: it is written where it was asked for and, once that does not answer, elsewhere.

    Nothing here waits for a file system: see `supervision.writing`.
    """

    def __init__(
        self,
        place: Place,
        others: Sequence[Path],
        *,
        max_size: int,
        deadline_ns: Callable[[], int],
        watched: frozenset[int],
        on_child: Callable[[int], None],
    ) -> None:
        """OSError when no folder takes a file."""
        self.moved = place.moved
        """Why it is not where it was asked for; empty when it is."""
        self.left: list[str] = []
        """Why places were left that had taken the beginning of it."""
        self._others = list(others)
        self._deadline_ns = deadline_ns
        self._watched = watched
        self._on_child = on_child
        self._shelf = self._first(place)
        self._writer = BundleWriter(self._shelf.final, max_size=max_size, shelf=self._shelf)

    @property
    def final(self) -> Path:
        """The name the bundle has, or will have."""
        return self._shelf.final

    @property
    def spool(self) -> Path:
        """What can be salvaged."""
        return self._shelf.spool

    @property
    def published_bytes(self) -> int:
        """Size of what was published last."""
        return self._writer.published_bytes

    @property
    def members(self) -> tuple[str, ...]:
        """The names of what was added, in order."""
        return tuple(entry.path for entry in self._writer.members)

    def read(self, path: str) -> bytes:
        """What was added under this name."""
        return self._writer.read(path)

    def add(self, path: str, data: bytes, **about: Any) -> None:
        """See `BundleWriter.add`."""
        try:
            self._writer.add(path, data, **about)
        except OSError as error:  # it stalls, is full, or has become read-only: all of it goes where there is room
            why = error.why if isinstance(error, StalledError) else f"{self.spool} cannot be written: {error.strerror}"
            if not self._move(why):
                raise
            self._writer.add(path, data, **about)

    def publish_early(self, closing: Closing, replace: Replace, rename: Rename) -> Path:
        """Here, or at once elsewhere when the place refuses it. OSError when that could not be done now."""
        while True:
            self._shelf.publish_s = EARLY_S
            try:
                return self._writer.publish(closing, replace=replace, rename=rename)
            except StalledError as stalled:  # it has cost its time; somebody asks again
                self._move(stalled.why)
                raise
            except OSError as error:
                if not self._move(f"{self.final} could not be written early: {error.strerror}"):
                    raise

    def publish(self, closing: Closing, replace: Replace, rename: Rename) -> Path:
        """Here, or wherever it can be. OSError when it can be nowhere."""
        while True:
            self._shelf.publish_s = PUBLISH_S
            try:
                return self._writer.publish(closing, replace=replace, rename=rename)
            except OSError as error:
                if not self._move(f"{self.final} could not be written at the end: {error.strerror}"):
                    raise

    def finish(self) -> None:
        """Remove the spool."""
        self._writer.finish()

    def abandon(self) -> None:
        """Leave it."""
        self._writer.abandon()

    # --- where ---

    def _first(self, place: Place) -> WritingProcess:
        problem = OSError(0, place.moved)
        if place.final is not None:
            try:
                return self._start(place.final, over=True)
            except OSError as error:
                problem = error
                self.moved = f"{place.final} cannot be written: {error.strerror}"
        shelf = self._next()
        if shelf is None:
            raise problem
        return shelf

    def _next(self) -> WritingProcess | None:
        """The next place that takes a file; none is tried twice."""
        while self._others:
            try:
                return self._start(self._others.pop(0), over=False)
            except OSError:
                continue
        return None

    def _start(self, final: Path, *, over: bool) -> WritingProcess:
        return WritingProcess(final, over=over, patience=self._patience, watched=self._watched, on_child=self._on_child)

    def _move(self, problem: str) -> bool:
        while True:
            shelf = self._next()
            if shelf is None:
                return False
            try:
                self._writer.move(shelf)
            except OSError:
                shelf.finish()
                continue
            self._shelf = shelf
            self.left.append(problem)
            self.moved = "; ".join(filter(None, (self.moved, problem)))
            return True

    def _patience(self, seconds: float) -> float:
        """Something is kept for the next place, and at the end each still gets a moment."""
        left = (self._deadline_ns() - time.monotonic_ns()) / 1e9
        return max(LEAST_S, min(seconds, left - LEAST_S))


def final_name(wanted: str, file_name: str, *, look: bool = True) -> Path:
    """`wanted` may be a folder, a file, or empty (the current folder). `look` False: do not touch the file system."""
    path = Path(wanted or ".")
    if not wanted or wanted.endswith(os.sep) or (look and path.is_dir()):
        path = path / file_name
    return absolute(path)


def absolute(path: str | Path) -> Path:
    """As given where the current folder has been removed: then nothing can be made in it either."""
    try:
        return Path(os.path.abspath(path))
    except FileNotFoundError:
        return Path(path)


def why_not(folder: Path) -> str:
    """Why no file can be made in `folder`; empty when one can (tried, and removed again)."""
    try:
        handle, name = tempfile.mkstemp(prefix=".flatline-", suffix=".part", dir=folder)
    except OSError as error:
        return f"{folder} cannot be written: {error.strerror}"
    try:
        os.write(handle, b"\0" * 4096)
    except OSError as error:
        return f"{folder} cannot be written: {error.strerror}"
    finally:
        os.close(handle)
        os.unlink(name)
    return ""


def file_name(label: str, *, redacted: bool) -> str:
    """``<label>-<UTC time>-<host>-<random>.flatline.zip``; the host as a mark of its boot, since file names are public.

    Two collects of one second into one folder write two bundles.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    safe = "".join(c if c.isalnum() or c in "._" else "-" for c in label) or "flatline"
    suffix = SUFFIX if redacted else UNREDACTED_SUFFIX
    return f"{safe[:60]}-{stamp}-{host_mark()}-{os.urandom(3).hex()}{suffix}"


def host_mark() -> str:
    """Six hex digits that tell the hosts of one job apart."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        boot = os.uname().nodename
    return "host" + hashlib.sha256(boot.encode()).hexdigest()[:6]
