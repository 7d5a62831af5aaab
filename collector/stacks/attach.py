"""Run a tool that stops the process it looks at (ptrace(2)), and leave that process as it was found whatever happens.

Refused when any thread is in D, T, t or Z in two reads: an attach to a thread in D never completes, and holds all the
others stopped until the tool dies. Refused too where a stop is pending, where somebody else traces it, and where a
library of the process lies on a mount that does not answer: the tool would read it there while the process stands.

The tool runs below a guard: a process that is told with SIGTERM when we are killed, kills the tool, and looks at the
process afterwards. A tool that dies in mid-attach can leave SIGSTOP behind, delivered or pending; SIGCONT, through a
pidfd, takes back that stop and no other.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from flatline.bundle.facts import State

from .. import answers, tools
from ..linux import grandchild, scarcity
from ..linux.mounts import by_id, mount_of
from ..linux.procfs import ProcFS, Unread, parse_signals, state_of
from ..probes.interface import Target
from ..supervision import lifecycle
from ..tools import RunningTool, ToolOutput

LIMIT_S = 3.0
"""One attach; the process may stand for as long."""
BETWEEN_READS_S = 0.05
SETTLE_S = 0.5
"""A process is untraced, and runs again, within microseconds of its tracer's end; a busy host takes longer."""
CLEANUP_S = 2.0
"""What the guard may take beyond the tool's limit: reaping, settling, putting right."""
MOST_THREADS = 1000
"""Every one of them is stopped by itself."""
MOST_MOUNTS = 8
_MOUNT_ANSWER_S = 0.5

_NEVER = frozenset({"D", "T", "t", "Z", "X", "unknown"})
_STOPPED = frozenset({"T", "t"})


@dataclass(frozen=True)
class Standing:
    """How a process stands: what an attach must not change."""

    start_ticks: int
    states: Mapping[int, State]
    """Thread -> state."""
    tracer: int
    """Pid of who traces any of its threads; 0: nobody."""
    stop_pending: bool
    """A SIGSTOP waits to be delivered, to the process or to one of its threads."""
    stop_signal: int
    """What stopped it, while its parent has not asked; 0: unknown."""

    @property
    def is_stopped(self) -> bool:
        """It stands, or will as soon as it leaves the kernel."""
        return self.stop_pending or bool(_STOPPED & set(self.states.values()))


@dataclass(frozen=True)
class Attached:
    """What came of one attach."""

    output: ToolOutput | None = None
    """None: the tool was not started; `refused` says why."""
    refused: str = ""
    outcome: str = ""
    """How the process was found afterwards, when not as before: what was done about it."""
    is_harmed: bool = False
    """It could not be left as it was found."""


def standing(proc: ProcFS, pid: int) -> Standing | Unread:
    """Look at every thread. Reads nothing that could wait for the process."""
    stat, tids = proc.stat(pid), proc.numbers(pid, "task")
    if isinstance(stat, Unread):
        return stat
    if isinstance(tids, Unread):
        return tids
    seen = {tid: status for tid in tids if not isinstance(status := proc.status(pid, tid), Unread)}
    tracers = [int(status["TracerPid"]) for status in seen.values() if status.get("TracerPid", "0").isdecimal()]
    return Standing(
        start_ticks=stat.start_ticks,
        states={tid: _state(status) for tid, status in seen.items()},
        tracer=max(tracers, default=0),
        stop_pending=any(_has_stop_pending(status) for status in seen.values()),
        stop_signal=stat.exit_code if stat.state == "T" else 0,
    )


def why_not(proc: ProcFS, target: Target) -> str:
    """Why a tool must not attach to it now, from two looks; empty when it may."""
    for look in range(2):
        if look:
            time.sleep(BETWEEN_READS_S)
        found = standing(proc, target.pid)
        reason = "it has ended" if isinstance(found, Unread) else _objection(found, target)
        if reason:
            return reason
    return _dead_mount(proc, target.pid)


