"""Who waits for whom, how sure that is, and what must not be claimed."""

from __future__ import annotations

import pytest
from builders import FUTEX_FOR_EVER, LIB, SLEEP, USER, Job, reads, waits_for_child, writes

from flatline.bundle.facts import EnvVar, Fd, File, Host, Lock, Mount, Socket, SourceLine, Syscall

STEP, MAIN = (USER, "step", 10), (USER, "main", 3)
POLLS = Syscall("poll", 7, (1, 2), timed=True)


def job_of(*pids, **first):
    """A target and its children, all with one thread that is added by the test."""
    job = Job()
    job.process(pids[0], relation="target", **first)
    for pid in pids[1:]:
        job.process(pid, ppid=pids[0])
    return job


# --- stopped and traced ---


def test_a_stop_signal_is_named():
    job = job_of(12, state="T", stop_signal=19)
    job.thread(12, state="T")
    edge = job.edge(12)
    assert (edge.kind, edge.strength, edge.resource, edge.inside_job) == ("stopped", "proven", "SIGSTOP", False)


def test_job_control_leads_to_the_terminal():
    job = job_of(12, state="T", stop_signal=21, tty="pts/3", pgrp=12, tty_foreground_pgrp=9)
    job.thread(12, state="T")
    edge = job.edge(12)
    assert (edge.awaited, edge.strength) == ("terminal:h1/pts/3", "proven")
    assert "read from the terminal pts/3" in edge.text


def test_job_control_without_the_signal_is_inferred_not_proven():
    job = job_of(12, state="T", tty="pts/3", pgrp=12, tty_foreground_pgrp=9)
    job.add("fds", Fd("h1/12", 0, "tty", "/dev/pts/3"))
    job.thread(12, state="T", syscall=reads(0))
    assert (job.edge(12).resource, job.edge(12).strength) == ("pts/3", "strong")


def test_a_stopped_foreground_process_was_not_stopped_by_its_terminal():
    job = job_of(12, state="T", tty="pts/3", pgrp=12, tty_foreground_pgrp=12)
    job.add("fds", Fd("h1/12", 0, "tty", "/dev/pts/3"))
    job.thread(12, state="T", syscall=reads(0))
    assert job.edge(12).awaited == "signal:h1/12"


def test_a_tracer_is_named():
    job = job_of(12, state="t", tracer_pid=77)
    job.thread(12, state="t")
    assert (job.edge(12).kind, job.edge(12).awaited) == ("traced", "process:h1/77")


# --- children ---


def test_wait4_names_the_child():
    job = job_of(12, 13)
    job.thread(12, syscall=waits_for_child(13))
    job.thread(13, syscall=SLEEP, switches=(0, 1, 2))
    edge = job.edge(12)
    assert (edge.awaited, edge.strength, edge.inside_job, edge.text) == (
        "process:h1/13", "proven", True, "waits for its child 13",
    )


def test_a_wait_for_any_child_branches_to_the_living_ones():
    job = job_of(12, 13, 14)
    job.process(15, ppid=12, state="Z", exit_status=1)
    job.thread(12, syscall=waits_for_child(-1))
    edges = job.edges(12)
    assert {e.awaited for e in edges} == {"process:h1/13", "process:h1/14"}
    assert {e.strength for e in edges} == {"strong"}


def test_a_resource_tracker_is_not_the_child_one_waits_for():
    job = job_of(12, 13)
    job.process(14, ppid=12, role="resource-tracker")
    job.thread(12, syscall=waits_for_child(-1))
    assert job.edge(12).awaited == "process:h1/13"


def test_popen_wait_with_a_timeout_shows_in_the_stack_only():
    job = job_of(12, 13)
    frames = ((LIB + "/subprocess.py", "_wait", 2010), (LIB + "/subprocess.py", "wait", 1264), MAIN)
    job.thread(12, syscall=SLEEP, switches=(0, 20, 40), stacks=frames)
    edge = job.edge(12)
    assert (edge.kind, edge.awaited, edge.strength) == ("child", "process:h1/13", "strong")


def test_one_of_several_children_is_a_suggestion():
    job = job_of(12, 13, 14)
    frames = ((LIB + "/multiprocessing/popen_fork.py", "wait", 40), (LIB + "/multiprocessing/process.py", "join", 149), MAIN)
    job.thread(12, syscall=POLLS, switches=(0, 2, 4), stacks=frames)
    assert [e.strength for e in job.edges(12)] == ["suggested", "suggested"]


