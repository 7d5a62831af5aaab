"""A job with the recorder, collected and analyzed: the report names the last mark."""

from __future__ import annotations

import os
import subprocess
import sys

from end_to_end_support import cause_of, flatline, report_of
from programs import wait_until

from flatline.bundle.reader import open_bundle
from flatline.recorder import environment


def test_an_import_that_hangs_behind_a_launcher_that_swallows_all_output_is_named(start, tmp_path):
    (tmp_path / "slow_package.py").write_text("import threading\nthreading.Event().wait()\n")
    (tmp_path / "train.py").write_text("import flatline\nwith flatline.phase('read config'):\n    import slow_package\n")
    launcher = "const c = require('child_process').spawn(process.argv[1], ['train.py'], {stdio: ['ignore', 'pipe', 'pipe']}); c.stdout.on('data', () => {}); c.stderr.on('data', () => {})"
    env = environment({**os.environ, "TMPDIR": str(tmp_path), "FLATLINE_RECORDER_DIR": ""})
    node = start(["node", "-e", launcher, sys.executable], cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_importing() -> bool:
        return any(b" import slow_package " in ring.read_bytes()[8192:12288] for ring in tmp_path.glob("flatline-recorder-*/ring"))

    wait_until(is_importing, what="the import begins", seconds=60)
    bundle = tmp_path / "job.flatline.zip"
    done = flatline("collect", "--pid", node.pid, "--window", 2, "-o", bundle)
    assert done.code == 0, done.err
    report = report_of(bundle)
    because = " | ".join(report["verdict"]["because"])
    assert "in phase “read config” since" in because
    assert "importing slow_package since" in because
    assert not [gap for gap in report["gaps"] if "recorder" in gap["message"]]


def test_a_job_that_hangs_under_run_is_named_and_ended_with_its_bundle_kept(tmp_path):
    """Everything real: the thread that was to set the event has ended with an error that nobody saw."""
    (tmp_path / "train.py").write_text(
        "import threading, flatline\ndone = threading.Event()\ndef feed(): raise KeyError('batch')\n"
        "threading.Thread(target=feed, name='feeder').start()\nwith flatline.phase('first epoch'):\n    done.wait()\n"
    )
    done = flatline(
        "run", "--silence", 2, "--on-hang", "collect+kill", "--grace", 2, "--bundle-dir", tmp_path / "out", "--",
        sys.executable, "train.py", cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.code == 124
    assert "root cause (very likely)" in done.err
    assert "[waits-for-ended-thread]" in done.err
    assert "a thread ended with an error" in done.err
    (bundle,) = (tmp_path / "out").glob("*.flatline.zip")
    assert cause_of(report_of(bundle)) == "waits-for-ended-thread"
    with open_bundle(bundle) as reader:
        points = reader.tables().rows["resource_points"]
    assert points
    assert points[-1].rss > 1 << 20
    assert points[-1].cpu is not None
    assert "from then to now" in flatline("analyze", bundle, "--format", "html").out
    assert f"next: flatline analyze {bundle}" in done.err
    assert not list(tmp_path.glob("flatline-recorder-*"))


def test_the_pid_of_run_itself_means_the_job_below_it(start, tmp_path):
    """What a batch script has in `$!`."""
    (tmp_path / "train.py").write_text(
        "import threading\ndone = threading.Event()\ndef feed(): raise KeyError('batch')\n"
        "threading.Thread(target=feed).start()\nopen('ready', 'w').close()\ndone.wait()\n"
    )
    run = start([sys.executable, "-m", "flatline", "run", "--", sys.executable, "train.py"], cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)})
    wait_until((tmp_path / "ready").exists, what="the job is ready", seconds=60)
    bundle = tmp_path / "job.flatline.zip"
    done = flatline("collect", "--pid", run.pid, "--window", 2, "-o", bundle)
    assert done.code == 0, done.err
    assert cause_of(report_of(bundle)) == "waits-for-ended-thread"
    with open_bundle(bundle) as reader:
        (target,) = [row for row in reader.tables().rows["processes"] if row.relation == "target"]
    assert target.ppid == run.pid
