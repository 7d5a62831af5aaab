"""Ranks that sleep in the engine of the backward pass, of which no frame says that they wait for each other."""

from __future__ import annotations

from typing import Any

from builders import FUTEX_FOR_EVER, USER, Job

from flatline.bundle.facts import Fd

TORCH = "/x/site-packages/torch"
STEP = (USER, "step", 10)
BACKWARD = ((f"{TORCH}/autograd/graph.py", "_engine_run_backward", 864), (f"{TORCH}/_tensor.py", "backward", 630), STEP)
ASLEEP = {"syscall": FUTEX_FOR_EVER, "stacks": BACKWARD}
EVALUATES = {"state": "R", "cpu": (0, 900, 1800), "stacks": [[(USER, "validate", line)] for line in (20, 21, 20)]}


def ranks(*threads: dict[str, Any], connected: bool = True) -> Job:
    """Processes that one parent has started, and that only their script knows as ranks."""
    job = Job()
    job.process(11, relation="target")
    pids = [12 + number for number in range(len(threads))]
    for pid, thread in zip(pids, threads, strict=True):
        others = tuple(f"h1/{other}" for other in pids if other != pid)
        job.process(pid, ppid=11, role="other")
        job.thread(pid, **thread)
        job.add("fds", Fd(f"h1/{pid}", 9, "socket", f"socket:[{pid}]", pid, peers=others if connected else ()))
    return job


def test_they_wait_for_the_rank_that_is_awake_elsewhere():
    edge = ranks(EVALUATES, ASLEEP).edge(13)
    assert (edge.kind, edge.awaited, edge.strength) == ("collective", "thread:h1/12/12", "suggested")
    assert edge.text == "waits in the backward pass for the other ranks: pid 12 is not in it"


def test_a_rank_that_has_gone_on_to_the_barrier_is_missing_and_misses_them():
    barrier = ((f"{TORCH}/distributed/distributed_c10d.py", "barrier", 4600), (USER, "fit", 30))
    job = ranks({"syscall": FUTEX_FOR_EVER, "stacks": barrier}, ASLEEP)
    assert job.edge(13).awaited == "thread:h1/12/12"
    assert job.edge(12).awaited == "thread:h1/13/13"


def test_for_whom_they_wait_does_not_show_where_all_sleep_in_it():
    assert {edge.kind for edge in ranks(ASLEEP, ASLEEP).edges(13)} == {"futex"}


def test_who_works_in_the_backward_pass_itself_is_not_missing():
    at_work = {**EVALUATES, "stacks": [[*BACKWARD], [(f"{TORCH}/utils/checkpoint.py", "backward", 2), *BACKWARD]] * 2}
    at_work["stacks"] = at_work["stacks"][:3]
    assert {edge.kind for edge in ranks(at_work, ASLEEP).edges(13)} == {"futex"}


def test_a_process_that_is_connected_with_none_is_no_rank():
    assert {edge.kind for edge in ranks(EVALUATES, ASLEEP, connected=False).edges(13)} == {"futex"}