# --- pipes ---


def test_a_full_pipe_leads_to_its_only_reader():
    job = job_of(12, 13)
    job.thread(12, syscall=waits_for_child(13))
    job.thread(13, syscall=writes(2), wchan="pipe_write")
    job.pipe(771, reader=(12, 5), writer=(13, 2))
    edge = job.edge(13)
    assert (edge.kind, edge.awaited, edge.strength) == ("pipe-write", "process:h1/12", "proven")
    assert (edge.inside_job, edge.resource) == (True, "its standard error, a pipe to pid 12")
    assert "whose only reader is pid 12" in edge.text


def test_it_is_not_called_the_only_reader_while_processes_are_hidden():
    job = job_of(12, 13)
    job.tables["hosts"] = [Host("h1", processes_fds_unseen=3)]
    job.thread(13, syscall=writes(2))
    job.pipe(771, reader=(12, 5), writer=(13, 2))
    assert "only" not in job.edge(13).text


def test_a_reader_with_another_thread_awake_is_not_proven_to_be_stuck():
    job = job_of(12, 13, threads=2)
    job.thread(12, syscall=waits_for_child(13))
    job.thread(12, 14, syscall=POLLS, switches=(0, 9, 18))
    job.thread(13, syscall=writes(2))
    job.pipe(771, reader=(12, 5), writer=(13, 2))
    assert job.edge(13).strength == "strong"


def test_a_reader_outside_the_job_is_outside():
    job = job_of(13)
    job.process(9, relation="holder", name="less", is_python=False)
    job.thread(13, syscall=writes(1))
    job.pipe(771, reader=(9, 0), writer=(13, 1))
    edge = job.edge(13)
    assert (edge.inside_job, edge.kind) == (False, "pipe-write")
    assert "pid 9 (less, outside the job)" in edge.text


def test_unknown_peers_are_unknown_not_nobody():
    job = job_of(13)
    job.add("fds", Fd("h1/13", 1, "pipe", "pipe:[771]", 771, mode="write", peers=None))
    job.thread(13, syscall=writes(1))
    edge = job.edge(13)
    assert (edge.owner, edge.awaited, edge.inside_job) == ("unknown", "pipe:h1/771", None)


def test_reading_from_oneself_with_one_thread_waits_for_nobody():
    job = job_of(13)
    job.add("fds", Fd("h1/13", 3, "pipe", "pipe:[7]", 7, mode="read", peers=("h1/13",)))
    job.thread(13, syscall=reads(3))
    assert (job.edge(13).awaited, job.edge(13).strength, job.edge(13).owner) == ("nobody:", "proven", "nobody")


def test_reading_from_oneself_with_other_threads_is_open():
    job = job_of(13, threads=2)
    job.add("fds", Fd("h1/13", 3, "pipe", "pipe:[7]", 7, mode="read", peers=("h1/13",)))
    job.thread(13, syscall=reads(3))
    job.thread(13, 14, syscall=SLEEP, switches=(0, 5, 9))
    assert (job.edge(13).owner, job.edge(13).strength) == ("unknown", "suggested")


def test_without_descriptors_the_kernel_function_still_says_pipe():
    job = job_of(13).without("fds")
    job.thread(13, syscall=writes(1), wchan="pipe_write")
    assert (job.edge(13).kind, job.edge(13).awaited, job.edge(13).strength) == ("pipe-write", "unknown:", "strong")


# --- standard input and terminals ---


def test_a_question_on_the_terminal_waits_for_a_person():
    job = job_of(12, tty="pts/3")
    job.add("fds", Fd("h1/12", 0, "tty", "/dev/pts/3"))
    job.thread(12, syscall=reads(0), stacks=(STEP,))
    edge = job.edge(12)
    assert (edge.kind, edge.awaited, edge.owner, edge.strength) == ("terminal-read", "terminal:h1/pts/3", "outside", "proven")


def test_readline_selects_on_descriptor_0():
    job = job_of(12)
    job.add("fds", Fd("h1/12", 0, "tty", "/dev/pts/3"))
    job.thread(12, syscall=Syscall("pselect6", 270, (1, 5, 0, 0), timed=False))
    assert job.edge(12).kind == "terminal-read"


