"""Waits of which no owner is stored anywhere: what the code, the stacks and the descriptors tell all the same, and how
sure that is. Nothing inferred is called proven."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import FUTEX_FOR_EVER, LIB, SLEEP, USER, Job, reads

from flatline.bundle.facts import EnvVar, Fd, File, Frame, Lock, Mount, Socket, SourceLine, Syscall

SITE = "/v/lib/python3.11/site-packages"
MAIN = (USER, "main", 3)
EVENT = ((f"{LIB}/threading.py", "wait", 327), (f"{LIB}/threading.py", "wait", 629))
LOOP = (0, 2, 4)
SELECT = Syscall("select", 23, (1, 2), timed=True)


def one(**target) -> Job:
    job = Job()
    job.process(12, relation="target", **target)
    return job


def at(line: int, text: str, *more: str):
    """A frame of the job's own with its source; `more` are the lines after it."""
    return (USER, "main", line, *(SourceLine(line + n, code) for n, code in enumerate((text, *more))))


def within(job: Job, thread: str, *blocks: str) -> None:
    """Put the frames of a thread that have a source into these blocks."""
    job.tables["frames"] = [
        Frame(**{**vars(f), "enclosing": tuple(SourceLine(n, text) for n, text in enumerate(blocks, 1))})
        if f.thread == thread and f.source else f
        for f in job.tables["frames"]
    ]  # fmt: skip


# --- another thread's code ---


def test_a_thread_whose_code_goes_on_to_set_the_event_is_waited_for():
    job = one(threads=2)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(*EVENT, at(9, "self.done.wait()")))
    job.thread(12, 13, name="loader", syscall=reads(3), stacks=((USER, "load", 20, SourceLine(20, "f.read()"), SourceLine(21, "done.set()")),))
    edge = job.edge(12)
    assert (edge.awaited, edge.strength, edge.owner) == ("thread:h1/12/13", "strong", "thread")
    assert "probably for its thread loader" in edge.text


def test_two_threads_that_may_set_it_are_branches():
    job = one(threads=3)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(*EVENT, at(9, "done.wait()")))
    for tid in (13, 14):
        job.thread(12, tid, syscall=reads(3), stacks=((USER, "load", 20, SourceLine(21, "done.set()")),))
    assert {(e.awaited, e.strength) for e in job.edges(12)} == {("thread:h1/12/13", "suggested"), ("thread:h1/12/14", "suggested")}


def test_a_plain_lock_is_probably_held_by_the_thread_within_its_block():
    job = one(threads=2)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(at(9, "with self.lock:"),))
    job.thread(12, 13, name="writer", syscall=reads(3), stacks=(at(30, "f.read()"),))
    within(job, "h1/12/13", "with self.lock:")
    edge = job.edge(12)
    assert (edge.awaited, edge.strength) == ("thread:h1/12/13", "strong")
    assert "held by" not in edge.text
    assert edge.text.startswith("waits for the lock at ")  # not "the lock lock"


# --- nobody is left ---


def test_helpers_of_libraries_do_not_set_the_job_s_events():
    job = one(threads=2)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(*EVENT, MAIN))
    job.thread(12, 13, syscall=SELECT, switches=LOOP, stacks=((f"{LIB}/threading.py", "wait", 331), (f"{SITE}/tqdm/_monitor.py", "run", 60)))
    edge = job.edge(12)
    assert (edge.awaited, edge.owner, edge.strength) == ("nobody:", "nobody", "strong")


def test_a_thread_of_the_job_that_only_sleeps_leaves_a_doubt():
    job = one(threads=2)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(*EVENT, MAIN))
    job.thread(12, 13, syscall=SLEEP, switches=LOOP, stacks=((USER, "beat", 40),))
    assert (job.edge(12).owner, job.edge(12).strength) == ("nobody", "suggested")


def test_a_thread_that_reads_from_somewhere_may_still_do_it():
    job = one(threads=2)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(*EVENT, MAIN))
    job.thread(12, 13, syscall=reads(3), stacks=((USER, "receive", 40),))
    assert job.edge(12).owner == "unknown"


@pytest.mark.parametrize(("value", "word"), [(2, "the lock"), (24, "a signal of another thread")])
def test_a_futex_of_a_runtime_with_barriers_of_its_own_is_not_called_a_lock(value, word):
    job = one(threads=1, start_method="fork")
    job.thread(12, syscall=Syscall("futex", 202, (0x7F00, 0x80, value, 0), timed=False), stacks=((USER, "total", 13),))
    assert word in job.edge(12).text


