"""Watches one tree of processes: silence, a time limit, a collect when it is stuck, and its end if that is asked for.

The keeper waits in sigtimedwait(2) with its signals blocked: a signal for the job, the end of a child and the next look
are one and the same wait. Children that lose their parent come to it (PR_SET_CHILD_SUBREAPER), so that it can end all.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flatline.visible import visible

from ..linux import grandchild
from ..supervision import descendants
from ..supervision.descendants import Standing
from . import diagnosis
from .diagnosis import Diagnosis
from .movement import Movement
from .relay import Relay
from .root import Root, is_running
from .silence import Silence, Silent

_NOT_DEADLY = (signal.SIGCHLD, signal.SIGCONT, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
               signal.SIGURG, signal.SIGWINCH)  # fmt: skip
FORWARDED = frozenset(signal.valid_signals()) - {*_NOT_DEADLY, signal.SIGKILL, signal.SIGPIPE, signal.SIGXFSZ}
"""All that would end us, and leave the job to itself. A fault of our own (SIGSEGV) ends us though it is blocked."""
_OURS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGXCPU)
"""From the kernel: a key that the whole terminal gets, a limit of our own. An alarm was set before we were started."""
FAST_AFTER_S = 60.0
"""Who ends a job that has been silent for so long, or a quarter of --silence, gets a quick bundle first."""
STOPPED_S = 5.0
"""A look that comes so much too late means that we were stopped ourselves, or the host slept."""
_KILL_S = 5.0
_REAP_S = 1.0
_SPEAKER = "flatline-says"
SAY_S = 1.0
"""For who reads standard error; what is not taken then is said later, or never."""
_SI_KERNEL = 0x80


def waited() -> frozenset[int]:
    """What we wait for: not what we were started to ignore, as by nohup(1)."""
    return frozenset({signal.SIGCHLD, *(one for one in FORWARDED if signal.getsignal(one) != signal.SIG_IGN)})


def take_signals() -> set[signal.Signals | int]:
    """Block what we wait for, and have ended children told of; the mask from before."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as some launchers leave it, no child has a status
    return signal.pthread_sigmask(signal.SIG_BLOCK, waited())


@dataclass(frozen=True)
class Plan:
    """What the person wants."""

    timeout_s: float | None = None
    silence_s: float | None = None
    on_hang: str = "collect"
    """``collect``, ``collect+kill`` or ``signal``."""
    grace_s: float = 10.0
    folder: str = ""
    """Where bundles go."""
    analyze: bool = False
    """Whether the whole report is wanted."""
    quiet: bool = False
    """Whether nothing is to be said but what was found stuck, and what was done about it."""


