"""Whether a log was late, by its own pace, when somebody looked at the clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from flatline.analyzer.derive import derive
from flatline.analyzer.derive.logs.pace import pace_of
from flatline.analyzer.derive.logs.progress import progress_of
from flatline.analyzer.intake.cleaning import clean
from flatline.analyzer.intake.opening import open_case


def state_of(tmp_path: Path, *texts: str) -> str:
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
    with open_case([tmp_path]) as case:
        return derive(case).verdict.state


def steps(*minutes: int, line: str = "step {n}0 loss 0.4", hour: int = 9) -> str:
    return "".join(f"[2025-04-11 {hour:02d}:{m:02d}:05] {line.format(n=n)}\n" for n, m in enumerate(minutes, 7))


def clock(time: str) -> str:
    return f"$ date\nFri Apr 11 {time} UTC 2025\n"


PARTS = "".join(
    f"2025-04-11 09:{m}:05 {{'loss': 0.9, 'epoch': {part}}}\n" for m, part in ((10, 0.41), (13, 0.42), (16, 0.42))
)


@pytest.mark.parametrize(
    ("log", "looked", "state"),
    [
        (steps(10, 13, 16), "09:18:30", "healthy"),
        (PARTS, "09:18:30", "healthy"),
        (steps(10, 22, 35, line="step {n} loss 0.4"), "09:40:00", "slow"),
        (steps(10, 40, 58, line="epoch {n} done"), "09:59:00", "healthy"),
        (steps(10, 13, 16), "13:37:00", "hung"),
        (steps(10, 13, 16), "17:19:00", "unknown"),
        (steps(10, 13, 16), "09:31:00", "unknown"),
        (steps(10, 13, 16), "09:15:00", "unknown"),
        (steps(10, 16), "09:18:30", "unknown"),
        (steps(10, 13, 16, line="step 70 is not done yet"), "09:18:30", "unknown"),
        (steps(10, 13, 16) + "waiting for rank 3\n", "09:18:30", "waiting"),
        (steps(10, 13, 16) + "RuntimeError: bad batch\n", "09:18:30", "crashed"),
    ],
    ids=[
        "not late",
        "parts of an epoch",
        "minutes for a step",
        "minutes for an epoch",
        "hours without a step",
        "a clock of another zone, or hours",
        "late",
        "a clock that is behind",
        "no pace yet",
        "the same step",
        "it waits",
        "it ended",
    ],
)
def test_a_log_is_late_by_its_own_pace(tmp_path: Path, log: str, looked: str, state: str) -> None:
    assert state_of(tmp_path, log, clock(looked)) == state


def test_without_a_clock_nobody_knows_what_came_after_the_last_step(tmp_path: Path) -> None:
    assert state_of(tmp_path, steps(10, 13, 16)) == "unknown"


def test_months_without_a_year_and_days_that_may_be_months(tmp_path: Path) -> None:
    month = steps(10, 13, 16).replace("2025-04-11", "Apr 11")
    assert state_of(tmp_path, month, clock("09:18:30")) == "healthy"
    assert state_of(tmp_path, month, clock("13:37:00")) == "hung"
    assert state_of(tmp_path, steps(10, 13, 16).replace("2025-04-11", "11/04"), clock("13:37:00")) == "unknown"


def test_a_bar_has_a_clock_of_its_own() -> None:
    bars = [f"  3%|▎         | {n}/400 [0{n}:10<6:31:04, 57.70s/it]" for n in (6, 7, 8)]
    pace = pace_of(state for n, line in enumerate(bars) for state in progress_of(clean(n, line)))
    assert pace is not None
    assert (pace.at, pace.pause_s, pace.seconds_each) == (None, 60.0, 60.0)


def test_the_rank_that_got_on_last_tells(tmp_path: Path) -> None:
    assert state_of(tmp_path, steps(10, 13, 16, hour=6), steps(10, 13, 16), clock("09:18:30")) == "healthy"


@pytest.mark.parametrize(
    "shown", ["Fri 11 Apr 2025 09:18:30 AM UTC", "Fri Apr 11 09:18:30 2025", "Fri Apr 11 09:18:30 AM CEST 2025"]
)
def test_a_clock_is_read_in_every_form(tmp_path: Path, shown: str) -> None:
    assert state_of(tmp_path, steps(10, 13, 16), f"$ date\n{shown}\n") == "healthy"


def test_the_pace_is_that_of_steps_and_not_of_ranks() -> None:
    lines = [f"2025-04-11 09:{m}:0{rank} INFO step {m} of rank {rank}" for m in (10, 11, 12, 13) for rank in (0, 1)]
    pace = pace_of(state for n, line in enumerate(lines) for state in progress_of(clean(n, line)))
    assert pace is not None
    assert (pace.pause_s, pace.seconds_each, pace.last.done) == (60.0, 60.0, 13.0)