def test_standard_input_held_open_by_somebody_outside():
    job = job_of(12)
    job.process(9, relation="ancestor", role="shell", is_python=False, argv=("bash",))
    job.pipe(5, reader=(12, 0), writer=(9, 4))
    job.thread(12, syscall=reads(0))
    assert (job.edge(12).kind, job.edge(12).inside_job) == ("stdin-read", False)


def test_input_that_the_job_itself_should_write_is_a_pipe():
    job = job_of(12, 13)
    job.pipe(5, reader=(13, 0), writer=(12, 4))
    job.thread(13, syscall=reads(0))
    assert (job.edge(13).kind, job.edge(13).inside_job) == ("pipe-read", True)


# --- sockets ---


def test_a_full_unix_socket_leads_to_the_holder_of_its_peer():
    job = job_of(12, 13)
    job.add("sockets", Socket(50, "unix", "stream", "ESTABLISHED", peer_inode=51))
    job.add("fds", Fd("h1/13", 1, "socket", "socket:[50]", 50))
    job.add("fds", Fd("h1/12", 8, "socket", "socket:[51]", 51))
    job.thread(13, syscall=writes(1), wchan="sock_alloc_send_pskb")
    edge = job.edge(13)
    assert (edge.kind, edge.awaited, edge.strength) == ("socket-write", "process:h1/12", "proven")


def test_an_unanswered_request_names_host_and_port():
    job = job_of(12)
    job.add("sockets", Socket(50, "inet", "stream", "ESTABLISHED", "10.0.0.2:4000", "10.0.0.7:443"))
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[50]", 50))
    job.thread(12, syscall=Syscall("recvfrom", 45, (4,), fd=4))
    edge = job.edge(12)
    assert (edge.kind, edge.resource, edge.owner, edge.inside_job) == ("socket-read", "10.0.0.7:443", "outside", False)


def test_a_local_tcp_peer_is_found_by_its_addresses():
    job = job_of(12, 13)
    job.add("sockets", Socket(50, "inet", "stream", "ESTABLISHED", "127.0.0.1:1", "127.0.0.1:2"))
    job.add("sockets", Socket(60, "inet", "stream", "ESTABLISHED", "127.0.0.1:2", "127.0.0.1:1"))
    job.add("fds", Fd("h1/13", 4, "socket", "socket:[50]", 50))
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[60]", 60))
    job.thread(13, syscall=Syscall("recvfrom", 45, (4,), fd=4))
    assert job.edge(13).awaited == "process:h1/12"


def test_a_connection_with_a_timeout_is_found_by_stack_and_state():
    job = job_of(12)
    job.add("sockets", Socket(50, "inet", "stream", "SYN_SENT", "10.0.0.2:4000", "10.0.0.7:443"))
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[50]", 50))
    job.thread(12, syscall=POLLS, stacks=((LIB + "/socket.py", "create_connection", 840), MAIN))
    edge = job.edge(12)
    assert (edge.kind, edge.resource, edge.strength) == ("socket-connect", "10.0.0.7:443", "strong")


def test_accept_on_a_listening_socket_is_a_server():
    job = job_of(12)
    job.add("sockets", Socket(50, "inet", "stream", "LISTEN", "0.0.0.0:80"))
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[50]", 50))
    job.thread(12, syscall=Syscall("accept4", 288, (4,), fd=4))
    assert (job.edge(12).kind, job.edge(12).owner) == ("socket-accept", "outside")


# --- locks on files ---


def flock_job(*rows):
    job = job_of(12)
    job.process(9, relation="holder", name="other")
    job.add("fds", Fd("h1/12", 4, "file", "/job/cache.lock", 44))
    job.thread(12, syscall=Syscall("flock", 73, (4, 2), fd=4))
    for row in rows:
        job.add("locks", row)
    return job


WAITS = Lock("h1/lock/8:1:44", 44, kind="flock", mode="write", waiting=True, owner_process="h1/12")
HOLDS = Lock("h1/lock/8:1:44", 44, kind="flock", mode="write", owner_process="h1/9")


def test_a_flock_is_held_by_who_inherited_the_open_file():
    """It was taken by the very process that waits, which has closed that file since and opened it again."""
    job = flock_job(WAITS, Lock("h1/lock/8:1:44", 44, kind="flock", mode="write", owner_process="h1/12"))
    job.process(13, ppid=12)
    job.add("fds", Fd("h1/13", 3, "file", "/job/cache.lock", 44))
    edge = job.edge(12)
    assert (edge.awaited, edge.strength) == ("process:h1/13", "strong")
    job.add("fds", Fd("h1/12", 7, "file", "/job/cache.lock", 44))
    assert job.edge(12).awaited == "process:h1/12", "it has it open twice, and waits for itself"


