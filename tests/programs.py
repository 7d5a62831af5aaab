"""Real programs for tests: wait for them, look at them, end them, find the interpreters to run them with."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"


def wait_until(condition, *, what: str, seconds: float = 20.0):
    """The first true value of `condition`, asked again and again; fails the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"did not happen within {seconds} s: {what}")
        time.sleep(0.02)


def kill_tree(pid: int) -> None:
    """SIGKILL the process, then everything below it: a pool whose worker goes first starts another one."""
    try:
        children = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        children = []
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    for child in children:
        kill_tree(child)


def open_to_others(folder: Path) -> None:
    """Let an ordinary user pass through the folder and all above it; pytest's own folders are private."""
    for each in (folder, *folder.parents):
        if each != Path("/") and each.stat().st_uid == 0:
            each.chmod(each.stat().st_mode | 0o055)


def look(pid: int) -> dict[str, object]:
    """Everything about a process that collecting must not change."""
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    pipes = sorted(link for link in _descriptors(pid) if "pipe:" in link)
    state = status["State"][0]
    return {
        # running and sleeping change by themselves; stopped, traced and zombie do not
        "state": "alive" if state in "RSD" else state,
        **{name: status[name] for name in ("TracerPid", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")},
        "children": Path(f"/proc/{pid}/task/{pid}/children").read_text().split(),
        "pipes": pipes,
    }


def _descriptors(pid: int) -> list[str]:
    """What each is open on; a job at work may close one between the list and the look."""
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            continue
    return links


def pythons() -> list[tuple[str, str]]:
    """(version, path) of every CPython 3.8 or newer found below PYENV_ROOT, else the one that runs the tests; and of those
    that `make test` fetched."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = []
    for python in sorted(root.glob("3.*/bin/python3")):
        version = python.parent.parent.name
        if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) >= (3, 8):
            found.append((version, str(python)))
    fetched = [(python.parts[-4], str(python)) for python in sorted(ROOT.glob(".make/pythons/3.*/usr/bin/python3"))]
    return [*(found or [(sys.version.split()[0], sys.executable)]), *fetched]


def real_python(version: str) -> str:
    """The path of a CPython of this minor version (``3.9``); skips the test where there is none."""
    for found, path in pythons():
        if found.startswith(version + "."):
            return path
    pytest.skip(f"needs a CPython {version} below PYENV_ROOT")
