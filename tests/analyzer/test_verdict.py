"""Is the job stuck? The verdict follows the roots and where their chains end."""

from __future__ import annotations

import time

import pytest
from builders import FUTEX_FOR_EVER, LIB, SLEEP, USER, Job, reads, waits_for_child, writes

from flatline.bundle.facts import Fd, Frame, Mount, Process, Socket, Syscall, Thread, ThreadSample

STEP, MAIN = (USER, "step", 10), (USER, "main", 3)
C10D = "/x/site-packages/torch/distributed/distributed_c10d.py"


def verdict(job):
    return job.derived()[0].verdict


def state(job):
    return verdict(job).state


def one(**thread):
    job = Job()
    job.process(12, relation="target")
    job.thread(12, **thread)
    return job


def pipe_full_popen():
    job = Job()
    job.process(12, relation="target")
    job.process(13, ppid=12)
    job.thread(12, syscall=waits_for_child(13), stacks=(MAIN,))
    job.thread(13, syscall=writes(2), wchan="pipe_write", stacks=(STEP,))
    job.pipe(771, reader=(12, 5), writer=(13, 2))
    return job


def moving():
    return one(cpu=(0, 900, 1800), stacks=[[STEP, MAIN], [(USER, "load", 40), MAIN], [STEP, MAIN]])


# --- hung ---


def test_a_cycle_is_hung():
    found = verdict(pipe_full_popen())
    assert (found.state, found.confidence) == ("hung", 0.95)
    assert "in 3 looks within 4.0 s none of them got on" in found.because


def test_a_lock_nobody_holds_is_hung():
    assert state(one(syscall=FUTEX_FOR_EVER)) == "hung"


def test_a_dead_mount_is_hung():
    job = one(state="D", syscall=reads(4))
    job.add("mounts", Mount("/data", "nfs4", network=True, answers=False))
    job.add("fds", Fd("h1/12", 4, "file", "/data/x", 1))
    assert state(job) == "hung"


def test_a_stopped_process_is_hung_because_it_does_not_go_on_by_itself():
    job = Job()
    job.process(12, relation="target", state="T", stop_signal=19)
    job.thread(12, state="T")
    assert state(job) == "hung"


def test_a_debugger_holds_it_whatever_the_debugger_waits_for():
    job = Job()
    job.process(12, relation="target", state="t", tracer_pid=77)
    job.process(77, relation="other")
    job.thread(12, state="t")
    job.thread(77, syscall=Syscall("poll", 7, (64, 1, -1, 0, 0, 0), timed=False))
    verdict = job.derived()[0].verdict
    assert (verdict.state, verdict.confidence > 0.5) == ("waiting", True), verdict.because


def test_a_worker_that_died_hangs_its_parent():
    job = Job()
    job.process(12, relation="target")
    job.process(13, ppid=12, state="Z", exit_status=-9)
    job.thread(12, syscall=reads(4))
    job.pipe(5, reader=(12, 4), writer=(13, 1))
    assert state(job) == "hung"


def test_a_pipe_its_own_launcher_does_not_read_is_hung_although_the_launcher_sleeps_and_wakes():
    job = Job()
    job.process(12, relation="target", role="launcher")
    job.process(13, ppid=12)
    job.thread(12, syscall=SLEEP, switches=(0, 2, 4), stacks=(MAIN,))
    job.thread(13, syscall=writes(1), stacks=(STEP,))
    job.pipe(771, reader=(12, 5), writer=(13, 1))
    job.tables["processes"] = [job.tables["processes"][0],
                               Process("h1/13", "h1", 13, ppid=12, relation="target", threads_total=1, state="S")]
    found = verdict(job)
    assert found.state == "hung"
    assert "does not read" in found.because[0]


def test_a_reader_that_sleeps_through_may_read_when_it_wakes():
    job = Job()
    job.process(12, relation="target", role="launcher")
    job.process(13, ppid=12)
    job.thread(12, syscall=SLEEP, stacks=(MAIN,))
    job.thread(13, syscall=writes(1), stacks=(STEP,))
    job.pipe(771, reader=(12, 5), writer=(13, 1))
    assert state(job) == "waiting"


