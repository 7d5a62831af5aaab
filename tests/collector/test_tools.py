"""Host tools that misbehave cost no more than their limit."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from faults.stalling_fuse import StallingMount
from flatline.collector import tools
from flatline.collector.tools import RunningTool, find_tool, run, run_pool
from programs import FIXTURES, wait_until

FAULTS = FIXTURES / "faults"
LONG_S = 60.0
"""A limit that no test waits for: a slow machine only takes longer to get there."""


def python(name: str) -> list[str]:
    return [sys.executable, str(FAULTS / f"{name}.py")]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_both_streams_and_the_exit_code_come_back():
    output = run(["sh", "-c", "echo out; echo err >&2; exit 3"], limit_s=LONG_S)
    assert (output.outcome, output.exit_code, output.stdout, output.stderr) == ("error", 3, b"out\n", b"err\n")
    assert output.name == "sh"


def test_a_tool_reads_nothing_and_prints_in_the_plain_locale():
    output = run(["sh", "-c", "cat; echo $LC_ALL"], limit_s=LONG_S)
    assert (output.outcome, output.stdout) == ("ok", b"C\n")


def test_an_environment_can_be_given():
    assert run(["sh", "-c", "echo $RANK"], limit_s=LONG_S, env={"RANK": "3", "PATH": os.environ["PATH"]}).stdout == b"3\n"


def test_a_tool_that_is_not_there_is_absent_and_one_that_is_no_program_is_denied(tmp_path: Path):
    (tmp_path / "no-program").write_text("text")
    assert run(["flatline-no-such-tool"], limit_s=LONG_S).outcome == "absent"
    denied = run([str(tmp_path / "no-program")], limit_s=LONG_S)
    assert (denied.outcome, denied.message, denied.exit_code) == ("denied", "Permission denied", None)


def test_a_tool_killed_by_a_signal_says_which():
    assert run(["sh", "-c", "kill -SEGV $$"], limit_s=LONG_S).exit_code == -signal.SIGSEGV


def test_at_its_limit_a_tool_that_ignores_sigterm_is_killed_and_its_output_kept():
    tool = RunningTool(python("ignores_sigterm"), limit_s=LONG_S)
    wait_until(lambda: pump(tool) or tool._text["stdout"], what="the tool says ready")
    tool.stop()
    output = finished(tool)
    assert (output.outcome, output.exit_code, output.stdout) == ("timeout", -signal.SIGKILL, b"ready\n")
    assert not output.left_running


def pump(tool: RunningTool) -> None:
    tool.pump()


def finished(tool: RunningTool) -> tools.ToolOutput:
    return wait_until(lambda: tools.wait([tool]) or tool.output, what="the tool ends")


def test_the_limit_holds():
    output = run(["sleep", "60"], limit_s=0.2)
    assert output.outcome == "timeout"
    assert 0.2 <= output.seconds < 10


def test_a_pipe_held_by_a_grandchild_does_not_keep_us():
    output = run(python("holds_pipe"), limit_s=LONG_S)
    grandchild = int(output.stdout)
    try:
        assert output.outcome == "ok"
        assert is_alive(grandchild)
        assert output.seconds < LONG_S / 2
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_what_stays_in_the_tools_group_ends_with_it():
    output = run(["sh", "-c", "sleep 600 & echo $!"], limit_s=LONG_S)
    wait_until(lambda: not is_alive(int(output.stdout)), what="the background job ends")


def test_a_flood_is_cut_at_its_cap_and_ended():
    output = run(python("floods"), limit_s=LONG_S, max_bytes=300_000)
    assert (output.outcome, len(output.stdout), output.exit_code) == ("flooded", 300_000, -signal.SIGKILL)


def test_a_tool_held_by_the_kernel_is_abandoned_and_named(mount: StallingMount):
    mount.stall()
    output = run(["stat", str(mount.path / "lock")], limit_s=0.3)
    assert (output.outcome, output.left_running, output.exit_code) == ("left-running", True, None)
    assert is_alive(output.pid)
    assert output.seconds < 10
    mount.resume()
    os.waitpid(output.pid, 0)


def test_a_program_that_lies_on_a_dead_mount_costs_only_its_limit(mount: StallingMount):
    mount.stall()
    output = run([str(mount.path / "script.py")], limit_s=0.3)
    assert output.outcome in ("left-running", "timeout")
    assert output.seconds < 10
    mount.resume()
    if output.left_running:
        os.waitpid(output.pid, 0)


def test_a_gpu_tool_is_asked_to_end_and_then_left(monkeypatch: pytest.MonkeyPatch):
    announced = []
    monkeypatch.setattr(tools, "announce_spared", lambda pid, name: announced.append((pid, name)))
    tool = RunningTool(python("ignores_sigterm"), limit_s=LONG_S, hard_kill=False)
    wait_until(lambda: pump(tool) or tool._text["stdout"], what="the tool says ready")
    tool.stop()
    output = finished(tool)
    try:
        assert (output.outcome, output.left_running, output.stdout) == ("left-running", True, b"ready\n")
        assert announced == [(output.pid, os.path.basename(sys.executable))]
        assert is_alive(output.pid)
    finally:
        os.kill(output.pid, signal.SIGKILL)
        os.waitpid(output.pid, 0)


def test_a_gpu_tool_that_obeys_sigterm_is_not_left():
    output = run(["sleep", "60"], limit_s=0.2, hard_kill=False)
    assert (output.outcome, output.exit_code, output.left_running) == ("timeout", -signal.SIGTERM, False)


def test_a_gpu_tool_survives_that_nobody_reads_it_any_more(tmp_path: Path):
    """A broken pipe would end it in the middle of the driver."""
    proof = tmp_path / "survived"
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\n"
        f"open({str(gate)!r}).read()\n"
        f"try: print('x' * 100000, flush=True)\nexcept BrokenPipeError: open({str(proof)!r}, 'w')\n"
    )
    tool = RunningTool([sys.executable, "-c", script], limit_s=LONG_S, hard_kill=False)
    wait_until(lambda: pump(tool) or tool._text["stdout"], what="the tool says ready")
    tool.stop()
    output = finished(tool)
    assert output.left_running
    gate.write_text("go on")
    wait_until(proof.exists, what="the tool goes on")
    os.waitpid(output.pid, 0)


def test_tools_die_with_the_process_that_started_them():
    read_end, write_end = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            os.write(write_end, str(RunningTool(["sleep", "600"], limit_s=LONG_S).pid).encode())
            signal.pause()
        finally:
            os._exit(1)
    pid = int(os.read(read_end, 20))
    wait_until(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes(), what="the tool is exec'd")
    os.kill(middle, signal.SIGKILL)
    os.waitpid(middle, 0)
    wait_until(lambda: not is_alive(pid), what="the tool dies with its parent")
    os.close(read_end)
    os.close(write_end)


def test_a_pool_runs_so_many_at_once_and_answers_as_they_end(tmp_path: Path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    argvs = [("slow", ["sh", "-c", f"cat {gate}"]), ("one", ["echo", "1"]), ("two", ["echo", "2"])]
    seen = []
    for key, output in run_pool(argvs, parallel=2, limit_s=LONG_S, deadline_ns=after(LONG_S)):
        seen.append((key, output.outcome))
        if key == "two":
            gate.write_bytes(b"go")
    assert seen == [("one", "ok"), ("two", "ok"), ("slow", "ok")]


def after(seconds: float) -> int:
    return time.monotonic_ns() + int(seconds * 1e9)


def test_at_a_pools_deadline_the_running_are_ended_and_the_rest_never_begun():
    argvs = [(number, ["sleep", "60"]) for number in range(5)]
    outcomes = {key: output.outcome for key, output in run_pool(argvs, parallel=2, limit_s=LONG_S, deadline_ns=after(0.3))}
    assert outcomes == {0: "timeout", 1: "timeout", 2: "not-started", 3: "not-started", 4: "not-started"}


def test_a_pool_that_is_no_longer_listened_to_ends_its_tools():
    argvs = [("quick", ["true"]), ("long", ["sleep", "600"])]
    earlier = children()
    pool = run_pool(argvs, parallel=2, limit_s=LONG_S, deadline_ns=after(LONG_S))
    assert next(pool)[0] == "quick"
    tools = children() - earlier
    pool.close()
    assert tools
    assert not children() & tools


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_many_runs_leave_no_descriptor_and_no_process_behind():
    before = os.listdir("/proc/self/fd"), children()
    for _ in range(30):
        run(["true"], limit_s=LONG_S)
        run(["flatline-no-such-tool"], limit_s=LONG_S)
    assert (os.listdir("/proc/self/fd"), children()) == before


def test_a_tool_gets_none_of_our_descriptors(tmp_path: Path):
    with open(tmp_path / "spool", "w") as spool:
        os.set_inheritable(spool.fileno(), True)
        listed = run(["ls", "-l", "/proc/self/fd"], limit_s=LONG_S).stdout
    assert b"/dev/null" in listed
    assert b"spool" not in listed


def test_our_own_tools_are_found_beside_our_interpreter_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for folder in ("ours", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "py-spy").write_text("#!/bin/sh\n")
        (tmp_path / folder / "py-spy").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(tools, "_SCRIPTS", str(tmp_path / "ours"))
    assert find_tool("py-spy", ours=True) == str(tmp_path / "ours" / "py-spy")
    assert find_tool("py-spy") == str(tmp_path / "path" / "py-spy")
    assert find_tool("flatline-no-such-tool", ours=True) is None