class Keeper:
    """`root` is the job's first process, `own` whether it is our child. `say` gets lines for a person."""

    def __init__(self, root: int, plan: Plan, scratch: Path, rings: Path | None, *, own: bool,
                 say: Callable[[str], None], relays: Sequence[Relay] = (),
                 logs: Sequence[str] = ()) -> None:  # fmt: skip
        self.root, self.plan, self.own = root, plan, own
        self.scratch, self._say, self._logs = scratch, say, tuple(logs)
        self._silence = Silence(Movement(root, rings, logs), relays, self._leave_alone)
        self._waited = waited()
        self._other = None if own else Root(root)
        self._left: set[tuple[int, int]] = set()
        """Identities of what a collect could not end, a tool in the driver say: not the job's."""
        self.statuses: dict[int, int] = {}
        """Wait statuses of children that have ended."""
        self.hang: Diagnosis | None = None
        self.is_ended_by_us = False
        self._began = self._looked = self._not_before = time.monotonic()
        self._was_told = self._is_diagnosing = False

    # --- the wait ---

    def keep(self) -> int | None:
        """Until the root has ended; its wait status where it is our child."""
        try:
            while not self._has_ended():
                self.pause(self._until_next())
                if self._has_ended():
                    break
                self._look()
                if self._is_late():
                    self._on_timeout()
                else:
                    self._act_on_silence()
        finally:
            self._silence.accelerators.stop()
        return self.statuses.get(self.root)

    def ran_s(self) -> float:
        """How long we have watched it."""
        return time.monotonic() - self._began

    def pause(self, seconds: float) -> None:
        """At most so long: a signal is dealt with, and an ended child collected, at once."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            info = signal.sigtimedwait(self._waited, max(0.0, left))
            if info is not None and info.si_signo != signal.SIGCHLD:
                self._forward(info)
            self._collect_children()
            if info is None or info.si_signo == signal.SIGCHLD:
                return

    def wait_for(self, child: int, deadline: float) -> int | None:
        """The status of a helper of ours, the job's signals and children dealt with meanwhile."""
        self.statuses.pop(child, None)  # of an orphan that had this number
        while child not in self.statuses and time.monotonic() < deadline:
            self.pause(min(0.5, max(0.0, deadline - time.monotonic())))
        if child not in self.statuses:
            _send(child, signal.SIGKILL)
            self.pause(_REAP_S)
            return None
        return self.statuses[child]

    def _until_next(self) -> float:
        wishes = [5.0]
        if self.plan.silence_s:
            wishes.append(max(0.05, self.plan.silence_s / 10))
        if self.plan.timeout_s and not self.is_ended_by_us:
            wishes.append(max(0.0, self._began + self.plan.timeout_s - time.monotonic()))
        return min(wishes)

    def _collect_children(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.statuses[pid] = status

    def _has_ended(self) -> bool:
        return self.root in self.statuses if self._other is None else self._other.has_ended()

    # --- silence ---

    def _look(self) -> None:
        now = time.monotonic()
        was_away = now - self._looked > self._until_next() + STOPPED_S
        self._looked = now
        self._silence.look(was_away=was_away)

    def silent_s(self) -> float:
        """How long nothing has moved."""
        return self._silence.still_s()

    def _is_late(self) -> bool:
        timeout = self.plan.timeout_s
        return timeout is not None and not self.is_ended_by_us and time.monotonic() - self._began >= timeout

    # --- what is done about it ---

    def _act_on_silence(self) -> None:
        silence_s = self.plan.silence_s
        if silence_s is None or self.hang is not None or time.monotonic() < self._not_before:
            return
        silent = self._silence.over(silence_s)
        if silent is not None:
            self._on_silence(silent)

    def _on_silence(self, silent: Silent) -> None:
        found = self.diagnose()
        if self._has_ended():
            return
        said = self._silent_for(silent)
        has_spoken, has_moved = self._silence.has_gone_on()
        if (found.report and not found.is_stuck) or has_spoken or (has_moved and not found.report):
            self._discard(found)
            self._look_later(f"{said}: {found.in_short(has_spoken or not found.report)}")
            return
        if not found.bundle and self.plan.on_hang != "collect":
            self.tell(f"{said}; not ended, as nothing would be left of it", found)
            self._look_later()
            return
        self.hang = found
        self.tell(said, found)
        if self.plan.on_hang == "collect+kill":
            self.end_all()
        elif self.plan.on_hang == "signal":
            self._send_root(signal.SIGTERM)

    def _silent_for(self, silent: Silent) -> str:
        """Up to now: the bundle and its analysis have taken their time."""
        return f"silent for {self._silence.quiet_s():.0f} s{silent}"

    def _look_later(self, why: str = "") -> None:
        """Less and less often: a long evaluation is not to be disturbed for ever."""
        wait_s = 2 * max(self.plan.silence_s or 0.0, self._silence.quiet_s())
        self._not_before = time.monotonic() + wait_s
        if why and not self.plan.quiet:
            self._say(visible(f"pid {self.root}: {why}; next look in {wait_s:.0f} s at the earliest"))

    def _on_timeout(self) -> None:
        found = self.hang or self.diagnose()
        if self.hang is None:
            self.tell(f"not done after {self.plan.timeout_s:g} s", found)
        self.hang = found
        self.end_all()

    def diagnose(self, *, fast: bool = False) -> Diagnosis:
        """A bundle and what it says; the analysis is left out of a fast one."""
        self._is_diagnosing = True
        try:
            with self._noting_what_is_left():
                return self._diagnose(fast=fast)
        finally:
            self._is_diagnosing = False
            self._looked = time.monotonic()  # we were not away, but looking

    def _diagnose(self, *, fast: bool) -> Diagnosis:
        logs = [*self._logs, *(str(path) for path in sorted(self.scratch.glob("std*.log*")))]
        history = self.scratch / "history.json"
        words = ["--history", str(history)] if self._silence.history.write(history) else []
        words += [word for log in logs for word in ("--log", log)]
        try:
            bundle = diagnosis.collect(self.root, self.plan.folder, self.scratch, self.wait_for, words, fast=fast)
        except OSError as error:
            return Diagnosis(problem=str(error))
        report = {} if fast else diagnosis.analyze(bundle, self.scratch, self.wait_for)
        return Diagnosis(bundle, report=report)

    def tell(self, why: str, found: Diagnosis) -> None:
        """What is known, for a person."""
        for line in (f"pid {self.root}: {why}", *found.lines()):
            self._say(visible(line))
        if self.plan.analyze and found.bundle:
            with self._noting_what_is_left():
                shown = diagnosis.show(found.bundle, self.scratch, self.wait_for)
            self._say("\n".join(map(visible, shown.splitlines())))

    def _discard(self, found: Diagnosis) -> None:
        if found.bundle:
            with self._noting_what_is_left():
                grandchild.ask(lambda: os.unlink(found.bundle), diagnosis.ANSWER_S)

    # --- signals and the end ---

    def _forward(self, info: signal.struct_siginfo) -> None:
        """To the job, as if it had been meant; a key on the terminal has reached it already."""
        if not self.own:
            raise KeyboardInterrupt
        number = info.si_signo
        is_hangup_for_us = number == signal.SIGHUP and os.getsid(0) == os.getpid()  # only a session's leader gets it
        if info.si_code == _SI_KERNEL and number in _OURS and not is_hangup_for_us:
            return
        ends = number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        patience = min(FAST_AFTER_S, (self.plan.silence_s or 4 * FAST_AFTER_S) / 4)
        has_time = not self._was_told and not self._is_diagnosing and self.hang is None
        if ends and has_time and self.silent_s() > patience:
            self._was_told, silent_s = True, self.silent_s()
            self.hang = self.diagnose(fast=True)
            self._send_root(number)  # before the telling, which may analyze for minutes
            self.tell(f"{signal.Signals(number).name} came after {silent_s:.0f} s of silence", self.hang)
            return
        self._was_told = self._was_told or ends
        self._send_root(number)

    def end_all(self) -> None:
        """SIGTERM to every process of the job, and SIGKILL after the grace."""
        self.is_ended_by_us = True
        seen: dict[tuple[int, int], Standing] = {}
        for number, seconds in ((signal.SIGTERM, self.plan.grace_s), (signal.SIGKILL, _KILL_S)):
            end = time.monotonic() + seconds
            for one in self._everyone(seen):
                _send(one.pid, number)
                _send(one.pid, signal.SIGCONT)  # one that is stopped takes no SIGTERM
            while self._everyone(seen) and time.monotonic() < end:
                self.pause(0.1)
            if not self._everyone(seen):
                return

    def _everyone(self, seen: dict[tuple[int, int], Standing]) -> list[Standing]:
        """Who of the job runs, also of those `seen` before: in `watch`, who outlives the root is below it no more."""
        seen.update((one.identity, one) for one in self._below())
        return [one for one in seen.values() if is_running(one)]

    def _below(self) -> list[Standing]:
        """The root and all below it; where orphans come to us, theirs too, but nothing that a collect has left."""
        if self._other is not None:
            tops = [] if self._has_ended() else [self.root]
        else:
            children = _standings(descendants.children(os.getpid()))
            tops = [one.pid for one in children if one.identity not in self._left]
        return _standings([pid for top in tops for pid in descendants.tree(top)])

    @contextmanager
    def _noting_what_is_left(self) -> Iterator[None]:
        """Around a helper of ours: who has come to us meanwhile and was not of the job before is the helper's."""
        before = {one.identity for one in self._below()} if self.own else set()
        try:
            yield
        finally:
            now = _standings(descendants.children(os.getpid())) if self.own else []
            self._left.update({one.identity for one in now} - before)

    def _leave_alone(self, pid: int) -> None:
        """A child of ours that is not of the job."""
        one = descendants.standing(pid)
        if one is not None:
            self._left.add(one.identity)

    def _send_root(self, number: int) -> None:
        if self._other is not None:
            self._other.send(number)
        elif not self._has_ended():
            _send(self.root, number)


def _standings(pids: Sequence[int]) -> list[Standing]:
    return [one for one in map(descendants.standing, pids) if one is not None]


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


_unsaid: queue.Queue[bytes] = queue.Queue()


def say(text: str) -> None:
    """On standard error, at most `SAY_S`: a job's keeper that cannot speak, or is not listened to, goes on."""
    lines = (f"flatline: {visible(each)}\n" if each else "\n" for each in text.split("\n"))
    is_behind = _unsaid.unfinished_tasks > 0
    _unsaid.put("".join(lines).encode("utf-8", "backslashreplace"))
    if not any(thread.name == _SPEAKER for thread in threading.enumerate()):
        threading.Thread(target=_speak, name=_SPEAKER, daemon=True).start()
    with _unsaid.all_tasks_done:
        _unsaid.all_tasks_done.wait_for(lambda: not _unsaid.unfinished_tasks, 0.0 if is_behind else SAY_S)


def _speak() -> None:
    while True:
        view = memoryview(_unsaid.get())
        try:
            while view:
                view = view[os.write(2, view) :]
        except OSError:
            pass
        _unsaid.task_done()
