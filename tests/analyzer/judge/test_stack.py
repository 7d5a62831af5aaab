"""Stacks: files by their end, functions by short or qualified name, gaps between."""

import pytest
from flatline.analyzer.judge.stack import compile_stack

from flatline.bundle.facts import Frame


def stack(*frames):
    """Outermost first: ``path:function`` or ``path:Class.function``."""
    rows = []
    for text in frames:
        file, _, name = text.rpartition(":")
        qualname = name if "." in name else None
        rows.append(Frame("h1/1/1", 0, 0, name.rpartition(".")[2], qualname=qualname, file=file))
    return rows


TRAIN = stack(
    "/job/train.py:main",
    "/v/torch/utils/data/dataloader.py:_try_get_data",
    "/usr/lib/python3.11/multiprocessing/queues.py:Queue.get",
    "/usr/lib/python3.11/multiprocessing/connection.py:poll",
)


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        (["dataloader.py:_try_get_data"], True),
        (["dataloader.py:_try_get_data", "...", "connection.py:poll"], True),
        (["dataloader.py:_try_get_data", "connection.py:poll"], False),
        (["connection.py:poll", "...", "dataloader.py:_try_get_data"], False),
        (["multiprocessing/queues.py:get"], True),
        (["multiprocessing/queues.py:Queue.get"], True),
        (["multiprocessing/queues.py:SimpleQueue.get"], False),
        (["queues.py:put|get"], True),
        (["queues.py:*", "poll"], True),
        (["ueues.py:get"], False),
        (["...", "poll"], True),
    ],
)
def test_a_pattern_fits_runs_of_frames(pattern, fits):
    assert (compile_stack(pattern).match(TRAIN) is not None) is fits


def test_older_pythons_print_the_short_name_of_a_method():
    older = stack("/usr/lib/python3.9/multiprocessing/queues.py:get")
    assert compile_stack(["queues.py:Queue.get"]).match(older)


def test_an_anchored_pattern_ends_at_the_innermost_frame():
    assert compile_stack(["connection.py:poll"], anchored=True).match(TRAIN)
    assert compile_stack(["queues.py:get"], anchored=True).match(TRAIN) is None
    assert compile_stack(["train.py:main", "...", "poll"], anchored=True).match(TRAIN)


def test_native_frames_in_which_a_lock_sleeps_do_not_hide_who_takes_it():
    pattern = compile_stack(["threading.py:__enter__"], anchored=True)
    python = stack("/job/train.py:main", "/usr/lib/python3.11/threading.py:__enter__")
    asleep = [Frame("h1/1/1", 0, 0, name, kind="native") for name in ("PyThread_acquire_lock_timed", "__futex_wait.0")]
    reads = [Frame("h1/1/1", 0, 0, "__GI___libc_read", kind="native")]
    assert [frame.function for frame in pattern.match([*python, *asleep]) or ()] == ["__enter__"]
    assert pattern.match([*python, *reads]) is None


def test_the_frames_that_fit_are_the_evidence():
    found = compile_stack(["train.py:main", "...", "poll"]).match(TRAIN)
    assert [frame.function for frame in found] == ["main", "poll"]


def test_many_gaps_over_a_deep_recursion_stay_cheap():
    deep = stack(*["/a.py:f"] * 3000)
    assert compile_stack(["f", "..."] * 50 + ["never"]).match(deep) is None
