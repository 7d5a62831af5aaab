"""What macOS tells of a process: sample's tree of calls and its images, vmmap's mapped files."""

from __future__ import annotations

from parsing import blocks_of, only, rows_of

from flatline.bundle.facts import Frame, Library, Process, Thread

SAMPLE = """\
Analysis of sampling python3.11 (pid 811) every 1 millisecond
Process:         python3.11 [811]
Path:            /opt/v/bin/python3.11
Parent Process:  zsh [700]

Date/Time:       2026-01-02 03:04:05.678 +0100
----

Call graph:
    900 Thread_1a2b   DispatchQueue_1: com.apple.main-thread  (serial)
    + 900 start  (in dyld) + 520  [0x102e9d088]
    +   900 Py_BytesMain  (in python3.11) + 40  [0x1028a1234]
    +     700 at::native::addmm(at::Tensor const&, long)  (in libtorch_cpu.dylib) + 12  [0x10a0b1234]
    +     ! 700 __kmp_join_barrier  (in libomp.dylib) + 812  [0x1050e1234]
    +     200 PyEval_RestoreThread  (in python3.11) + 8  [0x1a2b3c4d0]
    900 Thread_1a2c
    + 900 thread_start  (in libsystem_pthread.dylib) + 8  [0x1a2b3c400]
    +   900 ???  (in libiomp5.dylib)  load address 0x1060d0000 + 0x1234  [0x1060d1234]

Total number in stack (recursive counted multiple, when >=5):

Sort by top of stack, same collapsed (when >= 5):
        __kmp_join_barrier  (in libomp.dylib)        700

Binary Images:
       0x10283c000 -        0x10283ffff +python3.11 (???) <12345> /opt/v/bin/python3.11
       0x1050d0000 -        0x10515ffff +libomp.dylib (0) <AAAA> /opt/v/torch/lib/libomp.dylib
       0x1060d0000 -        0x10615ffff +libiomp5.dylib (0) <BBBB> /opt/v/lib/libiomp5.dylib
"""
VMMAP = """\
$ vmmap 811 | grep -i omp
__TEXT                      105f3c000-105fb8000    [  496K   496K     0K     0K] r-x/rwx SM=COW          /opt/v/torch/lib/libomp.dylib
__TEXT                      11b3c4000-11b440000    [  496K   400K     0K     0K] r-x/rwx SM=COW          /opt/v/sklearn/.dylibs/libomp.dylib
"""
MAPS = """\
$ grep omp /proc/811/maps
7f0000000000-7f0000001000 r--p 00000000 08:01 77                         /v/torch/lib/libgomp-a34b.so.1
7f0000001000-7f0000002000 r-xp 00001000 08:01 77                         /v/torch/lib/libgomp-a34b.so.1
7f0000009000-7f000000a000 r-xp 00001000 08:01 78                         /usr/lib/libgomp.so.1
"""


def test_of_each_thread_the_way_on_which_it_was_seen_most():
    block = only(SAMPLE, "macos-sample")
    assert [row.pid for row in rows_of(block, Process)] == [811]
    main, other = rows_of(block, Thread)
    assert (main.is_main, main.tid, other.is_main) == (True, 811, False)
    frames = [(row.depth, row.function, row.module) for row in rows_of(block, Frame) if row.thread == main.id]
    assert frames == [
        (0, "__kmp_join_barrier", "libomp.dylib"),
        (1, "at::native::addmm", "libtorch_cpu.dylib"),
        (2, "Py_BytesMain", "python3.11"),
        (3, "start", "dyld"),
    ]


def test_each_of_two_runtimes_knows_of_the_other():
    ours, theirs = rows_of(only(SAMPLE, "macos-sample"), Library)
    assert (ours.path, ours.duplicate_of) == ("/opt/v/torch/lib/libomp.dylib", (theirs.path,))


def test_what_is_mapped_is_told_by_vmmap_and_the_kernel():
    for text in (VMMAP, MAPS):
        rows = [row for block in blocks_of(text) for row in rows_of(block, Library)]
        assert len(rows) == 2
        assert {row.process for row in rows} == {"h1/811"}
        assert all(row.duplicate_of and row.family == "OpenMP" for row in rows)
