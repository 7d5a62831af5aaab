"""Facts about reading /proc: hostile names, refusals as values, and numbers that mean what the kernel means."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from flatline.collector.linux.patience import Patience
from flatline.collector.linux.procfs import (
    ProcFS,
    Unread,
    exit_status,
    parse_argv,
    parse_cgroup,
    parse_environ,
    parse_limits,
    parse_maps,
    parse_signals,
    parse_stat,
    printable,
    terminal_name,
)

PROC = ProcFS()
STAT = "7 ({}) S 1 7 7 34816 7 4194304 10 0 2 0 5 6 0 0 20 0 3 0 99 100 25 18446744073709551615 11 12 13"


@pytest.mark.parametrize("name", ["a b", "x) R 1 2 3", "((", ")", "", "two\nlines", "🔥", "\x1b[31mred"])
def test_a_name_never_shifts_the_fields_of_stat(name):
    stat = parse_stat(STAT.format(name))
    assert (stat.pid, stat.name, stat.state, stat.ppid, stat.threads, stat.start_ticks) == (7, name, "S", 1, 3, 99)
    assert (stat.start_code, stat.start_stack, stat.exit_code) == (11, 13, 0)


@pytest.mark.parametrize("text", ["", "7", "7 (x", "7 (x) S 1", "seven (x) S " + "1 " * 30])
def test_a_half_written_stat_is_an_error_and_no_guess(text):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever int() or index() says
        parse_stat(text)


def test_an_unknown_state_letter_is_unknown():
    assert parse_stat("7 (x) K " + "1 " * 49).state == "unknown"


def test_a_process_may_carry_any_name(start):
    program = "import sys; open('/proc/self/comm','wb').write(b'a) Z 1\\n\\xf0\\x9f\\x94\\xa5'); print(1, flush=True); input()"
    child = start([sys.executable, "-c", program], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    child.stdout.readline()
    stat = PROC.stat(child.pid)
    assert not isinstance(stat, Unread)
    assert stat.ppid == os.getpid()
    assert printable(stat.name) == "a) Z 1\\x0a🔥"


def test_what_is_gone_is_absent_and_no_exception():
    gone = subprocess.Popen(["true"])
    gone.wait()
    for answer in (PROC.stat(gone.pid), PROC.argv(gone.pid), PROC.link(gone.pid, "exe"), PROC.numbers(gone.pid, "fd")):
        assert isinstance(answer, Unread)
        assert answer.reason == "absent"


def test_what_another_user_may_not_read_is_denied():
    code = (
        "import os,sys\nfrom flatline.collector.linux.procfs import ProcFS\nos.setgid(65534); os.setuid(65534)\n"
        "p, pid = ProcFS(), int(sys.argv[1])\n"
        "print(p.raw(pid,'environ').reason, p.text(pid,'syscall').reason, p.link(pid,'exe').reason, p.is_permitted(pid),"
        " p.stat(pid).name != '', len(p.argv(pid)) > 0)"
    )
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    child = subprocess.run([sys.executable, "-c", code, str(os.getpid())], capture_output=True, text=True, timeout=60)
    assert child.stdout.split() == ["denied", "denied", "denied", "False", "True", "True"], child.stderr


def test_reads_are_bounded(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "cmdline").write_bytes(b"x" * 300_000)
    assert len(ProcFS(str(tmp_path)).raw(1, "cmdline", limit=1000)) == 1000


def test_a_fifo_in_the_way_does_not_block_the_reader(tmp_path):
    (tmp_path / "1").mkdir()
    os.mkfifo(tmp_path / "1" / "stat")
    assert isinstance(ProcFS(str(tmp_path)).stat(1), Unread)


def test_odd_bytes_become_text_that_can_be_written():
    variables, state = parse_environ(b"A=\xff\xfe\0B=2\0")
    assert (variables, state) == ({"A": "\\xff\\xfe", "B": "2"}, "read")
    str(variables).encode("utf-8")


@pytest.mark.parametrize(
    ("raw", "argv"),
    [
        (b"", ()),
        (b"\0\0\0\0", ()),
        (b"a\0-c\0\0", ("a", "-c", "")),
        (b"a\0b c\0", ("a", "b c")),
        (b"ray::train" + bytes(90), ("ray::train",)),
        (b"title without an end", ("title without an end",)),
    ],
)
def test_the_padding_of_a_title_is_no_argument(raw, argv):
    assert parse_argv(raw) == argv


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        (b"", "empty"),
        (b"A=1\0", "read"),
        (b"ray::train()\0\0\0\0", "overwritten"),
        (b"\0\0\0", "overwritten"),
        (b"worker 3 of 8\0LS_COLORS=rs\0x y z\0tail\0", "overwritten"),
    ],
)
def test_an_environment_without_names_is_overwritten_and_not_empty(raw, state):
    assert parse_environ(raw)[1] == state


def test_a_process_title_over_the_environment_is_seen(start):
    """What setproctitle does: the kernel's own record of where argv and environ lie, overwritten in place."""
    program = (
        "import ctypes,sys\n"
        "s=open('/proc/self/stat','rb').read().rsplit(b')',1)[1].split()\n"
        "a,e=int(s[45]),int(s[48])\n"  # arg_start and env_end, fields 48 and 51
        "ctypes.memmove(a, b'train: step 3'.ljust(e-a-1,b' '), e-a-1)\nprint(1,flush=True)\nsys.stdin.read()"
    )
    child = start([sys.executable, "-c", program], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    child.stdout.readline()
    raw = PROC.environ(child.pid)
    assert isinstance(raw, bytes)
    assert parse_environ(raw) == ({}, "overwritten")


def test_signals_limits_maps_and_terminals_read_as_the_kernel_means_them():
    assert parse_signals("0000000000040102") == (2, 9, 19)
    assert terminal_name(0) == "none"
    assert terminal_name((136 << 8) | 3) == "pts/3"
    assert terminal_name((137 << 8) | 1) == "pts/257"
    assert [exit_status(code) for code in (0, 9, 3 << 8, 0x80 | 11)] == [0, -9, 3, -11]
    limits = {line.name: line for line in parse_limits(str(PROC.text("self", "limits")))}
    assert limits["open files"].soft is not None
    assert limits["cpu time"].units == "seconds"
    (libc,) = (m for m in parse_maps("7f00-7f10 r-xp 00001000 08:01 55   /usr/lib/a b.so (deleted)\nbroken\n"))
    assert (libc.start, libc.offset, libc.inode, libc.path) == (0x7F00, 0x1000, 55, "/usr/lib/a b.so (deleted)")


def test_the_memory_controllers_path_is_the_cgroup_where_versions_are_mixed():
    assert parse_cgroup("4:memory:/job\n1:cpu:/\n0::/\n") == "/job"
    assert parse_cgroup("0::/kubepods/pod1\n") == "/kubepods/pod1"
    assert parse_cgroup("") is None


def test_age_is_counted_from_the_boot_clock():
    stat = PROC.stat(os.getpid())
    assert not isinstance(stat, Unread)
    assert 0 <= PROC.age_s(stat.start_ticks) < 24 * 3600
    assert PROC.age_s(stat.start_ticks + 10**9) == 0


def test_a_read_that_never_returns_costs_its_limit_and_no_more():
    never = threading.Event()
    patience = Patience(each_s=0.05, total_s=0.08)
    answers = [patience.read(never.wait) for _ in range(3)]
    assert all(isinstance(answer, Unread) and answer.reason == "error" for answer in answers)
    assert patience.lost == 3
    assert patience.read(lambda: 5) == 5
    never.set()


def test_memory_maps_name_the_c_library():
    maps = PROC.maps(os.getpid())
    assert not isinstance(maps, Unread)
    here = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
    assert any(m.start <= here < m.end and "libc" in Path(m.path).name for m in maps)
