"""pstree tells who started whom, and which threads a process has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from parsing import blocks_of, only, rows_of

from flatline.bundle.facts import Process, Thread

PROGRAM = """
import subprocess, sys, threading
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
threading.Thread(target=child.wait, name="waiter").start()
print(child.pid, flush=True)
input()
child.communicate(b"\\n")
"""


@pytest.fixture
def family():
    """A process with a thread and a child, by their pids."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        yield parent.pid, int(parent.stdout.readline())
        parent.communicate(b"\n")


@pytest.mark.skipif(shutil.which("pstree") is None, reason="pstree is not installed")
@pytest.mark.parametrize("flags", ["-pA", "-pU", "-ptA", "-paA", "-paU", "-plU"])
def test_parents_children_and_threads_are_those_of_the_system(family, flags):
    parent, child = family
    text = subprocess.run(["pstree", flags, str(os.getpid())], capture_output=True, text=True, check=True).stdout
    block = only(text, "pstree")
    processes = {row.pid: row for row in rows_of(block, Process)}
    assert (processes[child].ppid, processes[parent].ppid) == (parent, os.getpid())
    tids = {int(name) for name in os.listdir(f"/proc/{parent}/task")} - {parent}
    assert {row.tid for row in rows_of(block, Thread) if row.pid == parent} == tids


def test_a_tree_without_its_head_keeps_what_hangs_together():
    text = "         |-python(34)-+-python(35)\n         |            `-{python}(36)\n         `-sleep(37)\n"
    block = only(text, "pstree")
    assert {row.pid: row.ppid for row in rows_of(block, Process)} == {34: None, 35: 34, 37: None}
    assert [(row.pid, row.tid) for row in rows_of(block, Thread)] == [(34, 36)]


@pytest.mark.parametrize("text", ["step(12)---loss", "loss,12", "worker,17 died\nworker,18 died", "f(1)"])
def test_what_only_looks_like_one_stays_log(text):
    assert [block.kind for block in blocks_of(text)] == ["log"]
