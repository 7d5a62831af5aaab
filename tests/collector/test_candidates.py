"""Facts about which jobs are offered when no target was named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from flatline.collector.job.candidates import Candidate, candidates, choose
from flatline.collector.linux.procfs import ProcFS
from programs import kill_tree, wait_until


@pytest.fixture
def detached(tmp_path):
    """Start programs that are no children of the tests: they would count as the collector's own."""
    pids: list[int] = []

    def begin(*argv: str) -> int:
        told = tmp_path / f"pid{len(pids)}"
        script = f'echo $$ > {told}; exec "$@"'
        subprocess.run(["setsid", "-f", "sh", "-c", script, "sh", *argv], check=True, timeout=30, stdin=subprocess.DEVNULL)
        pids.append(int(wait_until(lambda: told.exists() and told.read_text().strip(), what="a pid is told")))
        return pids[-1]

    yield begin
    for pid in pids:
        kill_tree(pid)


def found_of(*pids: int) -> dict[int, Candidate]:
    def old_enough():
        stats = [ProcFS().stat(pid) for pid in pids]
        return all(ProcFS().age_s(stat.start_ticks) > 2.1 for stat in stats)

    wait_until(old_enough, what="the jobs are two seconds old", seconds=30)
    return {c.pid: c for c in candidates(ProcFS(), me=(os.getpid(),))}


def test_a_sleeping_job_looks_stuck_and_a_busy_one_does_not(detached):
    asleep = detached(sys.executable, "-c", "import time; time.sleep(600)")
    busy = detached(sys.executable, "-c", "while True: pass")
    found = found_of(asleep, busy)
    assert found[asleep].looks_stuck
    assert found[asleep].waits_in.startswith("S in ")
    assert not found[busy].looks_stuck
    assert os.getpid() not in found
    order = list(found)
    assert order.index(asleep) < order.index(busy)


def test_a_launcher_whose_program_has_ended_is_offered(detached):
    """A shell stands in for the launcher that never asked how its child ended."""
    script = f"{sys.executable} -c 'import os; os._exit(7)' & exec sleep 600"
    parent = detached("sh", "-c", script)
    found = found_of(parent)
    assert "Python program has ended" in found[parent].why
    assert found[parent].ended_children == 1


def test_editors_and_idle_node_servers_are_not_offered(detached, tmp_path):
    (tmp_path / "pylsp").write_text("import time; time.sleep(600)")
    editor = detached(sys.executable, str(tmp_path / "pylsp"))
    plain = detached("sleep", "600")
    found = found_of(editor, plain)
    assert not {editor, plain} & set(found)


def candidate(pid: int, stuck: bool) -> Candidate:
    return Candidate(pid, "python train.py", 0, 9.0, 1, "S", 0.0, 0, stuck, "a Python program")


def test_only_the_one_job_that_must_be_meant_is_chosen():
    stuck, other, busy = candidate(1, True), candidate(2, True), candidate(3, False)
    assert choose((stuck, busy)) == stuck
    assert choose((busy,)) == busy
    assert choose((stuck, other)) == "2 jobs look stuck"
    assert choose((stuck, other, busy)) == "2 of 3 jobs look stuck"
    assert choose((busy, candidate(4, False))) == "2 jobs run, and none of them looks stuck: all use the CPU"
    assert str(choose(())).startswith("no Python program")


def test_a_stopped_job_is_offered(detached):
    job = detached(sys.executable, "-c", "import time; time.sleep(600)")
    os.kill(job, signal.SIGSTOP)
    wait_until(lambda: ProcFS().stat(job).state == "T", what="it stops")
    assert found_of(job)[job].waits_in.startswith("T")


POOL = """\
import os, sys, time
if os.fork() == 0:  # the parent whose death leaves them
    for number in "ab":
        if os.fork() == 0:
            with open(sys.argv[1] + number + ".new", "w") as told:
                told.write(str(os.getpid()))
            os.rename(told.name, sys.argv[1] + number)
            time.sleep(600)
    os._exit(1)
"""


def test_the_workers_of_a_pool_whose_parent_has_died_are_one_job(detached, tmp_path):
    detached(sys.executable, "-c", POOL, str(tmp_path / "worker-"))
    told = [tmp_path / "worker-a", tmp_path / "worker-b"]
    wait_until(lambda: all(path.exists() for path in told), what="both workers tell their pids")
    workers = [int(path.read_text()) for path in told]
    try:
        found = found_of(*workers)
        listed = [found[pid] for pid in workers if pid in found]
        assert [candidate.processes for candidate in listed] == [2]
    finally:
        for pid in workers:
            kill_tree(pid)