def test_the_holder_of_a_flock_is_proven():
    edge = flock_job(WAITS, HOLDS).edge(12)
    assert (edge.kind, edge.awaited, edge.strength, edge.inside_job) == ("file-lock", "process:h1/9", "proven", False)
    assert "is held by pid 9" in edge.text


def test_without_the_lock_table_the_holder_is_unknown():
    edge = flock_job().edge(12)
    assert (edge.owner, edge.awaited) == ("unknown", "lock:h1//job/cache.lock")
    assert "no lock table was collected" in edge.reason


def test_a_range_that_does_not_meet_blocks_nobody():
    wants = Lock("h1/lock/8:1:44", 44, kind="posix", mode="write", waiting=True, owner_process="h1/12", start=0, end=9)
    other = Lock("h1/lock/8:1:44", 44, kind="posix", mode="write", owner_process="h1/9", start=10, end=None)
    assert flock_job(wants, other).edge(12).owner == "unknown"


def test_a_lock_held_by_oneself_through_another_descriptor_leads_to_oneself():
    own = Lock("h1/lock/8:1:44", 44, kind="flock", mode="write", owner_process="h1/12")
    assert flock_job(WAITS, own).edge(12).awaited == "process:h1/12"


BATON = (("/x/site-packages/torch/utils/file_baton.py", "wait", 49), STEP, MAIN)


def baton_job(unseen=0, mount_network=False, **file):
    job = job_of(12)
    job.tables["hosts"] = [Host("h1", processes_fds_unseen=unseen)]
    job.add("files", File("/cache/lock", "h1/12", "lock", "stack", exists=True, **file))
    job.add("mounts", Mount("/cache", "nfs4" if mount_network else "ext4", network=mount_network, answers=True))
    job.thread(12, syscall=SLEEP, switches=(0, 20, 40), stacks=BATON)
    return job


def test_a_lock_file_nobody_has_open_is_proven_stale_when_everybody_was_seen():
    edge = baton_job(holders=()).edge(12)
    assert (edge.kind, edge.awaited, edge.strength, edge.resource) == ("lock-file", "nobody:", "proven", "/cache/lock")


@pytest.mark.parametrize("circumstance", [{"unseen": 4}, {"mount_network": True}])
def test_it_is_not_proven_while_somebody_unseen_may_have_it(circumstance):
    assert baton_job(holders=(), **circumstance).edge(12).strength == "strong"


def test_a_lock_file_with_a_living_author_is_not_stale():
    edge = baton_job(holders=(), author_pid=99, author_alive=True).edge(12)
    assert edge.owner != "nobody"


def test_a_lock_file_written_on_another_host_is_not_stale():
    edge = baton_job(holders=(), author_pid=99, author_host="node7").edge(12)
    assert (edge.owner, "pid 99 on node7, which cannot be seen from here" in edge.text) == ("outside", True)


def test_on_a_network_file_system_another_host_may_have_it_unless_its_author_ended_here():
    assert baton_job(holders=(), mount_network=True).edge(12).owner == "outside"
    ended = baton_job(holders=(), mount_network=True, author_pid=99, author_host="here", author_alive=False).edge(12)
    assert (ended.owner, ended.strength) == ("nobody", "proven")


def test_a_lock_file_that_somebody_has_open_leads_to_him():
    assert baton_job(holders=("h1/77",)).edge(12).awaited == "process:h1/77"


def test_a_lock_file_nobody_looked_at_stays_a_suggestion():
    assert baton_job(holders=None).edge(12).strength == "suggested"


# --- futexes ---


def test_a_lone_thread_on_a_private_futex_waits_for_nobody():
    job = job_of(12, start_method="fork")
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(STEP, MAIN))
    edge = job.edge(12)
    assert (edge.awaited, edge.owner, edge.strength, edge.inside_job) == ("nobody:", "nobody", "proven", True)
    assert "the lock at train.py:10" in edge.text


def test_a_signal_handler_could_end_it_so_it_is_said_and_not_proven():
    job = job_of(12, sig_caught=(2, 10, 11))
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(STEP, MAIN))
    edge = job.edge(12)
    assert edge.strength == "strong"
    assert "but a handler of SIGUSR1" in edge.text


