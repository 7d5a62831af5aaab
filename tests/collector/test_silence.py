"""What counts as a sign of life of a job, how long each phase may be silent, and what is kept of the time before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flatline.collector.probes.history import History as HistoryProbe
from flatline.collector.running import accelerators, history, outputs, phases
from flatline.collector.running.accelerators import Accelerators, GpuUse
from flatline.collector.running.log_growth import LogGrowth
from flatline.collector.running.movement import Movement, Usage
from flatline.collector.running.silence import Silence, Silent
from job_view import gaps, rows, view_of
from kept_jobs import ENV
from programs import wait_until

from flatline.recorder import environment

ROOT = Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20

# --- logs that are files ---


def test_a_line_into_a_log_file_is_a_sign_of_life(start, tmp_path):
    with open(tmp_path / "out.log", "w") as out:
        job = start([sys.executable, "-uc", "for line in open(0): print(line)"], stdin=subprocess.PIPE, stdout=out, env=ENV)
    movement = Movement(job.pid)
    assert not movement.look().has_logged
    job.stdin.write(b"step 1\n")
    job.stdin.flush()
    wait_until(lambda: (tmp_path / "out.log").stat().st_size, what="it has printed")
    assert movement.look().has_logged
    assert not movement.look().has_logged


def test_a_log_that_the_command_line_names_counts_and_other_files_do_not(start, tmp_path):
    code = "import sys\na, b = open('train.log', 'ab', 0), open('other', 'ab', 0)\nfor line in open(0, 'rb'): (a if line[:1] == b'a' else b).write(line)"
    job = start([sys.executable, "-uc", code], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=tmp_path, env=ENV)
    wait_until((tmp_path / "other").exists, what="both are open")
    growth = LogGrowth(outputs.logs(["train.py", "--log", "train.log"], str(tmp_path)))
    for line, name, expected in (("b 1\n", "other", 0), ("a 12\n", "train.log", 5)):
        job.stdin.write(line.encode())
        job.stdin.flush()
        wait_until((tmp_path / name).read_bytes, what="it is written")
        assert growth.size([job.pid]) == expected


# --- phases ---


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("first step", 2), ("first batch", 2), ("warmup", 2), ("torch.save", 2), ("save_checkpoint", 2), ("checkpoint", 2),
        ("load state dict", 2), ("evaluation", 3), ("eval_epoch", 3), ("validate", 3), ("torch.compile", 3), ("compile", 3),
        ("download", 3), ("download weights", 3), ("train", 1), ("step 12", 1), ("latest", 1), ("retrieval", 1), ("init_process_group", 1),
    ],
)  # fmt: skip
def test_phases_that_take_their_time_get_a_longer_silence(name, factor):
    assert phases.longest([name, "train"]) == (factor, name if factor > 1 else "")


def test_the_handbook_says_the_same_factors():
    said = (ROOT / "docs" / "run.md").read_text()
    for one in phases.ALLOWANCES:
        assert f"| {one.kind} | {one.factor:g} |" in said


def test_an_open_phase_of_the_recorder_stretches_the_silence(start, tmp_path):
    rings = tmp_path / "rings"
    rings.mkdir(0o700)
    (tmp_path / "job.py").write_text("import flatline, threading\nwith flatline.phase('evaluation'): threading.Event().wait()\n")
    job = start([sys.executable, "job.py"], cwd=tmp_path, env=environment({**ENV, "FLATLINE_RECORDER_DIR": str(rings)}))
    movement = Movement(job.pid, rings)

    def is_in_it() -> bool:
        movement.look()
        return movement.open_phases() == ["evaluation"]

    wait_until(is_in_it, what="it is in its phase", seconds=60)
    silent = Silence(movement, (), lambda _: None)
    silent.look()
    silent._still = time.monotonic() - 1000
    assert silent.over(500) is None  # longer than the silence, not three times as long
    assert silent.over(300) == Silent("evaluation", 3)
    assert str(silent.over(300)) == " in phase “evaluation”, which gets 3 times --silence"


def test_busy_without_a_word_is_looked_at_after_three_times_as_long(start, monkeypatch):
    job = start(["sleep", "600"])
    silent = Silence(Movement(job.pid), (), lambda _: None)
    now = time.monotonic()
    silent._still, silent._quiet = now, now - 100
    assert silent.over(50) is None
    assert silent.over(30) == Silent()


# --- accelerators ---


@pytest.fixture
def asked(nvml_standin, monkeypatch):
    """Ask the stand-in of the driver's library, in the child."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_standin()))
    made: list[Accelerators] = []

    def ask(**env: str) -> Accelerators:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        one = Accelerators(period_s=0.05)
        assert one.start() > 0
        made.append(one)
        return one

    yield ask
    for one in made:
        one.stop()
        assert not Path(f"/proc/{one.pid}").exists()


