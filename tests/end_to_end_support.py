"""The two commands as a user types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from flatline.analyzer.analysis import analyze
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.judge.pack import Rulebook, load_rulebook
from flatline.analyzer.reports import render
from programs import kill_tree, look, wait_until

_ANALYZING = Lock()
"""One at a time: several would only fight for the GIL."""


@dataclass(frozen=True)
class Ran:
    """One command's end."""

    code: int
    out: str
    err: str


def flatline(*args: object, timeout: float = 180, **options: Any) -> Ran:
    """Run flatline with captured output and no standard input."""
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(
        [sys.executable, "-m", "flatline", *map(str, args)], capture_output=True, text=True, timeout=timeout, check=False, **options
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@cache
def _rulebook() -> Rulebook:
    return load_rulebook()


def report_of(*bundles: Path) -> dict[str, Any]:
    """What ``flatline analyze --format json`` prints, without starting a Python and reading all rules each time."""
    with _ANALYZING, open_case(bundles) as case:
        return json.loads(render("json", analyze(case, _rulebook()), case))


def cause_of(report: dict[str, Any]) -> str | None:
    """The cause named first, or None."""
    return next((f["cause"] for f in report["findings"] if f["role"] == "root-cause"), None)


def word_of(report: dict[str, Any]) -> str | None:
    """How sure it is of that."""
    return next((f["word"] for f in report["findings"] if f["role"] == "root-cause"), None)


@dataclass(frozen=True)
class Outcome:
    """What one program was found to be."""

    report: dict[str, Any]
    changed: tuple[str, ...]
    """What of the process is not as it was before it was collected from."""


def outcome_of(program: Path, folder: Path, env: Mapping[str, str], *, window: float) -> Outcome:
    """Start a program that says when it is ready, collect from it, end it, analyze."""
    folder.mkdir()
    ready = folder / ".ready"
    environment = {**os.environ, "READY": str(ready), "PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1", **env}
    argv = ["node" if program.suffix == ".js" else sys.executable, str(program)]
    with open(folder / ".out", "w") as out:
        job = subprocess.Popen(argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    try:
        wait_until(lambda: ready.exists() or job.poll() is not None, what=f"{program.stem} is under way", seconds=90)
        assert job.poll() is None, (folder / ".out").read_text()[-2000:]
        pid = int(ready.read_text())
        before = look(pid)
        bundle = folder / "job.flatline.zip"
        # the deadline is not what is tested here: on a host so busy that it ends the looks, there is nothing to judge
        collected = flatline("collect", "--pid", pid, "-o", bundle, "--window", window, "--deadline", 120, cwd=folder)
        assert collected.code in (0, 3), collected.err
        after = look(pid)
    finally:
        kill_tree(job.pid)
        try:
            os.killpg(job.pid, signal.SIGKILL)  # a pool goes on to start workers until its last thread is gone
        except ProcessLookupError:
            pass
        job.wait(20)
    return Outcome(report_of(bundle), tuple(name for name in before if before[name] != after[name]))


def outcomes(
    programs: Mapping[str, tuple[Path, Mapping[str, str]]], folder: Path, *, window: float, at_once: int
) -> dict[str, Future[Outcome]]:
    """Of several programs, `at_once` of them at a time: most of the time they only wait. All are done on return."""
    with ThreadPoolExecutor(at_once) as pool:
        return {
            name: pool.submit(outcome_of, program, folder / name.replace(", ", "-"), env, window=window)
            for name, (program, env) in programs.items()
        }
