"""From a really stuck process to the named cause, by the commands a user types; and from healthy ones to none."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from end_to_end_support import cause_of, word_of
from programs import FIXTURES, pythons, wait_until

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

STUCK = [
    ("stopped", "stopped-by-signal", {"hung", "waiting"}),
    ("stopped_by_terminal", "stopped-by-terminal", {"hung", "waiting"}),
    ("prompt_on_pipe", "interactive-prompt", {"hung", "waiting"}),
    ("debugger_prompt", "debugger-prompt", {"hung", "waiting"}),
    ("stderr_pipe_unread", "output-pipe-full", {"hung"}),
    ("flock_held", "lock-held-by-process", {"hung", "waiting"}),
    pytest.param("torch_baton_stale", "lock-file-stale", {"hung", "waiting"}, marks=needs_torch),
]


@pytest.mark.parametrize(("program", "cause", "verdicts"), STUCK)
def test_a_stuck_program_gets_its_cause(program: str, cause: str, verdicts: set[str], stuck, diagnose) -> None:
    report, _ = diagnose(stuck(program))
    assert (cause_of(report), report["verdict"]["state"] in verdicts) == (cause, True), report["verdict"]
    assert word_of(report) in ("very likely", "likely")
    assert report["chain"] is not None
    evidence = next(f for f in report["findings"] if f["role"] == "root-cause")["evidence"]
    assert len({item["artefact"] for item in evidence}) >= 1
    assert all(item["quote"] for item in evidence)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_a_node_launcher_that_does_not_read_its_child_is_named(start, tmp_path: Path, diagnose) -> None:
    ready = tmp_path / "ready"
    env = {**os.environ, "READY": str(ready), "PYTHON": sys.executable}
    start(["node", FIXTURES / "stuck/node_parent_unread.js"], cwd=tmp_path, env=env)
    pid = int(wait_until(lambda: ready.exists() and ready.read_text(), what="the child blocks in write", seconds=60))
    report, _ = diagnose(pid)
    assert cause_of(report) == "output-pipe-full"


@pytest.mark.parametrize("program", ["computing_slowly", "training_loop", pytest.param("long_matmul", marks=needs_torch), "filter_on_pipe"])
def test_a_job_that_is_not_stuck_gets_no_cause(program: str, stuck, diagnose) -> None:
    report, _ = diagnose(stuck(program))
    assert cause_of(report) in (None, "healthy", "slow-progress")
    assert report["verdict"]["state"] != "hung"


@pytest.mark.parametrize("program", ["computing_slowly", "training_loop"])
def test_a_job_that_moves_is_said_to_move(program: str, stuck, diagnose) -> None:
    report, _ = diagnose(stuck(program))
    assert report["verdict"]["state"] in ("healthy", "slow")


@needs_cc
@pytest.mark.parametrize("hold_gil", ["", "1"])
def test_a_rank_that_spins_in_c_is_never_called_healthy(hold_gil: str, stuck, diagnose) -> None:
    report, _ = diagnose(stuck("spinning", env={"HOLD_GIL": hold_gil}))
    assert report["verdict"]["state"] not in ("healthy", "slow")


@pytest.mark.parametrize(("version", "python"), pythons())
def test_targets_on_every_python_show_their_stacks(version: str, python: str, stuck, diagnose) -> None:
    report, bundle = diagnose(stuck("flock_held", python=python))
    assert cause_of(report) == "lock-held-by-process"
    assert version.split(".")[0] == "3"
    import zipfile

    with zipfile.ZipFile(bundle) as archive:
        stacks = [name for name in archive.namelist() if name.startswith("stacks/")]
        assert stacks
        assert b'"<module>"' in archive.read(stacks[0])