def attach(target: Target, argv: Sequence[str], *, proc: str = "/proc", limit_s: float = LIMIT_S) -> Attached:
    """Run one tool on one process, at most `limit_s` and `CLEANUP_S` seconds. One at a time: it stops the process.

    Forks: the caller must have no other thread.
    """
    files = ProcFS(proc)
    refused = why_not(files, target)
    if refused:
        return Attached(refused=refused)
    waiting, go = os.pipe()
    try:
        guard, reading, writing = scarcity.fork_with_pipe()
    except OSError as short:
        os.close(waiting)
        os.close(go)
        return Attached(refused=f"no process could be started to guard it: {short.strerror}")
    if guard == 0:
        _be_guard(files, target, tuple(argv), limit_s, waiting, writing)
    os.close(writing)
    os.close(waiting)
    try:
        if tools.announce_spared is not None:  # whoever kills us asks the guard instead of killing it
            tools.announce_spared(guard, "attach-guard")
        os.write(go, b"g")
        return _answer(reading, limit_s + CLEANUP_S)
    finally:
        os.close(go)
        os.close(reading)
        _dismiss(guard)


# --- before ---


def _objection(found: Standing, target: Target) -> str:
    if found.start_ticks != target.start_ticks:
        return "it has ended, and its pid is another process now"
    if found.tracer:
        return f"pid {found.tracer} traces it already"
    for tid, state in found.states.items():
        if state in _NEVER:
            return f"its thread {tid} is in state {state}"
    if found.stop_pending:
        return "a SIGSTOP is pending on it"
    if len(found.states) > MOST_THREADS:
        return f"it has {len(found.states)} threads, and each would be stopped"
    return ""


def _dead_mount(proc: ProcFS, pid: int) -> str:
    """A tool reads the libraries of the process from their mounts, and must not begin to wait for one of them."""
    answer = grandchild.ask(lambda: _remote_folders(proc, pid), _MOUNT_ANSWER_S)
    if answer.timed_out or answer.error or answer.value is None:
        return "its memory map could not be read"
    folders = answer.value[:MOST_MOUNTS]
    asked = grandchild.ask_all([lambda path=path: _ask_mount(proc, pid, path) for path in folders], _MOUNT_ANSWER_S)
    silent = [path for path, one in zip(folders, asked) if one.timed_out]
    return f"{silent[0]}, which holds a library of it, does not answer" if silent else ""


def _remote_folders(proc: ProcFS, pid: int) -> list[str] | None:
    maps = proc.maps(pid)
    if isinstance(maps, Unread):
        return None
    mounts = list(by_id(proc, pid).values())
    found = {mapped.path: mount_of(mapped.path, mounts) for mapped in maps if mapped.path.startswith("/")}
    return sorted({mount.path for mount in found.values() if mount is not None and not mount.is_local})


def _ask_mount(proc: ProcFS, pid: int, path: str) -> bool:
    # Not stat(2): attributes may be answered from memory while the server is gone.
    return bool(os.statvfs(proc.path(pid, "root") + path))


# --- the guard ---


class _Guard:
    """Holds the tool, and remembers that it was told to end it."""

    def __init__(self) -> None:
        self.told = False

    def tell(self, *_: object) -> None:
        self.told = True


def _be_guard(
    proc: ProcFS, target: Target, argv: tuple[str, ...], limit_s: float, waiting: int, writing: int
) -> NoReturn:
    try:
        os.setpgid(0, 0)
        lifecycle.reset_signals()
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        guard = _Guard()
        signal.signal(signal.SIGTERM, guard.tell)
        lifecycle.be_told_of_parents_end(signal.SIGTERM)
        lifecycle.close_descriptors(keep=(0, 1, 2, waiting, writing))
        if os.read(waiting, 1):  # nothing: our parent was killed before it could name us
            answers.send(writing, b"V", _run(proc, target, argv, limit_s, guard))
    finally:
        os._exit(0)


