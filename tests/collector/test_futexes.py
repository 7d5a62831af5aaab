"""What memory says of the word a thread sleeps on, and what it must not be taken for."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flatline.collector.linux.procfs import Mapping, ProcFS
from flatline.collector.probes import futexes as module
from flatline.collector.probes.futexes import Futexes
from flatline.collector.waits import glibc, python_locks, shared
from flatline.collector.waits.glibc import AFTER, BEFORE, PRIVATE, decode
from flatline.collector.waits.memory import Memory
from job_view import gaps, rows, run_until_ready, target_of, view_of
from programs import FIXTURES, wait_until

from flatline.bundle.facts import thread_id

WAIT_PRIVATE, WAIT_SHARED, LOCK_PI, SEM = 0x80, 0x00, 0x86, 0x189


def around(*numbers: int, at: int = 0) -> bytes:
    """Memory around a futex in which these 32-bit numbers stand, the first one `at` bytes from it."""
    raw = bytearray(BEFORE + AFTER)
    struct.pack_into(f"={len(numbers)}I", raw, BEFORE + at, *(n & 0xFFFFFFFF for n in numbers))
    return bytes(raw)


def gather(*targets, **changes):
    return list(Futexes().gather(view_of(*targets, samples=1, **changes)))


@pytest.fixture
def run(start, tmp_path):
    return lambda code, **options: run_until_ready(start, tmp_path, code, **options)


# --- bytes that are a lock, and bytes that only look like one ---


@pytest.mark.parametrize("kind", [0, 1, 3, 0x200])
def test_a_mutex_is_named_when_all_its_fields_fit(kind):
    found = decode(WAIT_PRIVATE, 2, around(2, 1 if kind == 1 else 0, 4711, 1, kind))
    assert (found.kind, found.owner, found.depth) == ("mutex", 4711, 1 if kind == 1 else None)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ((2, 0, 0, 1, 0), "nobody owns it"),
        ((2, 0, 4711, 0, 0), "nobody uses it"),
        ((1, 0, 4711, 1, 0), "its word says that nobody waits"),
        ((2, 0, 4711, 1, 4), "there is no such kind"),
        ((2, 1, 4711, 1, 0), "a normal one does not count"),
        ((2, 0, 4711, 1, 1), "a recursive one does"),
        ((2, 0, 4711, 1, 128), "it says that it is shared, but is waited for as private"),
        ((2, 0, -4711, 1, 0), "no thread has such a number"),
        ((2, 0, 4711, 1, 0, 0, 7), "it is in a list of robust mutexes, but not robust"),
    ],
)
def test_a_mutex_is_not_named_when(fields, what):
    assert decode(WAIT_PRIVATE, 2, around(*fields)).owner is None, what


def test_a_private_mutex_waited_for_as_shared_is_none():
    assert decode(WAIT_SHARED, 2, around(2, 0, 4711, 1, 0)).owner is None
    assert decode(WAIT_SHARED, 2, around(2, 0, 4711, 1, 128)).owner == 4711


def test_a_barrier_in_its_second_round_is_not_a_mutex():
    """It sleeps for the value 2, and one between processes has 128 where a mutex has its owner."""
    for shared_flag in (0, 128):
        found = decode(PRIVATE ^ shared_flag, 2, around(3, 2, 2, shared_flag, 2, at=-4))
        assert (found.kind, found.owner) == ("barrier", None)


def test_a_condition_variable_is_no_semaphore_and_has_no_owner():
    fields = (2, 0, 0, 0, 2, 0, 0, 0, 0, 8, 0, 0)
    found = decode(SEM, 0, around(*fields, at=-40))
    assert (found.kind, found.has_owner) == ("condition", False)


def test_a_semaphore_tells_how_many_wait():
    found = decode(SEM, 0, around(0, 3, 0, 0))
    assert (found.kind, found.waiters, found.has_owner) == ("semaphore", 3, False)


def test_the_owner_of_an_inheriting_mutex_stands_in_its_word_too():
    assert decode(LOCK_PI, 0, around(0x80000000 | 4711, 1, 4711, 1, 32)).owner == 4711
    assert decode(LOCK_PI, 0, around(0x80000000 | 4711, 1, 4712, 1, 32)).owner is None


def test_random_memory_has_no_owner():
    noise = random.Random(7)
    for _ in range(5_000):
        before, after = ([noise.choice((0, noise.getrandbits(32))) for _ in range(count)] for count in (12, 15))
        for op, word in ((WAIT_PRIVATE, 2), (WAIT_SHARED, 2), (SEM, 3)):
            memory = around(*before, word, *after, at=-48)
            assert decode(op, word, memory).owner is None


@pytest.mark.parametrize(
    ("paths", "known"),
    [
        (["/usr/lib/x86_64-linux-gnu/libc.so.6"], True),
        (["/lib64/libc-2.28.so"], True),
        (["/lib64/libc-2.28.so (deleted)"], True),
        (["/lib64/libc-2.17.so"], False),
        (["/lib/ld-musl-x86_64.so.1"], False),
        (["/opt/static-program"], False),
        ([], False),
    ],
)
def test_only_c_libraries_of_known_layout_are_read(paths, known):
    maps = [Mapping(0x7F0000000000, 0x7F0000001000, "r-xp", 0, "08:01", 5, path) for path in paths]
    assert glibc.is_known(maps, "x86_64") is known
    assert not glibc.is_known(maps, "riscv64")
    assert not glibc.is_known([Mapping(0x1000, 0x2000, "r-xp", 0, "08:01", 5, p) for p in paths], "x86_64")


def test_a_join_is_told_by_the_call_alone_but_for_numbers_that_rwlocks_pass():
    assert (glibc.by_call(glibc.JOIN, 4711).kind, glibc.by_call(glibc.JOIN, 4711).owner) == ("join", 4711)
    assert {glibc.by_call(glibc.JOIN, value).kind for value in (0, 2, 3)} == {"unknown"}


# --- memory ---


def test_reading_makes_no_page_that_the_process_has_not_touched(run):
    pid = run("import mmap; m = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE); m[0] = 7; ready(); time.sleep(600)")
    proc = ProcFS()
    mappings = [m for m in proc.maps(pid) if m.path == "" and m.end - m.start >= 64 << 20]
    before = page_tables(pid)
    with Memory(proc, pid) as memory:
        seen = sum(len(chunk) for _, chunk in memory.chunks(mappings))
    assert 0 < seen < 16 << 20
    assert page_tables(pid) == before


def page_tables(pid: int) -> str:
    return next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmPTE"))


def test_what_is_not_there_is_none(run):
    pid = run("ready(); time.sleep(600)")
    with Memory(ProcFS(), pid) as memory:
        assert memory.read(8, 8) is None
        assert memory.read(1 << 63, 8) is None
        assert memory.around(8, 48, 64) is None
        assert memory.text(8) is None


STALE = """
import threading
lock = threading.Lock()
lock.acquire()
import ctypes
semaphore = ctypes.c_size_t.from_address(id(lock) + 16).value
dead = (ctypes.c_size_t * 6)(0, id(threading.RLock().__class__), semaphore, 0x7f0000001000, 1, 0)
open(os.path.join(HERE, "semaphore"), "w").write(f"{semaphore} {ctypes.addressof(dead)}")
ready()
lock.acquire()
"""


def test_a_lock_object_that_is_no_more_is_not_taken_for_the_one_that_is(run, tmp_path):
    """Its memory is left as it was, and malloc gave its semaphore's place to the next lock."""
    pid = run(STALE)
    semaphore, dead = map(int, (tmp_path / "semaphore").read_text().split())
    proc = ProcFS()
    with Memory(proc, pid) as memory:
        search = python_locks.find(memory, proc.maps(pid), [semaphore], {semaphore: dead}, time.monotonic() + 5)
    assert search.found[semaphore].type == "_thread.lock"