@pytest.mark.parametrize(("method", "threads", "owner"), [("fork", 1, "nobody"), ("exec", 1, "nobody"), ("fork", 2, "unknown")])
def test_a_call_into_a_native_pool_waits_for_threads_that_fork_did_not_copy(method, threads, owner):
    job = one()
    job.process(13, ppid=12, start_method=method, threads=threads)
    call = Syscall("futex", 202, (0x7F00, 0x80, 8, 0), timed=False, library="/v/torch.libs/libgomp-a34.so.1.0.0")
    job.thread(13, syscall=call, stacks=(MAIN,))
    if threads == 2:
        job.thread(13, 14, syscall=SLEEP, switches=LOOP)
    edge = job.edge(13)
    assert edge.owner == owner
    assert ("the threads of libgomp" in edge.text) == (method == "fork" and threads == 1)


# --- queues, imports, loops ---


def queue(job: Job, *writers: str) -> None:
    job.add("fds", Fd("h1/12", 5, "pipe", "pipe:[7]", 7, mode="read", peers=("h1/12", *writers)))
    job.add("fds", Fd("h1/12", 6, "pipe", "pipe:[7]", 7, mode="write", peers=("h1/12",)))
    job.thread(12, syscall=reads(5), stacks=((f"{LIB}/multiprocessing/connection.py", "_recv", 395), (f"{LIB}/multiprocessing/queues.py", "get", 103), MAIN))


def test_a_queue_whose_only_writer_was_killed_is_filled_by_nobody():
    job = one()
    job.process(13, ppid=12, state="Z", exit_status=-9)
    queue(job)
    edge = job.edge(12)
    assert (edge.owner, edge.strength) == ("nobody", "proven")
    assert "its child 13 was killed by signal 9" in edge.text


def test_a_queue_with_a_living_writer_waits_for_it():
    job = one()
    job.process(13, ppid=12)
    queue(job, "h1/13")
    assert (job.edge(12).awaited, job.edge(12).strength) == ("process:h1/13", "strong")


def test_the_lock_of_a_module_is_held_by_the_thread_that_runs_it():
    job = one(threads=2)
    boot = "<frozen importlib._bootstrap>"
    job.thread(12, syscall=SLEEP, switches=LOOP, stacks=(("/job/warm.py", "<module>", 6), (boot, "_load_unlocked", 690), MAIN))
    job.thread(12, 13, syscall=FUTEX_FOR_EVER, stacks=((boot, "acquire", 110), (boot, "__enter__", 158), at(4, "from warm import table")))
    edge = job.edge(12, 13)
    assert (edge.awaited, edge.strength) == ("thread:h1/12/12", "strong")
    assert "the import of warm" in edge.text


def looped(*watched: Fd, threads: int = 1, **target) -> Job:
    job = one(threads=threads, **target)
    job.thread(12, syscall=Syscall("epoll_wait", 232, (3, 1), fd=3, timed=False), stacks=((f"{LIB}/asyncio/base_events.py", "_run_once", 1905), MAIN))
    job.add("fds", Fd("h1/12", 3, "eventpoll", watches=tuple(fd.fd for fd in watched)))
    for fd in watched:
        job.add("fds", fd)
    return job


WAKE_UP = Fd("h1/12", 4, "socket", "socket:[8]", 8, peers=("h1/12",))


def test_a_loop_that_only_its_own_threads_could_wake_waits_for_nobody():
    assert (looped(WAKE_UP).edge(12).owner, looped(WAKE_UP).edge(12).strength) == ("nobody", "proven")


def test_a_handler_of_a_signal_may_still_wake_a_loop():
    assert looped(WAKE_UP, sig_caught=(2, 15)).edge(12).strength == "suggested"


def test_a_loop_waits_for_the_one_connection_it_watches():
    job = looped(WAKE_UP, Fd("h1/12", 5, "socket", "socket:[9]", 9, peers=()))
    job.add("sockets", Socket(9, "inet", state="ESTABLISHED", local="10.0.0.1:5000", remote="10.0.0.7:443"))
    edge = job.edge(12)
    assert (edge.kind, edge.strength, edge.resource) == ("socket-read", "strong", "10.0.0.7:443")


