"""A process that was attached to runs on as before, whoever is killed in the middle; and some are never attached to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from faults.stalling_fuse import wait_for_state
from flatline.collector.linux.procfs import ProcFS
from flatline.collector.probes.interface import Target
from flatline.collector.stacks import attach
from programs import FIXTURES, wait_until

PROC = ProcFS()
IDLE = "import sys, threading; print('ready', flush=True); threading.Event().wait()"
ATTACHER = FIXTURES / "faults" / "attaches_and_stays.py"


def target_of(pid):
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return Target(pid, ticks, 1, 0, "python", "target", "rank", True, 1.0)


def status(pid, name):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split(":\t")[1] for line in lines if line.startswith(name + ":"))


@pytest.fixture
def idle(start):
    """A process that waits, and says so."""

    def begin(code=IDLE, *args):
        process = start([sys.executable, "-c", code, *args], stdout=subprocess.PIPE)
        assert process.stdout.readline()
        wait_until(lambda: status(process.pid, "State")[0] == "S", what="it waits")
        return process.pid

    return begin


def attacher(pid, how, said="/dev/null"):
    return [sys.executable, str(ATTACHER), str(pid), how, str(said)]


def is_running(pid):
    return status(pid, "State")[0] in "RS" and status(pid, "TracerPid") == "0"


# --- who is attached to, and what becomes of it ---


@pytest.mark.parametrize("how", ["seize", "attach"])
def test_a_tool_killed_over_its_limit_leaves_the_process_running(idle, left_as_found, how):
    pid = idle()
    left_as_found(pid)
    done = attach.attach(target_of(pid), attacher(pid, how), limit_s=1.0)
    assert done.output is not None
    assert done.output.outcome == "timeout"
    assert not done.is_harmed
    assert is_running(pid)


def test_a_stop_that_a_dying_tool_leaves_behind_is_taken_back(idle, left_as_found):
    """A tool killed between its SIGSTOP and its attach: here it sends the signal and fails."""
    pid = idle()
    left_as_found(pid)
    done = attach.attach(target_of(pid), attacher(pid, "stop-and-die"), limit_s=5.0)
    assert "SIGCONT was sent" in done.outcome
    assert not done.is_harmed
    assert is_running(pid)


def test_a_stop_that_somebody_else_wanted_is_left_alone(idle):
    """A person stops the job in the middle of an attach: the tool ended in good order, so the stop is not its own."""
    pid = idle()
    done = attach.attach(target_of(pid), attacher(pid, "stop-and-succeed"), limit_s=5.0)
    assert "by somebody else" in done.outcome
    assert status(pid, "State")[0] == "T"


def test_the_process_runs_on_when_flatline_is_killed_in_the_middle(idle, left_as_found, start, tmp_path):
    """kill -9 of the one who asked: the guard hears of it, ends the tool and looks after the process."""
    pid, said = idle(), tmp_path / "attached"
    left_as_found(pid)
    code = (
        "import sys\n"
        "from flatline.collector.probes.interface import Target\n"
        "from flatline.collector.stacks import attach\n"
        "target = Target(int(sys.argv[1]), int(sys.argv[2]), 1, 0, 'python', 'target', 'rank', True, 1.0)\n"
        "attach.attach(target, sys.argv[3:], limit_s=60.0)\n"
    )
    ticks = target_of(pid).start_ticks
    asking = start([sys.executable, "-c", code, str(pid), str(ticks), *attacher(pid, "attach-then-stop", said)])
    wait_until(said.exists, what="the tool is attached", seconds=60)
    asking.kill()
    wait_until(lambda: is_running(pid), what="the process runs again")


# --- who is not ---


def test_a_stopped_process_is_refused(idle, left_as_found):
    pid = idle()
    os.kill(pid, signal.SIGSTOP)
    wait_for_state(pid, "T")
    left_as_found(pid)
    assert f"thread {pid} is in state T" in attach.attach(target_of(pid), ["/bin/true"]).refused


def test_a_process_with_a_thread_in_d_is_refused(idle, mount, left_as_found):
    """One thread hangs in a dead mount; the main thread could be attached to, and would never be let go."""
    code = (
        "import os, sys, threading\n"
        "file = os.open(sys.argv[1], os.O_RDONLY)\n"
        "def read():\n"
        "    sys.stdin.readline(); os.pread(file, 4096, 65536)\n"
        "threading.Thread(target=read, daemon=True).start()\n" + IDLE
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(mount.path / "data/shard-000.bin")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        process.stdout.readline()
        mount.stall()
        process.stdin.write(b"go\n")
        process.stdin.flush()
        reader = next(int(tid) for tid in os.listdir(f"/proc/{process.pid}/task") if int(tid) != process.pid)
        wait_for_state(reader, "D")
        left_as_found(process.pid)
        done = attach.attach(target_of(process.pid), attacher(process.pid, "attach"))
        assert done.output is None
        assert f"thread {reader} is in state D" in done.refused
        left_as_found.check()
        mount.resume()
        wait_until(lambda: status(process.pid, "State")[0] == "S", what="it goes on")
        left_as_found.check()
        left_as_found.release(process.pid)
    finally:
        mount.resume() if mount.stalled else None
        process.kill()
        process.wait(20)
        process.stdout.close()
        process.stdin.close()


def test_a_process_that_is_debugged_already_is_refused(idle, start, tmp_path):
    pid, said = idle(), tmp_path / "attached"
    debugger = start(attacher(pid, "seize", said))
    wait_until(said.exists, what="the debugger is there")
    assert f"pid {debugger.pid} traces it" in attach.why_not(PROC, target_of(pid))
    assert status(pid, "TracerPid") == str(debugger.pid)
    debugger.kill()  # before what it traces: that could not be reaped
    debugger.wait(20)


def test_a_process_whose_library_lies_on_a_dead_mount_is_refused(idle, mount):
    code = (
        "import mmap, os, sys\n"
        "file = os.open(sys.argv[1], os.O_RDONLY)\n"
        "mapped = mmap.mmap(file, 4096, prot=mmap.PROT_READ)\n" + IDLE
    )
    pid = idle(code, str(mount.path / "data/shard-000.bin"))
    assert attach.why_not(PROC, target_of(pid)) == ""
    mount.stall()
    try:
        assert "does not answer" in attach.why_not(PROC, target_of(pid))
    finally:
        mount.resume()


def test_another_process_under_the_same_pid_is_refused(idle):
    pid = idle()
    other = Target(pid, 1, 1, 0, "python", "target", "rank", True, 1.0)
    assert "another process now" in attach.why_not(PROC, other)
    assert attach.send_to_same(PROC, other, signal.SIGCONT) == "it has ended"


def test_a_process_that_has_ended_is_refused(start):
    process = start(["/bin/sleep", "600"])
    target = target_of(process.pid)
    process.kill()
    process.wait(20)
    assert attach.attach(target, ["/bin/true"]).refused == "it has ended"


def test_a_tool_that_is_not_there_is_an_outcome(idle, left_as_found):
    pid = idle()
    left_as_found(pid)
    done = attach.attach(target_of(pid), ["/nonexistent/tool"])
    assert done.output is not None
    assert done.output.outcome == "absent"


def test_the_guard_is_gone_when_the_answer_is_there(idle):
    pid = idle()
    before = set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())
    began = time.monotonic()
    attach.attach(target_of(pid), ["/bin/true"])
    assert time.monotonic() - began < 20
    assert set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()) == before