@pytest.mark.parametrize(("role", "expected"), [("launcher", "hung"), ("shell", "waiting")])
def test_a_launcher_that_does_not_read_what_it_started_hangs_it_a_shell_may_still_read(role, expected):
    job = Job()
    job.process(9, relation="ancestor", role=role, is_python=False, name="node")
    job.process(12, ppid=9, relation="target")
    job.thread(12, syscall=writes(1))
    job.pipe(771, reader=(9, 20), writer=(12, 1))
    assert state(job) == expected


def test_threads_that_all_wait_for_locks_are_hung_although_a_heartbeat_ticks():
    job = Job()
    job.process(12, relation="target", threads=3)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(STEP, MAIN))
    job.thread(12, 13, syscall=FUTEX_FOR_EVER, stacks=((USER, "other", 9),))
    job.thread(12, 14, syscall=SLEEP, switches=(0, 2, 4), stacks=((USER, "heartbeat", 5),))
    found = verdict(job)
    assert found.state == "hung"
    assert found.confidence <= 0.65


def test_ranks_in_different_collectives_are_hung():
    job = Job()
    for rank, op in enumerate(("barrier", "all_reduce")):
        job.process(20 + rank, relation="target", role="rank", rank=rank, threads=2)
        job.thread(20 + rank, syscall=FUTEX_FOR_EVER, stacks=((C10D, op, 1), (USER, "train", 5 + rank)))
        job.thread(20 + rank, 40 + rank, syscall=Syscall("epoll_wait", 232, (9,)))
    assert state(job) == "hung"


def test_a_guess_on_the_way_makes_the_verdict_less_sure_unless_all_guesses_agree():
    def loader(*workers):
        job = Job()
        job.process(12, relation="target")
        join = ((LIB + "/multiprocessing/popen_fork.py", "wait", 40), MAIN)
        job.thread(12, syscall=Syscall("poll", 7, (1, 2), timed=True), switches=(0, 1, 2), stacks=join)
        for pid, syscall in workers:
            job.process(pid, ppid=12)
            job.thread(pid, syscall=syscall, stacks=(STEP,))
        return verdict(job)

    agree = loader((13, FUTEX_FOR_EVER), (14, FUTEX_FOR_EVER))
    differ = loader((13, FUTEX_FOR_EVER), (14, SLEEP))
    assert (agree.state, agree.confidence) == ("hung", 0.95)
    assert (differ.state, differ.confidence) == ("hung", 0.75)


# --- waiting ---


def test_a_question_on_the_terminal_is_waiting():
    job = one(syscall=reads(0))
    job.add("fds", Fd("h1/12", 0, "tty", "/dev/pts/3"))
    assert state(job) == "waiting"


def test_an_unanswered_request_is_waiting():
    job = one(syscall=Syscall("recvfrom", 45, (4,), fd=4))
    job.add("sockets", Socket(50, "inet", "stream", "ESTABLISHED", "10.0.0.2:4000", "10.0.0.7:443"))
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[50]", 50))
    assert state(job) == "waiting"


@pytest.mark.parametrize("switches", [(0, 0, 0), (0, 4, 8)])
def test_a_sleep_is_waiting_whether_it_woke_in_the_window_or_not(switches):
    assert state(one(syscall=SLEEP, switches=switches, stacks=(STEP, MAIN))) == "waiting"


def test_a_server_is_waiting():
    job = one(syscall=Syscall("epoll_wait", 232, (5,), fd=5, timed=False))
    job.add("sockets", Socket(50, "inet", "stream", "LISTEN", "0.0.0.0:80"))
    job.add("fds", Fd("h1/12", 6, "socket", "socket:[50]", 50))
    job.add("fds", Fd("h1/12", 5, "eventpoll", "anon_inode:[eventpoll]", watches=(6,)))
    assert state(job) == "waiting"


def test_a_service_that_waits_for_its_stop_signal_is_waiting():
    job = Job()
    job.process(12, relation="target", sig_caught=(2, 15))
    job.thread(12, syscall=FUTEX_FOR_EVER,
               stacks=((LIB + "/threading.py", "wait", 327), (LIB + "/threading.py", "wait", 629), MAIN))
    assert state(job) == "waiting"


