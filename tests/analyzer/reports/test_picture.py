"""The picture of the chain: every step in it, the end emphasised, equal ones together, and nothing drawn over another."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from builders import FUTEX_FOR_EVER, SLEEP, USER, Job, reads, waits_for_child, writes
from flatline.analyzer.analysis import analyze
from flatline.analyzer.case import case_of
from flatline.analyzer.reports import render
from flatline.analyzer.reports.view import view_of

from flatline.bundle.facts import Syscall

SITE, LIB = "/v/lib/python3.11/site-packages/torch", "/usr/lib/python3.11"
IDLE = ((f"{LIB}/multiprocessing/queues.py", "get", 113), (f"{SITE}/utils/data/_utils/worker.py", "_worker_loop", 253))
REDUCES = ((f"{SITE}/distributed/distributed_c10d.py", "all_reduce", 2801), (USER, "step", 10))
LOADS = ((f"{LIB}/multiprocessing/queues.py", "get", 113), (f"{SITE}/utils/data/dataloader.py", "_try_get_data", 1120),
         (USER, "main", 3))  # fmt: skip


def pipe_full() -> Job:
    job = Job()
    job.process(12, relation="target")
    job.process(13, ppid=12)
    job.thread(12, syscall=waits_for_child(13), stacks=((USER, "main", 3),))
    job.thread(13, syscall=writes(2), wchan="pipe_write", stacks=((USER, "step", 10),))
    job.pipe(771, reader=(12, 5), writer=(13, 2))
    return job


def many(ranks: int = 25, workers: int = 7) -> Job:
    """Rank 1 waits for a worker that a lock holds; all other ranks wait for rank 1, all other workers for work."""
    job = Job()
    job.process(10, relation="target", role="launcher")
    job.thread(10, syscall=waits_for_child(-1), stacks=((USER, "launch", 9),))
    for rank in range(ranks):
        pid = 100 + rank * 20
        job.process(pid, ppid=10, role="rank", rank=rank, world_size=ranks)
        call = Syscall("poll", 7, (1, 1), timed=True) if rank == 1 else FUTEX_FOR_EVER
        job.thread(pid, syscall=call, switches=(0, 1, 2) if rank == 1 else (0, 0, 0), stacks=LOADS if rank == 1 else REDUCES)
        for worker in range(pid + 1, pid + 1 + workers):
            held = rank == 1 and worker == pid + 1
            job.process(worker, ppid=pid, role="dataloader-worker", start_method="fork")
            job.thread(worker, syscall=FUTEX_FOR_EVER if held else reads(5), stacks=(("/job/data.py", "load", 21),) if held else IDLE)
    return job


def picture(job: Job):
    case = case_of(job.store)
    drawn = view_of(analyze(case), case).picture
    assert drawn is not None
    return drawn


def test_a_cycle_of_two_is_two_boxes_and_an_arrow_back():
    drawn = picture(pipe_full())
    assert [box.role for box in drawn.boxes] == ["end", "end"]
    assert [(arrow.label, arrow.strength) for arrow in drawn.arrows] == [("child, proven", "proven"), ("pipe write, proven", "proven")]


def test_two_hundred_processes_are_a_handful_of_boxes():
    drawn = picture(many())
    assert len(drawn.boxes) <= 10
    assert sum(box.count for box in drawn.boxes) >= 200
    assert any("161 processes like this" in box.lines[0] for box in drawn.boxes)


def test_the_end_is_emphasised_and_says_why_it_goes_no_further():
    ends = [box for box in picture(many()).boxes if box.role == "end"]
    assert len(ends) == 1
    assert "nobody" in ends[0].lines[0]
    assert "Here it ends" in ends[0].lines[1]


def test_every_arrow_has_the_strength_of_its_wait():
    drawn = picture(many())
    assert [a.strength for a in drawn.arrows if a.role == "step"] == ["strong", "strong", "proven"]
    assert {a.strength for a in drawn.arrows} <= {"proven", "strong", "suggested"}


@pytest.mark.parametrize("job", [pipe_full, many])
def test_no_box_lies_over_another_and_all_lie_within_the_picture(job):
    drawn = picture(job())
    for number, box in enumerate(drawn.boxes):
        assert 0 <= box.x <= drawn.width - 330
        assert box.bottom <= drawn.height
        beside = [b for b in drawn.boxes[number + 1 :] if b.x == box.x]
        assert all(other.y >= box.bottom or other.bottom <= box.y for other in beside)


def test_a_job_that_only_sleeps_is_drawn_as_well():
    job = Job()
    job.process(12, relation="target")
    job.thread(12, syscall=SLEEP, switches=(0, 1, 2), stacks=((USER, "main", 3),))
    assert [box.role for box in picture(job).boxes] == ["step", "end"]


def test_a_name_that_would_be_markup_is_drawn_as_text():
    job = Job()
    job.process(12, relation="target")
    job.thread(12, syscall=FUTEX_FOR_EVER, stacks=(("/job/<b>.py", "<script>", 3),), name="</text><script>")
    case = case_of(job.store)
    page = render("html", analyze(case), case)
    assert "<script>" not in page
    assert re.search(r"&lt;script&gt;", page)


def test_chromium_draws_the_picture_without_a_complaint(tmp_path: Path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs chromium")
    case = case_of(many().store)
    page = tmp_path / "report.html"
    page.write_text(render("html", analyze(case), case))
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={tmp_path}/profile",
         "--enable-logging=stderr", "--virtual-time-budget=2000", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    svg = re.search(r'<svg class="picture".*?</svg>', done.stdout, re.DOTALL)
    assert svg
    assert svg[0].count("<rect") >= 8


def test_a_summary_in_words_tells_the_branches_of_a_wait_for_several():
    job = Job()
    job.process(12, relation="target")
    job.thread(12, syscall=waits_for_child(-1), stacks=((USER, "main", 3),))
    for pid in (13, 14):
        job.process(pid, ppid=12)
        job.thread(pid, syscall=FUTEX_FOR_EVER, stacks=((USER, f"work_{pid}", pid),))
    case = case_of(job.store)
    text = " ".join(render("text", analyze(case), case).split())
    assert "pid 13 waits for the lock at train.py:13" in text
    assert "Another branch: pid 14 waits for the lock at train.py:14" in text
