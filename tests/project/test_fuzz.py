"""A short run of what `make fuzz` does for longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).resolve().parent.parent.parent / "fuzz"
RUNS = {"bundle": 200, "facts": 5, "redactor": 300, "rule": 300, "text": 5}
"""Some inputs of each way in; the corpus is run before them."""


def test_hostile_bytes_break_no_reader() -> None:
    """No crash, no input that takes over 5 s of CPU time, not over 1 GB."""
    code = f"import sys; sys.path.insert(0, {str(FUZZ)!r}); import fuzz, harnesses\nbroken = sum(fuzz.run(name, runs, seed=1) for name, runs in {RUNS!r}.items())\nharnesses.clean_up()\nsys.exit(broken)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_way_in_has_a_corpus() -> None:
    assert {folder.name for folder in (FUZZ / "corpus").iterdir()} == set(RUNS)


def test_kill_trials_in_short(tmp_path: Path) -> None:
    """Those ways to end a collect that no other test takes, once each."""
    command = [sys.executable, FUZZ / "kill_trials.py", "--trials", "5", "--seed", "11", "--write", tmp_path / "report.md"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 trials: 0 corrupt bundles, 0 jobs changed" in (tmp_path / "report.md").read_text()
