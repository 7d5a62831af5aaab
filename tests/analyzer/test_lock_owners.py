"""What may be called proven of a lock, and what may not."""

from __future__ import annotations

import pytest
from builders import LIB, SLEEP, USER, Job
from flatline.analyzer.merge import merge_rows

from flatline.bundle.facts import Futex, MissingFact, PollSet, Syscall, Thread, Timeout

ADDRESS = 0x7F00
MUTEX = Syscall("futex", 202, (ADDRESS, 0x80, 2, 0), timed=False)
SHARED = Syscall("futex", 202, (ADDRESS, 0x109, 0, 0), timed=False)
AT = ((USER, "step", 10), (USER, "main", 3))
SEMAPHORE = {"mapping": "/dev/shm/sem.x (deleted)", "word": 0, "op": 0x109, "value": 0, "private": False}


def job(*, call=MUTEX, **process):
    made = Job()
    made.process(12, relation="target", threads=1, **process)
    made.thread(12, syscall=call, stacks=AT)
    return made


def futex(made, tid=12, **known):
    fields = {"address": ADDRESS, "op": 0x80, "value": 2, "private": True, "primitive": "mutex", **known}
    made.add("futexes", Futex(f"h1/12/{tid}", "h1/12", **fields))
    return made


def facts_of(edge):
    return edge.awaited, edge.strength, edge.owner


def test_an_owner_that_lives_holds_it():
    made = futex(job(), owner_state="alive", owner_tid=13, owner_thread="h1/12/13")
    made.thread(12, 13, syscall=SLEEP, switches=(0, 1, 2), name="loader")
    edge = made.edge(12)
    assert facts_of(edge) == ("thread:h1/12/13", "proven", "thread")
    assert edge.text == "waits for the lock at train.py:10, which is held by its thread loader"


def test_of_a_thread_that_wakes_now_and_then_the_owner_is_not_proven():
    made = Job()
    made.process(12, relation="target", threads=2)
    made.thread(12, syscall=MUTEX, stacks=AT, switches=(0, 5, 10))
    made.thread(12, 13, syscall=SLEEP, switches=(0, 1, 2))
    futex(made, owner_state="alive", owner_tid=13, owner_thread="h1/12/13")
    assert made.edge(12).strength == "strong"


def test_what_memory_said_of_another_futex_is_not_used():
    made = futex(job(), address=ADDRESS + 64, owner_state="alive", owner_tid=13, owner_thread="h1/12/13")
    assert "held by" not in made.edge(12).text


def test_an_owner_outside_the_job_is_a_process():
    made = futex(job(), owner_state="alive", owner_tid=77, owner_thread="h1/77/77", mapping="/dev/shm/x")
    assert facts_of(made.edge(12)) == ("process:h1/77", "proven", "outside")


@pytest.mark.parametrize(("method", "words"), [("fork", "when the process was forked"), ("exec", "when it ended")])
def test_an_owner_that_is_no_thread_of_the_process_is_nobody(method, words):
    made = futex(job(start_method=method), owner_state="not-a-thread-of-the-process", owner_tid=99)
    edge = made.edge(12)
    assert facts_of(edge) == ("nobody:", "proven", "nobody")
    assert f"which thread 99 held {words}: no living thread can release it" in edge.text


@pytest.mark.parametrize(("method", "strength"), [("fork", "strong"), ("unknown", "strong"), ("exec", "proven")])
def test_the_main_thread_of_a_forked_child_may_own_what_it_took_before_the_fork(method, strength):
    """It is the copy of the thread that forked, under a new number; as long as it is awake it can give the lock back."""
    made = Job()
    made.process(12, relation="target", threads=2, start_method=method)
    made.thread(12, syscall=SLEEP, switches=(0, 1, 2), stacks=AT)
    made.thread(12, 13, syscall=MUTEX)
    futex(made, 13, owner_state="not-a-thread-of-the-process", owner_tid=99)
    assert facts_of(made.edge(12, 13)) == ("nobody:", strength, "nobody")


def test_once_that_main_thread_waits_for_ever_too_nobody_is_proven():
    made = Job()
    made.process(12, relation="target", threads=2, start_method="fork")
    made.thread(12, syscall=MUTEX, stacks=AT)
    made.thread(12, 13, syscall=MUTEX)
    futex(made, 13, owner_state="not-a-thread-of-the-process", owner_tid=99)
    assert made.edge(12, 13).strength == "proven"


# --- semaphores between processes ---


def semaphore(**known):
    return futex(job(call=SHARED), **{"primitive": "semaphore", **SEMAPHORE, **known})


def test_a_semaphore_that_no_other_process_has_is_posted_by_nobody():
    edge = semaphore(mapped_by=(), all_asked=True).edge(12)
    assert facts_of(edge) == ("nobody:", "proven", "nobody")


def test_a_handler_of_a_signal_could_still_post_it():
    made = futex(job(call=SHARED, sig_caught=(15,)), primitive="semaphore", **SEMAPHORE, mapped_by=(), all_asked=True)
    edge = made.edge(12)
    assert facts_of(edge) == ("nobody:", "strong", "nobody")
    assert "a handler of SIGTERM" in edge.text