def test_a_loop_that_listens_serves():
    job = looped(WAKE_UP, Fd("h1/12", 5, "socket", "socket:[9]", 9, peers=()))
    job.add("sockets", Socket(9, "inet", state="LISTEN", local="0.0.0.0:80"))
    assert "serves" in job.edge(12).text


def test_a_poll_of_another_descriptor_does_not_serve():
    job = one()
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[8]", 8, peers=()))
    job.add("fds", Fd("h1/12", 5, "pipe", "pipe:[9]", 9, peers=()))
    job.add("sockets", Socket(8, "inet", state="LISTEN", local="0.0.0.0:8888"))
    job.thread(12, syscall=Syscall("poll", 7, (64, 1, -1, 0, 0, 0), timed=False, watches=(5,)), stacks=(MAIN,))
    assert job.edge(12).kind == "pipe-read"


def test_who_joins_a_child_waits_for_it_and_not_for_the_pipe_that_tells_its_end():
    job = one()
    job.process(13, ppid=12)
    job.add("fds", Fd("h1/12", 5, "pipe", "pipe:[9]", 9, peers=("h1/13",)))
    joins = ((f"{LIB}/multiprocessing/connection.py", "wait", 930), (f"{SITE}/torch/multiprocessing/spawn.py", "join", 132), MAIN)
    job.thread(12, syscall=Syscall("poll", 7, (64, 1, -1, 0, 0, 0), timed=False, watches=(5,)), stacks=joins)
    assert (job.edge(12).kind, job.edge(12).awaited) == ("child", "process:h1/13")


def test_a_connection_that_its_own_process_took_is_a_client_s():
    job = one()
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[8]", 8, peers=()))
    job.add("fds", Fd("h1/12", 5, "socket", "socket:[9]", 9, peers=()))
    job.add("sockets", Socket(8, "inet", state="LISTEN", local="0.0.0.0:8888"))
    job.add("sockets", Socket(9, "inet", state="ESTABLISHED", local="127.0.0.1:8888", remote="127.0.0.1:5000"))
    job.thread(12, syscall=reads(5), stacks=(MAIN,))
    edge = job.edge(12)
    assert (edge.owner, edge.text.split(":")[0]) == ("outside", "serves")


def test_where_the_client_waits_for_an_answer_as_well_it_owes_no_request():
    job = one()
    job.process(13, ppid=12)
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[8]", 8, peers=()))
    job.add("fds", Fd("h1/12", 5, "socket", "socket:[9]", 9, peers=("h1/13",)))
    job.add("fds", Fd("h1/13", 6, "socket", "socket:[10]", 10, peers=("h1/12",)))
    job.add("sockets", Socket(8, "inet", state="LISTEN", local="0.0.0.0:8888"))
    job.add("sockets", Socket(9, "inet", state="ESTABLISHED", local="127.0.0.1:8888", remote="127.0.0.1:5000"))
    job.add("sockets", Socket(10, "inet", state="ESTABLISHED", local="127.0.0.1:5000", remote="127.0.0.1:8888"))
    job.thread(12, syscall=reads(5), stacks=(MAIN,))
    job.thread(13, syscall=reads(6), stacks=(MAIN,))
    assert (job.edge(12).awaited, job.edge(12).strength) == ("process:h1/13", "proven")


@pytest.mark.parametrize(("kind", "waits_on"), [("inotify", "resource"), ("signalfd", "signal"), ("timerfd", "timer")])
def test_what_the_kernel_is_to_tell_is_awaited_from_outside(kind, waits_on):
    job = one()
    job.add("fds", Fd("h1/12", 5, kind, f"anon_inode:{kind}"))
    job.thread(12, syscall=reads(5), stacks=(MAIN,))
    assert (job.edge(12).kind, job.edge(12).owner, job.edge(12).strength) == (waits_on, "outside", "proven")


# --- loops around a sleep ---


@pytest.mark.parametrize("head", ["while child.poll() is None:", "while any(p.is_alive() for p in workers):"])
def test_a_loop_that_asks_for_its_child_waits_for_it(head):
    job = one()
    job.process(13, ppid=12)
    job.thread(12, syscall=SLEEP, switches=LOOP, stacks=(at(9, "time.sleep(1)"),))
    within(job, "h1/12/12", head)
    assert (job.edge(12).kind, job.edge(12).awaited, job.edge(12).strength) == ("child", "process:h1/13", "strong")


