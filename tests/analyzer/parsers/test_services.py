"""The state of a service, in one word."""

from __future__ import annotations

from parsing import blocks_of, rows_of

from flatline.bundle.facts import ToolRun


def test_a_service_that_does_not_run_is_not_started():
    text = "$ systemctl is-active nvidia-fabricmanager\ninactive\n$ systemctl is-failed slurmd.service\nfailed\n"
    runs = [row for block in blocks_of(text) for row in rows_of(block, ToolRun)]
    assert [(run.tool, run.outcome) for run in runs] == [("nvidia-fabricmanager", "not-started"), ("slurmd", "error")]


def test_another_answer_is_none_of_a_service():
    assert [block.kind for block in blocks_of("$ systemctl is-active x.service\nFailed to connect to bus\n")] == [
        "prompt", "log",
    ]  # fmt: skip
