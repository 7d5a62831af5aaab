"""What a dry run announces is what is touched: every probe is run, and no path and no command of it was kept back."""

from __future__ import annotations

import os
import re
import shlex
import sys

import pytest
from flatline.collector import tools
from flatline.collector.linux.procfs import ProcFS
from flatline.collector.plan import PROBES
from job_view import run_until_ready, target_of, view_of

JOB = "import threading; lock = threading.Lock(); lock.acquire(); ready(); lock.acquire()"
NAMED = re.compile(r"\d+|PID|UID|JOB|CORE|PROGRAM")


def expanded(pattern: str) -> list[str]:
    """``/proc/{a,b}`` as the two paths."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    return [path for one in found[1].split(",") for path in expanded(pattern.replace(found[0], one, 1))]


def announced(probe) -> list[str]:
    return [path for pattern in probe.reads for path in expanded(pattern.partition(" ")[0])]


def is_announced(path: str, announced_paths: list[str]) -> bool:
    """A folder stands for what is in it; that a process's folder or its list of threads is looked at goes without saying."""
    within = any(path == known or path.startswith(known + "/") for known in announced_paths)
    return within or path.rstrip("/") in ("/proc", "/proc/PID", "/proc/PID/task")


def generic(parts: tuple[object, ...]) -> str:
    names = [str(part) for part in parts]
    for at, name in enumerate(names):
        if name.isdigit():
            names[at] = "PID" if at == 0 else "TID" if names[at - 1] == "task" else "N"
    return "/".join(["/proc", *names])


@pytest.mark.parametrize("make", PROBES, ids=lambda make: make.name)
def test_every_path_below_proc_and_every_command_was_announced(make, start, tmp_path, monkeypatch):
    touched, ran = tmp_path / "touched", tmp_path / "ran"
    touched.touch()
    ran.touch()
    real_path, real_start = ProcFS.path, tools.RunningTool.__init__

    def path(self, *parts):
        with open(touched, "a") as file:  # also the children of the probe come by here
            file.write(generic(parts) + "\n")
        return real_path(self, *parts)

    def begin(self, argv, **more):
        with open(ran, "a") as file:
            file.write(shlex.join([os.path.basename(str(argv[0])), *map(str, argv[1:])]) + "\n")
        real_start(self, argv, **more)

    pid = run_until_ready(start, tmp_path, JOB)
    monkeypatch.setattr(ProcFS, "path", path)
    monkeypatch.setattr(tools.RunningTool, "__init__", begin)
    probe = make()
    list(
        probe.gather(
            view_of(target_of(pid, is_python=True, argv=(sys.executable,)), window_s=0.2, samples=2, locals=True)
        )
    )
    assert [
        one for one in dict.fromkeys(touched.read_text().split("\n")) if one and not is_announced(one, announced(probe))
    ] == []
    known = {NAMED.sub("#", run.line) for run in probe.runs}
    assert {NAMED.sub("#", line) for line in ran.read_text().splitlines()} <= known


def test_the_check_would_notice_what_is_kept_back():
    known = expanded("/proc/PID/{stat,fd}")
    assert is_announced("/proc/PID/fd/N", known)
    assert not is_announced("/proc/PID/environ", known)
    assert generic((7, "task", 8, "stat")) == "/proc/PID/task/TID/stat"


@pytest.mark.parametrize("make", PROBES, ids=lambda make: make.name)
def test_every_probe_says_what_it_reads_and_how_long_each_command_may_take(make):
    probe = make()
    assert probe.reads
    assert all(run.line and run.when and 0 < run.limit_s <= 10 for run in probe.runs)