def test_a_loop_that_asks_for_an_event_nobody_is_left_to_set():
    job = one()
    job.thread(12, syscall=SLEEP, switches=LOOP, stacks=(at(9, "time.sleep(1)"),))
    within(job, "h1/12/12", "while not self.ready.is_set():")
    assert (job.edge(12).owner, job.edge(12).strength) == ("nobody", "strong")


def test_a_signal_handler_may_set_what_a_loop_asks_for():
    job = one(sig_caught=(2, 15))
    job.thread(12, syscall=SLEEP, switches=LOOP, stacks=(at(9, "time.sleep(1)"),))
    within(job, "h1/12/12", "while not stop.is_set():")
    assert job.edge(12).kind == "timer"


@pytest.mark.parametrize(
    ("blocks", "name"),
    [
        (("while not os.path.exists('rank0.done'):",), "rank0.done"),
        (("while not Path(flag).is_file():",), "`Path(flag)`"),
        (("while True:", "if exists('go'):"), "go"),
    ],
)
def test_a_loop_that_ends_when_a_file_is_there_waits_for_the_file(blocks, name):
    job = one()
    job.thread(12, syscall=SLEEP, switches=LOOP, stacks=(at(9, "time.sleep(1)"),))
    within(job, "h1/12/12", *blocks)
    assert (job.edge(12).kind, job.edge(12).resource, job.edge(12).strength) == ("resource", name, "strong")


@pytest.mark.parametrize(("start", "kind"), [(0x40000000, "file-lock"), (0, "timer")])
def test_only_locks_at_sqlite_s_bytes_are_of_a_data_base(start, kind):
    job = one()
    job.process(50, ppid=1, relation="holder")
    job.add("fds", Fd("h1/12", 3, "file", "/job/study.db", 5, device="8:1"))
    job.add("locks", Lock("h1/lock/8:1:5", 5, "8:1", "posix", "write", owner_process="h1/50", start=start, end=start + 9))
    job.thread(12, syscall=SLEEP, switches=LOOP, stacks=(MAIN,))
    assert job.edge(12).kind == kind


# --- terminals that a program has made ---


def test_who_reads_the_master_of_a_terminal_waits_for_the_program_on_it():
    job = one(tty="none")
    job.process(13, ppid=12, tty="pts/3")
    job.add("fds", Fd("h1/12", 5, "tty", "/dev/ptmx"))
    job.thread(12, syscall=reads(5), stacks=(MAIN,))
    edge = job.edge(12)
    assert (edge.kind, edge.awaited, edge.strength) == ("pipe-read", "process:h1/13", "strong")
    assert "terminal pts/3" in edge.text


# --- starting up, and mounts ---

JOINS = ((f"{SITE}/torch/distributed/rendezvous.py", "_create_c10d_store", 199),
         (f"{SITE}/torch/distributed/distributed_c10d.py", "init_process_group", 1892), MAIN)  # fmt: skip


@pytest.mark.parametrize(("address", "strength"), [("127.0.0.1", "strong"), ("node-0", "suggested")])
def test_ranks_that_are_missing_on_another_host_are_a_suggestion_only(address, strength):
    job = one(rank=0, world_size=4, role="rank")
    for name, value in (("MASTER_ADDR", address), ("MASTER_PORT", "29500")):
        job.add("env", EnvVar("h1/12", name, value))
    job.thread(12, syscall=SLEEP, switches=LOOP, stacks=JOINS)
    edge = job.edge(12)
    assert (edge.kind, edge.strength, edge.resource) == ("rendezvous", strength, "ranks 1, 2, 3")


def test_a_store_that_nobody_keeps_is_looked_for():
    job = one(rank=1, world_size=2, role="rank")
    for name, value in (("MASTER_ADDR", "node-0"), ("MASTER_PORT", "29500")):
        job.add("env", EnvVar("h1/12", name, value))
    job.add("fds", Fd("h1/12", 3, "socket", "socket:[8]", 8))
    job.add("sockets", Socket(8, "inet", state="SYN_SENT", remote="10.0.0.7:29500"))
    job.thread(12, syscall=SLEEP, switches=LOOP, stacks=JOINS)
    assert "where nobody answers" in job.edge(12).text


def test_a_rank_without_any_connection_finds_no_store_though_only_the_script_knows_the_port():
    job = one(role="rank")
    job.add("fds", Fd("h1/12", 0, "null", "/dev/null"))
    job.add("sockets", Socket(7, "unix"))
    job.thread(12, syscall=SLEEP, switches=LOOP, stacks=JOINS)
    edge = job.edge(12)
    assert (edge.kind, edge.strength, edge.resource) == ("rendezvous", "strong", None)
    assert "looks for the store of rank 0, where nobody answers" in edge.text


