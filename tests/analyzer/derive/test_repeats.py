"""Facts about logs that grow by the same complaint alone: no progress, and the verdict says what they say."""

from __future__ import annotations

import pytest
from builders import SLEEP, USER, Job
from flatline.analyzer.derive.logs.reading import read_logs
from flatline.analyzer.derive.logs.repeats import repeating

from flatline.bundle.facts import Log, LogSample

PATH = "/job/train.log"
RETRIES = "loading\n" + "".join(f"Retrying in {n}s: HTTP Error 503: Service Unavailable\n" for n in (1, 2, 4))
TWO_LINES = "connecting to store\nconnection refused, will try again\n" * 3


def repeated(text: str) -> dict[str, str]:
    return repeating(read_logs([Log("file", "file", PATH)], lambda _: text))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (RETRIES, "Retrying in 4s: HTTP Error 503: Service Unavailable"),
        (TWO_LINES, "connection refused, will try again"),
        ("waiting for rank 0 (3 s)\nwaiting for rank 0 (6 s)\nwaiting for rank 0 (9 s)\n", "waiting for rank 0 (9 s)"),
    ],
)
def test_the_same_complaint_three_times_over_is_found_whatever_its_numbers(text, complaint):
    assert repeated(text) == {PATH: complaint}


@pytest.mark.parametrize(
    "text",
    [
        "step 1 loss 2.3\nstep 2 loss 2.2\nstep 3 loss 2.1\n",  # the same shape, and no complaint
        RETRIES + "loaded 12 shards\n",  # it got on
        "cannot open a.bin\ncannot open b.bin\ncannot open c.bin\n",  # each time another one
        "error: out of memory\nerror: out of memory\n",
    ],
)
def test_what_is_said_twice_or_says_something_new_is_progress(text):
    assert repeated(text) == {}


@pytest.mark.parametrize(
    ("text", "wchar", "state"),
    [
        (RETRIES, (0, 52, 104), "waiting"),
        (RETRIES, (0, 5_000, 9_000), "healthy"),  # it writes something else as well
        ("step 1\nstep 2\nstep 3\n", (0, 7, 14), "healthy"),
    ],
)
@pytest.mark.parametrize("stored", [0, 4096], ids=["in memory", "on a disk"])
def test_a_sleeper_whose_log_only_complains_does_not_get_on(text, wchar, state, stored):
    job = Job()
    job.process(12, relation="target")
    job.thread(12, syscall=SLEEP, switches=(0, 2, 4), stacks=((USER, "fetch", 9), (USER, "main", 3)))
    job.io(12, wchar=wchar, stored=stored)
    job.add("logs", Log("file", "file", PATH, process="h1/12", writers=("h1/12",), last_line=text))
    for look, size in enumerate((100, 152, 204)):
        job.add("log_samples", LogSample(PATH, look, look, size))
    verdict = job.derived()[0].verdict
    assert verdict.state == state
    if state == "waiting":
        assert "says each time: Retrying in" in (verdict.outlook or "")
        assert verdict.by_design is None
