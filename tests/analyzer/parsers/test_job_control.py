"""What shells print of their jobs."""

from __future__ import annotations

import subprocess

import pytest
from parsing import blocks_of, only, rows_of

from flatline.bundle.facts import Process, Thread


@pytest.mark.parametrize(
    ("line", "state", "signal", "status"),
    [
        ("[1]+  Stopped                 python train.py --epochs 3", "T", None, None),
        ("[1]+ 4242 Stopped                 python train.py --epochs 3", "T", 20, None),
        ("^Z[1] + Stopped                    python train.py --epochs 3", "T", 20, None),
        ("zsh: suspended  python train.py --epochs 3", "T", 20, None),
        ("^Zfish: Job 1, 'python train.py --epochs 3' has stopped", "T", 20, None),
        ("fish: Job 1, 'python train.py --epochs 3 &' has stopped", "T", None, None),
        ("[1]+ 4242 Stopped (tty output)     python train.py --epochs 3", "T", 22, None),
        ("[2]-  4242 Stopped (tty input)     python train.py --epochs 3 &", "T", 21, None),
        ("[1]+  Stopped(SIGTTOU)        python train.py --epochs 3", "T", 22, None),
        ("[1]  + 4242 suspended (tty output)  python train.py --epochs 3", "T", 22, None),
        ("[1]  + suspended  python train.py --epochs 3", "T", 20, None),
        ("zsh: suspended (tty input)  python train.py --epochs 3", "T", 21, None),
        ("Suspended (tty output)", "T", 22, None),
        ("[1]+  Killed                  python train.py --epochs 3", "X", None, -9),
        ("[1]+  Segmentation fault      (core dumped) python train.py", "X", None, -11),
        ("[1]+  Exit 3                  python train.py --epochs 3", "X", None, 3),
        ("[1]+  Done                    python train.py --epochs 3", "X", None, 0),
        ("[1]-  Running                 python train.py --epochs 3 &", "unknown", None, None),
    ],
)
def test_a_line_tells_what_became_of_the_job(line: str, state: str, signal: int | None, status: int | None):
    block = only(line, "shell-job")
    (process,) = rows_of(block, Process)
    assert (process.state, process.stop_signal, process.exit_status) == (state, signal, status)
    assert [t.state for t in rows_of(block, Thread)] == (["T"] if state == "T" else [])
    assert block.is_log


STOPPED = "[1]+  Stopped                 python train.py\n"


@pytest.mark.parametrize(
    ("text", "state", "signal"),
    [
        ("loss 0.41\n^Z\n" + STOPPED, "T", 20),
        (" 41%|####      | 410/1000 [07:12<10:22,  1.1s/it]^Z\n\n" + STOPPED, "T", 20),
        ("loss 0.41\n^C^Z\nSuspended\n", "T", 20),
        ("loss 0.41\n" + STOPPED, "T", None),
        ("^Z\n" + STOPPED + "$ bg\n[1]+ python train.py &\nloss 0.40\n", "unknown", None),
        ("^Z\n" + STOPPED + "[1]+ python train.py &\n", "unknown", None),
        ("^Z\n" + STOPPED + "$ fg %1\npython train.py\n", "unknown", None),
        ("^Z\n" + STOPPED + "$ bg %2\n", "T", 20),
        ("^C^C^Z\n" + STOPPED + "$ kill -9 %1\n", "unknown", None),
        ("^Z\n" + STOPPED + "[1]+  Killed                  python train.py\n", "unknown", None),
        ("^Z\nzsh: suspended  python train.py\n[1]  + continued  python train.py\n", "unknown", None),
    ],
)
def test_ctrl_z_shows_by_its_echo_and_what_was_sent_on_or_ended_is_stopped_no_more(
    text: str, state: str, signal: int | None
):
    jobs = [p for b in blocks_of(text) if b.kind == "shell-job" for p in rows_of(b, Process)]
    assert (jobs[0].state, jobs[0].stop_signal) == (state, signal)


def test_the_command_and_the_pid_are_told():
    (process,) = rows_of(only("[1]+ 4242 Stopped (tty output)     python train.py --rank 2", "shell-job"), Process)
    assert (process.pid, process.argv, process.rank, process.is_python) == (
        4242,
        ("python", "train.py", "--rank", "2"),
        2,
        True,
    )


def test_a_job_that_ends_without_its_pid_is_the_one_that_was_put_into_the_background():
    text = "$ python a.py &\n[1] 501\n$ python b.py &\n[2] 502\nstep 3\n[2]+  Stopped                 python b.py\n"
    pids = [p.pid for b in blocks_of(text) if b.kind == "shell-job" for p in rows_of(b, Process)]
    assert pids == [501, 502, 502]


def test_bash_says_it_in_these_words():
    script = "set -m; sleep 99 & kill -STOP $!; until jobs | grep Stopped; do :; done; kill -KILL %1; wait %1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    states = [
        p.state for b in blocks_of(done.stdout + done.stderr) if b.kind == "shell-job" for p in rows_of(b, Process)
    ]
    assert "T" in states


@pytest.mark.parametrize(
    "line",
    [
        "[1] Stopped training at epoch 3",
        "Stopped",
        "[12] done with batch",
        "Suspended the trial",
        "Killed",
        "[1/3] Running",
        "Suspended",
        "zsh: suspended",
        "fish: Job 1 has ended",
    ],
)
def test_ordinary_lines_are_not_a_shells(line: str):
    assert [block.kind for block in blocks_of(line)] == ["log"]


def test_a_job_that_goes_to_the_background_is_a_process():
    block = only("[1] 40712\n", "shell-job")
    assert [(row.pid, row.state) for row in rows_of(block, Process)] == [(40712, "unknown")]
    assert [block.kind for block in blocks_of("[1] 40712 samples\n[12] 0\n")] == ["log"]


@pytest.mark.parametrize(
    "line",
    [
        "[2]+  Stopped                 vim notes.txt",
        "[2]+  Stopped                 sudo /usr/bin/less train.log",
        "[3]  + 4250 suspended  htop",
        "zsh: suspended  tail -f train.log",
        "fish: Job 2, 'watch -n 1 nvidia-smi' has stopped",
        "[2]-  Exit 1                  grep -n loss train.log",
    ],
)
def test_what_a_person_looks_with_is_no_process_of_the_job(line: str):
    block = only(line, "shell-job")
    assert block.rows == ()
    assert block.is_log


def test_a_job_whose_output_a_pager_shows_is_one():
    assert rows_of(only("[1]+  Stopped                 python train.py | less", "shell-job"), Process)


def test_jobs_that_a_loop_starts_are_one_block():
    block = only("[1] 4242\n[2] 4243\n[3] 4244", "shell-job")
    assert [(row.pid, row.line) for row in rows_of(block, Process)] == [(4242, 1), (4243, 2), (4244, 3)]
    assert (block.about, block.is_log) == ("3 jobs", True)


def test_of_very_many_jobs_the_first_are_read():
    block = only("\n".join(f"[{n}] {n + 100}" for n in range(5000)), "shell-job")
    assert (block.end, len(rows_of(block, Process))) == (5000, 1000)
    assert block.about == "5000 jobs: the first 1000 are read, the rest is cut off"