@pytest.mark.parametrize(("guest", "resource"), [("h1/12", "ranks of its world"), ("h1/99", None)])
def test_a_store_to_which_nobody_else_has_come(guest, resource):
    """How many ranks there are is often set by the script, after its environment was made."""
    job = one(role="rank")
    job.add("fds", Fd("h1/12", 3, "socket", "socket:[8]", 8))
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[9]", 9, peers=(guest,)))
    job.add("sockets", Socket(8, "inet", state="LISTEN", local="[::]:29500"))
    job.add("sockets", Socket(9, "inet", state="ESTABLISHED", local="127.0.0.1:29500", remote="127.0.0.1:41000"))
    job.thread(12, syscall=SLEEP, switches=LOOP, stacks=JOINS)
    assert (job.edge(12).resource == "ranks of its world") is (resource is not None)


@pytest.mark.parametrize(("function", "guests", "says"), [
    ("c10d::TCPStore::doWait", (), "none of which has come to its store"),
    ("c10d::TCPStore::doWait", ("h1/99",), "waits in c10d::TCPStore::doWait for the other ranks"),
    ("c10d::detail::(anonymous namespace)::SocketConnectOp::run", None, "where nobody answers"),
])  # fmt: skip
def test_a_store_that_the_script_makes_itself_is_known_by_its_c_frames(function, guests, says):
    job = one(role="rank")
    job.add("fds", Fd("h1/12", 3, "socket", "socket:[8]", 8))
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[9]", 9, peers=(*(guests or ()), "h1/12")))
    job.add("sockets", Socket(8, "inet", state="CLOSE" if guests is None else "LISTEN", local="[::]:29500"))
    job.add("sockets", Socket(9, "inet", state="CLOSE" if guests is None else "ESTABLISHED", local="127.0.0.1:29500"))
    job.thread(12, syscall=SLEEP, stacks=(MAIN,))
    job.add("frames", Frame("h1/12/12", 900, 0, function, module="libtorch_cpu.so", kind="native"))
    assert says in job.edge(12).text


@pytest.mark.parametrize("call", ["openat", "newfstatat", "statx"])
def test_a_call_on_the_silent_mount_the_job_works_on_waits_for_it(call):
    job = one(cwd="/data/run")
    job.add("mounts", Mount("/data", kind="fuse.sshfs", network=True, asked=True, answers=False))
    job.add("mounts", Mount("/", kind="ext4", network=False))
    job.thread(12, syscall=Syscall(call, 257, (0, 0)), wchan="request_wait_answer", stacks=(MAIN,))
    assert (job.edge(12).kind, job.edge(12).strength, job.edge(12).resource) == ("mount", "strong", "/data")


def pool_of(*workers) -> Job:
    """A pool's parent with the thread that takes results in; `workers` are (pid, what its process is, its thread)."""
    job = one(threads=2)
    for pid, process, thread in workers:
        job.process(pid, ppid=12, role="pool-worker", start_method="fork", **process)
        job.thread(pid, **thread)
    gets = ((f"{LIB}/threading.py", "wait", 327), (f"{LIB}/multiprocessing/pool.py", "get", 768), MAIN)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=gets)
    job.thread(12, 30, syscall=reads(9), stacks=((f"{LIB}/multiprocessing/pool.py", "_handle_results", 579),))
    return job


def test_a_pool_that_works_is_waited_for_whichever_worker_has_the_task():
    busy = {"state": "R", "cpu": (0, 900, 1800), "stacks": [[(USER, "work", line)] for line in (1, 2, 3)]}
    job = pool_of((13, {}, busy), (14, {}, busy))
    assert {(e.kind, e.strength) for e in job.edges(12)} == {("worker", "strong")}
    assert job.derived()[0].verdict.state in ("slow", "healthy")


def test_a_pool_whose_task_was_lost_waits_for_nobody_and_says_who_was_replaced():
    idle = {"syscall": reads(3), "stacks": ((f"{LIB}/multiprocessing/queues.py", "get", 367), (f"{LIB}/multiprocessing/pool.py", "worker", 114))}
    edge = pool_of((13, {"start_ticks": 1000}, idle), (17, {"start_ticks": 1400}, idle)).edge(12)
    assert (edge.owner, edge.strength, edge.resource) == ("nobody", "strong", "the task of a worker that was replaced")


