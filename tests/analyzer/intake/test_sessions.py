"""Sessions of a shell: who runs a failed program again, and sees it get on, has left the error behind."""

from __future__ import annotations

import pytest
from flatline.analyzer.analysis import analyze
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.judge.pack import load_rulebook

BOOK = load_rulebook()
FAILS = """\
Traceback (most recent call last):
  File "/srv/fit.py", line 31, in <module>
    fit(model)
  File "/srv/fit.py", line 12, in fit
    loss.backward()
{error}
"""
NO_MODULE = FAILS.format(error="ModuleNotFoundError: No module named 'apex'")
NO_MEMORY = FAILS.format(error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB.")
STEPS = "".join(f"2026-03-04 09:1{i // 6}:{i % 6}0 iter {i * 5}/4000 loss {3 - i / 50:.3f}\n" for i in range(12))
BAR = "".join(f"train:  {i}%|▏    | {i * 10}/1000 [00:{i:02}<16:00,  1.0it/s]\n" for i in range(1, 9))
TABLE = """\
  PID TTY          TIME CMD
 2201 pts/3    00:00:00 bash
 2377 pts/3    00:00:00 ps
"""


def report_of(text, tmp_path):
    path = tmp_path / "session.txt"
    path.write_text(text)
    with open_case([path]) as case:
        return analyze(case, BOOK)


@pytest.mark.parametrize(
    "between",
    [
        "li@n4:~$ python fit.py --batch 8\n",
        "li@n4:~$ pip install apex\nSuccessfully installed apex-0.9\nli@n4:~$ python fit.py\n",
        "li@n4:~$ ps\n" + TABLE + "li@n4:~$ python fit.py\n",
        "li@n4:~$ vim fit.py\nli@n4:~$ export NCCL_DEBUG=WARN && ./fit.sh 2>&1 | tee fit.out\n",
        "li@n4:~$ CUDA_VISIBLE_DEVICES=1 llamafactory-cli train fit.yaml\n",
        "li@n4:~$ nohup python fit.py > fit.out 2>&1 &\n[1] 2311\nli@n4:~$ tail -n 12 fit.out\n",
        "li@n4:~$ sbatch fit.sbatch\nSubmitted batch job 77\nli@n4:~$ tail slurm-77.out\n",
    ],
)
@pytest.mark.parametrize(("error", "steps"), [(NO_MODULE, STEPS), (NO_MEMORY, BAR)])
def test_a_program_that_is_run_again_and_gets_on_has_left_its_error_behind(tmp_path, between, error, steps):
    report = report_of(f"li@n4:~$ python fit.py\n{error}{between}{steps}", tmp_path)
    assert report.verdict.state == "healthy"
    assert report.diagnosis is None


@pytest.mark.parametrize(
    "below",
    [
        "",
        "li@n4:~$ python fit.py\nloading weights\n",  # it does not show that it gets on
        "li@n4:~$ tail rank0.out\n" + STEPS,  # what another rank wrote, or this one before
        "li@n4:~$ kubectl logs fit-0\n" + STEPS,
        "li@n5:~$ python fit.py\n" + STEPS,  # another host
        "li@n4:~$ python fit.py\n" + STEPS + NO_MEMORY,
        "li@n4:~$ pip install apex\nCollecting apex\n" + BAR,
    ],
)
def test_an_error_stands_while_nothing_shows_that_the_program_was_run_again_and_gets_on(tmp_path, below):
    report = report_of(f"li@n4:~$ python fit.py\n{NO_MEMORY}{below}", tmp_path)
    assert report.verdict.state == "crashed"


def test_a_program_that_was_run_many_times_has_left_all_its_errors_behind(tmp_path):
    report = report_of(f"$ python fit.py\n{NO_MODULE}$ python fit.py\n{STEPS}" * 20, tmp_path)
    assert report.verdict.state == "healthy"
