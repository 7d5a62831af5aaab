"""One disposable child per probe, many at once, and none of them can hold us up.

Single-threaded: a loop over the children's pipes. What a child sent before its end is kept; at its limit it and all
below it are killed, and what cannot be killed is abandoned after a moment and named in the ledger.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from flatline.bundle.format import LedgerEntry
from flatline.redaction.redactor import Redactor

from ..linux import scarcity
from . import descendants, ledger, lifecycle, probe_child
from .channel import FloodError, GarbageError
from .child import MAX_BYTES, Child, Job, Running, Stopped
from .members import Member
from .probe_child import Caps

__all__ = ["Caps", "Job", "Member", "Running", "Supervisor"]

PATIENCE_S = 2.0
"""How long a job waits for those it comes after, but no more than `PATIENCE_SHARE` of all the time there is."""
PATIENCE_SHARE = 0.25
GRACE_S = 0.2
"""How long a killed child may take to be reaped before it is abandoned."""
POLL_S = 0.05
"""An exit is looked for at least this often: a grandchild that holds the pipe hides it from poll."""
REPORT_S = 0.25
ROOM_S = 1.0
"""How long a host without a process or descriptor left is asked again when none of ours can give one back."""
AGAIN_S = 0.05
SILENT_S = 1.0
"""A probe that has sent nothing for so long waits for something."""


class Supervisor:
    """Runs probes, hands over what they find, and always comes back.

    Use it as a context manager around everything that must survive a signal, the closing of the bundle included;
    without that, signals are held only while `run` or `call` is at work. Import all that probes need beforehand, and
    have no other thread: children are forked.
    """

    def __init__(
        self,
        *,
        deadline_ns: int,
        redactor: Redactor,
        on_member: Callable[[Member], None],
        on_end: Callable[[LedgerEntry], None],
        on_milestone: Callable[[str, str], None] = lambda probe, name: None,
        on_wait: Callable[[Sequence[Running]], None] = lambda running: None,
        parallel: int | None = None,
        caps: Caps | None = None,
    ) -> None:
        self.deadline_ns = deadline_ns
        self._redactor = redactor
        self._on_member = on_member
        self._on_end = on_end
        self._on_milestone = on_milestone
        self._on_wait = on_wait
        self._parallel = parallel or max(4, 2 * (os.cpu_count() or 1))
        self._caps = caps or Caps()
        self._interrupts: lifecycle.Interrupts | None = None
        self._interrupted: int | None = None
        self._running: list[Child] = []
        self._foreign: set[int] = set()
        """Children that were there before us, or that were left: not ours to kill."""
        self._spared: set[int] = set()
        """Tools that must not be killed hard."""
        self._forks = 0
        self._passed: set[str] = set()
        self._begun_ns = 0
        self._reported_ns = 0
        self._short_since_ns: int | None = None
        self._ask_again_ns = 0

    def __enter__(self) -> Supervisor:
        self._interrupts = lifecycle.Interrupts()
        self._interrupts.listen()
        lifecycle.become_subreaper()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._interrupts is not None
        self._interrupts.restore()
        self._interrupted = self._interrupts.number
        self._interrupts = None
        lifecycle.stop_being_subreaper()

    @property
    def interrupted(self) -> int | None:
        """The number of the first SIGINT, SIGTERM or SIGHUP that came; nothing is begun after it."""
        return self._interrupted or (self._interrupts.number if self._interrupts is not None else None)

    def conclude(self) -> None:
        """The bundle is there: a signal that comes now would only keep us from saying so."""
        if self._interrupts is not None:
            self._interrupts.come_too_late()

    def leave_alone(self, pid: int) -> None:
        """A child of ours that is no probe's."""
        self._foreign.add(pid)

    def call(self, job: Job) -> tuple[list[Any], LedgerEntry]:
        """Run one probe and wait for it: the values of its `Result` items, and its entry (on_end gets it too)."""
        ended = self._run([job])
        return ended[0][0].results, ended[0][1]

    def run(self, jobs: Sequence[Job]) -> None:
        """Run them, begun in order, at most `parallel` at once, not counting those that span the window or hang.

        Every job ends with an entry in the ledger, also one that the deadline or a signal kept from beginning.
        """
        self._run(jobs)

    # --- the loop ---

    def _run(self, jobs: Sequence[Job]) -> list[tuple[Child, LedgerEntry]]:
        if self._interrupts is None:
            with self:
                return self._run(jobs)
        self._foreign.update(descendants.children(os.getpid()))
        waiting = [Child(job, self._redactor) for job in jobs]
        ended: list[tuple[Child, LedgerEntry]] = []
        self._begun_ns = time.monotonic_ns()
        try:
            while waiting or self._running:
                ended += self._begin(waiting)
                self._listen()
                self._see_to_limits()
                ended += self._retire()
                self._report()
        finally:
            for child in self._running:  # there are some only when a callback raised, or at the second SIGINT
                self._kill(child)
                child.close()
            self._running = []
        return ended

    def _begin(self, waiting: list[Child]) -> list[tuple[Child, LedgerEntry]]:
        """Fork what may run now. The entries of those that cannot be begun."""
        ended = []
        for child in list(waiting):
            refused = self._why_not_now()
            if not refused and (self._must_wait(child) or not self._has_room(child)):
                continue
            if not refused:
                child.error = self._fork(child)
                if child.error and self._may_get_room():
                    break  # it stays the first in line
            waiting.remove(child)
            if child.pid:
                self._running.append(child)
                continue
            child.stopped, child.why = "not-started", refused
            ended.append(self._conclude(child))
        return ended

    def _may_get_room(self) -> bool:
        """The host has no process or descriptor left: whether it may have one again. From now on fewer run at once."""
        now = time.monotonic_ns()
        self._parallel = max(1, min(self._parallel, len(self._running) // 2))
        self._ask_again_ns = now + int(AGAIN_S * 1e9)
        self._short_since_ns = self._short_since_ns or now
        return bool(self._running) or now - self._short_since_ns < ROOM_S * 1e9

    def _why_not_now(self) -> str:
        if self.interrupted is not None:
            return f"not begun: {lifecycle.signal_name(self.interrupted)} came"
        return "not begun: no time was left" if time.monotonic_ns() >= self.deadline_ns else ""

    def _must_wait(self, child: Child) -> bool:
        """What is gone first when the job is killed gets the processors first, but nobody waits for it for ever."""
        patience_ns = min(PATIENCE_S * 1e9, (self.deadline_ns - self._begun_ns) * PATIENCE_SHARE)
        late = time.monotonic_ns() - self._begun_ns > patience_ns
        return not late and not child.job.after <= self._passed

    def _has_room(self, child: Child) -> bool:
        """Four that hang must not keep the others from beginning: a silent one takes no place."""
        now = time.monotonic_ns()
        if now < self._ask_again_ns:
            return False
        busy = [
            other for other in self._running
            if not other.job.probe.spans_window and now - other.heard_ns < SILENT_S * 1e9
        ]  # fmt: skip
        return child.job.probe.spans_window or len(busy) < self._parallel

    def _listen(self) -> None:
        """Sleep until something happens, then take in what the children have sent."""
        assert self._interrupts is not None
        poll = select.poll()  # select() itself refuses descriptors above 1023
        poll.register(self._interrupts.fileno(), select.POLLIN)
        for child in self._running:
            if child.pipe is not None:
                poll.register(child.pipe, select.POLLIN)
        poll.poll(self._sleep_s() * 1000)
        self._interrupts.clear_wakeups()
        for child in self._running:
            self._receive(child)

    def _sleep_s(self) -> float:
        if any(child.pipe is None or child.give_up_ns is not None for child in self._running):
            return POLL_S / 20  # an exit is due, and no descriptor tells of it
        soonest_ns = min((child.limit_ns for child in self._running), default=self.deadline_ns)
        return min(POLL_S, max(0.0, (soonest_ns - time.monotonic_ns()) / 1e9))

    def _receive(self, child: Child) -> None:
        try:
            for item in child.receive(time.monotonic_ns()):
                if isinstance(item, Member):
                    self._on_member(item)
                else:
                    self._passed.add(child.name)
                    self._on_milestone(child.name, item.name)
        except GarbageError as garbage:
            self._stop(child, "garbage", f"what it sent is {garbage}")
            child.close()
        except FloodError:
            self._stop(child, "flooded", f"it sent more than {MAX_BYTES >> 20} MiB")
            child.close()
        self._spared.update(child.spared)
        if child.last_word and child.give_up_ns is None:
            child.give_up_ns = _after(GRACE_S)

    def _see_to_limits(self) -> None:
        now = time.monotonic_ns()
        for child in self._running:
            if child.give_up_ns is not None:
                continue
            if self.interrupted is not None:
                self._stop(child, "interrupted", f"ended by {lifecycle.signal_name(self.interrupted)}")
            elif now >= self.deadline_ns:
                self._stop(child, "timeout", "the overall deadline ended it")
            elif now >= child.limit_ns:
                self._stop(child, "timeout", f"ended after {(now - child.began_ns) / 1e9:.1f} s")

    def _retire(self) -> list[tuple[Child, LedgerEntry]]:
        """Let go of the children that have ended, and of those that will not."""
        ended = []
        for child in list(self._running):
            if self._has_ended(child):
                self._receive(child)  # what was still in the pipe
                self._running.remove(child)
                ended.append(self._conclude(child))
        return ended

    def _has_ended(self, child: Child) -> bool:
        """Gone with all below it; or its moment of grace is over, and what remains has been named."""
        if child.exit_code is None:
            child.exit_code = _reaped(child.pid)
        remains = [child.pid] if child.exit_code is None else self._kill_stragglers(child)
        if not remains:
            return True
        if child.give_up_ns is None and child.exit_code is not None:
            child.give_up_ns = _after(GRACE_S)
        if child.give_up_ns is None or time.monotonic_ns() < child.give_up_ns:
            return False
        if child.exit_code is None and not child.signalled:  # it said its last word, but does not exit
            self._kill(child)
            return False
        self._abandon(child, remains)
        return True

    def _report(self) -> None:
        now = time.monotonic_ns()
        if self._running and now - self._reported_ns >= REPORT_S * 1e9:
            self._reported_ns = now
            self._on_wait([child.as_running() for child in self._running])

    # --- beginning and ending one ---

    def _fork(self, child: Child) -> str:
        """Why not, where the host has no process or descriptor left; empty when it has begun."""
        self._schedule(child)
        self._forks += 1
        parent = os.getpid()
        try:
            child.pid, read_end, write_end = scarcity.fork_with_pipe(0)
        except OSError as refused:
            return f"its process could not be started: {refused.strerror}"
        if child.pid == 0:
            probe_child.become(
                child.job.probe,
                replace(child.job.view, deadline_ns=child.limit_ns),
                redactor=self._redactor,
                namespace=f"{child.name}-{self._forks}",
                pipe=write_end,
                caps=self._caps,
                parent=parent,
            )
        os.close(write_end)
        os.set_blocking(read_end, False)
        child.pipe = read_end
        self._short_since_ns = None
        return ""

    def _schedule(self, child: Child) -> None:
        probe, view = child.job.probe, child.job.view
        limit_s = probe.limit_s if child.job.limit_s is None else child.job.limit_s
        now = time.monotonic_ns()
        counts_from = max(now, (view.begin_ns or now) + int(view.window_s * 1e9)) if probe.spans_window else now
        child.began_ns = child.doing_since_ns = child.heard_ns = now
        child.limit_ns = min(counts_from + int(limit_s * 1e9), self.deadline_ns)
        child.started_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def _stop(self, child: Child, kind: Stopped, why: str) -> None:
        """Kill it and all below it, having looked where it hangs."""
        if child.stopped:
            return
        where = f" while {child.doing}" if child.doing else ""
        stuck = descendants.stuck(child.pid)
        child.stopped, child.why = kind, why + where + (f" ({stuck})" if stuck else "")
        self._kill(child)

    def _kill(self, child: Child) -> None:
        child.give_up_ns = _after(GRACE_S)
        if child.exit_code is None:  # once reaped, its pid may be somebody else's
            self._signal_tree(child, child.pid)

    def _signal_tree(self, child: Child, root: int) -> None:
        """SIGKILL, from the leaves up; SIGTERM to what must not be killed hard."""
        for pid in reversed(descendants.tree(root)):
            if pid not in child.signalled:
                child.signalled.add(pid)
                _signal(pid, signal.SIGTERM if self._is_spared(pid) else signal.SIGKILL)

    def _is_spared(self, pid: int) -> bool:
        """Such a tool leads a process group; what it started itself is in it."""
        if not self._spared:
            return False
        found = descendants.standing(pid)
        return pid in self._spared or (found is not None and found.pgrp in self._spared)

    def _kill_stragglers(self, child: Child) -> list[int]:
        """What `child` left behind: its orphans become ours as it ends. Those that are still there."""
        others = {pid for other in self._running if other is not child for pid in other.family()}
        remaining = []
        for pid in descendants.children(os.getpid()):
            if pid not in self._foreign and pid not in others and _reaped(pid) is None:
                self._signal_tree(child, pid)
                remaining.append(pid)
        return remaining

    def _abandon(self, child: Child, pids: Iterable[int]) -> None:
        """Name what could not be killed, or must not be, and let it be."""
        for pid in pids:
            found = descendants.standing(pid)
            if _reaped(pid) is None and found is not None:
                rest = ", but for a thread that does not end" if found.state == "Z" else ""
                child.left_running.append(f"pid {pid} ({found.name}, state {found.state}{rest})")
                self._foreign.add(pid)

    def _conclude(self, child: Child) -> tuple[Child, LedgerEntry]:
        child.close()
        self._passed.add(child.name)
        entry = ledger.entry(child, time.monotonic_ns())
        self._on_end(entry)
        return child, entry


def _after(seconds: float) -> int:
    return time.monotonic_ns() + int(seconds * 1e9)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # gone, or a set-uid tool that we may not kill: it will be named
        pass


def _reaped(pid: int) -> int | None:
    """The exit code (minus the signal) of a child that has ended, reaped now; None while it has not."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    if reaped == 0:
        return None
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
