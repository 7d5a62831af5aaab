"""Prompts with the command that was typed."""

from __future__ import annotations

import pytest
from flatline.analyzer.intake.cleaning import cleaned
from flatline.analyzer.parsers.prompts import command_before, command_in
from parsing import blocks_of


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("$ nvidia-smi", "nvidia-smi"),
        ("root@node7:/w# cat /proc/1/stack", "cat /proc/1/stack"),
        ("[ann@node7 ~]$ ps aux", "ps aux"),
        ("(venv) ann@node7:~/run$ sudo py-spy dump --pid 7", "py-spy dump --pid 7"),
        ("bash-5.1# dmesg -T", "dmesg -T"),
        ("# cat /proc/7/wchan", "cat /proc/7/wchan"),
        ("❯ ss -tanp", "ss -tanp"),
        ("+ nvidia-smi -L", "nvidia-smi -L"),
        ("% lsof -p 7", "lsof -p 7"),
    ],
)
def test_the_command_behind_a_prompt_is_read(line: str, command: str):
    found = command_in(line)
    assert found is not None
    assert found.text == command
    assert [block.kind for block in blocks_of(line)] == ["prompt"]


@pytest.mark.parametrize(
    "line",
    [
        "# a comment",
        "## Heading",
        "$5 per hour",
        "% time     seconds  usecs/call",
        "user@host said hello",
        "+ added a line",
        "> quoted",
        "12 % done",
    ],
)
def test_ordinary_lines_are_no_prompts(line: str):
    assert command_in(line) is None
    assert "prompt" not in [block.kind for block in blocks_of(line)]


def test_a_command_names_the_process_and_the_file_it_shows():
    lines = list(cleaned(["# cat /proc/812/task/815/wchan", "", "futex_wait"]))
    found = command_before(lines, 2)
    assert found is not None
    assert (found.pid, found.tid, found.file) == (812, 815, "wchan")
    assert command_before(lines, 0) is None