def test_the_handler_torch_gives_its_workers_ends_them_and_wakes_nobody():
    job = job_of(12, role="dataloader-worker", sig_caught=(2, 7, 8, 11, 15))
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(STEP, MAIN))
    assert job.edge(12).strength == "proven"


def test_threads_that_were_not_read_leave_it_open():
    job = job_of(12, threads=3)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(STEP,))
    assert job.edge(12).strength == "strong"


def test_one_other_thread_awake_could_release_it():
    job = job_of(12, threads=2)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(STEP,))
    job.thread(12, 13, syscall=SLEEP, switches=(0, 8, 16))
    edge = job.edge(12)
    assert (edge.owner, edge.strength) == ("unknown", "suggested")


def test_a_futex_shared_between_processes_is_never_nobodys():
    job = job_of(12)
    job.thread(12, syscall=Syscall("futex", 202, (0x7F00, 0x109, 0, 0), timed=False), stacks=(STEP,))
    edge = job.edge(12)
    assert (edge.owner, edge.inside_job) == ("unknown", None)


def test_a_futex_with_a_timeout_is_never_nobodys():
    job = job_of(12)
    job.thread(12, syscall=Syscall("futex", 202, (0x7F00, 0x89, 0, 5), timed=True), stacks=(STEP,))
    assert job.edge(12).owner == "unknown"


def test_pthread_join_names_the_thread():
    job = job_of(12, threads=2)
    job.thread(12, syscall=Syscall("futex", 202, (0x7F00, 0x109, 13, 0), timed=False))
    job.thread(12, 13, name="writer", syscall=reads(3))
    edge = job.edge(12)
    assert (edge.kind, edge.awaited, edge.strength) == ("thread-join", "thread:h1/12/13", "proven")


def test_thread_join_by_stack_with_one_other_thread_is_strong_at_most():
    job = job_of(12, threads=2)
    join = ((LIB + "/threading.py", "join", 1119), MAIN)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=join)
    job.thread(12, 13, name="writer", syscall=reads(3), stacks=((USER, "write", 5),))
    edge = job.edge(12)
    assert (edge.kind, edge.awaited, edge.strength) == ("thread-join", "thread:h1/12/13", "strong")


def test_the_gil_waiter_is_led_to_the_holder():
    job = job_of(12, threads=2)
    timed = Syscall("futex", 202, (1, 0x89, 0, 1), timed=True)
    job.thread(12, syscall=timed, switches=(0, 400, 800), stacks=(STEP, MAIN))
    job.thread(12, 13, name="crunch", state="R", cpu=(0, 2000, 4000), stacks=((USER, "crunch", 9),), owns_gil=True)
    edge = job.edge(12)
    assert (edge.kind, edge.awaited, edge.strength) == ("gil", "thread:h1/12/13", "strong")


# --- files ---


def test_a_mount_that_did_not_answer_is_proven():
    job = job_of(12)
    job.add("mounts", Mount("/data", "fuse.sshfs", "host:/data", network=True, asked=True, answers=False))
    job.add("mounts", Mount("/", "ext4", answers=True))
    job.add("fds", Fd("h1/12", 4, "file", "/data/train.bin", 44))
    job.thread(12, state="D", syscall=reads(4))
    edge = job.edge(12)
    assert (edge.kind, edge.awaited, edge.strength) == ("mount", "mount:h1/data", "proven")


def test_a_silent_mount_elsewhere_proves_nothing():
    job = job_of(12)
    job.add("mounts", Mount("/data", "nfs4", network=True, answers=False))
    job.add("mounts", Mount("/", "ext4", answers=True))
    job.add("fds", Fd("h1/12", 4, "file", "/tmp/train.bin", 44))
    job.thread(12, state="D", syscall=reads(4))
    assert job.edge(12).kind == "resource"


def test_a_call_without_a_path_on_a_silent_mount_is_inferred():
    job = job_of(12, cwd="/data/run")
    job.add("mounts", Mount("/data", "nfs4", network=True, answers=False))
    job.thread(12, state="D", syscall=Syscall("newfstatat", 262, ()))
    assert (job.edge(12).kind, job.edge(12).strength) == ("mount", "strong")


