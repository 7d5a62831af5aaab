"""What a process of ours does about itself: when it was exec'd, who inherits its orphans, what it holds open.

Sources: prctl(2), proc_pid_stat(5). Without ctypes or without Linux every function here does nothing, and says so.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Collection
from types import FrameType
from typing import Any

try:
    import ctypes

    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
except (ImportError, OSError, AttributeError):  # a Python built without libffi still collects, but finds no orphans
    _libc = None

try:
    import resource
except ImportError:
    resource = None

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_OOM_SCORE = "/proc/self/oom_score_adj"
_limits_before: dict[int, tuple[int, int]] = {}
_scores_before: list[bytes] = []
"""What `lift_limits` takes us back to."""
_CLOCK_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def _prctl(option: int, value: int) -> bool:
    return _libc is not None and _libc.prctl(option, value, 0, 0, 0) == 0


def become_subreaper() -> bool:
    """Orphans among our descendants become our children, so that none can hide. False: not possible here."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def stop_being_subreaper() -> None:
    """Undo `become_subreaper`."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 0)


def die_with_parent(parent: int) -> None:
    """Called in a fresh child: SIGKILL for us when `parent` ends. Ends at once if it already has."""
    if _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) and os.getppid() != parent:
        os._exit(0)


def be_told_of_parents_end(number: int) -> None:
    """Called in a fresh child that must tidy up rather than die: this signal when the parent ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def close_descriptors(keep: Collection[int]) -> None:
    """Close every descriptor but `keep`.

    Read from /proc rather than counted up to RLIMIT_NOFILE: containers set that to a billion.
    """
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        numbers = list(range(4096))
    for number in numbers:
        if number not in keep:
            try:
                os.close(number)
            except OSError:
                pass


def detach_from_caller(keep: int) -> None:
    """0, 1 and 2 on /dev/null and nothing else open but `keep`: whoever reads our stdout must not wait for a child."""
    close_descriptors(keep=(0, 1, 2, keep))  # first: all that are allowed may be in use
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    if nowhere > 2:
        os.close(nowhere)
    # What our caller made of sys.stdout may be a file that is closed now.
    sys.stdout = sys.stderr = os.fdopen(1, "w", encoding="utf-8", closefd=False)


def limit_resources(*, memory: int | None, cpu_s: int | None) -> None:
    """No core dumps of ours, and at most this much memory (bytes) and CPU time (s); a lower limit that was there stays.

    Of memory what is written to counts (RLIMIT_DATA), not the address space: a debugger maps every library of the job.
    """
    if resource is None:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    for which, limit in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_CPU, cpu_s)):
        if limit is not None:
            soft, hard = _limits_before[which] = resource.getrlimit(which)
            if soft == resource.RLIM_INFINITY or limit < soft:
                resource.setrlimit(which, (limit, hard))


def offer_to_the_oom_killer() -> None:
    """When the host, or the job's control group with us in it, runs out of memory: one of us, and not the job.

    Everyone may raise the score, and take it back to what it was: proc_pid_oom_score_adj(5).
    """
    try:
        with open(_OOM_SCORE, "r+b", buffering=0) as score:
            _scores_before[:] = [score.read()]
            score.write(b"1000")
    except OSError:
        pass


def lift_limits() -> None:
    """In a child of one with limits: what sits in a GPU driver must be killed neither by them nor for memory."""
    for which, limits in _limits_before.items():
        assert resource is not None
        resource.setrlimit(which, limits)
    try:
        for score in _scores_before:
            with open(_OOM_SCORE, "wb", buffering=0) as adjustment:
                adjustment.write(score)
    except OSError:
        pass


def reset_signals() -> None:
    """Every signal to its default and none blocked: handlers and masks survive fork, the mask survives exec too."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):  # glibc keeps two real-time signals for itself
                pass
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def ignore_size_limit() -> None:
    """A file that RLIMIT_FSIZE keeps from growing is an error of `write`, as on a full disk, and no signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class Interrupts:
    """SIGINT, SIGTERM and SIGHUP are remembered instead of obeyed, and wake whoever polls `fileno()`.

    A second SIGINT raises KeyboardInterrupt: the person does not want to wait for the bundle either.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.number: int | None = None
        """The first that came."""
        self._wake, self._write_end = os.pipe()
        for end in (self._wake, self._write_end):
            os.set_blocking(end, False)
        self._before: dict[int, Any] = {}
        self._too_late = False
        self._fd_before = -1

    def fileno(self) -> int:
        """Readable once a signal has come."""
        return self._wake

    def listen(self) -> None:
        """Take the signals over. Only the main thread can; elsewhere nothing changes."""
        try:
            self._fd_before = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        except ValueError:
            return
        for number in self.SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup stays in force
                self._before[number] = signal.signal(number, self._remember)

    def come_too_late(self) -> None:
        """From now on they change nothing, until this process ends: all is done, and only has to be told."""
        self._too_late = True
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def restore(self) -> None:
        """Give them back as they were found, unless they come too late by now."""
        if self._before:
            signal.set_wakeup_fd(self._fd_before)
        for number, handler in self._before.items():
            if not self._too_late:
                signal.signal(number, handler)
        self._before.clear()
        os.close(self._wake)
        os.close(self._write_end)

    def clear_wakeups(self) -> None:
        """Make `fileno()` unreadable again."""
        try:
            while os.read(self._wake, 4096):
                pass
        except BlockingIOError:
            pass

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.number == signal.SIGINT:
            raise KeyboardInterrupt
        if self.number is None:
            self.number = number


def signal_name(number: int) -> str:
    """``SIGTERM``; ``signal 64`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exec_ns() -> int:
    """CLOCK_MONOTONIC, in ns, at which this process was started (10 ms steps); now, where /proc does not say.

    Field 22 of stat counts from boot, suspend included, so it is compared with CLOCK_BOOTTIME.
    """
    now = time.monotonic_ns()
    try:
        with open("/proc/self/stat", "rb") as stat:
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
        age_ns = time.clock_gettime_ns(_CLOCK_BOOTTIME or 7) - ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return now
    # A restored or migrated container has another idea of boot: an impossible age is no age.
    return now - age_ns if 0 <= age_ns < 60_000_000_000 else now
