"""Backtraces of lldb: every thread once, with its whole stack, whatever was listed before."""

from __future__ import annotations

import pytest
from flatline.analyzer.parsers.lldb_text import frame_of
from parsing import blocks_of, only, rows_of
from programs import FIXTURES

from flatline.bundle.facts import Frame, Process, Thread

STACKS = FIXTURES / "pasted" / "stacks"
ALL = (STACKS / "lldb-bt-all-py3.11.7.txt").read_text()
LIST = (STACKS / "lldb-thread-list-py3.11.7.txt").read_text()


def functions(rows, tid: int) -> list[str]:
    return [f.function for f in rows_of(rows, Frame) if f.thread.endswith(f"/{tid}")]


def test_a_session_is_one_block_of_one_process():
    block = only(ALL, "lldb-backtrace")
    (process,) = rows_of(block, Process)
    threads = rows_of(block, Thread)
    assert [(t.tid, t.is_main) for t in threads] == [(process.pid, True), (2, False), (3, False)]
    main = functions(block, process.pid)
    assert main[:4] == ["__futex_abstimed_wait_common", "__futex_abstimed_wait_common", "__new_sem_wait_slow64",
                        "PyThread_acquire_lock_timed"]  # fmt: skip
    assert main[-1] == "_start"
    assert len(main) == 27


def test_thread_list_gives_the_kernels_numbers_and_the_innermost_frames():
    block = only(LIST, "lldb-backtrace")
    main, consumer, holder = rows_of(block, Thread)
    assert main.tid == main.pid < consumer.tid < holder.tid
    assert functions(block, holder.tid) == ["__GI___clock_nanosleep"]


def test_a_list_and_the_backtrace_after_it_are_of_the_same_threads():
    bt_all = ALL[ALL.index("(lldb) bt all") :]
    block = only(LIST + bt_all, "lldb-backtrace")
    tids = [t.tid for t in rows_of(block, Thread)]
    assert len(tids) == 3
    assert all(len(functions(block, tid)) > 10 for tid in tids)


def test_a_second_backtrace_is_another_look():
    bt_all = ALL[ALL.index("(lldb) bt all") :]
    assert [block.kind for block in blocks_of(ALL + bt_all)] == ["lldb-backtrace"] * 2


def test_frames_without_any_head_and_a_wrapped_one():
    text = (
        "  * frame #0: 0x00007f7c712a3f16 libc.so.6`__futex_abstimed_wait_common at futex-internal.c:57:12\n"
        "    frame #1: 0x00007f7c716a9370 libpython3.11.so.1.0`PyThread_acquire_lock_timed(lock=0x0000562a2540a160,\n"
        "microseconds=<unavailable>, intr_flag=1) at thread_pthread.h:497:22\n"
        "    frame #2: 0x00007f7c717130a2 libpython3.11.so.1.0`acquire_timed(lock=0x0000562a2540a160, timeo\n"
    )
    frames = rows_of(only(text, "lldb-backtrace"), Frame)
    assert [f.function for f in frames] == [
        "__futex_abstimed_wait_common", "PyThread_acquire_lock_timed", "acquire_timed",
    ]  # fmt: skip
    assert (frames[1].file, frames[1].line_no) == ("thread_pthread.h", 497)


def test_the_heads_of_older_versions_name_the_thread():
    text = (
        "* thread #1: tid = 0x1a2b, 0x00007fff8b0d6f72 libsystem_kernel.dylib`mach_msg_trap + 10, "
        "queue = 'com.apple.main-thread', stop reason = signal SIGSTOP\n"
        "  * frame #0: 0x00007fff8b0d6f72 libsystem_kernel.dylib`mach_msg_trap + 10\n"
        "    frame #1: 0x00007fff8b0d63b3 libsystem_kernel.dylib`mach_msg + 55\n"
    )
    block = only(text, "lldb-backtrace")
    assert [t.tid for t in rows_of(block, Thread)] == [0x1A2B]
    assert functions(block, 0x1A2B) == ["mach_msg_trap", "mach_msg"]


@pytest.mark.parametrize(
    ("text", "name", "file", "line"),
    [
        ("libc.so.6`poll + 79", "poll", "", None),
        ("libnccl.so.2`ncclCommInitRankFunc(ncclAsyncJob*) + 1204", "ncclCommInitRankFunc", "", None),
        ("libx.so`a::B<int (*)(float)>::run(this=0x01, f=(x = 1)) at b.cpp:12:3", "a::B<int (*)(float)>::run", "b.cpp", 12),
        ("libx.so`(anonymous namespace)::wait(int) + 4", "(anonymous namespace)::wait", "", None),
        ("libpython3.11.so.1.0`run [inlined] inner(a=1) at x.c:7", "inner", "x.c", 7),
        ("libx.so`___lldb_unnamed_symbol123 + 45", "___lldb_unnamed_symbol123", "", None),
        ("", "0x00007f7c712a3f16", "", None),
    ],
)  # fmt: skip
def test_names_and_places(text, name, file, line):
    frame = frame_of(text, "0x00007f7c712a3f16")
    assert (frame.name, frame.file, frame.line) == (name, file, line)


def test_a_program_that_speaks_of_its_threads_is_no_debugger():
    assert [block.kind for block in blocks_of("thread #3, loading shard 7\nProcess 12 stopped early\n")] == ["log"]