def test_a_driver_that_does_not_return():
    job = job_of(12)
    job.add("fds", Fd("h1/12", 9, "device", "/dev/nvidia0"))
    job.thread(12, state="D", syscall=Syscall("ioctl", 16, (9,), fd=9))
    assert (job.edge(12).kind, job.edge(12).resource) == ("device", "/dev/nvidia0")


def test_a_fifo_nobody_opens():
    job = job_of(12)
    job.add("files", File("/job/control", "h1/12", "fifo", "argument", exists=True))
    job.thread(12, syscall=Syscall("openat", 257, ()), wchan="wait_for_partner")
    assert (job.edge(12).kind, job.edge(12).awaited, job.edge(12).strength) == ("fifo-open", "file:h1/job/control", "proven")


# --- what only the stack tells ---


def test_the_trainer_waits_for_the_worker_that_is_not_idle():
    job = job_of(12)
    job.process(13, ppid=12, role="dataloader-worker")
    job.process(14, ppid=12, role="dataloader-worker")
    loader = (LIB + "/selectors.py", "select", 5), ("/x/site-packages/torch/utils/data/dataloader.py", "_try_get_data", 9)
    job.thread(12, syscall=POLLS, switches=(0, 1, 2), stacks=(*loader, MAIN))
    idle = ((LIB + "/multiprocessing/connection.py", "poll", 2),
            ("/x/site-packages/torch/utils/data/_utils/worker.py", "_worker_loop", 7))
    job.thread(13, syscall=POLLS, switches=(0, 1, 2), stacks=idle)
    job.thread(14, syscall=FUTEX_FOR_EVER, stacks=(STEP,))
    edge = job.edge(12)
    assert (edge.kind, edge.awaited, edge.strength) == ("worker", "process:h1/14", "strong")
    assert "its DataLoader worker 14" in edge.text


def test_a_dead_worker_is_whom_the_trainer_waits_for():
    job = job_of(12)
    job.process(13, ppid=12, role="dataloader-worker", state="Z", exit_status=-9)
    job.process(14, ppid=12, role="dataloader-worker")
    job.thread(14, syscall=POLLS, switches=(0, 1, 2))
    job.thread(12, syscall=POLLS, switches=(0, 1, 2),
               stacks=(("/x/site-packages/torch/utils/data/dataloader.py", "_try_get_data", 9), MAIN))
    assert job.edge(12).awaited == "process:h1/13"


POOL_GET = ((LIB + "/threading.py", "wait", 320), (LIB + "/multiprocessing/pool.py", "get", 768), MAIN)
POOL_IDLE = ((LIB + "/multiprocessing/queues.py", "get", 364), (LIB + "/multiprocessing/pool.py", "worker", 114))


def pool_job(*worker_stacks):
    job = job_of(12, threads=2)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=POOL_GET)
    job.thread(12, 20, syscall=POLLS, switches=(0, 5, 9))
    for pid, stack in enumerate(worker_stacks, start=13):
        job.process(pid, ppid=12, role="pool-worker")
        job.thread(pid, syscall=reads(3), stacks=stack)
    return job


def test_a_result_that_no_worker_works_on_was_lost():
    edge = pool_job(POOL_IDLE, POOL_IDLE).edge(12)
    assert (edge.kind, edge.awaited, edge.owner, edge.strength) == ("worker", "nobody:", "nobody", "strong")
    assert "all of which are idle" in edge.text


def pool_with_threads(*functions):
    job = job_of(12, threads=1 + len(functions))
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=POOL_GET)
    for tid, function in enumerate(functions, start=20):
        job.thread(12, tid, syscall=POLLS, switches=(0, 5, 9), stacks=((LIB + "/multiprocessing/pool.py", function, 5),))
    job.process(13, ppid=12, role="pool-worker")
    job.thread(13, syscall=reads(3), stacks=POOL_IDLE)
    return job


def test_a_pool_whose_thread_for_results_has_ended_has_lost_no_worker():
    edge = pool_with_threads("_handle_workers", "_handle_tasks").edge(12)
    assert (edge.kind, edge.owner, edge.resource) == ("futex", "nobody", "an item of its pool's results")
    assert pool_with_threads("_handle_workers", "_handle_tasks", "_handle_results").edge(12).kind == "worker"


def test_a_result_that_one_worker_works_on_waits_for_it():
    assert pool_job(POOL_IDLE, (STEP,)).edge(12).awaited == "process:h1/14"


