"""What a pasted dump of stacks tells by itself: the same chain, weaker, and never proven."""

from __future__ import annotations

from textwrap import dedent

import pytest
from builders import Job
from flatline.analyzer.derive import derive
from flatline.analyzer.derive.known import WAITS
from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.sieve import Kept
from flatline.analyzer.intake.sources import Source

from flatline.bundle.facts import Frame

SITE, LIB = "/v/lib/python3.11/site-packages", "/usr/lib/python3.11"


def dump(**threads):
    """``p12_13=[(file, function, line), …]``, innermost first, in a bundle that has frames and nothing else."""
    job = Job().without("hosts")
    for name, stack in threads.items():
        pid, tid = name[1:].split("_")
        for depth, (file, function, line) in enumerate(stack):
            job.add("frames", Frame(f"h1/{pid}/{tid}", 0, depth, function, file=file, line_no=line, active=False,
                                    thread_name="MainThread" if pid == tid else None))
    return job


MAIN = ("/job/train.py", "main", 3)
JOIN = (f"{LIB}/threading.py", "join", 1119)


def test_a_main_thread_that_joins_another_is_followed_into_it():
    job = dump(p12_12=[JOIN, MAIN], p12_13=[(f"{LIB}/queue.py", "get", 171), ("/job/train.py", "feed", 9)])
    derived, store = job.derived()
    assert [e.kind for e in store.rows("wait_edges")] == ["thread-join", "futex"]
    assert "waits for an item to be put into a queue" in derived.chains[0].text


def test_nothing_is_proven_by_a_stack():
    job = dump(p12_12=[JOIN, MAIN], p12_13=[(f"{LIB}/threading.py", "wait", 327), ("/job/train.py", "feed", 9)])
    edges = job.derived()[1].rows("wait_edges")
    assert {e.strength for e in edges} == {"suggested"}
    assert all("one look" in e.reason for e in edges)


def test_a_trainer_and_its_loader_show_in_one_dump_of_both():
    job = dump(
        p12_12=[(f"{LIB}/multiprocessing/queues.py", "get", 113), (f"{SITE}/torch/utils/data/dataloader.py", "_try_get_data", 1120), MAIN],
    )
    (edge,) = job.edges(12)
    assert (edge.kind, edge.strength) == ("worker", "suggested")


@pytest.mark.parametrize("package", [f"{LIB}/multiprocessing", f"{SITE}/multiprocess"])
def test_the_copy_of_multiprocessing_that_datasets_uses_waits_alike(package: str):
    job = dump(
        p12_12=[(f"{LIB}/threading.py", "wait", 331), (f"{package}/pool.py", "wait", 765), (f"{package}/pool.py", "get", 768), MAIN],
        p14_14=[("/job/train.py", "clean", 30), (f"{package}/pool.py", "worker", 114), (f"{package}/popen_fork.py", "_launch", 71)],
    )
    store = job.derived()[1]
    assert {p.pid: p.role for p in store.rows("processes")}[14] == "pool-worker"
    assert [e.kind for e in store.rows("wait_edges") if e.pid == 12] == ["worker"]


def test_the_verdict_is_less_sure_than_with_the_kernel_s_word():
    derived, _ = dump(p12_12=[(f"{LIB}/threading.py", "wait", 327), MAIN]).derived()
    assert derived.verdict.state in ("hung", "unknown")
    assert derived.verdict.confidence < 0.7


def test_a_thread_on_a_cpu_waits_for_nobody():
    job = dump(p12_12=[JOIN, MAIN])
    job.tables["frames"] = [Frame(**{**vars(f), "active": True}) for f in job.tables["frames"]]
    assert job.derived()[1].rows("wait_edges") == []


# --- as people paste them ---


def pasted(*texts):
    """The case that these texts make, and what is derived from it."""
    sources = [Source(f"{n}.txt", Kept(tuple(dedent(text).strip("\n").split("\n")), size=len(text)))
               for n, text in enumerate(texts)]  # fmt: skip
    with case_of_texts(sources, "t") as case:
        return derive(case), case.store


PARENT = """
    Process 204: python train.py
    Python v3.11.7 (/usr/bin/python3.11)

    Thread 204 (idle): "MainThread"
        wait (multiprocessing/connection.py:947)
        get (multiprocessing/queues.py:113)
        _try_get_data (torch/utils/data/dataloader.py:1291)
        train (train.py:23)
"""
WORKER = """
    Process 210: python train.py
    Python v3.11.7 (/usr/bin/python3.11)

    Thread 210 (idle): "MainThread"
        __getitem__ (train.py:11)
        fetch (torch/utils/data/_utils/fetch.py:54)
        _worker_loop (torch/utils/data/_utils/worker.py:374)
        _bootstrap (multiprocessing/process.py:314)
        train (train.py:23)
"""


