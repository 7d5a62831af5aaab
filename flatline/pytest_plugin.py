"""A pytest plugin: a test that hangs fails with its cause, and leaves a bundle. ``pytest -p flatline.pytest_plugin``.

A helper beside the tests does the waiting: the process that is looked at is as it was, with no thread more, no timer.
When a test takes too long, the helper collects and analyzes while the test still hangs, then sends SIGRTMIN, whose
handler fails the test with what was found, and says so to the helper: a teardown has as long again. A test that does
not come back from that is ended with its process.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

COLLECT_S, ANALYZE_S = 60.0, 120.0
COME_BACK_S = 10.0
"""How long a test may take to fail after the signal; C code that never returns does not."""
END_S = 5.0
"""How long a process of ours may take to end, by itself and again once killed."""
FAILURES = 3
"""So often one test is failed: the test, its teardown, and once more for who catches everything and goes on."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("flatline")
    group.addoption("--hang-after", type=float, default=None, metavar="SECONDS", help="a test that takes longer hangs")
    group.addoption("--hang-bundles", default="", metavar="DIR", help="where bundles of hung tests go (default: here)")
    parser.addini("hang_after", "seconds after which a test counts as hung; 0: never", default="0")


def pytest_configure(config: pytest.Config) -> None:
    after = config.getoption("--hang-after")
    after = float(config.getini("hang_after") or 0) if after is None else after
    controls = getattr(config.option, "dist", "no") != "no" and not hasattr(config, "workerinput")
    if after > 0 and not controls:  # with xdist the tests run in the workers
        config.pluginmanager.register(HangGuard(after, str(config.getoption("--hang-bundles"))), "flatline-hang-guard")


class HangGuard:
    """Tells the helper when each test begins and ends."""

    def __init__(self, after_s: float, folder: str) -> None:
        self._after_s = after_s
        self._found = Path(tempfile.mkdtemp(prefix="flatline-pytest-")) / "found.txt"
        self._helper = subprocess.Popen(
            [sys.executable, "-m", "flatline.pytest_plugin", str(os.getpid()), str(self._found), folder],
            stdin=subprocess.PIPE,
            bufsize=0,
        )
        self._begun = self._running = 0
        signal.signal(signal.SIGRTMIN, self._fail)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._begun += 1
        self._tell(f"{self._after_s} {self._begun} {item.nodeid}")
        self._running = self._begun
        yield
        self._running = 0  # first: a signal that comes now is for nobody
        self._tell("end")

    def pytest_unconfigure(self) -> None:
        if self._helper.stdin is not None:
            self._helper.stdin.close()
        _end(self._helper, END_S)
        shutil.rmtree(self._found.parent, ignore_errors=True)

    def _tell(self, line: str) -> None:
        try:
            if self._helper.stdin is not None:
                self._helper.stdin.write(line.encode(errors="replace").replace(b"\n", b" ") + b"\n")
        except OSError:  # the helper is gone: the tests go on without it
            pass

    def _fail(self, *_: object) -> None:
        number, found = self._found.read_text("utf-8", "replace").split("\n", 1)
        if number != str(self._running):  # the one that hung has come back in the meantime
            return
        self._tell("failed")
        pytest.fail(found, pytrace=True)


# --- the helper ---


def main(pid: int, found: Path, folder: str) -> int:
    """Wait for tests that take too long, until the tests end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests' to handle; we end with them
    end, limit, number, name, failures = None, 0.0, "", "", 0
    while True:
        left = None if end is None else max(0.0, end - time.monotonic())
        if select.select([0], [], [], left)[0]:
            line = _line()
            if not line:
                return 0
            if line not in ("end", "failed"):
                after, _, test = line.partition(" ")
                number, _, name = test.partition(" ")
                limit, failures = float(after), 0
            end = None if line == "end" else time.monotonic() + limit
            continue
        if not _is_parent(pid):
            return 1
        text = f"{name} hangs\n" + diagnosed(pid, folder)
        if select.select([0], [], [], 0)[0]:
            print(f"\n{text}\nThe test came back while it was looked at.", file=sys.stderr)  # noqa: T201
            continue
        found.write_text(f"{number}\n{text}", "utf-8", "replace")
        failures += 1
        if failures <= FAILURES and _is_parent(pid):
            os.kill(pid, signal.SIGRTMIN)
            if select.select([0], [], [], COME_BACK_S)[0]:
                continue
        if _is_parent(pid):
            print(f"\n{text}\nThe test does not come back; its process is ended.", file=sys.stderr)  # noqa: T201
            os.kill(pid, signal.SIGKILL)
        return 1


def _is_parent(pid: int) -> bool:
    """Whether the number is still that of pytest: once it has ended, another process may have it."""
    return os.getppid() == pid


def _line() -> str:
    """One line, unbuffered: `select` sees only what has not been read."""
    read = b""
    while not read.endswith(b"\n"):
        one = os.read(0, 1)
        if not one:
            return ""
        read += one
    return read.decode("utf-8", "replace").strip()


def diagnosed(pid: int, folder: str) -> str:
    """Verdict, cause and bundle, as lines, or why there is none."""
    words = ["collect", "--pid", str(pid), "--quiet", "-o", folder or "."]
    try:
        if folder:
            os.makedirs(folder, exist_ok=True)
        bundle = _flatline(words, COLLECT_S).strip()
    except OSError as error:
        return f"no bundle could be made: {error}"
    try:
        report: dict[str, Any] = json.loads(_flatline(["analyze", bundle, "--format", "json"], ANALYZE_S))
        causes = [finding for finding in report["findings"] if finding["role"] == "root-cause"][:1]
        lines = [f"verdict: {report['verdict']['state']}", *report["verdict"]["because"]]
        lines += [f"root cause ({cause['word']}): {cause['title']} [{cause['rule']}]" for cause in causes]
    except OSError as error:
        lines = [f"no cause: {error}"]
    except (ValueError, KeyError, TypeError) as error:
        lines = [f"no cause: the report cannot be read: {error!r}"]
    return "\n".join([*lines, f"bundle: {bundle}"])


def _flatline(words: list[str], limit_s: float) -> str:
    """What flatline prints. Raises OSError: it cannot be started, takes too long, or prints nothing."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flatline", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "FLATLINE_RECORDER": "off"},
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        _end(process, 0)
        raise TimeoutError(f"flatline {words[0]} took longer than {limit_s:g} s") from None
    if not out.strip():
        said = err.strip().partition("\n")[0]
        raise ChildProcessError(said or f"flatline {words[0]} ended with {process.returncode} and printed nothing")
    return out


def _end(process: subprocess.Popen[Any], limit_s: float) -> None:
    """Wait for its end, then kill it; one that even that does not end is left."""
    for more in (process.kill, lambda: None):
        try:
            process.wait(limit_s)
            return
        except subprocess.TimeoutExpired:
            more()
            limit_s = END_S


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
