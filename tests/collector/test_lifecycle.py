"""What a process of ours knows of itself and does to itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flatline.collector.supervision import lifecycle
from flatline.collector.supervision.lifecycle import Interrupts

GLIBC_OWN = 0b11 << 31
"""Signals 32 and 33, which glibc keeps for threads."""


def test_the_time_of_our_exec_lies_between_the_start_and_the_first_line_of_ours():
    script = "import time; from flatline.collector.supervision import lifecycle; print(lifecycle.exec_ns(), time.monotonic_ns())"
    before = time.monotonic_ns()
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    exec_ns, now = map(int, printed.split())
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert before - 2 * tick_ns <= exec_ns <= now


def test_signals_are_remembered_instead_of_obeyed_and_wake_a_poll():
    before = {number: signal.getsignal(number) for number in Interrupts.SIGNALS}
    interrupts = Interrupts()
    interrupts.listen()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        assert interrupts.number == signal.SIGTERM, "the first one counts"
        assert os.read(interrupts.fileno(), 1) == bytes([signal.SIGTERM])
        interrupts.clear_wakeups()
        with pytest.raises(BlockingIOError):
            os.read(interrupts.fileno(), 1)
    finally:
        interrupts.restore()
    assert {number: signal.getsignal(number) for number in Interrupts.SIGNALS} == before


def test_a_second_sigint_is_an_interrupt_as_python_knows_it():
    interrupts = Interrupts()
    interrupts.listen()
    try:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        interrupts.restore()


def test_signals_that_come_when_all_is_done_change_nothing():
    def too_late(_: int) -> str:
        interrupts = Interrupts()
        interrupts.listen()
        interrupts.come_too_late()
        interrupts.restore()
        for number in (*Interrupts.SIGNALS, signal.SIGINT):
            os.kill(os.getpid(), number)
        return f"lives on, {interrupts.number}"

    assert in_a_child(too_late) == "lives on, None"


def test_a_signal_that_nohup_had_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts = Interrupts()
    interrupts.listen()
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        assert interrupts.number is None
    finally:
        interrupts.restore()
        signal.signal(signal.SIGHUP, before)


def in_a_child(act) -> str:
    """What `act` returns, run in a forked child."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, str(act(write_end)).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    os.waitpid(pid, 0)
    with open(read_end) as pipe:
        return pipe.read()


def test_a_detached_child_holds_nothing_but_its_pipe():
    def open_after_detaching(pipe: int) -> list[int]:
        lifecycle.detach_from_caller(keep=pipe)
        fds = (int(fd) for fd in os.listdir("/proc/self/fd"))
        return sorted(fd for fd in fds if fd > 2 and fd != pipe and os.path.lexists(f"/proc/self/fd/{fd}"))

    assert in_a_child(open_after_detaching) == "[]"


def test_a_child_starts_with_default_signals_and_none_blocked():
    def signals(_: int) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        lifecycle.reset_signals()
        status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
        blocked, ignored, caught = (int(status[name], 16) for name in ("SigBlk", "SigIgn", "SigCgt"))
        return (blocked | ignored | caught) & ~GLIBC_OWN

    assert in_a_child(signals) == "0"


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (63, "signal 63")])
def test_a_signal_has_a_name(number: int, name: str):
    assert lifecycle.signal_name(number) == name
