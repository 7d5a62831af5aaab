"""Limits as the shells print them, each in its own way and with its own units."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from parsing import blocks_of, only, rows_of
from programs import FIXTURES

from flatline.bundle.facts import Limit

ULIMIT = FIXTURES / "pasted" / "ulimit"
MIB = 1024**2


def limits(text: str, kind: str = "ulimit") -> dict[str, Limit]:
    return {row.name: row for row in rows_of(only(text, kind), Limit)}


@pytest.mark.parametrize("shell", ["dash", "zsh", "mksh", "fish", "busybox", "tcsh"])
def test_every_shell_says_the_same_of_one_host(shell: str):
    found = limits((ULIMIT / f"{shell}.txt").read_text())
    assert {name: found[name].soft for name in ("open files", "processes", "stack size", "locked memory")} == {
        "open files": 20000, "processes": 96364, "stack size": 8 * MIB, "locked memory": 8 * MIB,
    }  # fmt: skip
    assert (found["address space"].soft, found["address space"].unlimited) == (None, True)


def test_prlimit_gives_both_limits_and_whose_they_are():
    text = (ULIMIT / "prlimit.txt").read_text()
    found = limits(text, "prlimit")
    assert (found["stack size"].soft, found["stack size"].hard, found["stack size"].unlimited) == (8 * MIB, None, False)
    block = next(b for b in blocks_of(f"$ prlimit --pid 4242\n{text}") if b.kind == "prlimit")
    assert {row.process for row in rows_of(block, Limit)} == {"h1/4242"}


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", "mksh", "fish", "busybox"])
def test_the_shells_of_this_machine_are_read(shell: str):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = [shell, *(["sh"] if shell == "busybox" else []), "-c", "ulimit -S -n 64; ulimit -a"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert limits(done.stdout)["open files"].soft == 64


@pytest.mark.parametrize(
    ("text", "name", "soft", "hard"),
    [
        ("$ ulimit -n\n1024\n", "open files", 1024, None),
        ("user@node1:~$ ulimit -l\n64\n", "locked memory", 64 * 1024, None),
        ("$ ulimit -Hn\n1048576\n", "open files", None, 1048576),
        ("max user processes                  (-u) 4096\n", "processes", 4096, None),
    ],
)
def test_a_single_limit(text: str, name: str, soft: int | None, hard: int | None):
    (row,) = rows_of(only(text, "ulimit"), Limit)
    assert (row.name, row.soft, row.hard) == (name, soft, hard)


def test_hard_limits_are_told_by_the_prompt():
    block = next(
        b for b in blocks_of("$ ulimit -aH\nopen files (-n) 99\nfile locks (-x) unlimited\n") if b.kind == "ulimit"
    )
    assert [(row.name, row.soft, row.hard) for row in rows_of(block, Limit)] == [
        ("open files", None, 99), ("file locks", None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["process 12\n", "locks 5 held\n", "loading (fast, -x) 3 files\n", "-t: 5\n"])
def test_ordinary_lines_are_no_limits(text: str):
    assert [block.kind for block in blocks_of(text)] == ["log"]