def test_a_future_with_a_busy_process_worker_probably_waits_for_it():
    job = job_of(12, threads=2)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=((LIB + "/concurrent/futures/_base.py", "result", 451), MAIN))
    job.thread(12, 20, syscall=POLLS, switches=(0, 5, 9))
    job.process(13, ppid=12, role="pool-worker")
    job.thread(13, syscall=reads(3), stacks=(STEP,))
    assert (job.edge(12).kind, job.edge(12).awaited, job.edge(12).strength) == ("worker", "process:h1/13", "suggested")


def rank_job(*frames):
    job = Job()
    job.process(10, relation="target", role="launcher")
    for rank, stack in enumerate(frames):
        job.process(20 + rank, ppid=10, role="rank", rank=rank, world_size=len(frames))
        job.thread(20 + rank, syscall=FUTEX_FOR_EVER, stacks=stack)
        job.thread(20 + rank, 40 + rank, syscall=POLLS, switches=(0, 9, 18))
    return job


C10D = "/x/site-packages/torch/distributed/distributed_c10d.py"


def test_a_rank_in_a_collective_waits_for_the_one_that_is_not():
    edge = rank_job(((C10D, "all_reduce", 1), MAIN), ((USER, "evaluate", 70), MAIN)).edge(20)
    assert (edge.kind, edge.awaited, edge.strength) == ("collective", "thread:h1/21/21", "strong")
    assert "rank 1 is not in it" in edge.text


def test_a_rank_waits_for_none_of_another_job_that_meets_elsewhere():
    job = rank_job(((C10D, "all_reduce", 1), MAIN), ((C10D, "all_reduce", 1), MAIN))
    job.process(30, relation="sibling", role="rank", rank=1, world_size=2)
    job.thread(30, syscall=FUTEX_FOR_EVER, stacks=((USER, "evaluate", 70), MAIN))
    for pid, port in ((20, "29500"), (21, "29500"), (30, "29600")):
        job.add("env", EnvVar(f"h1/{pid}", "MASTER_PORT", port))
    assert job.edge(20).awaited == "unknown:"


def test_ranks_in_different_collectives_wait_for_each_other():
    job = rank_job(((C10D, "barrier", 1), MAIN), ((C10D, "all_reduce", 1), MAIN))
    assert job.edge(20).awaited == "thread:h1/21/21"
    assert job.edge(21).awaited == "thread:h1/20/20"


def test_all_ranks_in_the_same_collective_name_nobody():
    job = rank_job(*[((C10D, "all_reduce", 1), MAIN)] * 2)
    assert job.edge(20).awaited == "unknown:"


@pytest.mark.parametrize(("peer", "awaited"), [("h1/21", "thread:h1/21/21"), ("h1/99", "unknown:")])
def test_ranks_that_only_the_script_has_numbered_are_known_by_their_connections(peer, awaited):
    job = Job()
    job.process(10, relation="target", role="launcher")
    for pid, stack in ((20, ((C10D, "all_reduce", 1), MAIN)), (21, ((USER, "evaluate", 70), MAIN))):
        job.process(pid, ppid=10, role="pool-worker", start_method="spawn")
        job.thread(pid, syscall=FUTEX_FOR_EVER, stacks=stack)
    job.add("fds", Fd("h1/20", 5, "socket", "socket:[9]", 9, peers=(peer,)))
    job.add("fds", Fd("h1/21", 5, "socket", "socket:[8]", 8, peers=("h1/20",)))
    edge = job.edge(20)
    assert (edge.kind, edge.awaited) == ("collective", awaited)
    assert ("pid 21 is not in it" in edge.text) is (peer == "h1/21")


def test_a_loop_that_is_over_waits_for_no_file():
    job = job_of(12)
    frame = (USER, "main", 8, SourceLine(7, "while not os.path.exists(flag): sleep(1)"), SourceLine(8, "lock.acquire()"))
    job.thread(12, syscall=SLEEP, switches=(0, 20, 40), stacks=(frame, MAIN))
    assert job.edge(12).kind == "timer"


def test_a_loop_that_waits_for_a_missing_file():
    job = job_of(12)
    job.add("files", File("/job/ready.flag", "h1/12", "missing", "stack", exists=False))
    frame = (USER, "wait_for_flag", 8, SourceLine(7, "while not os.path.exists(flag):"), SourceLine(8, "    sleep(1)"))
    job.thread(12, syscall=SLEEP, switches=(0, 2, 4), stacks=(frame, MAIN))
    edge = job.edge(12)
    assert (edge.kind, edge.resource, edge.strength) == ("resource", "/job/ready.flag", "strong")