# --- healthy and slow ---


def test_different_functions_are_healthy():
    assert state(moving()) == "healthy"


def test_lines_of_one_function_alone_are_slow():
    stacks = [[STEP, MAIN], [(USER, "step", 11), MAIN], [(USER, "step", 12), MAIN]]
    assert state(one(cpu=(0, 900, 1800), stacks=stacks)) == "slow"


def test_lines_of_one_function_and_a_growing_log_are_healthy():
    stacks = [[STEP, MAIN], [(USER, "step", 11), MAIN], [(USER, "step", 12), MAIN]]
    job = one(cpu=(0, 900, 1800), stacks=stacks)
    job.log(12, sizes=(10, 20, 30), age_s=0.5)
    assert state(job) == "healthy"


def test_where_each_of_several_that_may_be_awaited_gets_on_the_job_is_slow():
    job = Job()
    job.process(12, relation="target")
    job.thread(12, syscall=Syscall("poll", 7, (64, 2, -1, 0, 0, 0), timed=False),
               stacks=(("/x/site-packages/torch/multiprocessing/spawn.py", "join", 132), MAIN))  # fmt: skip
    for pid in (13, 14):
        job.process(pid, ppid=12)
        job.thread(pid, cpu=(0, 900, 1800), stacks=[[STEP, MAIN], [(USER, "load", 40), MAIN], [STEP, MAIN]])
    assert (state(job), "each of those" in " ".join(verdict(job).because)) == ("slow", True)


def test_a_launcher_whose_child_moves_is_not_hung():
    job = Job()
    job.process(12, relation="target")
    job.process(13, ppid=12)
    job.thread(12, syscall=waits_for_child(13))
    job.thread(13, cpu=(0, 900, 1800), stacks=[[STEP], [(USER, "load", 1)], [STEP]])
    assert state(job) in ("healthy", "slow")


def test_ranks_that_wait_for_one_that_computes_are_slow():
    job = Job()
    for rank in (0, 1):
        job.process(20 + rank, relation="target", role="rank", rank=rank)
    job.thread(20, cpu=(0, 900, 1800), stacks=[[STEP], [(USER, "load", 1)], [STEP]])
    job.thread(21, state="R", cpu=(0, 2000, 4000), stacks=((C10D, "all_reduce", 1), (USER, "train", 5)))
    assert state(job) in ("healthy", "slow")


# --- what cannot be told ---


def test_busy_at_one_line_is_unknown_and_says_why():
    found = verdict(one(state="R", cpu=(0, 2000, 4000), stacks=(STEP, MAIN)))
    assert found.state == "unknown"
    assert "work in C or a busy loop" in found.because[0]


def test_busy_at_one_line_while_memory_grows_is_slow():
    job = one(state="R", cpu=(0, 2000, 4000), stacks=(STEP, MAIN))
    job.io(12, rss=(10**9, 2 * 10**9, 3 * 10**9))
    assert state(job) == "slow"


def test_spinning_is_never_healthy():
    job = one(state="R", cpu=(0, 2000, 4000), stacks=((C10D, "all_reduce", 1), STEP, MAIN))
    assert state(job) in ("unknown", "waiting", "hung")


@pytest.mark.parametrize("missing", ["frames", "fds", "thread_samples", "locks", "sockets", "hosts", "mounts"])
def test_a_missing_table_never_turns_a_moving_job_into_a_hung_one(missing):
    assert state(moving().without(missing)) != "hung"


@pytest.mark.parametrize("missing", ["frames", "fds", "thread_samples", "locks", "sockets", "hosts", "threads"])
def test_a_missing_table_never_makes_a_stuck_job_healthy(missing):
    assert state(pipe_full_popen().without(missing)) in ("hung", "unknown", "waiting")


def test_no_facts_at_all_is_unknown():
    job = Job()
    job.tables = {}
    found, store = job.derived()
    assert (found.verdict.state, found.verdict.confidence, found.chain) == ("unknown", 0.0, None)
    assert store.rows("chains") == []


