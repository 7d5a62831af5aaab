"""What pasted stacks give: whose they are, which thread, which frames; of every tool, whole and cut."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.blocks import cut
from flatline.analyzer.intake.cleaning import cleaned
from flatline.analyzer.intake.sieve import Kept
from flatline.analyzer.intake.sources import Source

from flatline.bundle.facts import KERNEL_SAMPLE, NATIVE_SAMPLE, Frame, LoggedError, Process, Thread

PASTED = Path(__file__).parents[3] / "fixtures" / "pasted" / "stacks"
WAITS = "import threading; threading.Event().wait()"


def blocks(text: str):
    return cut(list(cleaned(text.split("\n"))))


def only(text: str, kind: str):
    """The one block that is no log, and no prompt above it."""
    (block,) = [b for b in blocks(text) if b.kind not in ("log", "prose", "prompt")]
    assert block.kind == kind
    return block


def of(rows, table):
    return [row for row in rows if isinstance(row, table)]


def stacks(rows):
    """thread id -> functions, innermost first."""
    found: dict[str, list[str]] = {}
    for frame in of(rows, Frame):
        found.setdefault(frame.thread, []).append(frame.function)
    return found


def read(name: str) -> str:
    return (PASTED / name).read_text()


def store(*texts: str):
    sources = [Source(f"{n}.txt", Kept(tuple(text.split("\n")), size=len(text))) for n, text in enumerate(texts)]
    return case_of_texts(sources, "t").store


# --- every recording, whole ---


@pytest.mark.parametrize(
    ("name", "kind", "pid", "threads"),
    [
        ("py-spy-0.3.3-py3.8.18.txt", "py-spy-dump", 65, 7),
        ("py-spy-0.3.14-py3.8.18.txt", "py-spy-dump", 65, 7),
        ("py-spy-0.3.14-native-py3.8.18.txt", "py-spy-dump", 65, 7),
        ("py-spy-0.4.0-py3.11.7.txt", "py-spy-dump", 143, 7),
        ("py-spy-0.4.1-json-py3.11.7.json", "py-spy-json", 143, 7),
        ("py-spy-0.4.1-locals-py3.11.7.txt", "py-spy-dump", 143, 7),
        ("py-spy-0.4.1-native-py3.12.1.txt", "py-spy-dump", 180, 7),
        ("py-spy-0.4.1-stopped-py3.8.18.txt", "py-spy-dump", 65, 7),
        ("py-spy-0.4.2-ddp-ckpt-native-p0.txt", "py-spy-dump", 10, 4),
        ("py-spy-0.4.2-ddp-locals.txt", "py-spy-dump", 10, 4),
        ("faulthandler-later-py3.6.15.txt", "faulthandler", 0, 4),
        ("faulthandler-later-py3.13.0.txt", "faulthandler", 0, 4),
        ("faulthandler-sigsegv-py3.12.1.txt", "faulthandler", 0, 2),
        ("gdb-btfull-py3.11.7.txt", "gdb-backtrace", 0, 1),
        ("gdb-dataloader-main.txt", "gdb-backtrace", 204, 7),
        ("gdb-ddp-rank.txt", "gdb-backtrace", 10, 8),
        ("gdb-pybt-py3.10.13.txt", "gdb-backtrace", 14, 7),
        ("gdb-terminal.txt", "gdb-backtrace", 9120, 2),
        ("eu-stack.txt", "gdb-backtrace", 7120, 2),
        ("pystack-native.txt", "pystack", 4242, 2),
        ("pystack-core-locals.txt", "pystack", 570, 1),
    ],
)
def test_a_recording_is_one_block_of_one_process(name, kind, pid, threads):
    rows = only(read(name), kind).rows
    assert [process.pid for process in of(rows, Process)] == [pid]
    assert len(of(rows, Thread)) == threads == len({thread.id for thread in of(rows, Thread)})
    assert {frame.thread for frame in of(rows, Frame)} <= {thread.id for thread in of(rows, Thread)}


def test_what_py_spy_says_when_it_fails_is_no_stack():
    assert {block.kind for block in blocks(read("py-spy-0.4.1-nosuchpid.txt"))} == {"log"}


def test_the_command_that_was_typed_is_part_of_a_session_of_gdb():
    text = '(gdb) py-bt\nTraceback (most recent call first):\n  File "a.py", line 1, in run\n    go()\n'
    assert [block.kind for block in blocks(text)] == ["gdb-backtrace"]
    assert [block.kind for block in blocks("bt\nthread 7\nstep 3 done\n")] == ["log"]


# --- py-spy ---


def test_the_children_of_a_dump_with_subprocesses_know_their_parent():
    rows = only(read("py-spy-0.4.2-dataloader-subprocesses.txt"), "py-spy-dump").rows
    assert {p.pid: p.ppid for p in of(rows, Process)} == {204: None, 210: 204, 211: 204}


def test_c_code_of_which_the_source_is_known_is_no_code_of_the_job():
    rows = only(read("py-spy-0.3.14-native-py3.8.18.txt"), "py-spy-dump").rows
    accept = next(f for f in of(rows, Frame) if f.function == "sock_accept_impl")
    assert (accept.kind, accept.file, accept.is_user) == ("native", "socketmodule.c", False)
    assert accept.sample == NATIVE_SAMPLE


def test_text_and_json_of_one_process_tell_the_same():
    text = only(read("py-spy-0.4.0-py3.11.7.txt"), "py-spy-dump").rows
    printed = only(read("py-spy-0.4.1-json-py3.11.7.json"), "py-spy-json").rows
    assert stacks(text) == stacks(printed)


def test_the_head_may_be_lost_then_the_main_thread_names_the_process():
    rows = only('Thread 30558 (idle): "MainThread"\n    wait (threading.py:324)\n', "py-spy-dump").rows
    assert [p.pid for p in of(rows, Process)] == [30558]


def test_threads_without_a_name_are_threads():
    text = 'Thread 118 (idle): "MainThread"\n    f (train.py:1)\nThread 1340 (idle)\nThread 1502 (active)\n    g (a.py:2)\n'
    rows = only(text, "py-spy-dump").rows
    assert [(t.tid, t.name) for t in of(rows, Thread)] == [(118, "MainThread"), (1340, None), (1502, None)]


def test_two_dumps_of_one_process_are_two_looks():
    dump = 'Thread 7 (idle): "MainThread"\n    {} (train.py:{})\n'
    frames = store(dump.format("load", 3) + dump.format("step", 9)).rows("frames")
    assert [(f.thread, f.sample, f.function) for f in frames] == [("h1/7/7", 0, "load"), ("h1/7/7", 1, "step")]


def test_json_cut_at_both_ends_keeps_the_threads_that_are_whole():
    lines = read("py-spy-0.4.1-json-py3.11.7.json").split("\n")
    assert {b.kind for b in blocks("\n".join(lines[:200]))} == {"py-spy-json"}
    rest = [b for b in blocks("\n".join(lines[20:])) if b.kind == "py-spy-json"]
    assert sum(len(of(b.rows, Thread)) for b in rest) == 6


def test_py_spy_itself_is_read(tmp_path):
    tool = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if tool is None:
        pytest.skip("py-spy is not installed")
    job = subprocess.Popen([sys.executable, "-c", f"print(flush=True); {WAITS}"], stdout=subprocess.PIPE)
    try:
        assert job.stdout is not None
        job.stdout.readline()
        done = subprocess.run([tool, "dump", "--pid", str(job.pid)], capture_output=True, text=True, timeout=60)
    finally:
        job.kill()
        job.wait()
    if done.returncode:
        pytest.skip(f"py-spy may not look here: {done.stderr[:80]}")
    rows = only(done.stdout, "py-spy-dump").rows
    assert [p.pid for p in of(rows, Process)] == [job.pid]
    assert "wait" in stacks(rows)[f"h1/{job.pid}/{job.pid}"]


# --- faulthandler ---


def test_a_dump_after_a_wait_says_how_long_and_which_thread_is_the_main_one():
    rows = only(read("faulthandler-later-py3.13.0.txt"), "faulthandler").rows
    (error,) = of(rows, LoggedError)
    assert (error.kind, error.timeout_s) == ("timeout", 2.0)
    main = next(thread for thread in of(rows, Thread) if thread.is_main)
    assert stacks(rows)[main.id] == ["wait", "get", "wait_for_batch", "<module>"]


def test_a_fatal_error_is_the_end_of_the_process():
    rows = only(read("faulthandler-sigsegv-py3.12.1.txt"), "faulthandler").rows
    (error,), (process,) = of(rows, LoggedError), of(rows, Process)
    assert (error.kind, error.type) == ("fatal", "Segmentation fault")
    assert (process.state, process.exit_status) == ("X", -11)


def test_the_c_stack_of_newer_versions_stands_beside_the_python_one():
    text = (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f00aa [python] (most recent call first):\n"
        '  File "/job/a.py", line 4 in step\n\nCurrent thread\'s C stack trace (most recent call first):\n'
        '  Binary file "/usr/lib/libpython3.14.so", at _Py_DumpStack+0x31 [0x7f01aa]\n'
        '  Binary file "/job/native/x.so", at +0x1234 [0x7f02bb]\n  <truncated rest of calls>\n\n'
        "Extension modules: numpy._core (total: 1)\n"
    )
    rows = only(text, "faulthandler").rows
    assert [(f.sample, f.kind, f.function) for f in of(rows, Frame)] == [
        (0, "python", "step"), (NATIVE_SAMPLE, "native", "_Py_DumpStack"), (NATIVE_SAMPLE, "native", "0x7f02bb"),
    ]  # fmt: skip


def test_dumps_of_one_process_an_hour_apart_are_looks_at_one_process():
    dump = 'Timeout (1:00:00)!\nThread 0x00007f00aa (most recent call first):\n  File "/job/a.py", line {} in step\n'
    found = store(dump.format(4) + "step 3\n" + dump.format(9))
    assert [(f.thread, f.sample, f.line_no) for f in found.rows("frames")] == [
        ("h1/-1/pthread-0x7f00aa", 0, 4), ("h1/-1/pthread-0x7f00aa", 1, 9),
    ]  # fmt: skip
    assert [e.timeout_s for e in found.rows("errors")] == [3600.0, 3600.0]


def test_ranks_that_dump_at_once_are_told_apart_by_their_prefix():
    lines = [
        "Timeout (0:10:00)!", "Thread 0x00007f00{r}a (most recent call first):", '  File "/job/a.py", line 4 in step',
        '  File "/job/a.py", line 9 in <module>',
    ]  # fmt: skip
    text = "\n".join(f"[rank{r}]: {line.format(r=r)}" for line in lines for r in (0, 1))
    found = store(text)
    assert sorted((p.rank, p.pid) for p in found.rows("processes")) == [(0, -1), (1, -2)]
    assert len({frame.thread for frame in found.rows("frames")}) == 2


def test_faulthandler_itself_is_read():
    code = "import faulthandler, time; faulthandler.dump_traceback_later(0.2, exit=True); time.sleep(60)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    rows = only(done.stderr, "faulthandler").rows
    assert of(rows, LoggedError)[0].timeout_s == pytest.approx(0.2)
    assert [thread.is_main for thread in of(rows, Thread)] == [True]


# --- gdb and its kin ---


def test_a_frame_that_the_terminal_has_wrapped_is_one_frame():
    rows = only(read("gdb-terminal.txt"), "gdb-backtrace").rows
    assert stacks(rows) == {
        "h1/9120/9120": ["__futex_abstimed_wait_common64", "__pthread_clockjoin_ex", "std::thread::join",
                         "pool::Pool::~Pool", "__run_exit_handlers"],
        "h1/9120/9125": ["__lll_lock_wait", "lll_mutex_lock_optimized", "___pthread_mutex_lock", "pool::Queue::pop",
                         "start_thread"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("printed", "function", "module"),
    [
        ("#0  0x00007f2d6b8a1c37 in std::thread::join() () from /lib/libstdc++.so.6", "std::thread::join", "/lib/libstdc++.so.6"),
        ("#0  0x00007f in pthread_cond_wait@@GLIBC_2.3.2 () from /lib64/libpthread.so.0", "pthread_cond_wait", "/lib64/libpthread.so.0"),
        ("#0  0x00007fc4a1d7e2b6 in ?? () from /usr/lib/libcuda.so.1", "0x00007fc4a1d7e2b6", "/usr/lib/libcuda.so.1"),
        ("#0  0x0000 in (anonymous namespace)::run<int (*)(char)>(int) const [clone .isra.0] (x=3)", "(anonymous namespace)::run<int (*)(char)>", None),
        ("#0  0x00007fd0b8c64f13 - /usr/lib/libc.so.6", "0x00007fd0b8c64f13", "/usr/lib/libc.so.6"),
    ],
)  # fmt: skip
def test_a_native_frame_has_a_short_name_and_a_module(printed, function, module):
    (frame,) = of(only(printed, "gdb-backtrace").rows, Frame)
    assert (frame.kind, frame.function, frame.module) == ("native", function, module)


def test_frames_may_be_missing_and_so_may_the_heads():
    text = (
        "Thread 43 (Thread 0x7f0e4dffb700 (LWP 19375)):\n#0  0x00007f in ?? () from /usr/lib64/libcuda.so.1\n"
        "#9  0x00007f in cudaStreamSynchronize () from /opt/libcudart.so.11.0\n#13 0x00007f in ncclCommAbort (comm=0x1)\n"
        "Thread 1 (Thread 0x7f117bb0a740 (LWP 19102)):\n#0  0x00007f in ?? () from /usr/lib64/libcuda.so.1\n"
    )
    rows = only(text, "gdb-backtrace").rows
    assert [(t.pid, t.tid, t.is_main) for t in of(rows, Thread)] == [(19102, 19375, False), (19102, 19102, True)]


def test_c_stacks_without_any_head_are_threads_of_one_process():
    main = "#0  0x00007f01 in std::thread::join() () from /lib/libstdc++.so.6\n#1  0x00007f02 in main ()\n"
    other = "#1  0x00007f03 in __cxa_thread_atexit_impl\n#2  0x00007f04 in start_thread\n"
    found = store(main, other)
    assert [(t.id, t.is_main) for t in found.rows("threads")] == [("h1/-1/1", True), ("h1/-1/2", False)]


def test_python_frames_as_gdb_prints_them_are_python_frames():
    old = "(gdb) py-bt\n#5 Frame 0x7f6088003a50, for file /usr/lib/python2.7/multiprocessing/queues.py, line 131, in get (self=1)\n"
    (frame,) = of(only(old, "gdb-backtrace").rows, Frame)
    assert (frame.kind, frame.function, frame.line_no) == ("python", "get", 131)
    text = 'Traceback (most recent call first):\n  Waiting for the GIL\n  File "/job/a.py", line 4, in step\n    lock.acquire()\n'
    (frame,) = of(only(text, "gdb-backtrace").rows, Frame)
    assert (frame.function, frame.is_user) == ("step", True)


def test_the_backtrace_below_a_list_of_threads_is_of_the_one_that_is_marked():
    text = (
        "(gdb) info threads\n  Id   Target Id                                Frame\n"
        '* 1    Thread 0x7f6a51b2a740 (LWP 311) "python" __lll_lock_wait () at lowlevellock.c:52\n'
        "(gdb) bt\n#0  __lll_lock_wait () at lowlevellock.c:52\n#1  0x00007f6a51c020a3 in pthread_mutex_lock ()\n...\n"
        "#9  0x0000562b in os_fork (module=<optimized out>) at posixmodule.c:6277\n"
    )
    rows = only(text, "gdb-backtrace").rows
    assert stacks(rows) == {"h1/311/311": ["__lll_lock_wait", "pthread_mutex_lock", "os_fork"]}
    assert [p.threads_total for p in of(rows, Process)] == [1]


def test_a_backtrace_before_the_list_of_threads_is_of_the_thread_that_the_list_marks():
    text = (
        "#0  0x00007f01 in syscall () from /lib64/libc.so.6\n"
        "#1  0x00007f02 in rayon_core::latch::LockLatch::wait () from /opt/words.so\n"
        "(gdb) info threads\n  Id   Target Id                                Frame\n"
        '* 1    Thread 0x7f2a5e1fa740 (LWP 388) "python3" 0x00007f01 in syscall () from /lib64/libc.so.6\n'
    )
    rows = only(text, "gdb-backtrace").rows
    assert stacks(rows) == {"h1/388/388": ["syscall", "rayon_core::latch::LockLatch::wait"]}
    assert [t.is_main for t in of(rows, Thread)] == [True]


def test_the_marked_line_of_py_list_is_where_python_stands():
    text = (
        "Thread 1 (Thread 0x7fd2b3c4e740 (LWP 13)):\n#0  0x00007f01 in sched_yield () from /lib64/libc.so.6\n"
        "#1  0x00007f02 in __kmp_acquire_ticket_lock () from /opt/libiomp5.so\n"
        "(gdb) py-list\n  10    def start():\n >11        child = os.fork()\n  12        return child\n"
    )
    frames = of(only(text, "gdb-backtrace").rows, Frame)
    (python,) = (frame for frame in frames if frame.kind == "python")
    assert [(line.line, line.text) for line in python.source] == [(11, "child = os.fork()")]
    assert [f.function for f in frames if f.kind == "native"] == ["sched_yield", "__kmp_acquire_ticket_lock"]


def test_a_shortened_head_may_have_the_innermost_frame_behind_it():
    text = 'Thread 7 "python" #0 pthread_mutex_lock () from libc.so.6\n#1  ?? () from libcupti.so.12\nThread 1 "python"\n#0  read ()\n#1  main ()\n'
    rows = only(text, "gdb-backtrace").rows
    assert [(t.name, t.is_main) for t in of(rows, Thread)] == [("python", False), ("python", True)]
    assert list(stacks(rows).values()) == [["pthread_mutex_lock", "??"], ["read", "main"]]


def test_a_list_of_threads_that_was_cut_out_does_not_say_how_many_there_are():
    rows = only(
        '* 3    Thread 0x7f6a51b2a740 (LWP 311) "python" futex_wait (val=1) at futex.h:97\n', "gdb-backtrace"
    ).rows
    assert [p.threads_total for p in of(rows, Process)] == [None]


def test_a_frame_of_python_among_the_arguments_of_the_interpreter_is_one():
    text = (
        "#0  0x00007f01 in do_futex_wait () from /lib64/libpthread.so.0\n"
        "#5  0x0000563c in _PyEval_EvalFrameDefault (f=Frame 0x7f0c48, for file /usr/lib/python3.8/logging/__init__.py, "
        "line 1086, in flush (self=<Handler at remote 0x7f0c>), throwflag=0) at ceval.c:738\n"
        "#9  (file /job/work.py, line 12, in report)\n"
    )
    frames = of(only(text, "gdb-backtrace").rows, Frame)
    assert [(f.kind, f.function, f.line_no) for f in frames] == [
        ("native", "do_futex_wait", None), ("native", "_PyEval_EvalFrameDefault", 738), ("python", "flush", 1086),
        ("python", "report", 12),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["#42 is broken (see above)", "#1: fix the bug", "# hello\n#2 more\n", "Thread 5 (idle hands)"]
)
def test_prose_with_numbers_is_no_stack(text):
    assert {block.kind for block in blocks(text)} == {"log"}


# --- the kernel's stack ---


def test_the_prompt_above_a_kernel_stack_names_its_task():
    found = [b for b in blocks(read("kernel-stacks.txt")) if b.kind == "kernel-stack"]
    tasks = [(t.pid, t.tid, t.is_main, t.wchan) for b in found for t in of(b.rows, Thread)]
    assert tasks == [(3311, 3311, True, "nfs_wait_bit_killable"), (3311, 3320, False, "futex_wait_queue_me"),
                     (3400, 3400, True, "pipe_wait")]  # fmt: skip
    frames = of(found[0].rows, Frame)
    assert {frame.sample for frame in frames} == {KERNEL_SAMPLE}
    assert frames[0].module == "nfs"


def test_wchan_runs_into_the_stack_that_follows_it():
    block = next(b for b in blocks(read("proc-wchan-stack-syscall-py3.11.7.txt")) if b.kind == "kernel-stack")
    assert of(block.rows, Thread)[0].wchan == "anon_pipe_read"
    assert stacks(block.rows)["h1/0/1"][0] == "anon_pipe_read"


def test_a_dump_that_is_no_list_of_threads_is_no_dump():
    assert {block.kind for block in blocks(json.dumps([{"pid": 3, "name": "x"}], indent=1))} == {"log"}


# --- asyncio ---


def test_every_task_that_waits_for_no_other_one_is_a_stack():
    block = only(read("asyncio-tree.txt"), "asyncio-tree")
    assert block.about == "3 tasks"
    names = {thread.id: thread.name for thread in of(block.rows, Thread)}
    assert {names[thread]: functions[:2] for thread, functions in stacks(block.rows).items()} == {
        "task fetch-a": ["read", "read_all"], "task fetch-b": ["wait", "wait_turn"],
    }  # fmt: skip


# --- source lines ---


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("gdb-backtrace", 'Thread 1 (Thread 0x7f2c8ad0f000 (LWP 51) "python"):\nTraceback (most recent call first):\n'
                          '  File "/job/till.py", line 8, in pay\n    with self._till_lock:\n'
                          '  File "/job/run.py", line 3, in <module>\n    pay()\n'),
        ("pystack", "Traceback for thread 51 (python) [] (most recent call last):\n"
                    '    (Python) File "/job/run.py", line 3, in <module>\n        pay()\n'
                    '    (Python) File "/job/till.py", line 8, in pay\n        with self._till_lock:\n'),
    ],
)  # fmt: skip
def test_the_line_below_a_frame_is_its_source(kind: str, text: str):
    frames = of(only(text, kind).rows, Frame)
    code = {frame.function: [line.text for line in frame.source] for frame in frames}
    assert code == {"pay": ["with self._till_lock:"], "<module>": ["pay()"]}
