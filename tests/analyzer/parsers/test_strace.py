"""strace: what a thread waits in, on what, and what it asks for in vain; with the strace of this machine too."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from parsing import blocks_of, only, rows_of
from programs import wait_until

from flatline.bundle.facts import Fd, File, Process, Socket, Thread


def waiting(text: str) -> Thread:
    """The one thread that is in a call."""
    (thread,) = [t for t in rows_of(only(text, "strace"), Thread) if t.syscall is not None]
    return thread


@pytest.mark.parametrize(
    ("line", "name", "fd", "timed", "timeout"),
    [
        ("read(0, ", "read", 0, None, None),
        ("read(3</dev/pts/2>, ", "read", 3, None, None),
        ("read(5<pipe:[811]>,  <unfinished ...>", "read", 5, None, None),
        ("futex(0x7ffe1b2c, FUTEX_WAIT_PRIVATE, 2, NULL", "futex", None, False, None),
        ("futex(0x7ffe1b2c, FUTEX_WAIT_BITSET_PRIVATE, 0, {tv_sec=4, tv_nsec=500000000}, FUTEX_BITSET_MATCH_ANY", "futex", None, True, 4.5),
        ("poll([{fd=3, events=POLLIN}], 1, -1", "poll", None, False, None),
        ("poll([{fd=3, events=POLLIN}], 1, 5000 <unfinished ...>", "poll", None, True, 5.0),
        ("epoll_wait(4, [], 128, -1 <detached ...>", "epoll_wait", 4, False, None),
        ("nanosleep({0, 100000},  <unfinished ...>", "nanosleep", None, True, 0.0001),
        ("select(1, [0], NULL, NULL, NULL", "select", None, False, None),
        ("wait4(812, ", "wait4", None, False, None),
        ("flock(7, LOCK_EX", "flock", 7, False, None),
        ("restart_syscall(<... resuming interrupted nanosleep ...>", "nanosleep", None, None, None),
        ("[pid  77] accept4(27, ", "accept4", 27, None, None),
        ("77    accept4(27, ", "accept4", 27, None, None),
        ("77 11:52:08.123456 recvfrom(29, ", "recvfrom", 29, None, None),
        ("11:52:08 ioctl(9, _IOC(_IOC_READ|_IOC_WRITE, 0x46, 0x2a, 0x20), 0x7ffd0c", "ioctl", 9, None, None),
        ("1721000000.123456 connect(3, {sa_family=AF_UNIX, sun_path=\"/run/x\"}, 110", "connect", 3, None, None),
        ("     0.000123 clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=5, tv_nsec=0}, strace: Process 9 detached", "clock_nanosleep", None, True, 5.0),
    ],
)  # fmt: skip
def test_a_lone_line_tells_what_its_thread_waits_in(
    line: str, name: str, fd: int | None, timed: bool | None, timeout: float | None
):
    thread = waiting(line)
    assert thread.syscall is not None
    assert (thread.state, thread.syscall.name, thread.syscall.fd) == ("S", name, fd)
    assert (thread.syscall.timed, thread.syscall.timeout_s) == (timed, timeout)


def test_the_process_waited_for_is_named():
    call = waiting("wait4(812, ").syscall
    assert call is not None
    assert call.target_pid == 812


@pytest.mark.parametrize(
    "line",
    [
        "read(path) failed",
        "open(file, 'rb') as handle",
        "  connect(host, port)",
        "time(seconds) = 12.5 s per step",
        "print(f'read({x}) = {y}')",
        "forward(12, 3",
        "write(data",
        "read(3) was called",
        "12 steps done",
        'File "x.py", line 3, in read',
    ],
)
def test_ordinary_lines_are_no_calls(line: str):
    assert [block.kind for block in blocks_of(line)] == ["log"]


def test_a_call_that_another_threads_line_interrupted_comes_back():
    text = (
        "[pid 10] read(3,  <unfinished ...>\n"
        "[pid 11] nanosleep({tv_sec=0, tv_nsec=1000},  <unfinished ...>\n"
        '[pid 10] <... read resumed>"x", 1)      = 1\n'
        "[pid 10] futex(0x5581, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>\n"
        "[pid 11] <... nanosleep resumed>NULL)   = 0\n"
        "[pid 11] +++ exited with 0 +++\n"
    )
    threads = {t.tid: t for t in rows_of(only(text, "strace"), Thread)}
    assert threads[10].syscall is not None
    assert threads[10].syscall.name == "futex"
    assert (threads[11].state, threads[11].syscall) == ("X", None)


def test_threads_that_strace_attached_to_are_one_processs():
    text = (
        "strace: Process 500 attached with 3 threads\n"
        "[pid 502] epoll_wait(4,  <unfinished ...>\n"
        "[pid 501] futex(0x55, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>\n"
        "[pid 500] read(0, "
    )
    block = only(text, "strace")
    assert [p.pid for p in rows_of(block, Process)] == [500]
    assert {(t.pid, t.tid) for t in rows_of(block, Thread)} == {(500, 500), (500, 501), (500, 502)}


def test_a_descriptor_is_what_was_opened_or_connected_before():
    text = (
        'openat(AT_FDCWD, "/dev/nvidia0", O_RDWR|O_CLOEXEC) = 9\n'
        "ioctl(9, _IOC(_IOC_READ|_IOC_WRITE, 0x46, 0x2b, 0x30), 0x7ffd1000"
    )
    block = only(text, "strace")
    (fd,) = rows_of(block, Fd)
    assert (fd.fd, fd.kind, fd.path) == (9, "device", "/dev/nvidia0")
    text = (
        "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_IP) = 14\n"
        '[pid 7] connect(14, {sa_family=AF_INET, sin_port=htons(29500), sin_addr=inet_addr("192.0.2.58")}, 16 <unfinished ...>'
    )
    block = only(text, "strace")
    (near,) = rows_of(block, Socket)
    assert (near.remote, near.state, near.family) == ("192.0.2.58:29500", "SYN_SENT", "inet")
    assert [(fd.fd, fd.inode) for fd in rows_of(block, Fd)] == [(14, near.inode)]


def test_a_path_that_is_asked_for_in_a_loop_is_not_there():
    ask = 'newfstatat(AT_FDCWD, "/data/rank0.done", 0x7ffc, 0) = -1 ENOENT (No such file or directory)\n'
    once = 'openat(AT_FDCWD, "/etc/ld.so.preload", O_RDONLY) = -1 ENOENT (No such file or directory)\n'
    nap = "clock_nanosleep(CLOCK_MONOTONIC, 0, {tv_sec=1, tv_nsec=0}, NULL) = 0\n"
    (file,) = rows_of(only(once + (ask + nap) * 4, "strace"), File)
    assert (file.path, file.exists) == ("/data/rank0.done", False)


@pytest.mark.parametrize(
    "nap",
    [
        "select(0, NULL, NULL, NULL, {tv_sec=0, tv_usec=50000}) = 0 (Timeout)",
        "pselect6(0, NULL, NULL, NULL, {tv_sec=1, tv_nsec=0}, NULL) = 0 (Timeout)",
        "poll(NULL, 0, 200)                      = 0 (Timeout)",
        "nanosleep({tv_sec=1, tv_nsec=0}, 0x7ffd) = 0",
    ],
)
def test_a_sleep_between_two_looks_is_told_by_whatever_waits_for_time_alone(nap: str):
    ask = 'access("/share/run9/go", F_OK) = -1 ENOENT (No such file or directory)'
    (file,) = rows_of(only("\n".join([ask, nap, ask, nap, ask]), "strace"), File)
    assert file.named_by == "3 calls with sleeps between"


@pytest.mark.parametrize("end", ["", " <unfinished ...>"])
def test_an_open_that_does_not_return_names_its_path(end: str):
    block = only(
        f'openat(AT_FDCWD, "/etc/hosts", O_RDONLY) = 3\nopenat(AT_FDCWD, "/run/in.fifo", O_RDONLY{end}', "strace"
    )
    assert [(f.path, f.why_looked, f.named_by) for f in rows_of(block, File)] == [("/run/in.fifo", "stack", "open")]


def test_a_call_that_is_cut_by_the_paste_is_not_waited_in():
    text = "close(3) = 0\nclone(child_stack=0x7f61a1ffdfb0, flags=CLONE_VM|CLONE_FS|CL"
    assert [t.syscall for t in rows_of(only(text, "strace"), Thread)] == [None]


def test_what_the_program_prints_between_its_calls_does_not_end_the_trace():
    text = 'write(1, "step 1\\n", 7) = 7\nstep 1\nread(0, '
    assert waiting(text).syscall is not None


@pytest.fixture
def strace(tmp_path: Path):
    """Traces a program until it waits; gives what strace printed."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")

    def trace(code: str, *options: str, until: str) -> str:
        ready, says = os.pipe()
        out = tmp_path / "trace.txt"
        program = [sys.executable, "-S", "-c", f"import os; os.write({says}, b'x'); os.close({says})\n{code}"]
        with out.open("wb") as stderr:
            child = subprocess.Popen(["strace", *options, *program], stderr=stderr, stdin=subprocess.PIPE,
                                     stdout=subprocess.DEVNULL, pass_fds=[says])  # fmt: skip
        os.close(says)
        os.read(ready, 1)
        wait_until(lambda: until in out.read_text(errors="replace")[-200:], what=until)
        child.send_signal(signal.SIGINT)
        child.wait(30)
        os.close(ready)
        return out.read_text(errors="replace")

    return trace


