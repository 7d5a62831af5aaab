"""doctor says what a collect would see and the line that fixes each gap, as root, as a plain user, and when a check hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flatline.collector import checks
from flatline.collector.checks import Answer, Check
from flatline.collector.collection import Collection, Options
from flatline.collector.commands import doctor
from flatline.collector.linux import access
from flatline.collector.linux.procfs import Unread
from flatline.collector.probes import kernel_log
from job_view import run_until_ready, view_of
from programs import open_to_others

NOBODY = 65534
WAIT = "ready(); time.sleep(600)"
BE_NOBODY = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); "
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def run(start, tmp_path):
    return lambda code=WAIT, **options: run_until_ready(start, tmp_path, code, **options)


def examine(*argv, folder, become="", dumpable=True):
    """Exit code and lines of the real command; the modules are loaded before it becomes another user."""
    code = (
        "import os, sys, ctypes, locale\nfrom flatline.collector.commands import doctor\n"
        f"{become}\nctypes.CDLL(None).prctl(4, {int(dumpable)}, 0, 0, 0)\nsys.exit(doctor.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, argv)], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def about(lines, name):
    """The state and the text about one thing, and its hint."""
    (at,) = [number for number, line in enumerate(lines) if line[10:].startswith(name)]
    below = lines[at + 1] if at + 1 < len(lines) else ""
    hint = below.partition("to get it: ")[2]
    return lines[at].split()[0], lines[at][24:], hint


# --- the command ---


def test_every_line_is_ok_or_missing_and_the_exit_code_says_which(run, tmp_path):
    code, lines = examine("--pid", run(), folder=tmp_path)
    told = [line for line in lines[:-2] if "to get it:" not in line]
    assert [line[10:24].strip() for line in told] == [
        check.name for check in checks.checks("", with_job=True)
    ]
    states = [line.split()[0] for line in told]
    assert set(states) <= {"ok", "missing"}
    assert code == (1 if "missing" in states else 0)
    assert lines[-1] == (f"{states.count('missing')} of these will be missing from a bundle." if code else "Nothing will be missing.")


@as_root
def test_root_with_all_rights_can_read_the_job_and_py_spy_is_tried_on_it(run, tmp_path):
    if not access.has_capability(access.CAP_SYS_PTRACE):
        pytest.skip("needs CAP_SYS_PTRACE")
    pid = run()
    _, lines = examine("--pid", pid, folder=tmp_path)
    assert about(lines, "rights")[0] == "ok"
    state, text, _ = about(lines, "py-spy")
    assert state == "ok"
    assert f"pid {pid} (Python {sys.version_info[0]}.{sys.version_info[1]})" in text
    assert about(lines, "job's files")[:2] == ("ok", f"{tmp_path} may be looked at as uid 0")


@as_root
def test_a_plain_user_is_told_that_a_job_of_another_user_needs_sudo(run, tmp_path):
    open_to_others(tmp_path)
    pid = run()
    code, lines = examine("--pid", pid, folder=tmp_path, become=BE_NOBODY)
    assert code == 1
    state, text, hint = about(lines, "rights")
    assert (state, "sudo" in hint) == ("missing", True)
    assert f"of uid 0, we are {NOBODY}" in text
    assert about(lines, "job's files")[0] == "missing"
    state, text, hint = about(lines, "output")
    assert (state, "-o" in hint) == ("missing", True)
    assert "Permission denied" in text


def rights_as_nobody(pid) -> Answer:
    """Of this process alone: the tree of a test has whatever else pytest runs."""
    view = view_of(pid)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.write(writing, repr(checks.rights_over_job(view)).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        answer = eval(pipe.read(), {"Answer": Answer})
    os.waitpid(child, 0)
    return answer


@as_root
def test_a_plain_users_own_job_may_be_read_unless_it_is_not_dumpable(run, tmp_path):
    open_to_others(tmp_path)
    tmp_path.chmod(0o777)
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if not scope.exists() or scope.read_text().strip() == "0":
        dumpable = run("import ctypes; " + BE_NOBODY + "ctypes.CDLL(None).prctl(4, 1, 0, 0, 0); " + WAIT)
        assert rights_as_nobody(dumpable).ok
    answer = rights_as_nobody(run(BE_NOBODY + WAIT))
    assert (answer.ok, "sudo" in answer.hint) == (False, True)
    assert "not dumpable" in answer.text or "ptrace_scope" in answer.text


def test_a_process_that_is_not_there_is_no_job(tmp_path, start):
    gone = start(["true"])
    gone.wait(20)
    assert doctor.main(["--pid", str(gone.pid)]) == 4


def test_the_job_is_left_as_it_was_found(run, tmp_path, left_as_found):
    pid = run()
    left_as_found(pid)
    examine("--pid", pid, folder=tmp_path)


# --- what is behind the lines ---


def proc_with(tmp_path, **files) -> str:
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(tmp_path)


def test_yama_is_named_and_with_it_the_line_that_opens_it(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "has_capability", lambda number: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for scope, expected in (("1", True), ("3", False)):  # 3 cannot be changed before the next boot
        proc = proc_with(tmp_path, sys__kernel__yama__ptrace_scope=scope)
        answer = checks.rights(view_of(os.getpid(), proc=proc))
        assert (answer.ok, "kernel.yama.ptrace_scope=0" in answer.hint) == (False, expected)
        assert f"ptrace_scope is {scope}" in answer.text


def test_root_in_a_container_without_the_right_is_told_the_flag(monkeypatch):
    monkeypatch.setattr(access, "has_capability", lambda number, proc=None: False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    answer = checks.rights(view_of(os.getpid()))
    assert (answer.ok, "--cap-add SYS_PTRACE" in answer.hint) == (False, True)


def test_a_proc_that_hides_other_users_is_said_to(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "has_capability", lambda number: False)
    proc = proc_with(tmp_path, self__mountinfo=f"1 0 0:5 / {tmp_path} rw - proc proc rw,hidepid=invisible\n")
    answer = checks.process_table(view_of(os.getpid(), proc=proc))
    assert (answer.ok, answer.hint) == (False, "run it with sudo")
    assert "hidepid=invisible" in answer.text


def test_a_missing_or_broken_py_spy_is_named_with_the_line_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setattr(checks.tools, "find_tool", lambda name, ours=False: None)
    assert checks.py_spy(view_of(os.getpid())).hint == "pip install py-spy"
    broken = tmp_path / "py-spy"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(checks.tools, "find_tool", lambda name, ours=False: str(broken))
    assert checks.py_spy(view_of(os.getpid())).ok is False


def test_a_closed_kernel_log_is_missing_with_its_line(monkeypatch):
    monkeypatch.setattr(kernel_log, "read", lambda: Unread("denied", "Operation not permitted"))
    answer = checks.kernel_messages(view_of(os.getpid()))
    assert (answer.ok, answer.hint) == (False, kernel_log.hint())


def test_devices_without_a_tool_that_tells_about_them_are_named(monkeypatch, tmp_path):
    (tmp_path / "kfd").touch()
    monkeypatch.setattr(checks, "_GPUS", {"AMD": ((str(tmp_path / "kfd"),), ("no-such-tool",), "put it on PATH")})
    answer = checks.accelerators(view_of(os.getpid()))
    assert (answer.ok, answer.hint) == (False, "put it on PATH")
    monkeypatch.setattr(checks, "_GPUS", {"AMD": ((str(tmp_path / "kfd"),), ("sh",), "")})
    assert checks.accelerators(view_of(os.getpid())).ok


def test_a_full_temporary_folder_is_missing_room(monkeypatch):
    monkeypatch.setattr(checks, "DEFAULT_MAX_SIZE", 1 << 62)
    answer = checks.room(view_of(os.getpid()))
    assert (answer.ok, "TMPDIR=" in answer.hint) == (False, True)


def test_a_check_that_hangs_or_breaks_is_a_missing_line_and_costs_its_limit():
    def hang(view):
        time.sleep(600)

    def break_down(view):
        raise OSError("no such luck")

    collection = Collection(Options(deadline_s=60), on_wait=lambda running: None)
    hanging = Check("hangs", hang)
    hanging.limit_s = 0.3
    began = time.monotonic()
    with collection.supervisor:
        answers = [doctor.ask(collection, check, ()) for check in (hanging, Check("breaks", break_down))]
    assert time.monotonic() - began < 30
    assert [answer.ok for answer in answers] == [False, False]
    assert "no such luck" in answers[1].text
    assert list(doctor.lines("hangs", Answer(False, "x", "y"))) == [
        "  missing hangs         x",
        "                        to get it: y",
    ]
