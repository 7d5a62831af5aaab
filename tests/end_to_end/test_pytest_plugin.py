"""A test that hangs fails with its cause, also in a worker of xdist, and the others run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from end_to_end_support import cause_of, report_of

from flatline import pytest_plugin

TESTS = """
import threading
def test_before(): pass
def test_hangs(): threading.Event().wait()
def test_after(): pass
"""


@pytest.mark.parametrize("more", [["-p", "no:xdist"], ["-n", "1"]], ids=["alone", "xdist"])
def test_a_test_that_hangs_is_failed_with_its_cause(tmp_path, more):
    (tmp_path / "test_it.py").write_text(TESTS)
    words = ["-p", "flatline.pytest_plugin", "--hang-after", "1", "--hang-bundles", str(tmp_path / "out"), "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), *words, *more, str(tmp_path / "test_it.py")],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, env=dict(os.environ),
        start_new_session=True,  # the suite around it is no part of this job
    )  # fmt: skip
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "test_it.py::test_hangs hangs" in done.stdout
    (bundle,) = (tmp_path / "out").glob("*.flatline.zip")
    assert f"bundle: {bundle}" in done.stdout
    assert f"verdict: {report_of(bundle)['verdict']['state']}" in done.stdout
    if "-n" not in more:  # a worker of xdist has threads of its own, which might set the event
        assert cause_of(report_of(bundle)) == "waits-for-ended-thread"
        assert "[waits-for-ended-thread]" in done.stdout


class Helper:
    """The helper's loop in this process: what it would send is kept, what it is told comes over a pipe."""

    def __init__(self, monkeypatch, tmp_path):
        self.sent, self.found, self.ppid = [], tmp_path / "found.txt", 1234
        self.at_diagnosis = self.at_signal = lambda: None
        read, self._write = os.pipe()
        os.dup2(read, 0)
        os.close(read)
        monkeypatch.setattr(pytest_plugin, "diagnosed", lambda pid, folder: self.at_diagnosis() or "why")
        monkeypatch.setattr(pytest_plugin, "COME_BACK_S", 0.0)
        monkeypatch.setattr(os, "getppid", lambda: self.ppid)
        monkeypatch.setattr(os, "kill", lambda pid, number: self.sent.append(number) or self.at_signal())

    def tell(self, line, last=False):
        os.write(self._write, line.encode() + b"\n")
        if last:
            self.close()

    def close(self):
        if self._write is not None:
            os.close(self._write)
        self._write = None

    def leave(self):
        self.ppid = 1

    def run(self):
        self.tell("0 7 test_it.py::test a  b")
        return pytest_plugin.main(1234, self.found, "")


@pytest.fixture
def helper(monkeypatch, tmp_path):
    stdin, interrupt = os.dup(0), signal.getsignal(signal.SIGINT)
    helper = Helper(monkeypatch, tmp_path)
    yield helper
    helper.close()
    os.dup2(stdin, 0)
    os.close(stdin)
    signal.signal(signal.SIGINT, interrupt)


def test_a_test_that_came_back_while_it_was_diagnosed_is_not_failed(helper):
    helper.at_diagnosis = lambda: helper.tell("end", last=True)
    assert helper.run() == 0
    assert not helper.sent


def test_nothing_is_sent_to_who_has_the_number_of_pytest_after_it(helper):
    helper.at_diagnosis = helper.leave
    assert helper.run() == 1
    assert not helper.sent


def test_nor_is_it_killed(helper):
    helper.at_signal = helper.leave
    assert helper.run() == 1
    assert helper.sent == [signal.SIGRTMIN]


def test_a_test_that_says_that_it_failed_is_not_killed(helper):
    helper.at_signal = lambda: helper.tell("failed", last=True)
    assert helper.run() == 0
    assert helper.sent == [signal.SIGRTMIN]
    assert helper.found.read_text() == "7\ntest_it.py::test a  b hangs\nwhy"


def test_a_test_that_says_nothing_or_fails_again_and_again_is_killed(helper):
    assert helper.run() == 1
    assert helper.sent == [signal.SIGRTMIN, signal.SIGKILL]
    helper.sent.clear()
    helper.at_signal = lambda: helper.tell("failed") if helper.sent[-1] != signal.SIGKILL else None
    assert helper.run() == 1
    assert helper.sent == [signal.SIGRTMIN] * pytest_plugin.FAILURES + [signal.SIGKILL]


@pytest.fixture
def guard(tmp_path):
    """A guard whose helper is a process that does not end by itself."""
    guard = object.__new__(pytest_plugin.HangGuard)
    (tmp_path / "of-guard").mkdir()
    guard._found = tmp_path / "of-guard/found.txt"
    guard._found.write_text("7\ntest_it.py::test hangs\nwhy")
    guard._helper = subprocess.Popen(["sleep", "1000"], stdin=subprocess.PIPE, bufsize=0)
    guard._told = []
    guard._tell = guard._told.append
    yield guard
    guard._helper.kill()
    guard._helper.wait(60)


def test_only_the_test_that_hung_fails_and_says_so_at_once(guard):
    for running in (0, 8):
        guard._running = running
        guard._fail()
    assert not guard._told
    guard._running = 7
    with pytest.raises(pytest.fail.Exception, match=r"^test_it\.py::test hangs\nwhy$"):
        guard._fail()
    assert guard._told == ["failed"]


def test_a_helper_that_does_not_end_is_killed(guard, monkeypatch):
    monkeypatch.setattr(pytest_plugin, "END_S", 0.0)
    guard.pytest_unconfigure()
    assert guard._helper.wait(60) == -signal.SIGKILL
    assert not guard._found.parent.exists()


@pytest.mark.parametrize(
    ("report", "why"),
    [
        ("[]", "no cause: the report cannot be read: TypeError("),
        ("{}", "no cause: the report cannot be read: KeyError('findings')"),
        ("{", "no cause: the report cannot be read: JSONDecodeError("),
    ],
)
def test_a_report_that_is_none_is_said_to_be(monkeypatch, report, why):
    monkeypatch.setattr(pytest_plugin, "_flatline", lambda words, limit_s: "a.zip\n" if words[0] == "collect" else report)
    text = pytest_plugin.diagnosed(1234, "")
    assert text.startswith(why)
    assert text.endswith("\nbundle: a.zip")


def test_why_there_is_no_bundle_is_said(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    assert pytest_plugin.diagnosed(1234, str(tmp_path / "file/folder")).startswith("no bundle could be made: [Errno 20]")
    monkeypatch.setattr(pytest_plugin, "COLLECT_S", -1.0)
    assert pytest_plugin.diagnosed(1234, "") == "no bundle could be made: flatline collect took longer than -1 s"