# --- what could not be read ---


def killed_producer() -> Job:
    job = one()
    job.process(13, ppid=12, state="Z", exit_status=-9)
    queue(job)
    return job


@pytest.mark.parametrize("job", [killed_producer, lambda: looped(WAKE_UP)])
@pytest.mark.parametrize("lost", [("fds",), ("frames",), ("hosts",), ("fds", "frames"), ("fds", "frames", "hosts")])
def test_what_could_not_be_read_makes_the_word_weaker_and_never_another_one(job, lost):
    whole, part = job().derived()[0].verdict, job().without(*lost).derived()[0].verdict
    assert part.state in (whole.state, "unknown", "waiting")
    assert part.confidence <= whole.confidence
    proven = {e.awaited for e in job().derived()[1].rows("wait_edges") if e.strength == "proven"}
    assert {e.awaited for e in job().without(*lost).derived()[1].rows("wait_edges") if e.strength == "proven"} <= proven


def test_a_chain_that_is_cut_says_what_could_not_be_read():
    job = one()
    job.thread(12)
    derived, store = job.without("hosts").derived()
    assert store.rows("ends")[0].kind == "cut"
    assert "its stack, its descriptors, its system call could not be read" in derived.chains[0].text + derived.chains[0].end.why


# --- lock files of the job's own making ---


def looks_for_a_lock(code, **file):
    source = tuple(SourceLine(10 + number, line) for number, line in enumerate(code.splitlines()))
    job = one()
    job.thread(12, syscall=SLEEP, switches=LOOP, stacks=((USER, "take", 10 + len(source) - 1), MAIN))
    job.tables["frames"] = [
        replace(f, is_user=True, source=source) if f.function == "take" else f for f in job.tables["frames"]
    ]
    if file:
        job.add("files", File("/job/x.lock", process="h1/12", kind="lock", exists=True, **file))
    return job


WHILE_IT_IS_THERE = "while os.path.exists(path):\n    time.sleep(1)"
UNTIL_IT_IS_MADE = "    fd = os.open(path, os.O_CREAT | os.O_EXCL)\nexcept FileExistsError:\n    time.sleep(1)"
UNTIL_IT_IS_THERE = "while not os.path.exists(path):\n    time.sleep(1)"


@pytest.mark.parametrize("code", [WHILE_IT_IS_THERE, UNTIL_IT_IS_MADE])
def test_a_loop_around_a_lock_file_waits_for_who_has_it_or_for_nobody(code):
    left = looks_for_a_lock(code, why_looked="stack", named_by="take.path", holders=(), author_alive=False, author_pid=9)
    edge = left.edge(12)
    assert (edge.kind, edge.owner, edge.strength, edge.resource) == ("lock-file", "nobody", "proven", "/job/x.lock")
    held = looks_for_a_lock(code, why_looked="stack", named_by="take.path", holders=("h1/50",))
    held.process(50, ppid=1, relation="holder")
    assert held.edge(12).awaited == "process:h1/50"


def test_the_only_lock_of_a_dead_owner_in_its_folder_is_meant_and_no_other():
    left = {"why_looked": "cwd", "named_by": "cwd", "holders": (), "author_pid": 9}
    assert looks_for_a_lock(UNTIL_IT_IS_MADE, **left, author_alive=False).edge(12).resource == "/job/x.lock"
    assert looks_for_a_lock(UNTIL_IT_IS_MADE, **left, author_alive=True).edge(12).kind == "timer"


def test_a_loop_until_a_file_is_there_waits_for_no_lock():
    gone = looks_for_a_lock(UNTIL_IT_IS_THERE, why_looked="stack", named_by="take.path", holders=(), author_alive=False)
    assert gone.edge(12).kind == "resource"


@pytest.mark.parametrize(("state", "given", "kind"), [
    ("read", "HOME", "resource"), ("read", "DATA_ROOT", "timer"), ("overwritten", "HOME", "timer"),
])  # fmt: skip
def test_a_variable_is_missing_only_from_an_environment_that_was_read(state, given, kind):
    job = looks_for_a_lock('while "DATA_ROOT" not in os.environ:\n    time.sleep(1)')
    job.tables["processes"] = [replace(p, environ_state=state) for p in job.tables["processes"]]
    job.add("env", EnvVar("h1/12", given))
    assert job.edge(12).kind == kind
