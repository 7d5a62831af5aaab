"""Look-alikes for real: each program is told from its neighbour, and nothing is said that was not seen."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from typing import Any

import pytest
from end_to_end_support import cause_of

needs_filelock = pytest.mark.skipif(find_spec("filelock") is None, reason="needs filelock")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
needs_less = pytest.mark.skipif(shutil.which("less") is None, reason="needs less")


def root_cause(report: dict[str, Any]) -> dict[str, Any]:
    return next(f for f in report["findings"] if f["role"] == "root-cause")


REAL = [
    pytest.param("filelock_held", "lock-file-held", "very likely", {"waiting"}, marks=needs_filelock),
    pytest.param("soft_lock_elsewhere", "lock-file-owner-unseen", "possible", {"waiting"}, marks=needs_filelock),
    pytest.param("prompt_at_terminal", "prompt-at-terminal", "very likely", {"waiting"}, marks=needs_bash),
    pytest.param("password_prompt", "password-prompt", "very likely", {"waiting"}, marks=needs_bash),
    pytest.param("suspended_at_prompt", "stopped-in-background", "likely", {"hung", "waiting"}, marks=needs_bash),
    ("output_read_slowly", "output-pipe-slow-reader", "likely", {"waiting"}),
    pytest.param("output_into_sleep", "output-pipe-slow-reader", "likely", {"waiting"}, marks=needs_bash),
    pytest.param("output_into_pager", "output-pager", "very likely", {"waiting"}, marks=[needs_bash, needs_less]),
]


@pytest.mark.parametrize(("program", "rule", "word", "states"), REAL)
def test_a_look_alike_gets_its_own_rule_and_no_more_certainty_than_was_seen(
    program: str, rule: str, word: str, states: set[str], stuck, diagnose
) -> None:
    report, _ = diagnose(stuck(program), window=1.0)
    finding = root_cause(report)
    assert (finding["rule"], finding["word"]) == (rule, word), finding["title"]
    assert report["verdict"]["state"] in states
    texts = [finding["title"], *finding["confirm"], *finding["fix"]]
    assert not any("pipe:[" in text or "(unknown)" in text for text in texts)
    assert "not in the bundle" not in str(report["verdict"])


def test_a_worker_that_takes_commands_by_input_while_its_parent_computes_asks_nobody(stuck, diagnose) -> None:
    report, _ = diagnose(stuck("commands_by_input"), window=1.0)
    assert cause_of(report) is None
    assert all(finding["word"] == "weak hint" for finding in report["findings"])


def test_a_breakpoint_is_told_by_its_own_line_and_the_program_s_frame_is_evidence(stuck, diagnose) -> None:
    report, _ = diagnose(stuck("debugger_prompt"), window=1.0)
    finding = root_cause(report)
    assert "at train.py:3 in train_step" in finding["title"]
    assert any("train_step" in item["quote"] for item in finding["evidence"])


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_a_rank_that_is_late_with_its_own_work_makes_the_job_slow_and_is_its_cause(stuck, diagnose) -> None:
    report, _ = diagnose(stuck("gloo_mismatch", env={"ONLY_RANK_0": "computes"}), window=1.0)
    finding = root_cause(report)
    assert (report["verdict"]["state"], finding["rule"], finding["cause"]) == ("slow", "rank-late", "rank-straggler")
    assert finding["word"] in ("likely", "very likely")
    assert re.match(r"Rank 1 \(pid \d+\) is busy", finding["title"])
