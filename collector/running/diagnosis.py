"""A collect and an analysis, as commands of their own with a time limit: the job's keeper never hangs with them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..linux import grandchild

COLLECT_S = 60.0
FAST_S = 8.0
"""With its end and the look for the bundle at most 10 s: who sent a signal waits for it."""
ANALYZE_S = 120.0
ANSWER_S = 1.0
"""For the file system of the bundle, which may be dead by now."""
_MAIN = (
    "import signal, sys; signal.pthread_sigmask(signal.SIG_SETMASK, []); "
    "from flatline.cli import main; sys.exit(main(sys.argv[1:]))"
)
NOT_STUCK = ("healthy", "slow", "degraded")

Wait = Callable[[int, float], "int | None"]
"""Waits for a child and returns its wait status; None: not within the seconds given, and it was killed."""


@dataclass(frozen=True)
class Diagnosis:
    """What a bundle said; without a report, that there is none."""

    bundle: str = ""
    problem: str = ""
    """Why there is no bundle."""
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def is_stuck(self) -> bool:
        """Where no analysis could be had, the silence stands for itself."""
        verdict = self.report.get("verdict") or {}
        return verdict.get("state") not in NOT_STUCK and verdict.get("by_design") is not True

    def lines(self) -> list[str]:
        """The verdict, why, and the cause."""
        verdict = self.report.get("verdict") or {}
        said = [f"verdict: {verdict['state']}", *verdict.get("because", [])] if verdict else []
        causes = [f for f in self.report.get("findings", []) if f.get("role") == "root-cause"][:1]
        said += [f"root cause ({f.get('word')}): {f.get('title')} [{f.get('rule')}]" for f in causes]
        said += [line for f in causes for line in f.get("fix", [])[:1]]
        if not self.bundle:
            return [*said, self.problem]
        return [*said, f"bundle: {self.bundle}", f"next: flatline analyze {shlex.quote(self.bundle)}"]

    def in_short(self, has_gone_on: bool) -> str:
        """Why nothing is done about the silence, in a line."""
        if has_gone_on:
            return "looked, and it went on meanwhile"
        verdict = self.report.get("verdict") or {}
        by_design = " by design" if verdict.get("by_design") is True else ""
        because = "".join(f" ({one})" for one in verdict.get("because", [])[:1])
        return f"looked, and it is {verdict.get('state')}{by_design}{because}"


def collect(pid: int, folder: str, scratch: Path, wait: Wait, more: Sequence[str] = (), *, fast: bool = False) -> str:
    """The path of the bundle; OSError when there is none. `more`: words for the command line of collect."""
    words = ["collect", "--pid", str(pid), "--quiet", "-o", folder or ".", *more]
    words += ["--window", "1", "--deadline", "6"] if fast else []
    code, out, err = _run(words, scratch, wait, FAST_S if fast else COLLECT_S)
    path = out.strip().splitlines()[-1:] if code in (0, 3) else []
    if not path or not grandchild.ask(lambda: os.path.exists(path[0]), ANSWER_S).value:
        said = err.strip().splitlines()[:1] or [f"exit code {code}"]
        raise OSError(f"no bundle could be made: {said[0]}")
    return path[0]


def analyze(bundle: str, scratch: Path, wait: Wait) -> dict[str, Any]:
    """The report; empty when the analyzer is not installed, or did not come to an end."""
    _, out, _ = _run(["analyze", bundle, "--format", "json"], scratch, wait, ANALYZE_S)
    try:
        report = json.loads(out)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


def show(bundle: str, scratch: Path, wait: Wait) -> str:
    """The report as a terminal shows it."""
    return _run(["analyze", bundle], scratch, wait, ANALYZE_S)[1]


def _run(words: Sequence[str], scratch: Path, wait: Wait, limit_s: float) -> tuple[int | None, str, str]:
    """Exit code, standard output and error; in a process group of its own, which no key on the terminal reaches."""
    out, err = scratch / f"{words[0]}.out", scratch / f"{words[0]}.err"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    environment = {**os.environ, "FLATLINE_RECORDER": "off"}
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", _MAIN, *words],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(out), flags, 0o600),
            (os.POSIX_SPAWN_OPEN, 2, str(err), flags, 0o600),
        ],
        setpgroup=0,
        setsigdef=[signal.SIGPIPE],
    )
    status = wait(child, time.monotonic() + limit_s)
    code = os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else None
    return code, out.read_text("utf-8", "replace"), err.read_text("utf-8", "replace")
