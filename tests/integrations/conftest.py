"""Trainings on the CPU, with the recorder and without, and what is in its ring afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from flatline.collector.recorder import ring
from programs import ROOT

from flatline.recorder import environment

FRAMEWORKS = ROOT / ".make" / "frameworks"
"""`make test` makes it. flatline is not installed there: what the recorder gives has to do."""


@pytest.fixture
def job(tmp_path):
    """Run a program to its end; `marks` are what its ring then holds."""
    kept = tmp_path / "rings"
    kept.mkdir(0o700)
    plain = {k: v for k, v in os.environ.items() if not k.startswith("FLATLINE_") and k != "PYTEST_CURRENT_TEST"}
    recorded = environment({**plain, "TMPDIR": str(tmp_path), "FLATLINE_RECORDER_DIR": str(kept)})

    class Job:
        folder = tmp_path

        def run(self, code: str, *, python: Path | str = sys.executable, with_recorder: bool = True):
            (tmp_path / "job.py").write_text(code)
            env = recorded if with_recorder else plain
            return subprocess.run([python, "job.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)

        def train(self, code: str) -> None:
            """By the interpreter that has the frameworks."""
            if not list(FRAMEWORKS.glob("lib/python3*/site-packages/transformers")):
                pytest.skip("needs the frameworks: make .make/frameworks")
            done = self.run(code, python=FRAMEWORKS / "bin" / "python")
            assert done.returncode == 0, done.stderr

        def ring(self) -> ring.Ring:
            found = [ring.decode(path.read_bytes()) for path in kept.glob("flatline-ring-*")]
            return next(one for one in found if one.header["how"] == ["exec"])

        def marks(self, *but: str) -> list[str]:
            """Phases as they were entered (+) and left (-), without those named."""
            signs = {"phase-enter": "+", "phase-leave": "-"}
            return [f"{signs[one.kind]} {one.text}" for one in self.ring().events if one.kind in signs and one.text not in but]

    return Job()