@pytest.mark.parametrize("options", [(), ("-tt",), ("-y",), ("-T", "-r"), ("-f", "-ttt")])
def test_the_strace_of_this_machine_is_read(strace, options: tuple[str, ...]):
    text = strace("import sys; sys.stdin.buffer.read(1)", *options, until="read(0")
    blocks = [block for block in blocks_of(text) if block.kind == "strace"]
    calls = [t.syscall for block in blocks[:1] for t in rows_of(block, Thread) if t.syscall is not None]
    assert [(call.name, call.fd) for call in calls] == [("read", 0)]


def test_a_connection_that_nobody_answers_is_told_with_its_address(strace):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = strace(
            f"import socket; s = socket.create_connection(('127.0.0.1', {port})); s.recv(1)", until="recvfrom("
        )
    block = next(block for block in blocks_of(text) if block.kind == "strace")
    assert f"127.0.0.1:{port}" in {row.remote for row in rows_of(block, Socket)}


def test_the_lines_of_a_trace_stay_in_the_log():
    assert only("flock(5, LOCK_EX|LOCK_NB)   = -1 ENOLCK (No locks available)\nclose(5) = 0\n", "strace").is_log


def test_a_write_whose_text_holds_escapes_and_is_shortened_is_waited_in():
    thread = waiting('write(1, "step 7 loss 2.5\\nstep"..., 4096')
    assert (thread.syscall.name, thread.syscall.fd) == ("write", 1)