def test_the_search_says_where_it_ended(run, tmp_path, monkeypatch):
    pid = run(STALE)
    monkeypatch.setattr(python_locks, "SCAN_BYTES", 0)
    wait_until(lambda: b"202" in Path(f"/proc/{pid}/syscall").read_bytes() or os.uname().machine != "x86_64", what="it waits")
    (row,) = rows(gather(pid), "futexes")
    assert row.note == "looked through 0 MB of its memory, and no further"
    assert row.primitive == "semaphore"


# --- timeouts ---


@pytest.mark.parametrize(
    ("wait", "call"),
    [
        ("time.sleep(500)", "clock_nanosleep|pselect6|select"),
        ("__import__('threading').Event().wait(500)", "futex"),
        ("__import__('select').select([0], [], [], 500)", "select|pselect6"),
        ("__import__('signal').sigtimedwait([10], 500)", "rt_sigtimedwait"),
    ],
)
def test_a_timeout_that_stands_in_memory_is_read(wait, call, run):
    pid = run(f"ready(); {wait}", stdin=subprocess.PIPE)
    found = wait_until(lambda: rows(gather(pid), "timeouts"), what="it waits")
    (row,) = found
    assert row.thread == thread_id(pid, pid)
    assert row.syscall in call.split("|")
    assert 300 < row.seconds <= 500


def test_a_wait_for_ever_has_no_timeout(run):
    pid = run("ready(); import threading; threading.Event().wait()")
    wait_until(lambda: rows(gather(pid), "futexes"), what="it waits")
    assert not rows(gather(pid), "timeouts")


# --- what a poll watches ---


