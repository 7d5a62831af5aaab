"""Stacks that a person wrote into a line."""

from __future__ import annotations

import time

import pytest
from flatline.analyzer.intake.cleaning import clean
from flatline.analyzer.parsers.interface import Parsed
from flatline.analyzer.parsers.stack_in_line import parse

from flatline.bundle.facts import Frame, Thread


def read(text: str) -> Parsed | None:
    return parse([clean(number, line) for number, line in enumerate(text.split("\n"), start=1)], 0)


def stacks(text: str) -> list[tuple[int | None, list[str]]]:
    """The rank and the functions, innermost first, of each thread."""
    found = read(text)
    rows = found.rows if found is not None else ()
    frames = [row for row in rows if isinstance(row, Frame)]
    threads = [row for row in rows if isinstance(row, Thread)]
    return [(t.rank, [frame.function for frame in frames if frame.thread == t.id]) for t in threads]


def test_every_line_is_the_stack_of_a_process_of_its_own() -> None:
    text = (
        "rank 0: barrier (distributed_c10d.py:2776) <- save (fit.py:20) <- main (fit.py:31)\n"
        "rank 1: all_reduce (distributed_c10d.py:2050) <- step (fit.py:18) <- main (fit.py:30)"
    )
    assert stacks(text) == [(0, ["barrier", "save", "main"]), (1, ["all_reduce", "step", "main"])]


@pytest.mark.parametrize(
    "text",
    [
        "main (fit.py:31) -> save (fit.py:20) -> barrier (distributed_c10d.py:2776)",
        "fit.py:31 main → fit.py:20 save → distributed_c10d.py:2776 barrier",
        "- `fit.py:main:31 > fit.py:save:20 > distributed_c10d.py:barrier:2776`",
        "barrier (distributed_c10d.py:2776)\n  <- save (fit.py:20)\n  <- main (fit.py:31)",
        "barrier ← save ← main ← _run_module_as_main",
    ],
)
def test_the_innermost_frame_comes_first_whichever_way_the_arrows_point(text: str) -> None:
    assert stacks(text)[0][1][:3] == ["barrier", "save", "main"]


def test_a_place_is_read_from_either_side_of_the_name() -> None:
    found = read("save (fit.py:20) <- fit.py:31 in main")
    assert found is not None
    assert [(f.file, f.line_no) for f in found.rows if isinstance(f, Frame)] == [("fit.py", 20), ("fit.py", 31)]


@pytest.mark.parametrize(
    "text",
    [
        "loss 3.1 -> 2.9 -> 2.7",
        "renaming a.py -> b.py",
        "copying src/a.py -> build/a.py",
        "conv1 -> bn1 -> relu",
        "x < y",
    ],
)
def test_other_arrows_are_no_stack(text: str) -> None:
    assert read(text) is None


def test_blanks_between_two_frames_cost_what_they_are_long() -> None:
    begin = time.process_time()
    assert stacks(f"barrier (a.py:1) <-{' ' * 30000}save (fit.py:20) <- main (fit.py:31){' ' * 30000}<- cli") == [
        (None, ["barrier", "save", "main", "cli"])
    ]
    assert read(f"main (a.py:1) -> {' ' * 60000}b (c.py:3) x") is None
    assert time.process_time() - begin < 8, "some milliseconds where nothing else runs; quadratic would be a minute"
