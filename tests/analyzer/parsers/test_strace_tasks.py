"""strace -f: which numbers are threads and which processes, what a poll watches, and what other texts know of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.sieve import Kept
from flatline.analyzer.intake.sources import Source
from parsing import blocks_of, only, rows_of
from programs import FIXTURES, wait_until

from flatline.bundle.facts import Fd, File, Process, Socket, Syscall, Thread

STRACE = FIXTURES / "pasted" / "strace"
PS = "USER PID PPID STAT COMMAND\nann 6231 1 Sl python train.py\nann 6288 6231 Sl python train.py\n"
UNKNOWN = (
    "[pid 6231] futex(0x7f8c0, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>\n"
    "[pid 6288] recvfrom(29<socket:[77]>, <unfinished ...>\n"
    "[pid 6290] read(5, "
)


def threads(text: str) -> dict[int, tuple[int, bool]]:
    """By its number: the process, and whether it is the main thread."""
    return {t.tid: (t.pid, t.is_main) for t in rows_of(only(text, "strace"), Thread)}


def call_of(text: str, tid: int) -> Syscall:
    call = next(t.syscall for t in rows_of(only(text, "strace"), Thread) if t.tid == tid)
    assert call is not None
    return call


def store(*texts: str):
    sources = [Source(f"{n}.txt", Kept(tuple(text.split("\n")), size=len(text))) for n, text in enumerate(texts)]
    return case_of_texts(sources, "t").store


@pytest.mark.parametrize(("name", "main"), [("f.txt", 10647), ("f-yy.txt", 10819)])
def test_clones_tell_threads_from_processes(name: str, main: int):
    text = (STRACE / name).read_text()
    found = threads(text)
    forked, spawned = sorted(found)[-2:]
    assert {tid: pid for tid, (pid, _) in found.items()} == {
        **dict.fromkeys(sorted(found)[:-2], main), forked: forked, spawned: spawned,
    }  # fmt: skip
    assert {p.pid: p.ppid for p in rows_of(only(text, "strace"), Process)} == {main: None, forked: main, spawned: main}


@pytest.mark.parametrize(("name", "main"), [("f.txt", 10647), ("f-yy.txt", 10819)])
def test_a_poll_is_tied_to_its_pipes(name: str, main: int):
    text = (STRACE / name).read_text()
    assert call_of(text, main).watches == (8, 11)
    fds = {fd.fd: fd.kind for fd in rows_of(only(text, "strace"), Fd) if fd.process == f"h1/{main}"}
    assert fds[8] == fds[11] == "pipe"


def test_tasks_of_which_nothing_is_told_are_of_one_process_that_nothing_names():
    assert threads(UNKNOWN) == {6231: (0, True), 6288: (0, False), 6290: (0, False)}


@pytest.mark.parametrize("texts", [(UNKNOWN, PS), (PS, UNKNOWN)], ids=["trace first", "list first"])
def test_a_list_of_processes_says_which_of_them_are_processes(texts):
    found = store(*texts)
    known = {t.tid: (t.pid, t.is_main) for t in found.rows("threads") if t.syscall}
    assert known == {6231: (6231, True), 6288: (6288, True), 6290: (-1, False)}
    assert [(fd.process, fd.inode) for fd in found.rows("fds")] == [("h1/6288", 77)]
    assert {p.pid for p in found.rows("processes")} == {6231, 6288, -1}


def test_what_no_list_has_are_threads_of_the_one_process_that_it_has():
    found = store(UNKNOWN, "\n".join(PS.splitlines()[:2]))
    assert {t.tid: (t.pid, t.is_main) for t in found.rows("threads")} == {
        6231: (6231, True), 6288: (6231, False), 6290: (6231, False),
    }  # fmt: skip


@pytest.mark.parametrize("line", ["$ strace -f -p 500", "root@node1:~# strace -fp 500", "$ sudo strace -f -tt -p500"])
def test_the_command_above_names_the_process(line: str):
    text = f"{line}\n[pid 502] epoll_wait(4,  <unfinished ...>\n[pid 500] read(0, "
    block = next(b for b in blocks_of(text) if b.kind == "strace")
    assert {t.tid: t.pid for t in rows_of(block, Thread)} == {500: 500, 502: 500}


@pytest.mark.parametrize(
    ("line", "tid", "pid"),
    [
        ("[pid 700] wait4(701, NULL, 0, NULL) = 701", 701, 701),
        ("[pid 701] getpid() = 701", 701, 701),
        ("[pid 700] tgkill(700, 701, SIGRT_1) = 0", 701, 700),
        ('[pid 701] execve("/bin/true", ["true"], 0x7f /* 1 var */) = 0', 701, 701),
        ("[pid 700] <... clone resumed>, child_tidptr=0x7f) = 701", 701, 0),
    ],
)
def test_other_calls_tell_it_as_well(line: str, tid: int, pid: int):
    text = f'[pid 700] read(3, "x", 1) = 1\n[pid 701] read(4, "x", 1) = 1\n{line}\n[pid 700] read(3, '
    assert threads(text)[tid][0] == pid


def test_lines_without_a_number_are_the_first_tasks_again_when_the_others_have_ended():
    text = (
        "pipe2([3, 4], O_CLOEXEC) = 0\n"
        "clone(child_stack=NULL, flags=SIGCHLDstrace: Process 701 attached\n"
        ", child_tidptr=0x7f) = 701\n"
        "[pid   701] exit_group(0) = ?\n"
        "[pid   700] wait4(701,  <unfinished ...>\n"
        "[pid   701] +++ exited with 0 +++\n"
        "<... wait4 resumed>[{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 701\n"
        "read(3, "
    )
    assert {tid: pid for tid, (pid, _) in threads(text).items()} == {700: 700, 701: 701}
    assert (call_of(text, 700).name, call_of(text, 700).path) == ("read", "pipe")


@pytest.mark.parametrize(
    ("text", "watches", "kinds"),
    [
        ("poll([{fd=5<pipe:[811]>, events=POLLIN}], 1, -1", (5,), ["pipe"]),
        ("pipe([7, 8]) = 0\nselect(9, [7], NULL, NULL, NULL", (7,), ["pipe"]),
        ("select(9, [3<pipe:[1]> 4<socket:[2]>], [], NULL, {tv_sec=5, tv_usec=0}", (3, 4), ["pipe", "socket"]),
        ("eventfd2(0, EFD_CLOEXEC) = 6\nppoll([{fd=6, events=POLLIN}, {fd=9, events=POLLIN}], 2, NULL, NULL, 8", (6, 9), ["eventfd"]),
        ("epoll_create1(0) = 4\npipe2([6, 7], 0) = 0\nepoll_ctl(4, EPOLL_CTL_ADD, 6, {events=EPOLLIN, data={u32=6, u64=6}}) = 0\n"
         "epoll_ctl(4, EPOLL_CTL_ADD, 7, {events=EPOLLIN, data={u32=7, u64=7}}) = 0\nepoll_ctl(4, EPOLL_CTL_DEL, 7, NULL) = 0\nepoll_wait(4, ",
         (6,), ["eventpoll", "pipe"]),
    ],
)  # fmt: skip
def test_what_a_poll_watches(text: str, watches: tuple[int, ...], kinds: list[str]):
    block = only(text, "strace")
    assert call_of(text, 0).watches == watches
    assert [fd.kind for fd in rows_of(block, Fd)] == kinds


@pytest.mark.parametrize(
    ("text", "family", "state", "local", "remote"),
    [
        ("recvfrom(3<TCP:[10.0.0.1:40412->192.0.2.58:443]>, ", "inet", "ESTABLISHED", "10.0.0.1:40412", "192.0.2.58:443"),
        ("accept4(3<TCP:[0.0.0.0:29500]>, ", "inet", None, "0.0.0.0:29500", None),
        ("recvfrom(3<TCPv6:[[::1]:22->[::1]:40000]>, ", "inet6", "ESTABLISHED", "[::1]:22", "[::1]:40000"),
        ('bind(3, {sa_family=AF_INET, sin_port=htons(29500), sin_addr=inet_addr("0.0.0.0")}, 16) = 0\n'
         "listen(3, 128) = 0\naccept4(3, ", "inet", "LISTEN", "0.0.0.0:29500", None),
        ('accept4(3, {sa_family=AF_INET, sin_port=htons(4242), sin_addr=inet_addr("10.0.0.9")}, [16], 0) = 8\nread(8, ',
         "inet", "ESTABLISHED", None, "10.0.0.9:4242"),
    ],
)  # fmt: skip
def test_a_socket_is_told_by_its_name_or_by_the_calls_that_made_it(text, family, state, local, remote):
    (socket,) = rows_of(only(text, "strace"), Socket)
    assert (socket.family, socket.state, socket.local, socket.remote) == (family, state, local, remote)


def test_tasks_that_disagree_on_a_descriptor_share_none():
    text = "[pid 700] read(5<pipe:[1]>,  <unfinished ...>\n[pid 701] read(5<socket:[2]>, "
    assert rows_of(only(text, "strace"), Fd) == []


PROGRAM = """
import os, subprocess, threading
r, w = os.pipe()
threading.Thread(target=os.read, args=(r, 1)).start()
child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
print(child.pid, flush=True)
child.communicate()
"""


def test_a_program_with_threads_and_children_as_the_strace_of_this_machine_shows_it(tmp_path: Path):
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    out = tmp_path / "trace.txt"
    with out.open("wb") as stderr:
        traced = subprocess.Popen(["strace", "-f", sys.executable, "-S", "-c", PROGRAM], stderr=stderr,
                                  stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert traced.stdout
        child = int(traced.stdout.readline())
        wait_until(lambda: "poll([{fd=" in out.read_text(errors="replace"), what="poll")
        text = out.read_text(errors="replace")
    finally:
        parent = int(Path(f"/proc/{traced.pid}/task/{traced.pid}/children").read_text().split()[0])
        for pid in (child, parent):
            os.kill(pid, signal.SIGKILL)
        traced.wait(30)
    block = next(b for b in blocks_of(text) if b.kind == "strace")
    assert {p.pid: p.ppid for p in rows_of(block, Process)} == {parent: None, child: parent}
    main = next(t for t in rows_of(block, Thread) if t.tid == parent)
    assert main.syscall is not None
    assert {fd.kind for fd in rows_of(block, Fd) if fd.fd in (main.syscall.watches or ())} == {"pipe"}


# --- stopped, and asking in vain ---

STOPPED = "ioctl(0, TCSETSW, {c_iflag=ICRNL}) = ? ERESTARTSYS\n--- SIGTTOU {si_signo=SIGTTOU, si_code=SI_KERNEL} ---\n"


@pytest.mark.parametrize(
    ("tail", "state"), [("", ("T", 22)), ("--- stopped by SIGTTOU ---\n", ("T", 22)), ("getpid() = 6\n", ("unknown", None))]
)
def test_a_stop_signal_after_which_nothing_is_called_has_stopped_the_process(tail, state):
    (process,) = rows_of(only(STOPPED + tail, "strace"), Process)
    assert (process.state, process.stop_signal) == state


ASKS = 'stat("/data/run/go", 0x7ffe0) = -1 ENOENT (No such file or directory)\n'
SLEEPS = "clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=5, tv_nsec=0}, NULL) = 0\n"


def test_two_questions_for_a_path_are_a_loop_when_it_sleeps_in_between():
    assert [f.path for f in rows_of(only((ASKS + SLEEPS) * 2, "strace"), File)] == ["/data/run/go"]
    assert rows_of(only(ASKS * 2, "strace"), File) == []
