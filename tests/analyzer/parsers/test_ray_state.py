"""What Ray says of its cluster: demands that nobody fulfils, actors that are dead; and the stacks it prints."""

from __future__ import annotations

from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.sieve import Kept
from flatline.analyzer.intake.sources import Source
from parsing import blocks_of, only, rows_of
from programs import FIXTURES

from flatline.bundle.facts import Frame, Process, Scheduler

LOGS = FIXTURES / "pasted" / "logs"
STATUS = (LOGS / "ray-status.txt").read_text()


def test_a_demand_that_waits_is_a_pending_job_and_stays_in_the_log():
    block = only(STATUS, "ray-status")
    assert [(row.kind, row.state, row.reason) for row in rows_of(block, Scheduler)] == [
        ("ray", "PENDING", "{'CPU': 1.0, 'GPU': 1.0}: 1+ pending tasks/actors")
    ]
    case = case_of_texts([Source("s.txt", Kept(tuple(STATUS.splitlines()), size=len(STATUS)))], "t")
    assert len(case.store.rows("logs")) == 1


def test_placement_groups_and_failed_nodes():
    text = STATUS.replace(
        " (no failures)", " 10.0.0.7: NodeTerminated (ip: 10.0.0.7)"
    ).replace("1+ pending tasks/actors", "1+ pending tasks/actors\n {'GPU': 8.0} * 2 (PACK): 1+ pending placement groups")  # fmt: skip
    rows = rows_of(only(text, "ray-status"), Scheduler)
    assert [(row.state, row.node, row.reason) for row in rows] == [
        ("FAILED", "10.0.0.7", "NodeTerminated"),
        ("PENDING", None, "{'CPU': 1.0, 'GPU': 1.0}: 1+ pending tasks/actors"),
        ("PENDING", None, "{'GPU': 8.0} * 2 (PACK): 1+ pending placement groups"),
    ]


def test_the_lower_half_alone_is_known():
    text = STATUS[STATUS.index("Total Usage:") :]
    assert [row.state for row in rows_of(only(text, "ray-status"), Scheduler)] == ["PENDING"]
    assert [block.kind for block in blocks_of("Demands:\n more time\nUsage:\n  prog [-h]\n")] == ["log"]


def test_the_error_below_it_is_no_part_of_it():
    text = STATUS + 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: x\n'
    assert [block.kind for block in blocks_of(text)] == ["ray-status", "python-traceback"]


def test_a_list_of_actors_says_which_are_dead():
    block = only((LOGS / "ray-list-actors.txt").read_text(), "ray-list")
    assert [(row.job, row.state) for row in rows_of(block, Scheduler)] == [("W", "ALIVE"), ("W", "DEAD")]
    assert block.about == "ray list: 2 actors"


def test_ray_stack_is_a_dump_per_worker_under_its_headings():
    dump = 'Process {0}: ray::{1}\nPython v3.10.13 (/usr/bin/python3.10)\n\nThread {0} (idle): "MainThread"\n    {2} (w.py:3)\n'
    text = "".join(
        f"Stack dump for {user} {pid} 0.0 0.1 ray::{name}\n{dump.format(pid, name, call)}\n"
        for user, pid, name, call in (("ann", 210, "Trainer.fit()", "fit"), ("ann", 211, "IDLE", "main_loop"))
    )
    block = only(text, "py-spy-dump")
    assert [p.pid for p in rows_of(block, Process)] == [210, 211]
    assert {(f.thread, f.function) for f in rows_of(block, Frame)} == {
        ("h1/210/210", "fit"),
        ("h1/211/211", "main_loop"),
    }
