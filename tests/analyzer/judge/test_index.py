"""Rows looked up by value are those that a look at every row finds, in the same order."""

import pytest
from flatline.analyzer.case import FactStore
from flatline.analyzer.judge.conditions import compile_test
from flatline.analyzer.judge.index import FactIndex
from flatline.analyzer.judge.language import Operators

from flatline.bundle.facts import Frame, Syscall, Thread

STATES = ("S", "unknown", "D", "R")
THREADS = [
    Thread(f"h1/{n // 10}/{n}", f"h1/{n // 10}", n // 10, n, state=STATES[n % 4], wchan=[None, "unknown", "futex", "pipe"][n // 4 % 4],
           syscall=Syscall("read", 0, (), fd=n % 3) if n % 5 else None)
    for n in range(200)
]  # fmt: skip
FRAMES = [
    Frame(f"h1/1/{tid}", sample, depth, f"f{depth}.{tid % 2}", kind=kind, file=[None, "unknown", "a.py"][depth % 3])
    for sample in (0, 900, 1) for tid in range(8) for kind in ("native", "kernel", "python") for depth in range(4)
    if (tid, kind) != (7, "native") and not (tid == 7 and sample == 1 and kind == "python")
]  # fmt: skip
TESTS = [
    ("state", "S"), ("state", "unknown"), ("state", Operators(not_="D")), ("state", Operators(in_=["R", "unknown"])),  # pyright: ignore
    ("wchan", "futex"), ("wchan", Operators(re="^p")), ("wchan", Operators(exists=False)), ("wchan", "never"),
    ("syscall.fd", Operators(lt=2)), ("syscall.name", "read"), ("is_main", True),
]  # fmt: skip
OF_FRAMES = [
    ("kind", "kernel"), ("depth", Operators(lt=2)), ("function", Operators(ends=".1")), ("sample", 900),
    ("file", "a.py"), ("file", Operators(exists=False)), ("thread", "h1/1/3"), ("owns_gil", True),
]  # fmt: skip
CASES = [("threads", *test) for test in TESTS] + [("frames", *test) for test in OF_FRAMES]


@pytest.fixture(scope="module")
def index():
    return FactIndex(FactStore({"threads": THREADS, "frames": FRAMES}))


@pytest.mark.parametrize(("table", "field", "predicate"), CASES)
def test_the_index_and_a_look_at_every_row_agree(index, table, field, predicate):
    test = compile_test(field, predicate)
    rows = index.rows(table)
    truths = [test.truth(row, {}) for row in rows]
    true, unknown = index.passing(table, test)
    assert sorted(map(id, true)) == sorted(id(row) for row, truth in zip(rows, truths, strict=True) if truth)
    assert sorted(map(id, unknown)) == sorted(id(row) for row, truth in zip(rows, truths, strict=True) if truth is None)
    assert (len(true), len(unknown)) == (len(list(true)), len(list(unknown)))
    assert list(index.sifted(table, test, rows, guess=False)) == [r for r, t in zip(rows, truths, strict=True) if t]
    assert list(index.sifted(table, test, rows, guess=True)) == [r for r, t in zip(rows, truths, strict=True) if t is not False]  # fmt: skip


def test_the_newest_stack_is_found_among_looks_that_are_interleaved(index):
    stack = index.stack("h1/1/3")
    assert {frame.sample for frame in stack} == {1}
    assert [frame.depth for frame in stack] == [3, 3, 2, 2, 1, 1, 0, 0]
    assert [frame.kind for frame in stack[:2]] == ["native", "python"]


def test_a_deeper_look_does_not_hide_a_round_and_the_kernels_frames_are_no_stack(index):
    assert {(frame.sample, frame.kind) for frame in index.stack("h1/1/7")} == {(0, "python")}
    alone = FactIndex(FactStore({"frames": [frame for frame in FRAMES if frame.kind == "kernel"], "threads": THREADS}))
    assert alone.stack("h1/1/3") == []
    assert not alone.stacks.has("h1/1")
    assert not alone.stacks.is_known("h1/1/3")


def test_frames_of_threads_that_nobody_named_are_rows_and_no_stack():
    frames = [Frame("unknown", 0, 0, "f"), Frame("h1/1/1", 0, 0, "f")]
    index = FactIndex(FactStore({"frames": frames, "threads": THREADS}))
    assert list(index.passing("frames", compile_test("function", "f"))[0]) == frames
    assert index.stack("unknown") == []