def test_a_missing_file_the_loop_does_not_ask_for_is_not_blamed():
    job = job_of(12)
    job.add("files", File("/job/ready.flag", "h1/12", "missing", "stack", exists=False))
    job.thread(12, syscall=SLEEP, switches=(0, 2, 4), stacks=((USER, "idle", 8, SourceLine(8, "sleep(1)")), MAIN))
    assert job.edge(12).kind == "timer"


# --- legitimate waits ---


def test_an_event_loop_before_a_listening_socket_serves():
    job = job_of(12)
    job.add("sockets", Socket(50, "inet", "stream", "LISTEN", "0.0.0.0:80"))
    job.add("fds", Fd("h1/12", 6, "socket", "socket:[50]", 50))
    job.add("fds", Fd("h1/12", 5, "eventpoll", "anon_inode:[eventpoll]", watches=(6, 7)))
    job.thread(12, syscall=Syscall("epoll_wait", 232, (5,), fd=5, timed=False))
    edge = job.edge(12)
    assert (edge.kind, edge.owner, edge.resource) == ("poll", "outside", "0.0.0.0:80")


def deaf_loop(threads=1, **known):
    job = job_of(12, threads=threads, **known)
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[50]", 50, peers=("h1/12",)))
    job.add("fds", Fd("h1/12", 3, "eventpoll", "anon_inode:[eventpoll]", watches=(4,)))
    job.thread(12, syscall=Syscall("epoll_wait", 232, (3,), fd=3, timed=False),
               stacks=((LIB + "/selectors.py", "select", 468), (LIB + "/asyncio/base_events.py", "_run_once", 1898), MAIN))
    return job


def test_an_event_loop_that_watches_only_itself_waits_for_nobody():
    edge = deaf_loop().edge(12)
    assert (edge.kind, edge.awaited, edge.strength) == ("poll", "nobody:", "proven")


def test_a_second_thread_or_a_handler_could_wake_it():
    job = deaf_loop(threads=2)
    job.thread(12, 13, syscall=SLEEP, switches=(0, 3, 6))
    assert (job.edge(12).owner, job.edge(12).strength) == ("unknown", "suggested")
    assert deaf_loop(sig_caught=(2, 15)).edge(12).owner == "unknown"


def test_a_loop_whose_thread_waits_for_a_child_waits_for_that_child():
    job = deaf_loop(threads=2)
    job.process(14, ppid=12)
    job.thread(12, 13, syscall=waits_for_child(14), name="asyncio-waitpid-0")
    assert (job.edge(12).awaited, job.edge(12).strength) == ("thread:h1/12/13", "strong")
    assert job.edge(12, 13).awaited == "process:h1/14"


def test_stop_wait_with_a_handler_for_sigterm_waits_for_a_signal():
    job = job_of(12, sig_caught=(2, 15))
    frames = ((LIB + "/threading.py", "wait", 327), (LIB + "/threading.py", "wait", 629), MAIN)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=frames)
    assert (job.edge(12).kind, job.edge(12).owner) == ("signal", "outside")


def test_the_same_wait_without_a_handler_is_for_nobody():
    job = job_of(12, sig_caught=(2,))
    frames = ((LIB + "/threading.py", "wait", 327), (LIB + "/threading.py", "wait", 629), MAIN)
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=frames)
    assert job.edge(12).owner == "nobody"


def test_a_moving_thread_has_no_edge():
    job = job_of(12)
    job.thread(12, cpu=(0, 900, 1800), stacks=[[STEP], [MAIN], [STEP]])
    assert job.edges(12) == []


def test_every_edge_rests_on_rows_that_can_be_quoted():
    job = job_of(12, 13)
    job.thread(13, syscall=writes(2, "pipe:[771]"), wchan="pipe_write")
    job.pipe(771, reader=(12, 5), writer=(13, 2))
    derived, store = job.derived()
    (edge,) = store.rows("wait_edges")
    quotes = [derived.evidence(ref).quote for ref in edge.evidence]
    assert "pid 13 MainThread: write(fd 2 -> pipe:[771]) state S wchan pipe_write, not moving" in quotes
    assert all(quotes)
    assert derived.evidence("nowhere.json#/1").quote == ""