def test_a_worker_is_known_by_its_stack_and_its_parent_as_the_only_program_there_is():
    derived, store = pasted(PARENT, WORKER)
    assert {(p.pid, p.role, p.ppid) for p in store.rows("processes")} == {
        (204, "unknown", None), (210, "dataloader-worker", 204),
    }  # fmt: skip
    assert "its DataLoader worker 210; pid 210: it stood in __getitem__ (train.py:11)" in derived.chains[0].text
    assert {edge.strength for edge in store.rows("wait_edges")} == {"suggested"}


def test_of_two_programs_none_is_said_to_be_the_parent():
    other = PARENT.replace("204", "304")
    store = pasted(PARENT, other, WORKER)[1]
    assert [p.ppid for p in store.rows("processes") if p.role == "dataloader-worker"] == [None]


def test_one_look_at_a_wait_is_no_hang():
    derived, _ = pasted('Thread 5 (idle): "MainThread"\n    synchronize (torch/cuda/__init__.py:9)\n    main (train.py:3)\n')
    assert derived.verdict.state == "unknown"
    assert "one look at a stack does not tell for how long" in derived.verdict.because[0]


def test_nobody_is_said_to_be_left_because_of_one_look():
    _, store = pasted('Thread 5 (idle): "MainThread"\n    wait (threading.py:324)\n    main (train.py:3)\n')
    assert [edge.owner for edge in store.rows("wait_edges")] == ["unknown"]


def test_a_process_that_no_text_names_is_called_the_process():
    derived, _ = pasted(
        'Timeout (0:10:00)!\nThread 0x00007f00aa (most recent call first):\n  File "/usr/lib/python3.11/queue.py", line 171 in get\n'
        '  File "/job/train.py", line 3 in main\n'
    )
    said = " ".join([*derived.verdict.because, *(chain.text for chain in derived.chains)])
    assert "the process waits for an item" in said
    assert "-1" not in said
    assert all(step.pid is None for chain in derived.chains for step in chain.steps)


def test_a_rank_without_a_pid_is_called_by_its_rank():
    dump = ["Timeout (0:10:00)!", "Thread 0x00007f00aa (most recent call first):",
            '  File "/usr/lib/python3.11/queue.py", line 171 in get', '  File "/job/train.py", line 3 in main']  # fmt: skip
    derived, _ = pasted("\n".join(f"[rank3]: {line}" for line in dump))
    assert "rank 3 waits for an item" in derived.chains[0].text


# --- native code ---


def gdb(*frames):
    return "\n".join(f"#{n}  0x00007f0{n:02} in {frame} () from /job/native/lib.so" for n, frame in enumerate(frames))


def test_a_native_join_is_followed_to_the_thread_that_wants_the_loader_s_lock():
    main = gdb("std::thread::join()", "Pool::stop()", "__run_exit_handlers", "exit", "_GLOBAL__sub_I_x", "call_init", "_dl_init")
    other = gdb("__lll_lock_wait", "__cxa_thread_atexit_impl", "Pool::run()", "start_thread")
    derived, store = pasted(main, other)
    assert [edge.kind for edge in store.rows("wait_edges")] == ["thread-join", "futex"]
    assert derived.chains[0].end.kind == "cycle"
    assert (derived.verdict.state, derived.verdict.confidence < 0.7) == ("hung", True)


def test_a_mutex_of_native_code_has_no_owner_in_a_stack():
    derived, store = pasted(gdb("__lll_lock_wait", "___pthread_mutex_lock", "Queue::pop()", "main"))
    (edge,) = store.rows("wait_edges")
    assert (edge.kind, edge.owner, edge.strength) == ("futex", "unknown", "suggested")
    assert "waits for a mutex of native code" in derived.chains[0].text


def test_a_wait_for_the_gpu_is_seen_in_native_code():
    (edge,) = pasted(gdb("??", "cudaStreamSynchronize", "ncclStrongStreamSynchronize", "ncclCommAbort", "main"))[1].rows("wait_edges")
    assert (edge.kind, edge.text.partition(" for")[0]) == ("device", "waits in ncclCommAbort")


def test_a_python_function_is_not_taken_for_a_native_one_of_its_name():
    assert pasted('Thread 5 (idle): "MainThread"\n    waitpid (lib/python3/site-packages/x.py:3)\n')[1].rows("wait_edges") == []


@pytest.mark.parametrize("row", WAITS, ids=lambda row: f"{row.file}:{'|'.join(row.functions[:1])}")
def test_no_known_wait_is_called_proven_for_its_stack(row):
    """Neither of one look at a stack, nor where the window shows that the thread stands still."""
    stack = ((f"{SITE}/{row.file}", (row.functions or ("f",))[0], 9), MAIN)
    watched = Job().without("hosts")
    watched.process(12, relation="target")
    watched.thread(12, stacks=stack)
    for job in (dump(p12_12=stack), watched):
        assert {e.strength for e in job.edges(12)} <= {"strong", "suggested"}
