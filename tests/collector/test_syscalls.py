"""Facts about what a thread is blocked in, by the kernel's own line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from flatline.collector.linux.procfs import Mapping, ProcFS
from flatline.collector.linux.syscalls import OUTSIDE, RUNNING, decode, library_at, program_counter
from flatline.collector.linux.tasks import call_met
from programs import wait_until

from flatline.texts.syscall_numbers import NAMES


def line(number: int, *args: int) -> str:
    padded = (*args, *(0 for _ in range(6 - len(args))))
    return " ".join([str(number), *(hex(a & 0xFFFFFFFFFFFFFFFF) for a in padded), "0x7ffc0000", "0x7f0000001000"])


def x86(name: str, *args: int):
    number = next(number for number, known in NAMES["x86_64"].items() if known == name)
    return decode(line(number, *args), "x86_64")


def test_the_two_machines_number_the_same_calls_differently():
    assert decode(line(0, 5), "x86_64").name == "read"
    assert decode(line(63, 5), "aarch64").name == "read"
    assert (NAMES["x86_64"][202], NAMES["aarch64"][98]) == ("futex", "futex")
    assert (NAMES["x86_64"][230], NAMES["aarch64"][115]) == ("clock_nanosleep", "clock_nanosleep")
    assert (NAMES["x86_64"][61], NAMES["aarch64"][260]) == ("wait4", "wait4")
    assert (NAMES["x86_64"][449], NAMES["aarch64"][449]) == ("futex_waitv", "futex_waitv")


def test_an_unknown_number_keeps_its_number():
    assert decode(line(9999), "x86_64").name == "syscall-9999"
    assert decode(line(0), "riscv64").name == "syscall-0"


@pytest.mark.parametrize("text", ["", "nonsense", "0 0x1", "0 zz 0 0 0 0 0 0 0", "1.5 0 0 0 0 0 0 0 0"])
def test_a_line_that_is_none_is_unknown(text):
    assert decode(text) is None


def test_a_running_thread_and_one_outside_a_call():
    assert decode("running").name == RUNNING
    assert decode("-1 0x7ffc 0x7f00").name == OUTSIDE
    assert program_counter("-1 0x7ffc 0x7f00") == 0x7F00


@pytest.mark.parametrize(
    ("name", "args", "timed", "timeout_s"),
    [
        ("poll", (0, 1, -1), False, None),
        ("poll", (0, 1, 0xFFFFFFFF), False, None),
        ("poll", (0, 1, 2500), True, 2.5),
        ("epoll_wait", (4, 0, 3, -1), False, None),
        ("epoll_wait", (4, 0, 3, 100), True, 0.1),
        ("epoll_pwait2", (4, 0, 3, 0), False, None),
        ("ppoll", (0, 1, 0x7FFC), True, None),
        ("select", (1, 0, 0, 0, 0), False, None),
        ("futex", (0x7F00, 0x189, 0, 0), False, None),
        ("futex", (0x7F00, 0x89, 0, 0x7FFC), True, None),
        ("futex", (0x7F00, 1, 1, 0x7FFC), None, None),
        ("clock_nanosleep", (1, 1, 0x7FFC), True, None),
        ("pause", (), False, None),
        ("read", (3,), None, None),
    ],
)
def test_a_wait_for_ever_is_told_from_a_timed_one(name, args, timed, timeout_s):
    call = x86(name, *args)
    assert (call.timed, call.timeout_s) == (timed, timeout_s)


@pytest.mark.parametrize(
    ("name", "args", "fd"),
    [("read", (7,), 7), ("sendfile", (1, 9), 9), ("openat", (-100,), None), ("mmap", (0, 0, 0, 0, -1), None), ("futex", (7,), None)],
)
def test_the_descriptor_is_found_among_the_arguments(name, args, fd):
    assert x86(name, *args).fd == fd


def test_whom_a_wait_is_for():
    assert x86("wait4", 12).target_pid == 12
    assert x86("wait4", 0xFFFFFFFF).target_pid is None
    assert x86("waitid", 1, 12).target_pid == 12
    assert x86("waitid", 0, 12).target_pid is None


def test_an_address_is_found_in_its_mapping_only():
    maps = [Mapping(100, 200, "r-xp", 0, "0:1", 5, "/lib/a.so"), Mapping(300, 400, "rw-p", 0, "0:0", 0, "")]
    assert [library_at(address, maps) for address in (99, 100, 199, 200, 350)] == [None, "/lib/a.so", "/lib/a.so", None, None]
    assert library_at(5, []) is None


def test_a_real_read_from_a_pipe_is_named(start):
    child = start([sys.executable, "-c", "import os; os.read(os.pipe()[0], 1)"])
    proc = ProcFS()

    def blocked():
        call = decode(str(proc.text(child.pid, "syscall")))
        return call if call is not None and call.name == "read" else None

    call = wait_until(blocked, what="the child reads from its pipe")
    assert str(proc.link(child.pid, "fd", call.fd)).startswith("pipe:[")


@pytest.mark.needs_root
def test_a_spin_over_sched_yield_shows_in_the_kernels_stack(start):
    if os.geteuid() != 0:
        pytest.skip("needs root: the kernel's stack of a thread is root's to read")
    child = start([sys.executable, "-c", "import os\nprint(1, flush=True)\nwhile True: os.sched_yield()"], stdout=subprocess.PIPE)
    child.stdout.readline()
    wait_until(lambda: call_met(ProcFS(), child.pid, child.pid) == "sched_yield", what="a look meets sched_yield")
