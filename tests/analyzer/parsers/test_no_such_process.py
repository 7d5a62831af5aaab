"""A look for a process that finds none: mostly nothing is printed."""

from __future__ import annotations

import pytest
from parsing import blocks_of, rows_of

from flatline.bundle.facts import ToolRun

PS = "ann      301  0.0  0.0   6432   720 pts/0    S+   10:06   0:00 {}\n"


def told(text: str) -> list[str | None]:
    return [row.message for block in blocks_of(text) for row in rows_of(block, ToolRun)]


@pytest.mark.parametrize("text", [
    "$ pgrep -af train.py\n$ nvidia-smi\n",
    "ann@node7:~$ pgrep -af train.py\nann@node7:~$\n",
    "$ ps aux | grep train.py\n" + PS.format("grep --color=auto train.py"),
    "$ ps -ef | grep train.py | grep -v grep\n\n$ date\n",
])  # fmt: skip
def test_nobody_is_found(text: str):
    assert told(text) == ["there is no process train.py"]


@pytest.mark.parametrize("text", [
    "$ pgrep -af train.py\n4711 python train.py\n",
    "$ pgrep -af train.py",  # what it printed may have been left out
    "$ ps aux | grep train.py\n" + PS.format("python train.py") + PS.format("grep train.py"),
    "$ grep loss train.log\n$ ls\n",
    "$ pgrep -af train.py || echo none\n$ ls\n",
    "$ pgrep -af train.py\n4711 python train.py --limit 50%\n",
])  # fmt: skip
def test_somebody_is_found_or_it_does_not_show(text: str):
    assert told(text) == []


@pytest.mark.parametrize("text", [
    "ls: cannot access '/proc/811': No such file or directory\n",
    "cat: /proc/811/status: No such file or directory\n",
    "bash: kill: (811) - No such process\n",
    "-bash: line 3: kill: (811) - No such process\n",
    "kill: sending signal to 811 failed: No such process\n",
])  # fmt: skip
def test_its_files_and_signals_tell_it_too(text: str):
    assert told(text) == ["there is no process 811"]