@pytest.mark.parametrize(
    "known",
    [
        {"mapped_by": (), "all_asked": False},
        {"mapped_by": (), "all_asked": None},
        {"mapped_by": None, "all_asked": True},
        {"mapped_by": (), "all_asked": True, "mapping": "/dev/shm/sem.x"},
        {"mapped_by": (), "all_asked": True, "word": None},
        {"mapped_by": ("h1/13",), "all_asked": True},
    ],
)
def test_as_long_as_somebody_might_have_it_nobody_is_not_said(known):
    made = semaphore(**known)
    made.process(13, ppid=12)
    assert all(edge.owner != "nobody" and edge.strength == "suggested" for edge in made.edges(12))


def test_a_thread_of_its_own_process_that_is_awake_could_post_it():
    made = Job()
    made.process(12, relation="target", threads=2)
    made.thread(12, syscall=SHARED, stacks=AT)
    made.thread(12, 13, syscall=SLEEP, switches=(0, 1, 2))
    futex(made, primitive="semaphore", **SEMAPHORE, mapped_by=(), all_asked=True)
    assert made.edge(12).owner != "nobody"


def test_with_others_it_is_one_of_these():
    made = semaphore(mapped_by=("h1/13", "h1/14"), all_asked=True)
    made.process(13, ppid=12)
    made.process(14, ppid=12)
    edges = made.edges(12)
    assert [facts_of(edge) for edge in edges] == [
        ("process:h1/13", "suggested", "process"), ("process:h1/14", "suggested", "process")]  # fmt: skip
    assert "which one of its children 13, 14 can release" in edges[0].text


def test_a_full_queue_is_not_a_lock_whose_holder_died():
    """Room in a queue for one is counted by a semaphore that looks like a lock, and given back by the reader."""
    made = Job()
    made.process(12, relation="target", threads=1)
    made.thread(12, syscall=SHARED, stacks=((LIB + "/multiprocessing/queues.py", "put", 88), *AT))
    futex(made, primitive="python-semaphore", **SEMAPHORE, held_by=(), mapped_by=("h1/13",), all_asked=True)
    assert all(edge.owner != "nobody" for edge in made.edges(12))


def test_a_shared_semaphore_is_no_thread_that_is_joined():
    made = Job()
    made.process(12, relation="target", threads=2)
    made.thread(12, syscall=Syscall("futex", 202, (ADDRESS, 0x109, 13, 0), timed=False))
    made.thread(12, 13, syscall=SLEEP, switches=(0, 1, 2))
    futex(made, op=0x109, value=13, private=False, primitive="rwlock")
    assert made.edge(12).kind != "thread-join"


# --- where it could not be read ---


def test_refused_memory_weakens_the_word_and_is_said():
    made = job()
    made.thread(12, 13, syscall=SLEEP, switches=(0, 1, 2))
    made.add("gaps", MissingFact("futexes", "futexes", "denied", message="the memory may not be read", hint="sudo"))
    edge = made.edge(12)
    assert (edge.strength, edge.owner) == ("suggested", "unknown")
    assert edge.reason == "whose it is could not be read: the memory may not be read (sudo)"


def test_a_primitive_without_an_owner_is_said_to_have_none():
    made = futex(job(), primitive="python-lock", owner_state="none")
    made.thread(12, 13, syscall=SLEEP, switches=(0, 1, 2))
    assert made.edge(12).reason == "a python lock has no owner that could be read"


# --- timeouts ---


def test_a_poll_set_from_memory_is_part_of_the_call_it_belongs_to():
    call = Syscall("poll", 7, (64, 1, -1, 0, 0, 0), timed=False)
    threads = [Thread("h1/12/12", "h1/12", 12, 12, syscall=call), Thread("h1/12/13", "h1/12", 12, 13, syscall=SLEEP)]
    poll_sets = [PollSet(thread.id, "poll", (5, 9)) for thread in threads]
    merged = merge_rows({"threads": threads, "poll_sets": poll_sets})["threads"]
    assert [thread.syscall.watches for thread in merged] == [(5, 9), None]


def test_a_timeout_from_memory_is_part_of_the_call_it_belongs_to():
    threads = [Thread("h1/12/12", "h1/12", 12, 12, syscall=SLEEP), Thread("h1/12/13", "h1/12", 12, 13, syscall=MUTEX)]
    timeouts = [Timeout(thread.id, "clock_nanosleep", 60.0) for thread in threads]
    merged = merge_rows({"threads": threads, "timeouts": timeouts})["threads"]
    assert [thread.syscall.timeout_s for thread in merged] == [60.0, None]


def test_a_barrier_between_processes_may_be_ended_by_another_process():
    made = Job()
    made.process(12, relation="target")
    made.process(13, ppid=12)
    waits = ((f"{LIB}/multiprocessing/synchronize.py", "wait", 268), (f"{LIB}/threading.py", "_wait", 699),
             (f"{LIB}/threading.py", "wait", 669), *AT)  # fmt: skip
    made.thread(12, syscall=SHARED, stacks=waits)
    futex(made, **{**SEMAPHORE, "primitive": "semaphore", "mapped_by": ("h1/13",), "all_asked": True})
    assert [edge.awaited for edge in made.edges(12)] == ["process:h1/13"]
