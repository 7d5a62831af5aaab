"""What a log driver has put before all lines is taken away; what a program begins its lines with stays."""

from __future__ import annotations

import pytest
from flatline.analyzer.intake.cleaning import line_of
from flatline.analyzer.intake.envelopes import NONE, envelope_of

LOG = ["Epoch 3: loss 0.41", "Traceback (most recent call last):", '  File "train.py", line 7, in main', "KeyError: 'x'"]


@pytest.mark.parametrize(
    ("around", "time"),
    [
        ("2026-03-01T10:00:0{}.123456789Z ", "2026-03-01T10:00:0{}.123456789Z"),
        ("2026-03-01T10:00:0{}.1Z 01O ", "2026-03-01T10:00:0{}.1Z"),
        ("trainer-1  | ", None),
        ("[pod/trainer-0/main] ", None),
        ("[pod/trainer-0/main] 2026-03-01T10:00:0{}Z ", None),
        ("Mar 01 10:00:0{} gn07 train[4711]: ", "Mar 01 10:00:0{}"),
        ("[2026-03-01, 10:00:0{} UTC] {{bash.py:93}} INFO - ", "2026-03-01, 10:00:0{} UTC"),
        ("gn07: ", None),
        ("    ", None),
        ("\t", None),
    ],
)
def test_an_envelope_around_all_lines_is_opened(around, time):
    raw = [around.format(number) + line for number, line in enumerate(LOG)]
    lines = [line_of(number, text, envelope_of(raw)) for number, text in enumerate(raw, 1)]
    assert [line.text for line in lines] == [line.shown for line in lines] == LOG
    if time is not None:
        assert [line.time for line in lines] == [time.format(number) for number in range(len(LOG))]


def test_names_of_several_writers_stay_in_what_is_shown():
    raw = [f"trainer-{number % 2}  | {line}" for number, line in enumerate(LOG)]
    lines = [line_of(1, text, envelope_of(raw)) for text in raw]
    assert [line.text for line in lines] == LOG
    assert [line.shown for line in lines] == raw


def test_a_line_that_a_person_wrote_above_takes_none_away():
    raw = ["it prints this and then nothing:", *(f"trainer-1  | {line}" for line in LOG)]
    assert [line_of(1, text, envelope_of(raw)).text for text in raw] == [raw[0], *LOG]


@pytest.mark.parametrize(
    "lines",
    [
        LOG,
        [f"rank{n}: step {n}" for n in range(9)],
        ["wandb: a", "wandb: b", "wandb: c"],
        ["2026-03-01 10:00:00,123 INFO step 1", "2026-03-01 10:00:01,123 INFO step 2", "2026-03-01 10:00:02,123 INFO step 3"],
        [f"2026-03-01T10:00:0{n}+0100 gn07 kernel: NVRM: Xid 79" for n in range(5)],
        [f"gn0{n}: NVIDIA H200" for n in range(5)],
        ["step1 | 2.1", "step2 | 2.0", "step3 | 1.9"],
        ["+-----+-----+", "| GPU | Mem |", "|   0 | 1   |"],
        ["name-1  | a"],
        [],
    ],
)  # fmt: skip
def test_what_lines_say_of_themselves_is_no_envelope(lines):
    assert envelope_of(lines) == NONE
