"""What every test may use: a target left as it was found, programs that speak when ready, and no silent skips in CI."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import FIXTURES, kill_tree, look, wait_until

ALLOWED_SKIPS_IN_CI: tuple[str, ...] = ("no control group can be made here", r"needs a CPython 3\.14")
"""Regular expressions on "nodeid: reason" of skips that CI may have: what only the host can give. A container may make no
control group; what groups say, of both versions, is also read from files, and what follows from it is in the rules' cases.
CPython 3.14 comes from Debian's testing, which will have a newer one instead some day."""


SKIPPED_IN_CI = 6
"""Exit status of a run in which CI skipped what it must not; none of pytest's own."""


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skip is a failure: a test that quietly stops running protects nothing."""
    if os.environ.get("CI") != "true" or hasattr(session.config, "workerinput"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    lines = [f"{report.nodeid}: {report.longrepr[2] if report.longrepr else ''}" for report in skipped]
    unexpected = [line for line in lines if not any(re.search(allowed, line) for allowed in ALLOWED_SKIPS_IN_CI)]
    if unexpected:
        session.exitstatus = SKIPPED_IN_CI
        for line in unexpected:
            reporter.write_line(f"skipped, but CI must not skip it: {line}", red=True)


@pytest.fixture
def start():
    """Start programs that are killed, with all their descendants, whatever the test does."""
    started: list[subprocess.Popen] = []

    def begin(argv, **options) -> subprocess.Popen:
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("start_new_session", True)
        process = subprocess.Popen([str(a) for a in argv], **options)
        started.append(process)
        return process

    yield begin
    for process in started:
        kill_tree(process.pid)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait(20)


@pytest.fixture
def stuck(start, tmp_path):
    """Start fixtures/stuck/NAME.py and wait until it says which pid to collect from; returns that pid."""

    def begin(name: str, *, python: str = sys.executable, cwd: Path | None = None, env: dict[str, str] | None = None) -> int:
        folder = cwd or tmp_path
        ready = folder / f".{name}.ready"
        environment = {**os.environ, "READY": str(ready), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        with open(folder / f".{name}.out", "w") as out:
            start([python, FIXTURES / "stuck" / f"{name}.py"], cwd=folder, env=environment, stdout=out, stderr=out)
        return int(wait_until(lambda: ready.exists() and ready.read_text().strip(), what=f"{name} gets stuck", seconds=60))

    return begin


@pytest.fixture
def left_as_found():
    """`watch(pid)` remembers how a process looks; at the end of the test, and at each `check()`, it must look the same."""
    seen: dict[int, dict[str, object]] = {}

    class Watch:
        def __call__(self, pid: int) -> None:
            seen[pid] = look(pid)

        def release(self, pid: int) -> None:
            """From now on the process may change: the test lets it go on."""
            del seen[pid]

        def check(self) -> None:
            for pid, before in seen.items():
                assert look(pid) == before, f"collecting changed pid {pid}"

    watch = Watch()
    yield watch
    watch.check()
