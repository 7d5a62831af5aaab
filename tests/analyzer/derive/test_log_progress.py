"""Progress bars, in the forms in which they reach a log."""

from __future__ import annotations

import pytest
from flatline.analyzer.derive.logs.progress import Progress, progress_of
from flatline.analyzer.intake.cleaning import clean


def last(text: str) -> Progress:
    return list(progress_of(clean(1, text)))[-1]


def test_a_bar_tells_how_far_how_long_and_how_fast() -> None:
    bar = last("Map (num_proc=4):  11%|█   | 265,000/2418733 [29:56<4:03:50, 147.21 examples/s]")
    assert (bar.label, bar.done, bar.total, bar.elapsed_s, bar.left_s) == (
        "Map (num_proc=4)",
        265_000,
        2_418_733,
        1796,
        14_630,
    )
    assert bar.seconds_each == pytest.approx(1 / 147.21)
    assert bar.is_data_work
    assert not bar.is_complete


def test_a_line_that_was_overwritten_shows_its_last_state() -> None:
    states = "\r".join(f"fit: {n:3d}%|#| {n}/100 [00:{n // 2:02d}<01:00, 2.00it/s]" for n in range(0, 41, 10))
    assert (last(states).label, last(states).done) == ("fit", 40)


def test_a_slow_step_is_told_in_seconds_for_each() -> None:
    assert last("  2%|▏ | 3/200 [13:20<14:35:33, 266.67s/it, loss=1.2]").seconds_each == pytest.approx(266.67)


def test_bytes_are_a_download() -> None:
    bar = last("model.safetensors:  12%|█▏        | 1.17G/9.72G [02:11<15:48, 9.01MB/s]")
    assert (bar.is_download, bar.done, bar.total) == (True, 1.17e9, 9.72e9)


def test_a_bar_without_an_end_counts() -> None:
    assert (last("epoch 3: 264it [00:53,  4.90it/s]").done, last("264it [00:53,  4.90it/s]").total) == (264, None)


def test_a_bar_that_has_just_begun_knows_no_speed() -> None:
    bar = last("  0%|          | 0/50 [00:00<?, ?it/s]")
    assert (bar.seconds_each, bar.left_s, bar.done) == (None, None, 0)


@pytest.mark.parametrize(
    ("text", "done", "total"),
    [
        ("step 12 loss 0.2", 12, None),
        (" iteration       40/     500 | consumed samples: 1280 | loss 6.1", 40, 500),
        ("[2025-04-11 02:11:09] Epoch: [3/10]  lr 0.1", 3, 10),
        ("INFO trainer: global_step=700 loss=0.1", 700, None),
        ("{'loss': 0.9, 'learning_rate': 1e-05, 'epoch': 1.37}", 1.37, None),
        ('{"epoch": 2, "step": 340, "loss": 0.9}', 340, None),
        ("Epoch 2 | step 7/90 | loss 0.9", 7, 90),
    ],
)
def test_steps_are_counted_where_a_line_begins_with_them(text: str, done: float, total: int | None) -> None:
    assert (last(text).done, last(text).total, last(text).is_bar) == (done, total, False)


@pytest.mark.parametrize("text", ["loading weights", "100% sure", "%|%|%|", "[1/2] building", "a 5%| b"])
def test_what_is_no_bar_gives_none(text: str) -> None:
    assert list(progress_of(clean(1, text))) == []
