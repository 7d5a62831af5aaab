"""What a process prints of its own stacks when it is asked to: faulthandler's handler, registered there beforehand.

Asking takes a signal, and one that nobody catches kills. So it is sent only where all of this holds: the process has
announced it; the announcement, and the file it prints into, lie in a folder that nobody but the process's user could
have filled; the process is the announced one (start time), catches that very signal (SigCgt) and holds that very file
open for writing; the file's mount cannot hang; and no thread is stopped, traced or in the kernel. It is sent through a
pidfd, by a child that has become the process's user.

Whoever registers a handler (before the job's own code runs) announces it like this, and removes the folder at the end:

    <tmp>/flatline-recorder-<pid>-<start ticks>/    mode 0700; <tmp> is the environment's TMPDIR, else /tmp
        faulthandler.txt    opened by the process for appending, and kept open; only the handler writes into it
        recorder.json       mode 0600, written under another name and renamed when the handler is registered:
                            {"format": "flatline-recorder/1", "pid": 4242, "start_ticks": 1234567,
                             "faulthandler": {"signal": 12, "file": "faulthandler.txt"}}

`pid` is what the process calls itself, `start_ticks` field 22 of its /proc/self/stat. The registration is
``faulthandler.register(signal, file=…, all_threads=True, chain=False)``: with `chain` the signal would go on to the
job's own handler, and interrupted system calls would not be taken up again. A forked child inherits the handler and
the file, but not the announcement. faulthandler prints at most 100 threads, and no more than 100 frames of each.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flatline.texts.stack_lines import RawFrame, RawThread, faulthandler_frame, faulthandler_head

from ..confine import Confined, ConfineFailed, run_as_target
from ..linux import descriptors
from ..linux.mounts import MountLine, by_id
from ..linux.procfs import ProcFS, Unread, parse_last_pid, parse_signals
from ..probes.interface import Target
from ..recorder import places
from . import attach, native

FORMAT = "flatline-recorder/1"
ANNOUNCEMENT = "recorder.json"
LIMIT_S = 2.0
"""From the signal to the end of the dump; a process that cannot run prints nothing."""
_FIND_S = 0.5
_MARGIN_S = 0.3
_POLL_S = 0.01
_MOST_BYTES = 4096
_MOST_DUMPED = 4 << 20
_SPARE_SIGNALS = frozenset({signal.SIGUSR1, signal.SIGUSR2, *range(signal.SIGRTMIN, signal.SIGRTMAX + 1)})
"""Those that mean nothing by themselves: no announcement makes us send SIGTERM to a job that catches it."""


@dataclass(frozen=True)
class Registration:
    """One announced handler."""

    pid: int
    """As the process itself counts."""
    start_ticks: int
    signal: int
    file: str
    """Full path, as the process sees it."""


@dataclass(frozen=True)
class Asked:
    """What came of it."""

    text: bytes = b""
    refused: str = ""
    """Why no signal was sent."""
    failed: str = ""
    """It was sent, and this is why nothing, or not all, was printed."""
    seconds: float = 0.0


def find(target: Target, tmpdir: str = "", *, proc: str = "/proc") -> Registration | str | None:
    """The handler that a process has announced; a text: what is wrong with the announcement. None: there is none."""
    pid = own_number(ProcFS(proc), target.pid)
    folders = [f"{tmp}/{places.folder_name(pid, target.start_ticks)}" for tmp in places.temporary(tmpdir)]
    for found in run_as_target(target, lambda job: _announced(job, folders), proc=proc, limit_s=_FIND_S):
        if not isinstance(found, ConfineFailed):
            return found
    return None


def ask(target: Target, registration: Registration, *, proc: str = "/proc", limit_s: float = LIMIT_S) -> Asked:
    """Have the process print its stacks, where that is safe, and wait for them.

    Forks: the caller must have no other thread.
    """
    files = ProcFS(proc)
    refused = why_not(files, target, registration)
    if refused:
        return Asked(refused=refused)
    inodes = _open_inodes(files, target.pid, registration.file)  # here, because only we may have the right to look
    began = time.monotonic()
    answer = Asked(failed="no word came from the child that was to ask")
    for found in run_as_target(
        target,
        lambda job: iter([_ask(job, files, target, registration, inodes, limit_s)]),
        proc=proc,
        limit_s=limit_s + _MARGIN_S,
    ):
        answer = Asked(failed=found.message) if isinstance(found, ConfineFailed) else found
        break
    return replace(answer, seconds=time.monotonic() - began)


def why_not(proc: ProcFS, target: Target, registration: Registration) -> str:
    """Why the signal must not be sent now; empty when it may. The folder is looked at later, by the asking child."""
    named = (registration.pid, registration.start_ticks)
    if named != (own_number(proc, target.pid), target.start_ticks):
        return "what was announced is another process"
    if registration.signal not in _SPARE_SIGNALS:
        return f"signal {registration.signal} is none that may be spared for this"
    return attach.why_not(proc, target) or _not_listening(proc, target, registration)


def parse(dumped: bytes) -> list[RawThread]:
    """The threads of a dump, innermost frame first. Empty for any other text; lines of no known form are left out."""
    threads = native.frames_by_thread(dumped, faulthandler_head, faulthandler_frame)
    return [_thread(pthread, stack) for pthread, stack in threads.items()]


def _thread(pthread: int, frames: Sequence[RawFrame]) -> RawThread:
    return RawThread(pthread, None, None, None, None, frames=tuple(frames), depths=tuple(range(len(frames))))


# --- the announcement ---


def own_number(proc: ProcFS, pid: int) -> int | None:
    status = proc.status(pid)
    return None if isinstance(status, Unread) else parse_last_pid(status.get("NSpid")) or pid


def _announced(job: Confined, folders: Sequence[str]) -> Iterator[Registration | str]:
    for folder in folders:
        try:
            job.stat(folder, follow=False)
            must_be_private(job, folder, ANNOUNCEMENT)
            yield _read(folder, json.loads(job.read(f"{folder}/{ANNOUNCEMENT}", 0, _MOST_BYTES)))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            yield f"its announcement of a handler is not to be trusted: {error}"
        return


def _read(folder: str, printed: Mapping[str, Any]) -> Registration:
    """ValueError, TypeError or KeyError for any other shape."""
    handler = printed["faulthandler"]
    numbers = (printed["pid"], printed["start_ticks"], handler["signal"])
    name = handler["file"]
    if printed["format"] != FORMAT or any(type(number) is not int for number in numbers):
        raise ValueError("it is of another format")
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name:
        raise ValueError("its file is not beside it")
    return Registration(*numbers, file=f"{folder}/{name}")


def must_be_private(job: Confined, folder: str, name: str) -> None:
    """PermissionError where anybody but the process's own user could have put the file there."""
    above = job.stat(folder, follow=False)
    if not stat.S_ISDIR(above.st_mode) or above.st_uid != os.geteuid() or above.st_mode & 0o077:
        raise PermissionError(f"{folder} is not its user's alone")
    found = job.stat(f"{folder}/{name}", follow=False)
    is_own = found.st_uid == os.geteuid() and found.st_nlink == 1 and not found.st_mode & 0o022
    if not stat.S_ISREG(found.st_mode) or not is_own:
        raise PermissionError(f"{name} is not a file of its user's alone")


