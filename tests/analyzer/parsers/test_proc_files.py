"""Files of /proc that were shown with cat, and the limits of a shell: those of this machine, and what pastes leave."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
from parsing import blocks_of, only, rows_of

from flatline.bundle.facts import Cgroup, Host, Limit, Process, Thread


def test_the_status_of_this_process_names_it():
    block = only(Path("/proc/self/status").read_text(), "proc-status")
    (process,), (thread,) = rows_of(block, Process), rows_of(block, Thread)
    assert (process.pid, process.ppid, process.uid) == (os.getpid(), os.getppid(), os.getuid())
    assert (thread.tid, thread.is_main) == (os.getpid(), True)
    assert process.threads_total is not None


def test_the_status_of_a_thread_is_a_threads():
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    text = Path(f"/proc/self/task/{other.native_id}/status").read_text()
    done.set()
    other.join()
    (thread,) = rows_of(only(text, "proc-status"), Thread)
    assert (thread.pid, thread.tid, thread.is_main) == (os.getpid(), other.native_id, False)


def test_a_status_that_lost_its_first_lines_is_still_one():
    text = "State:\tD (disk sleep)\nTgid:\t812\nNgid:\t0\nPid:\t812\nPPid:\t800\nTracerPid:\t0\nShdPnd:\t0000000000040000\n"
    (process,) = rows_of(only(text, "proc-status"), Process)
    assert (process.pid, process.state, process.ppid, process.sig_pending) == (812, "D", 800, (19,))


def test_the_limits_of_this_process_are_read():
    rows = rows_of(only(Path("/proc/self/limits").read_text(), "proc-limits"), Limit)
    assert {"open files", "processes", "locked memory"} <= {row.name for row in rows}


def test_limits_without_headline_and_with_collapsed_blanks_belong_to_the_process_of_the_prompt():
    text = "$ cat /proc/812/limits\nMax open files 1024 4096 files\nMax processes unlimited unlimited processes\n"
    block = blocks_of(text)[1]
    first, second = rows_of(block, Limit)
    assert (first.process, first.name, first.soft, first.hard) == ("h1/812", "open files", 1024, 4096)
    assert (second.name, second.unlimited) == ("processes", True)


def test_the_limits_of_bash_have_the_names_of_proc():
    done = subprocess.run(
        ["bash", "-c", "ulimit -l 64; ulimit -a"], capture_output=True, text=True, check=True, timeout=60
    )
    rows = {row.name: row for row in rows_of(only(done.stdout, "ulimit"), Limit)}
    assert rows["locked memory"].soft == 64 * 1024
    assert "open files" in rows


@pytest.mark.parametrize(
    ("line", "name", "fd"),
    [
        ("0 0x8 0x7f4b33b42300 0x1 0x560c0004a590 0x0 0x0 0x7fff312f8660 0x7f4b34b162ec", "read", 8),
        ("63 0x8 0xffff33b42300 0x1 0x0 0x0 0x0 0xfffff12f8660 0xffff34b162ec", "read", 8),
    ],
)
def test_the_line_of_syscall_is_decoded_for_the_machine_that_its_addresses_show(line: str, name: str, fd: int):
    block = blocks_of(f"# cat /proc/812/task/815/syscall\n{line}\n")[1]
    (thread,) = rows_of(block, Thread)
    assert thread.syscall is not None
    assert (thread.pid, thread.tid, thread.syscall.name, thread.syscall.fd) == (812, 815, name, fd)


def test_the_word_of_wchan_is_the_threads_that_the_prompt_names():
    block = only("root@n7:/w# cat /proc/812/wchan\nrpc_wait_bit_killableroot@n7:/w#", "proc-wchan")
    (thread,) = rows_of(block, Thread)
    assert (thread.pid, thread.wchan) == (812, "rpc_wait_bit_killable")


def test_memory_and_counters_of_control_groups():
    (host,) = rows_of(only(Path("/proc/meminfo").read_text(), "proc-meminfo"), Host)
    assert (host.memory_total or 0) > 2**28
    block = blocks_of("$ cat /sys/fs/cgroup/a/memory.events\nlow 0\nhigh 0\nmax 12\noom 1\noom_kill 1\n")[1]
    (group,) = rows_of(block, Cgroup)
    assert (group.path, group.memory_oom_kills, group.memory_at_max) == ("/sys/fs/cgroup/a", 1, 12)
    block = only(
        "usage_usec 10\nuser_usec 5\nsystem_usec 5\nnr_periods 100\nnr_throttled 25\nthrottled_usec 3000000\n",
        "cgroup-counters",
    )
    (group,) = rows_of(block, Cgroup)
    assert (group.cpu_throttled_share, group.cpu_throttled_s) == (0.25, 3.0)


@pytest.mark.parametrize(
    "line",
    [
        "Name: resnet50",
        "State: running",
        "max 12",
        "0 0x8 0x1",
        "open files (limit reached)",
        "Max steps 100",
        "MemTotal is 12",
    ],
)
def test_ordinary_lines_are_no_files_of_proc(line: str):
    assert [block.kind for block in blocks_of(line)] == ["log"]


@pytest.mark.parametrize(
    ("shown", "states"),
    [
        ("/proc/90/status:State:\tS (sleeping)\n/proc/90/status:TracerPid:\t0\n"
         "/proc/91/status:State:\tt (tracing stop)\n/proc/91/status:TracerPid:\t77", [(90, "S", 0), (91, "t", 77)]),
        ("/proc/90/status:State:\tT (stopped)\n/proc/91/status:State:\tR (running)", [(90, "T", None), (91, "R", None)]),
        ("/proc/90/status:TracerPid:\t0\n/proc/91/status:TracerPid:\t77", [(90, "unknown", 0), (91, "unknown", 77)]),
    ],
)  # fmt: skip
def test_grep_shows_lines_of_several_status_files(shown: str, states: list[tuple[int, str, int | None]]):
    blocks = [block for block in blocks_of(shown) if block.kind == "proc-status"]
    rows = [row for block in blocks for row in rows_of(block, Process)]
    assert [(row.pid, row.state, row.tracer_pid) for row in rows] == states


def test_grep_shows_the_states_of_threads():
    (thread,) = rows_of(only("/proc/90/task/93/status:State:\tD (disk sleep)", "proc-status"), Thread)
    assert (thread.pid, thread.tid, thread.state) == (90, 93, "D")
