"""Does a thread get on? What is said of it, and what is not."""

from __future__ import annotations

import pytest
from builders import FUTEX_FOR_EVER, LIB, SLEEP, USER, Job, reads

from flatline.bundle.facts import Fd, SourceLine, Syscall

STEP = (USER, "step", 10)
MAIN = (USER, "main", 3)


def one(**thread):
    job = Job()
    job.process(12, relation="target")
    job.thread(12, **thread)
    return job


def test_a_thread_that_is_never_on_a_cpu_is_frozen():
    assert one(syscall=FUTEX_FOR_EVER).judged(12).liveness == "frozen"


def test_one_in_uninterruptible_sleep_is_frozen_too():
    assert one(state="D").judged(12).liveness == "frozen"


def test_a_sleeper_that_wakes_at_the_same_place_polls_and_its_period_is_stated():
    row = one(syscall=SLEEP, switches=(10, 14, 18), stacks=(STEP, MAIN)).judged(12)
    assert (row.liveness, row.period_s) == ("polling", 0.5)
    assert "step at train.py:10" in row.liveness_reason


def test_changing_lines_of_the_job_are_progress():
    stacks = [[STEP, MAIN], [(USER, "step", 11), MAIN], [STEP, MAIN]]
    assert one(cpu=(0, 900, 1800), stacks=stacks).judged(12).liveness == "moving"


def test_cpu_alone_is_no_progress():
    row = one(state="R", cpu=(0, 2000, 4000), stacks=(STEP, MAIN)).judged(12)
    assert row.liveness == "busy"


def test_a_thread_that_a_busy_host_lets_run_for_a_moment_is_judged_like_one_that_runs():
    row = one(state="R", cpu=(0, 10, 20), switches=(5, 5, 6), stacks=(STEP, MAIN)).judged(12)
    assert (row.liveness, row.waits_on) == ("busy", None)
    stacks = [[STEP, MAIN], [(USER, "step", 11), MAIN], [STEP, MAIN]]
    assert one(state="R", cpu=(0, 0, 10), stacks=stacks).judged(12).liveness == "moving"
    frames = (("/x/torch/distributed/distributed_c10d.py", "all_reduce", 2500), STEP, MAIN)
    assert one(state="R", cpu=(0, 0, 10), stacks=frames).judged(12).liveness == "spinning"


def test_a_busy_thread_whose_process_reads_is_moving():
    job = one(state="R", cpu=(0, 2000, 4000), stacks=(STEP, MAIN))
    job.io(12, rchar=(0, 10**6, 2 * 10**6))
    assert job.judged(12).liveness == "moving"


def test_reading_who_has_the_lock_that_is_tried_for_is_no_progress():
    job = one(syscall=SLEEP, switches=(0, 40, 80), stacks=((f"{LIB}/filelock/_core/_lock.py", "acquire", 195), STEP, MAIN))
    job.io(12, rchar=(0, 10**5, 2 * 10**5))
    assert job.judged(12).liveness == "polling"


def test_burning_cpu_inside_a_collective_is_spinning():
    frames = (("/x/torch/distributed/distributed_c10d.py", "all_reduce", 2500), STEP, MAIN)
    assert one(state="R", cpu=(0, 2000, 4000), stacks=frames).judged(12).liveness == "spinning"


def test_lines_that_change_inside_a_known_wait_are_still_spinning():
    file = "/x/torch/distributed/distributed_c10d.py"
    stacks = [[(file, "all_reduce", line), STEP, MAIN] for line in (1, 2, 3)]
    assert one(state="R", cpu=(0, 2000, 4000), stacks=stacks).judged(12).liveness == "spinning"


def test_yielding_the_cpu_over_and_over_is_spinning():
    row = one(state="R", cpu=(0, 800, 1600), system=(0, 300, 600), stacks=(STEP, MAIN),
              seen={"sched_yield": 40}).judged(12)
    assert row.liveness == "spinning"


def test_mostly_kernel_time_at_one_line_without_io_is_spinning():
    row = one(state="R", cpu=(0, 200, 400), system=(0, 1600, 3200), stacks=(STEP, MAIN)).judged(12)
    assert row.liveness == "spinning"