# --- whether it listens ---


def _not_listening(proc: ProcFS, target: Target, registration: Registration) -> str:
    number = registration.signal
    if number not in _signals(proc, target.pid, "SigCgt"):
        return f"it does not catch signal {number}"
    if number in _signals(proc, target.pid, "SigPnd", "ShdPnd"):
        return f"signal {number} waits for it already"
    tids = proc.numbers(target.pid, "task")
    if isinstance(tids, Unread) or len(_blocking(proc, target.pid, number)) >= len(tids):
        return f"every thread of it blocks signal {number}"
    return "" if _open_inodes(proc, target.pid, registration.file) else f"it does not hold {registration.file} open"


def _open_inodes(proc: ProcFS, pid: int, path: str) -> set[int]:
    """Of the files of that name which the process may write to, and that lie on a mount that cannot hang.

    After exec the process is still the announced one, and may catch the same signal to another end. But the file is
    closed by then.
    """
    mounts, found = by_id(proc, pid), descriptors.links(proc, pid)
    ending = "/" + path.rpartition("/")[2]
    named = () if isinstance(found, Unread) else [one for one in found if one[1].endswith(ending)]
    described = (descriptors.describe(proc, pid, fd, link, mounts) for fd, link in named)
    return {
        seen.inode
        for seen in described
        if seen.inode
        and seen.mode in ("write", "both")
        and seen.kind == "file"
        and _is_local(mounts.get(seen.mount_id or -1))
    }


def _is_local(mount: MountLine | None) -> bool:
    return mount is not None and mount.is_local


def _signals(proc: ProcFS, pid: int, *names: str, tid: int | None = None) -> frozenset[int]:
    status = proc.status(pid, tid)
    if isinstance(status, Unread):
        return frozenset()
    try:
        return frozenset(number for name in names for number in parse_signals(status.get(name, "0")))
    except ValueError:
        return frozenset()


def _blocking(proc: ProcFS, pid: int, number: int) -> frozenset[int]:
    """The threads that block a signal. The one that handles it does so for just as long as that takes."""
    tids = proc.numbers(pid, "task")
    listed = [] if isinstance(tids, Unread) else tids
    return frozenset(tid for tid in listed if number in _signals(proc, pid, "SigBlk", tid=tid))


# --- in the child that has become the process's user ---


def _ask(
    job: Confined, proc: ProcFS, target: Target, registration: Registration, inodes: set[int], limit_s: float
) -> Asked:
    path, number = registration.file, registration.signal
    try:
        folder, _, name = path.rpartition("/")
        must_be_private(job, folder, name)
        found = job.stat(path, follow=False)
    except OSError as error:
        return Asked(refused=f"what was announced is not to be trusted: {error}")
    if found.st_ino not in inodes:
        return Asked(refused=f"it does not hold {path} open")
    blocked = _blocking(proc, target.pid, number)
    if number not in _signals(proc, target.pid, "SigCgt"):  # once more, right before
        return Asked(refused=f"it does not catch signal {number}")
    problem = attach.send_to_same(proc, target, number)
    if problem:
        return Asked(refused=f"the signal could not be sent: {problem}")
    return _await(job, path, found.st_size, lambda: bool(_blocking(proc, target.pid, number) - blocked), limit_s)


def _await(job: Confined, path: str, begin: int, is_printing: Callable[[], bool], limit_s: float) -> Asked:
    """What is printed after the old end of the file, up to where the handler returns."""
    end = time.monotonic() + limit_s
    try:
        while job.stat(path).st_size <= begin:
            if time.monotonic() > end:
                return Asked(failed=f"it printed nothing within {limit_s:g} s")
            time.sleep(_POLL_S)
        while is_printing() and time.monotonic() < end:
            time.sleep(_POLL_S)
        cut = "it was still printing" if is_printing() else ""
        return Asked(job.read(path, begin, _MOST_DUMPED), failed=cut)
    except OSError as error:
        return Asked(failed=f"what it printed could not be read: {error}")