def test_the_work_of_the_job_s_gpus_is_known_and_that_of_others_is_not(asked):
    pid = os.getpid()
    one = asked(NVML_STATE="taken", NVML_PROCESSES=f"{pid}:70000")
    wait_until(lambda: one.look([pid]) != GpuUse(), what="it has answered", seconds=60)
    assert one.look([pid]).used == 79000 * MIB
    assert one.look([pid]).utilisation is not None
    assert one.look([1]) == GpuUse()


def test_a_library_that_does_not_answer_holds_nobody_and_ends_when_it_is_asked_to(asked):
    one = asked(NVML_STATE="hangs-init")
    comm = Path(f"/proc/{one.pid}/comm")
    wait_until(lambda: comm.read_text() == "flatline-gpus\n", what="it is in the library", seconds=60)
    assert one.look([os.getpid()]) == GpuUse()


def test_where_there_is_no_library_nothing_is_known(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    one = Accelerators()
    assert one.start() > 0

    def has_ended() -> bool:
        assert one.look([os.getpid()]) == GpuUse()
        return one._reading == -1

    wait_until(has_ended, what="it has ended", seconds=60)


def test_a_gpu_at_work_is_no_stillness_and_no_word(start, monkeypatch):
    silent = Silence(Movement(start(["sleep", "600"]).pid), (), lambda _: None)
    silent._still = silent._quiet = time.monotonic() - 100
    monkeypatch.setattr(silent.accelerators, "look", lambda pids: GpuUse(80.0, MIB))
    silent.look()
    assert silent.still_s() < 50
    assert silent.quiet_s() > 99


@pytest.mark.parametrize("is_here", [True, False])
def test_the_child_is_started_once_and_only_where_there_is_a_driver(start, tmp_path, monkeypatch, is_here):
    told: list[int] = []
    silent = Silence(Movement(start(["sleep", "600"]).pid), (), told.append)
    monkeypatch.setattr(accelerators, "DRIVER", (str(tmp_path if is_here else tmp_path / "none"),))
    monkeypatch.setattr(silent.accelerators, "start", lambda: 7)
    silent.look()
    assert told == []
    silent._began -= 60
    silent.look()
    silent.look()
    assert told == [7] * is_here


def test_rounds_of_the_library_become_lines():
    row = accelerators.GpuSample("h1", 0, 0, 1, utilisation=50.0, used=MIB)
    of = [accelerators.Gpu("h1", 0, minor=3), row, accelerators.GpuProcess("h1", 0, 77), accelerators.Milestone("round")]
    (line,) = accelerators.lines(iter(of))
    assert json.loads(line) == {"gpus": [{"minor": 3, "utilisation": 50.0, "used": MIB, "pids": [77]}]}


# --- the time before ---


def test_points_say_what_was_used_in_between_and_only_the_last_half_hour_is_kept(monkeypatch, tmp_path):
    kept, clock = history.History(), [1000.0]
    monkeypatch.setattr(history.time, "monotonic", lambda: clock[0])
    for number in range(history.MOST_POINTS + 50):
        kept.note(Usage(2, cpu_s=number * 5.0, read=number * 10, written=number, rss=MIB, logged=7), number, GpuUse(30.0, MIB))
        clock[0] += 10
    assert len(kept.points) == 180
    last = kept.points[-1]
    assert (last.seconds, last.cpu, last.read, last.written, last.printed, last.logs) == (10.0, 0.5, 10, 1, 1, 7)
    kept.note(Usage(1, cpu_s=1.0), 0, GpuUse())
    assert (kept.points[-1].cpu, kept.points[-1].processes) == (None, 1)
    assert kept.write(tmp_path / "h")
    items = list(HistoryProbe().gather(view_of(history=str(tmp_path / "h"))))
    assert len(rows(items, "resource_points")) == 180
    assert rows(items, "resource_points")[0].age_s is not None


@pytest.mark.parametrize("text", ["", "{", "7", '[{"x": 1}]', "\xff"])
def test_what_is_no_history_is_a_gap(tmp_path, text):
    (tmp_path / "h").write_bytes(text.encode("latin-1"))
    (gap,) = gaps(list(HistoryProbe().gather(view_of(history=str(tmp_path / "h")))))
    assert gap.tables == ("resource_points",)


def test_without_run_there_is_no_history():
    assert list(HistoryProbe().gather(view_of())) == []


# --- where it writes ---


def test_logs_and_folders_that_cannot_be_written_are_said_before_the_job_starts(tmp_path):
    (tmp_path / "file").write_text("kept")
    argv = ["train.py", "--log", "file/x.log", "--output_dir=file", "--save-dir", "new/deep", "--data", "/nowhere"]
    assert outputs.complaints(argv, str(tmp_path)) == [f"--log {tmp_path}/file/x.log cannot be written: Not a directory"]
    assert (sorted(os.listdir(tmp_path)), (tmp_path / "file").read_text()) == (["file"], "kept")
    (line,) = outputs.complaints(["--output-dir", "/proc/self/new/deep"], "/")
    assert line.startswith("--output-dir /proc/self/new/deep cannot be written: ")
    assert line.endswith(" (/proc/self)")