CONNECT = (
    'connect({fd}, {{sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr("10.9.0.{host}")}}, 16)'
    " = -1 EINPROGRESS (Operation now in progress)\n"
)
IN_VAIN = "poll([{{fd={fd}, events=POLLOUT}}], 1, 1000) = 0 (Timeout)\n"
ANSWERED = "poll([{{fd={fd}, events=POLLOUT}}], 1, 1000) = 1 ([{{fd={fd}, revents=POLLOUT}}])\n"
ERROR = "getsockopt({fd}, SOL_SOCKET, SO_ERROR, [{error}], [4]) = 0\n"


@pytest.mark.parametrize(("text", "unanswered"), [
    (CONNECT + IN_VAIN + IN_VAIN, ["10.9.0.1:443"]),
    (CONNECT + IN_VAIN + "close({fd}) = 0\n", ["10.9.0.1:443"]),
    (CONNECT + "select({fd}, NULL, [{fd}], NULL, {{tv_sec=5, tv_usec=0}}) = 0 (Timeout)\n", ["10.9.0.1:443"]),
    (CONNECT + ANSWERED + ERROR.replace("{error}", "110"), ["10.9.0.1:443"]),
    (CONNECT.replace("EINPROGRESS (Operation now in progress)", "ETIMEDOUT (Connection timed out)"), ["10.9.0.1:443"]),
    ('connect({fd}, {{sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("10.9.0.1")}}, 16) = 0\n'
     "poll([{{fd={fd}, events=POLLIN}}], 1, 5000) = 0 (Timeout)\n", ["10.9.0.1:53"]),
    (CONNECT + ANSWERED + ERROR.replace("{error}", "0"), []),
    (CONNECT + IN_VAIN + ANSWERED, []),
    (CONNECT + ANSWERED + ERROR.replace("{error}", "111"), []),
    (CONNECT, []),  # the trace ends here, and nobody has waited yet
])  # fmt: skip
def test_a_connect_whose_answer_polls_waited_for_in_vain_is_unanswered(text: str, unanswered: list[str]):
    rows = rows_of(only(text.format(fd=9, host=1), "strace"), Socket)
    assert [row.remote for row in rows if row.state == "SYN_SENT"] == unanswered


def test_an_address_that_did_not_answer_does_not_matter_when_the_next_one_does():
    first, second = (CONNECT + IN_VAIN).format(fd=9, host=1), (CONNECT + ANSWERED).format(fd=10, host=2)
    assert not rows_of(only(first + second, "strace"), Socket)
