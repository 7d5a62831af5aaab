"""Commands that did not come back."""

from __future__ import annotations

import time

import pytest
from parsing import Row, blocks_of, rows_of

from flatline.bundle.facts import GpuDriver, ToolRun


def rows_in(text: str, kind: type[Row]) -> list[Row]:
    """Of all blocks of the text."""
    return [row for block in blocks_of(text) for row in rows_of(block, kind)]


@pytest.mark.parametrize(
    "text",
    [
        "$ nvidia-smi\n^C^C",
        "root@gpu3:~# nvidia-smi^C",
        "[ops@gpu3 ~]$ timeout 30 nvidia-smi; echo $?\n124",
        "$ timeout -s KILL 30 nvidia-smi -L; echo rc=$?\nrc=137",
        "$ nvidia-smi   # hangs, no output",
        "$ sudo nvidia-smi\n\n(never returns)",
    ],
)
def test_a_tool_that_was_given_up_before_it_printed_says_that_the_driver_hangs(text: str):
    assert [(d.vendor, d.state, d.source) for d in rows_in(text, GpuDriver)] == [("nvidia", "hangs", "nvidia-smi")]
    assert [run.outcome for run in rows_in(text, ToolRun)] == ["timeout"]


@pytest.mark.parametrize(
    "text",
    [
        "$ nvidia-smi\nTue Mar  5 10:00:00 2024\n^C",
        "$ nvidia-smi; echo $?\n124",
        "$ nvidia-smi\n$ uptime",
        "$ python train.py\n^C",
        "$ ls\n^C",
        "$ du -sh /data | sort\n^C",
    ],
)
def test_what_printed_something_or_asks_no_driver_and_no_mount_says_nothing(text: str):
    assert all(block.kind != "unanswered-command" for block in blocks_of(text))


def test_a_file_system_that_does_not_answer_is_known_by_the_command_that_only_asks_it():
    assert [(r.tool, r.message) for r in rows_in("$ ls /mnt/set\n^C", ToolRun)] == [
        ("ls", "ls /mnt/set did not come back")
    ]


@pytest.mark.parametrize(
    "typed",
    [
        "$ nvidia-smi " + "^C" * 100_000,
        "$ nvidia-smi ^C" + " " * 200_000 + "x",
        "$ nvidia-smi " + "# " * 100_000 + "hangs",
    ],
)
def test_an_endless_line_takes_linear_time(typed: str):
    begin = time.process_time()
    blocks_of(typed)
    assert time.process_time() - begin < 2, "some milliseconds; quadratic would be a minute"
