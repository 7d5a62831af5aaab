"""What a collect reads of the recorder: the rings of the job, of its dead children, and nothing that others made."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from flatline.collector.probes.interface import Doing
from flatline.collector.probes.recorder import Recorder
from job_view import artefacts, gaps, rows, target_of, view_of
from programs import open_to_others, wait_until

from flatline.recorder import environment

JOB = """
import flatline, os, sys, time
child = os.fork()
with flatline.phase("child" if child == 0 else "train"):
    if child:
        print(child, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def job(start, tmp_path):
    """Start a job with the recorder; the pids of parent and child once both are in their phases."""

    def begin(code: str = JOB, **options):
        env = {k: v for k, v in os.environ.items() if not k.startswith("FLATLINE_")}
        env = environment({**env, "TMPDIR": str(tmp_path)})
        script = tmp_path / "job.py"
        script.write_text(code)
        log = tmp_path / "out"
        with open(log, "w") as out:
            process = start([options.pop("python", sys.executable), script], env=env, stdout=out, **options)
        wait_until(lambda: log.read_text().strip(), what="the job forks", seconds=60)
        child = int(log.read_text())

        def in_phases() -> bool:
            rings = [next(tmp_path.glob(f"flatline-recorder-{pid}-*/ring"), None) for pid in (process.pid, child)]
            return all(one is not None and b" phase " in one.read_bytes()[8192:12288] for one in rings)

        wait_until(in_phases, what="both are in their phases", seconds=60)
        return process, child

    return begin


def gather(tmp: Path, *pids: int, **changes):
    return list(Recorder().gather(view_of(*pids, env_names={pid: {"TMPDIR": str(tmp)} for pid in pids}, **changes)))


def told(items, kind: str) -> list[tuple[str, str]]:
    return [(row.process, row.text) for row in rows(items, "recorder_events") if row.kind == kind]


def test_open_phases_of_each_process_become_facts_and_the_whole_ring_a_text(job, tmp_path, left_as_found):
    process, child = job()
    left_as_found(process.pid)
    items = gather(tmp_path, process.pid, child)
    assert gaps(items) == []
    assert told(items, "phase-open") == [(f"h1/{process.pid}", "train"), (f"h1/{child}", "child")]
    assert told(items, "armed") == [(f"h1/{process.pid}", "50"), (f"h1/{child}", "50")]
    phases = rows(items, "phases")
    assert [(one.process, one.name, one.left) for one in phases] == [(f"h1/{process.pid}", "train", None), (f"h1/{child}", "child", None)]
    assert all(one.entered.endswith("Z") for one in phases)
    texts = {one.path: one.content for one in artefacts(items)}
    assert set(texts) == {f"recorder/{process.pid}.txt", f"recorder/{child}.txt"}
    assert "phase-enter train" in texts[f"recorder/{process.pid}.txt"]


def test_a_child_that_was_killed_still_says_where_it_was(job, tmp_path):
    process, child = job()
    os.kill(child, signal.SIGKILL)
    items = gather(tmp_path, process.pid)
    assert told(items, "phase-open") == [(f"h1/{process.pid}", "train"), (f"h1/{child}", "child")]
    assert [one.path for one in artefacts(items)] == [f"recorder/{process.pid}.txt", f"recorder/{child}-ended.txt"]


def test_stacks_that_were_printed_when_it_fell_silent_are_taken(start, tmp_path):
    (tmp_path / "job.py").write_text("import threading\ndef train(): threading.Event().wait()\ntrain()\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith("FLATLINE_")}
    env |= {"TMPDIR": str(tmp_path), "FLATLINE_RECORDER": "debug", "FLATLINE_RECORDER_DUMP": "0.2"}
    process = start([sys.executable, tmp_path / "job.py"], env=environment(env))
    name = f"recorder/{process.pid}-stacks.txt"

    def taken() -> dict[str, str | bytes]:
        return {one.path: one.content for one in artefacts(gather(tmp_path, process.pid))}

    wait_until(lambda: name in taken(), what="they are printed", seconds=60)
    wait_until(lambda: b"in train" in taken()[name], what="they are whole", seconds=60)
    assert taken()[name].startswith(b"Timeout (")


def test_a_job_without_the_recorder_gives_nothing(start, tmp_path):
    process = start(["sleep", "600"])
    assert not [item for item in gather(tmp_path, process.pid) if not isinstance(item, Doing)]


def test_another_user_s_process_is_not_asked(job, tmp_path):
    process, _ = job()
    guarded = target_of(process.pid, is_guarded=True)
    assert not list(Recorder().gather(view_of(guarded, env_names={process.pid: {"TMPDIR": str(tmp_path)}})))


@pytest.mark.parametrize("how", ["link", "open folder", "hard link", "short", "rubbish", "fifo"])
def test_what_somebody_else_may_have_put_there_is_refused(job, tmp_path, how):
    process, _ = job()
    (folder,) = tmp_path.glob(f"flatline-recorder-{process.pid}-*")
    file = folder / "ring"
    text = file.read_bytes()
    if how == "open folder":
        folder.chmod(0o777)
    elif how == "hard link":
        os.link(file, tmp_path / "other")
    else:
        file.unlink()
        if how == "link":
            (tmp_path / "real").write_bytes(text)
            file.symlink_to(tmp_path / "real")
        elif how == "fifo":
            os.mkfifo(file)
        else:
            file.write_bytes(text[:-1] if how == "short" else b"\xff" * len(text))
            file.chmod(0o600)
    items = gather(tmp_path, process.pid)
    assert [one for one in told(items, "phase-open") if one[0] == f"h1/{process.pid}"] == []
    (gap,) = gaps(items)
    assert (gap.status, gap.target) == ("partial", f"h1/{process.pid}")
    assert "not to be trusted" in gap.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_ring_of_an_ordinary_user_is_read_as_that_user(job, tmp_path):
    tmp_path.chmod(0o777)
    open_to_others(tmp_path)
    process, _ = job(python="/usr/bin/python3", user=65534, group=65534, extra_groups=[])
    assert (f"h1/{process.pid}", "train") in told(gather(tmp_path, process.pid), "phase-open")