def test_one_look_is_less_sure_than_three():
    job = Job()
    job.process(12, relation="target")
    job.thread(12, syscall=reads(0), looks=1)
    job.add("fds", Fd("h1/12", 0, "tty", "/dev/pts/3"))
    found = verdict(job)
    assert found.state == "waiting"
    assert found.confidence < 0.8


# --- ended ---


def test_everything_ended_with_an_error_is_crashed():
    job = Job()
    job.process(12, relation="target", state="Z", exit_status=1)
    job.thread(12, state="Z")
    found = verdict(job)
    assert (found.state, found.because) == ("crashed", ["every process of the job has ended; pid 12 exited with status 1"])


def test_an_end_without_a_known_status_is_not_called_a_crash():
    job = Job()
    job.process(12, relation="target", state="Z")
    assert state(job) == "unknown"


# --- since when ---


def test_the_last_sign_is_the_youngest_log_of_the_job():
    job = pipe_full_popen()
    job.log(13, age_s=300.0)
    assert (verdict(job).since_s, verdict(job).last_sign) == (300.0, "last write to train.log")


def test_a_log_that_grows_while_we_look_is_a_sign_of_now():
    job = pipe_full_popen()
    job.log(13, age_s=5.0, sizes=(10, 20, 30))
    assert (verdict(job).since_s, verdict(job).last_sign) == (0.0, "last write to train.log")


def test_a_log_that_does_not_grow_has_been_silent_for_the_whole_window_at_least():
    job = pipe_full_popen()
    job.log(13, age_s=0.3, sizes=(10, 10, 10))
    assert verdict(job).since_s == 4.0


def test_a_log_older_than_the_job_says_nothing():
    job = pipe_full_popen()
    job.log(13, age_s=90000.0)
    assert (verdict(job).since_s, verdict(job).last_sign) == (600.0, "start of the job")


# --- which chain, which signature ---


def test_the_chain_that_carries_the_diagnosis_is_named():
    job = pipe_full_popen()
    job.process(50, relation="target")
    job.thread(50, syscall=SLEEP, switches=(0, 1, 2))
    derived, _ = job.derived()
    assert derived.chains[derived.chain].end.kind == "cycle"


def test_equal_hangs_have_equal_signatures_whatever_their_pids():
    def hang(pid):
        job = Job()
        job.process(pid, relation="target")
        job.thread(pid, syscall=FUTEX_FOR_EVER, stacks=(STEP, MAIN))
        return job.derived()[0].signature

    assert hang(12) == hang(4711) == "hung/sink/futex/step (train.py)"


def test_deriving_twice_gives_the_same():
    first, second = pipe_full_popen().derived()[0], pipe_full_popen().derived()[0]
    assert (first.verdict, first.chains, first.signature) == (second.verdict, second.chains, second.signature)


def test_five_hundred_processes_of_fifty_threads_take_seconds():
    job = Job()
    job.process(1, relation="target", role="launcher")
    job.thread(1, syscall=waits_for_child(-1))
    tables = job.tables
    for rank in range(512):
        pid = 1000 + rank * 100
        tables["processes"].append(Process(f"h1/{pid}", "h1", pid, ppid=1, relation="descendant", role="rank", rank=rank,
                                           threads_total=50, state="S"))
        for tid in range(pid, pid + 50):
            thread = f"h1/{pid}/{tid}"
            tables["threads"].append(Thread(thread, f"h1/{pid}", pid, tid, is_main=tid == pid, state="S",
                                            syscall=FUTEX_FOR_EVER))
            tables["thread_samples"] += [ThreadSample(thread, n, n * 10**9, "S", None, "202", 0, 0, 0, 0) for n in (0, 1)]
        tables.setdefault("frames", []).extend(
            Frame(f"h1/{pid}/{pid}", sample, 0, "all_reduce", file=C10D, line_no=1) for sample in (0, 1))
    began = time.monotonic()
    found = job.derived()[0]
    assert len({chain.root for chain in found.chains}) == 512 + 1
    assert time.monotonic() - began < 60