def _run(proc: ProcFS, target: Target, argv: tuple[str, ...], limit_s: float, guard: _Guard) -> Attached:
    before = standing(proc, target.pid)  # once more: a fork may have taken its time
    refused = "it has ended" if isinstance(before, Unread) else _objection(before, target)
    if refused:
        return Attached(refused=refused)
    env = {**os.environ, "LC_ALL": "C", "DEBUGINFOD_URLS": ""}  # no tool may ask a server while the process stands
    tool = RunningTool(argv, limit_s=limit_s, env=env)
    while tool.output is None:
        tools.wait([tool])
        if guard.told:
            tool.stop()
    return _put_right(proc, target, tool.output)


def _put_right(proc: ProcFS, target: Target, output: ToolOutput) -> Attached:
    """The process was neither stopped nor traced before: what it is now, and not by its own, is taken back."""
    done = Attached(output)
    now = _settled(proc, target.pid)
    if isinstance(now, Unread) or now.start_ticks != target.start_ticks:
        return done
    if now.tracer:
        who = f"{output.name}, pid {now.tracer}," if now.tracer == output.pid else f"pid {now.tracer}"
        return replace(done, outcome=f"{who} still traces it and could not be ended", is_harmed=True)
    if not now.is_stopped:
        return done
    # A tool that ended in good order has let go; and Ctrl-Z is somebody's wish.
    if output.outcome == "ok" or now.stop_signal not in (0, signal.SIGSTOP):
        return replace(done, outcome="it was stopped meanwhile, by somebody else")
    problem = send_to_same(proc, target, signal.SIGCONT)
    after = _settled(proc, target.pid)
    if problem or (not isinstance(after, Unread) and after.is_stopped):
        why = f": {problem}" if problem else ""
        outcome = f"{output.name} left it stopped, and SIGCONT did not help{why}; to do so: kill -CONT {target.pid}"
        return replace(done, outcome=outcome, is_harmed=True)
    return replace(done, outcome=f"{output.name} left a SIGSTOP behind; SIGCONT was sent, and it runs again")


def _settled(proc: ProcFS, pid: int) -> Standing | Unread:
    end = time.monotonic() + SETTLE_S
    while True:
        found = standing(proc, pid)
        if isinstance(found, Unread) or not (found.is_stopped or found.tracer) or time.monotonic() > end:
            return found
        time.sleep(0.02)


def send_to_same(proc: ProcFS, target: Target, number: int) -> str:
    """Send a signal to the very process that was found, never to one that has its pid now. Why not, or empty."""
    if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
        return "this Python knows no pidfd"
    try:
        descriptor = os.pidfd_open(target.pid)
    except OSError as error:
        return error.strerror or str(error)
    try:
        stat = proc.stat(target.pid)  # after the pidfd: it then names the process that this is the stat of
        if isinstance(stat, Unread) or stat.start_ticks != target.start_ticks:
            return "it has ended"
        signal.pidfd_send_signal(descriptor, number)
        return ""
    except OSError as error:
        return error.strerror or str(error)
    finally:
        os.close(descriptor)


# --- with the guard ---


def _answer(reading: int, limit_s: float) -> Attached:
    try:
        _, value = next(answers.receive(reading, time.monotonic() + limit_s))
    except (TimeoutError, EOFError, OSError, ValueError) as error:
        said = str(error) or "it did not answer"
        return Attached(outcome=f"how it was left is not known: the guard failed ({said})", is_harmed=True)
    return value


def _dismiss(guard: int) -> None:
    """It has answered, or will when it can; it is asked to end, and never killed: only it can put things right."""
    end = time.monotonic() + 0.2
    while os.waitpid(guard, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(guard, signal.SIGTERM)
            return
        time.sleep(0.005)


def _state(status: Mapping[str, str]) -> State:
    return state_of(status.get("State", "?")[:1])


def _has_stop_pending(status: Mapping[str, str]) -> bool:
    try:
        return any(signal.SIGSTOP in parse_signals(status[name]) for name in ("SigPnd", "ShdPnd") if name in status)
    except ValueError:
        return False