@pytest.mark.parametrize(
    ("body", "expected"),
    [("    pass", "spinning"), ("    continue  # until it comes", "spinning"), ("    step()", "moving"), ("    x += 1", "moving")],
)
def test_a_loop_with_nothing_in_it_is_no_progress_though_its_lines_change(body, expected):
    head = (USER, "main", 3, SourceLine(3, "while not done.is_set():"))
    inside = (USER, "main", 4, SourceLine(4, body))
    assert one(cpu=(0, 900, 1800), stacks=[[head], [inside], [head]]).judged(12).liveness == expected


def test_lines_read_at_the_first_place_tell_the_loop_of_every_look():
    head = (USER, "main", 3, SourceLine(3, "while not done:"), SourceLine(4, "    pass"))
    inside = (USER, "main", 4)
    assert one(cpu=(0, 900, 1800), stacks=[[head], [inside], [head]]).judged(12).liveness == "spinning"


def test_a_loop_whose_head_works_is_work():
    head = (USER, "main", 3, SourceLine(3, "while train_step():"))
    inside = (USER, "main", 4, SourceLine(4, "    pass"))
    assert one(cpu=(0, 900, 1800), stacks=[[head], [inside], [head]]).judged(12).liveness == "moving"


@pytest.mark.parametrize(("on_gpu", "expected"), [(True, "spinning"), (False, "busy")])
def test_item_waits_for_the_gpu_only_in_a_process_that_has_one(on_gpu, expected):
    frame = (*STEP, SourceLine(10, "    loss = criterion(x).item()"))
    job = one(state="R", cpu=(0, 2000, 4000), stacks=(frame, MAIN))
    job.add("fds", Fd("h1/12", 7, "device", "/dev/nvidia0" if on_gpu else "/dev/urandom"))
    assert job.judged(12).liveness == expected


def test_an_extra_look_that_finds_another_line_makes_a_busy_thread_moving():
    job = one(state="R", cpu=(0, 2000, 4000), stacks=(STEP, MAIN))
    job._stack("h1/12/12", 100, [(USER, "step", 12), MAIN], name=None, owns_gil=None)
    assert job.judged(12).liveness == "moving"


def test_a_stopped_and_an_ended_thread_are_told_by_their_state():
    assert one(state="T").judged(12).liveness == "stopped"
    assert one(state="t").judged(12).liveness == "stopped"
    assert one(state="Z").judged(12).liveness == "exited"


def test_one_look_proves_no_motion_and_no_rest():
    assert one(looks=1, state="R").judged(12).liveness == "unknown"
    assert one(looks=1, syscall=SLEEP).judged(12).liveness == "unknown"


def test_one_look_at_a_call_that_waits_for_ever_is_said_to_be_one_look():
    row = one(looks=1, syscall=reads(3)).judged(12)
    assert row.liveness == "frozen"
    assert "one look only" in row.liveness_reason


def test_a_log_that_another_thread_writes_does_not_move_a_waiting_one():
    job = Job()
    job.process(12, relation="target", threads=2)
    baton = (("/x/torch/utils/file_baton.py", "wait", 40), STEP, MAIN)
    job.thread(12, syscall=SLEEP, switches=(0, 20, 40), stacks=baton)
    job.thread(12, 13, syscall=SLEEP, switches=(0, 1, 2), stacks=((USER, "heartbeat", 5),))
    job.log(12, sizes=(100, 120, 140))
    job.io(12, wchar=(0, 20, 40))
    assert job.judged(12).liveness == "polling"


def test_a_slow_loop_that_logs_is_moving_although_it_sleeps():
    job = one(syscall=SLEEP, switches=(0, 2, 4), stacks=(STEP, MAIN))
    job.log(12, sizes=(100, 120, 140))
    assert job.judged(12).liveness == "moving"


def test_the_library_code_of_an_import_that_advances_is_progress():
    stacks = [[("/x/site-packages/torch/a.py", "<module>", line), (USER, "<module>", 1)] for line in (1, 5, 9)]
    assert one(state="R", cpu=(0, 900, 1800), stacks=stacks).judged(12).liveness == "moving"


def test_nothing_is_claimed_without_samples():
    job = one(stacks=(STEP, MAIN)).without("thread_samples")
    assert job.judged(12).liveness == "unknown"


def test_a_gil_waiter_polls():
    timed = Syscall("futex", 202, (1, 0x89, 0, 1), timed=True)
    row = one(syscall=timed, switches=(0, 400, 800), stacks=((LIB + "/threading.py", "run", 1),)).judged(12)
    assert (row.liveness, row.period_s) == ("polling", 0.005)
