"""Whose result is awaited: of the threads and processes of pools."""

from __future__ import annotations

from types import MappingProxyType

from builders import FUTEX_FOR_EVER, LIB, USER, Job, reads

MAIN, STEP = (USER, "main", 3), (USER, "step", 10)
RESULT = ((f"{LIB}/concurrent/futures/_base.py", "result", 451), MAIN)
LOOP = ((f"{LIB}/concurrent/futures/thread.py", "run", 58), (f"{LIB}/concurrent/futures/thread.py", "_worker", 83))
IDLE = LOOP[1:]
FETCH = (("/x/site-packages/requests/api.py", "request", 61),)
WORKS = [[STEP, *LOOP], [(USER, "step", 11), *LOOP], [STEP, *LOOP]]


def pool_of_threads(*workers, waits=RESULT, main=MappingProxyType({"syscall": FUTEX_FOR_EVER})):
    """Each worker: what is given to `Job.thread`."""
    job = Job()
    job.process(12, relation="target", threads=1 + len(workers))
    job.thread(12, stacks=waits, **main)
    for number, worker in enumerate(workers):
        job.thread(12, 20 + number, name=f"ThreadPoolExecutor-0_{number}", **worker)
    return job


def idle():
    return {"syscall": FUTEX_FOR_EVER, "stacks": IDLE}


def working():
    return {"state": "R", "cpu": (0, 900, 1800), "stacks": WORKS}


def stuck():
    return {"syscall": reads(3), "stacks": (STEP, *LOOP)}


def test_a_result_of_threads_that_all_work_comes_when_they_are_done():
    job = pool_of_threads(working(), working(), idle())
    assert [(e.awaited, e.strength) for e in job.edges(12)] == [
        ("thread:h1/12/20", "strong"), ("thread:h1/12/21", "strong")]
    assert job.derived()[0].verdict.state == "slow"


def test_who_waits_for_them_and_is_let_run_late_on_a_busy_host_still_waits():
    late = {"state": "R", "cpu": (0, 0, 10), "switches": (5, 5, 5)}
    job = pool_of_threads(working(), working(), waits=RESULT, main=late)
    assert (job.judged(12).liveness, job.derived()[0].verdict.state) == ("polling", "slow")
    assert pool_of_threads(working(), main={**late, "cpu": (0, 900, 1800)}).judged(12).liveness == "busy"


def test_of_several_the_one_that_does_not_get_on_may_be_the_one():
    edges = pool_of_threads(working(), stuck()).edges(12)
    assert [(e.awaited, e.strength) for e in edges] == [
        ("thread:h1/12/20", "suggested"), ("thread:h1/12/21", "suggested")]


def test_the_only_one_with_a_task_is_awaited():
    edge = pool_of_threads(idle(), stuck()).edge(12)
    assert (edge.awaited, edge.strength, edge.kind) == ("thread:h1/12/21", "strong", "futex")
    assert "its thread ThreadPoolExecutor-0_1, which has a task" in edge.text


def test_a_loop_in_another_thread_may_bring_the_result_as_well():
    job = pool_of_threads(stuck())
    job.thread(12, 30, name="loop", syscall=reads(9), stacks=((f"{LIB}/asyncio/base_events.py", "run_forever", 607),))
    assert job.edge(12).strength == "suggested"


def test_a_task_that_is_a_function_of_a_library_is_a_task():
    edge = pool_of_threads({"syscall": reads(3), "stacks": (*FETCH, *LOOP)}).edge(12)
    assert edge.awaited == "thread:h1/12/20"


def test_idle_threads_bring_nothing():
    assert pool_of_threads(idle(), idle()).edge(12).owner == "nobody"


def test_a_thread_pool_of_multiprocessing_is_a_pool_of_threads():
    loop = ((f"{LIB}/multiprocessing/pool.py", "mapstar", 48), (f"{LIB}/multiprocessing/pool.py", "worker", 125))
    job = pool_of_threads({"syscall": reads(3), "stacks": (STEP, *loop)},
                          waits=((f"{LIB}/multiprocessing/pool.py", "get", 774), MAIN))
    assert job.edge(12).awaited == "thread:h1/12/20"


def pool_of_processes(*workers):
    job = Job()
    job.process(12, relation="target")
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=RESULT)
    for pid, worker in enumerate(workers, start=13):
        job.process(pid, ppid=12, role="pool-worker")
        job.thread(pid, **worker)
    return job


def test_a_result_of_processes_that_all_work_comes_when_they_are_done():
    job = pool_of_processes(working(), working())
    assert {e.strength for e in job.edges(12)} == {"strong"}
    assert job.derived()[0].verdict.state == "slow"


def test_a_worker_in_the_code_of_a_library_is_not_idle():
    """A dataset of some package: nothing of the job's own is on the worker's stack."""
    loop = ("/x/site-packages/torch/utils/data/_utils/worker.py", "_worker_loop", 308)
    frames = (("/x/site-packages/urllib3/response.py", "read", 3), ("/x/site-packages/webset/shards.py", "next", 9), loop)
    job = pool_of_processes({"syscall": reads(3), "stacks": frames})
    job.process(14, ppid=12, role="dataloader-worker")
    job.thread(14, syscall=reads(3), stacks=((f"{LIB}/multiprocessing/queues.py", "get", 113), loop))
    assert [e.kind for e in job.edges(13) if e.kind == "worker"] == []
    assert [e.awaited for e in job.edges(14)] == ["process:h1/12"]


def test_a_result_is_awaited_from_the_child_that_is_stopped_whatever_it_is():
    job = Job()
    job.process(12, relation="target")
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=RESULT)
    job.process(13, ppid=12, role="compile-worker")
    job.thread(13, state="T")
    job.process(14, ppid=12, role="resource-tracker")
    job.thread(14, syscall=reads(3))
    assert (job.edge(12).awaited, job.edge(12).kind) == ("process:h1/13", "worker")


def test_who_waits_for_a_result_is_told_with_its_own_line():
    own = (USER, "shard", 10)
    inner = {"syscall": FUTEX_FOR_EVER, "stacks": (RESULT[0], own, *LOOP)}
    job = pool_of_threads(inner, idle())
    edge = job.edge(12)
    assert edge.text == "waits at train.py:3 for a result of its thread ThreadPoolExecutor-0_0, which has a task"
    pool = pool_of_threads(inner, inner)
    assert {e.text.partition(" for ")[0] for e in pool.edges(12, 20)} == {"waits at train.py:10"}