@pytest.mark.parametrize(
    ("wait", "call"),
    [
        ("p = select.poll(); p.register(r); p.register(0); p.poll()", "poll|ppoll"),
        ("select.select([r], [], [0], 500)", "select|pselect6"),
        ("select.select([0, r], [], [])", "select|pselect6"),
    ],
)
def test_what_a_poll_watches_is_read(wait, call, run):
    pid = run(f"import os, select; r, w = os.pipe(); os.dup2(r, 70); r = 70; ready(); {wait}", stdin=subprocess.PIPE)
    (row,) = wait_until(lambda: rows(gather(pid), "poll_sets"), what="it waits")
    assert (row.thread, row.fds) == (thread_id(pid, pid), (0, 70))
    assert row.syscall in call.split("|")


def test_a_select_on_nothing_is_a_sleep(run):
    pid = run("import select; ready(); select.select([], [], [], 500)")
    wait_until(lambda: rows(gather(pid), "timeouts"), what="it waits")
    assert not rows(gather(pid), "poll_sets")


# --- processes that move, end, refuse ---


def test_a_thread_that_does_not_stay_has_no_row(run):
    pid = run("ready()\nwhile True: pass")
    assert not rows(gather(pid), "futexes")


def test_a_process_that_ended_is_no_error(run, start):
    pid = run("ready(); import threading; threading.Event().wait()")
    gone = start(["true"])
    target = target_of(gone.pid)
    gone.wait(20)
    items = gather(pid, target)
    assert not gaps(items)


def test_a_number_that_now_belongs_to_another_process_is_not_read(run):
    pid = run("ready(); import threading; threading.Event().wait()")
    wait_until(lambda: rows(gather(pid), "futexes"), what="it waits")
    (row,) = rows(gather(target_of(pid, start_ticks=1)), "futexes")
    assert (row.word, row.note) == (None, "the process has ended")


def test_memory_that_does_not_answer_costs_its_own_limit_only(run, monkeypatch):
    pid = run("ready(); import threading; threading.Event().wait()")
    wait_until(lambda: rows(gather(pid), "futexes"), what="it waits")
    monkeypatch.setattr(module, "READ_S", 0.2)
    monkeypatch.setattr(module, "read", lambda *_: time.sleep(30))
    began = time.monotonic()
    items = gather(pid)
    assert time.monotonic() - began < 5
    (row,) = rows(items, "futexes")
    assert (row.primitive, row.note) == ("unknown", "its memory did not answer")
    assert "was not read in time" in gaps(items)[0].message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_users_locks_are_a_gap_with_the_command_that_shows_them(run):
    pid = run("ready(); import threading; threading.Event().wait()")
    code = (
        f"import os, sys; sys.path[:0] = {[str(FIXTURES), str(FIXTURES.parent / 'tests')]!r}\n"
        "from job_view import *\nfrom flatline.collector.probes.futexes import Futexes\n"
        f"os.setuid(65534)\nfor gap in gaps(list(Futexes().gather(view_of({pid})))): print(gap.status, gap.hint, gap.tables)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "denied run it with sudo" in said.stdout, said.stderr
    assert "futexes" in said.stdout


def test_who_shares_a_mapping_is_found_by_device_and_inode_not_by_name(run, tmp_path):
    code = "import mmap; f = open({name!r}, 'r+b'); m = mmap.mmap(f.fileno(), 4096); ready(); time.sleep(600)"
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(bytes(4096))
    pids = {name: run(code.format(name=str(tmp_path / name))) for name in ("a", "b")}
    proc = ProcFS()
    mapping = next(m for m in proc.maps(pids["a"]) if m.path == str(tmp_path / "a"))
    (tmp_path / "a").rename(tmp_path / "renamed")
    found = shared.who_maps(proc, [(mapping.device, mapping.inode)], list(pids.values()), 5.0)
    assert set(found.of[mapping.device, mapping.inode]) == {pids["a"]}


def test_that_nobody_shares_it_is_not_said_while_a_process_that_may_hides_its_maps(run, monkeypatch):
    older, pid, younger = (run("ready(); time.sleep(600)") for _ in range(3))
    from flatline.collector.linux.procfs import Unread

    text = ProcFS.text

    def is_complete(hidden: int) -> bool:
        hide = {(hidden, "maps"), (1, "maps")}
        monkeypatch.setattr(
            ProcFS, "text", lambda self, *parts, **options: Unread("denied") if parts in hide else text(self, *parts, **options)
        )
        return shared.who_maps(ProcFS(), [("00:01", 1)], [pid], 5.0).is_complete

    assert not is_complete(younger)
    assert is_complete(older)  # it cannot have inherited anything of theirs


def test_device_numbers_are_those_of_the_other_tables():
    assert shared.device_number("00:1b") == "0:27"


def test_seventy_two_idle_processes_are_read_together(run):
    """Forked workers have their locks at the same places: one search serves all."""
    pid = run(
        "import threading\nfor _ in range(71):\n    if os.fork() == 0: threading.Event().wait()\nready(); threading.Event().wait()"
    )
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    wait_until(lambda: len(rows(gather(pid, *children), "futexes")) == 72, what="all wait")
    items = gather(pid, *children)
    assert {row.primitive for row in rows(items, "futexes")} == {"python-lock"}
    assert not gaps(items)
