"""From a root thread to where the waiting ends, told in one sentence."""

from __future__ import annotations

from builders import FUTEX_FOR_EVER, SLEEP, USER, Job, reads, waits_for_child, writes
from flatline.analyzer.derive.chains import find_roots

from flatline.bundle.facts import Fd, Lock, Socket, Syscall

STEP, MAIN = (USER, "step", 10), (USER, "main", 3)


def pipe_full_popen():
    job = Job()
    job.process(12, relation="target")
    job.process(13, ppid=12)
    job.thread(12, syscall=waits_for_child(13), stacks=(MAIN,))
    job.thread(13, syscall=writes(2), wchan="pipe_write", stacks=(STEP,))
    job.pipe(771, reader=(12, 5), writer=(13, 2))
    return job


def ends(job):
    return job.derived()[1].rows("ends")


def test_parent_and_child_that_wait_for_each_other_are_a_cycle():
    derived, store = pipe_full_popen().derived()
    (chain,) = derived.chains
    assert chain.end.kind == "cycle"
    assert chain.text == (
        "pid 12 waits for its child 13; pid 13 writes to its standard error, a pipe that is full, whose only reader is "
        "pid 12, and pid 12 is itself waiting (a cycle)"
    )
    assert store.rows("ends")[0].strength == "proven"
    assert store.rows("chains")[0].steps == ("thread:h1/12/12", "thread:h1/13/13", "process:h1/12")


def test_steps_carry_what_a_reader_needs_to_check_them():
    (chain,) = pipe_full_popen().derived()[0].chains
    first = chain.steps[0]
    assert (first.pid, first.thread, first.liveness, first.strength) == (12, "MainThread", "frozen", "proven")
    assert (first.waits_on.kind, first.waits_on.node) == ("child", "process:h1/13")
    assert all(evidence.quote for evidence in first.evidence)


def test_a_chain_joins_processes_down_to_the_lock_nobody_holds():
    job = Job()
    job.process(12, relation="target")
    job.process(13, ppid=12)
    job.process(14, ppid=13, start_method="fork")
    job.thread(12, syscall=waits_for_child(13))
    job.thread(13, syscall=waits_for_child(14))
    job.thread(14, syscall=FUTEX_FOR_EVER, stacks=(STEP,))
    (chain,) = job.derived()[0].chains
    assert chain.text.endswith(
        "pid 14 waits for the lock at train.py:10, which no living thread can release: it is the only "
        "thread of its process"
    )
    assert [step.node for step in chain.steps] == [
        "thread:h1/12/12", "thread:h1/13/13", "thread:h1/14/14", "nobody:",
    ]
    assert (chain.end.kind, ends(job)[0].strength, ends(job)[0].inside_job) == ("sink", "proven", True)


def test_a_child_that_died_is_the_end():
    job = Job()
    job.process(12, relation="target")
    job.process(13, ppid=12, state="Z", exit_status=-9)
    job.thread(12, syscall=reads(4))
    job.pipe(5, reader=(12, 4), writer=(13, 1))
    (chain,) = job.derived()[0].chains
    assert (chain.end.kind, chain.end.what) == ("sink", "exited")
    assert "it was killed by signal 9" in chain.text


def test_a_moving_child_ends_the_chain_as_moving():
    job = Job()
    job.process(12, relation="target")
    job.process(13, ppid=12)
    job.thread(12, syscall=waits_for_child(13))
    job.thread(13, cpu=(0, 900, 1800), stacks=[[STEP], [(USER, "step", 11)], [STEP]])
    assert ends(job)[0].kind == "moving"


def test_a_lock_held_outside_is_a_sink_outside():
    job = Job()
    job.process(12, relation="target")
    job.process(9, relation="holder")
    job.thread(9, syscall=SLEEP)
    job.add("fds", Fd("h1/12", 4, "file", "/job/cache.lock", 44))
    job.thread(12, syscall=Syscall("flock", 73, (4, 2), fd=4))
    job.add("locks", Lock("h1/lock/8:1:44", 44, waiting=True, owner_process="h1/12"))
    job.add("locks", Lock("h1/lock/8:1:44", 44, owner_process="h1/9"))
    (end,) = ends(job)
    assert (end.kind, end.what, end.inside_job, end.strength) == ("sink", "file-lock", False, "proven")


def test_a_futex_whose_owner_is_unknown_is_a_cut():
    job = Job()
    job.process(12, relation="target", threads=2)
    job.thread(12, syscall=FUTEX_FOR_EVER)
    job.thread(12, 13, syscall=SLEEP, switches=(0, 9, 18))
    assert (ends(job)[0].kind, ends(job)[0].what) == ("cut", "futex")


def test_a_thread_of_which_nothing_is_known_is_a_cut_that_says_what_is_missing():
    job = Job()
    job.process(12, relation="target")
    job.thread(12)
    (chain,) = job.without("frames", "fds").derived()[0].chains
    assert chain.end.kind == "cut"
    assert "its stack, its descriptors, its system call could not be read" in chain.end.why


def test_a_lock_crosswise_between_two_processes_is_a_cycle():
    job = Job()
    job.process(12, relation="target")
    job.process(13, ppid=12)
    for pid, fd, inode, other in ((12, 4, 44, 45), (13, 5, 45, 44)):
        job.add("fds", Fd(f"h1/{pid}", fd, "file", f"/job/{inode}", inode))
        job.thread(pid, syscall=Syscall("flock", 73, (fd, 2), fd=fd))
        job.add("locks", Lock(f"h1/lock/8:1:{inode}", inode, waiting=True, owner_process=f"h1/{pid}"))
        job.add("locks", Lock(f"h1/lock/8:1:{other}", other, owner_process=f"h1/{pid}"))
    assert ends(job)[0].kind == "cycle"


# --- roots ---


def roots(job):
    return [thread.pid for thread in find_roots(job.scene())]


def test_ranks_and_launchers_are_roots_workers_and_services_are_not():
    job = Job()
    job.process(10, relation="target", role="launcher")
    job.process(21, ppid=10, role="rank", rank=1)
    job.process(20, ppid=10, role="rank", rank=0)
    job.process(30, ppid=20, role="dataloader-worker")
    job.process(31, ppid=20, role="resource-tracker")
    job.process(9, ppid=1, relation="ancestor", role="shell")
    for pid in (10, 20, 21, 30, 31, 9):
        job.thread(pid, syscall=SLEEP)
    assert roots(job) == [20, 21, 10]


def test_what_a_shell_started_is_a_root():
    job = Job()
    job.process(10, relation="target", role="shell", is_python=False)
    job.process(12, ppid=10)
    for pid in (10, 12):
        job.thread(pid, syscall=SLEEP)
    assert roots(job) == [12]


def test_a_job_without_python_still_has_a_root():
    job = Job()
    job.process(10, relation="target", role="shell", is_python=False)
    job.thread(10, syscall=reads(0))
    assert roots(job) == [10]


def test_every_rank_has_a_chain_and_branches_are_bounded():
    job = Job()
    job.process(10, relation="target", role="launcher")
    job.thread(10, syscall=waits_for_child(-1))
    for rank in range(200):
        job.process(100 + rank, ppid=10, role="rank", rank=rank)
        job.add("sockets", Socket(rank, "inet", "stream", "ESTABLISHED", f"a:{rank}", "b:1"))
        job.add("fds", Fd(f"h1/{100 + rank}", 4, "socket", "socket", rank))
        job.thread(100 + rank, syscall=Syscall("recvfrom", 45, (4,), fd=4))
    chains = job.derived()[0].chains
    assert len({chain.root for chain in chains}) == 201
    assert len(chains) <= 512
