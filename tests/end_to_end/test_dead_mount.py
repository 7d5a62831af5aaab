"""A job on a file system that stopped answering, on a host whose tools misbehave: collect ends in time, and says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from end_to_end_support import cause_of, flatline, report_of
from faults.stalling_fuse import stalling_mount, wait_for_state, why_not_here
from programs import wait_until

pytestmark = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "-")

READER = """
import os, sys, time
log = open("train.log", "a")
print("epoch 0", file=log, flush=True)
shard = open("data/shard-000.bin", "rb", buffering=0)
open(sys.argv[1], "w").close()
while not os.path.exists(sys.argv[1] + ".go"):
    time.sleep(0.02)
if sys.argv[2] == "reads":
    os.read(shard.fileno(), 65536)
else:
    open("script.py").read()
"""


@pytest.fixture(params=["reads"])
def job_on_a_dead_mount(request, start, tmp_path: Path):
    """A job whose cwd and log are on a mount that stopped answering. While it reads, its main thread is in D; FUSE lets
    one that opens a file wait in S."""
    with stalling_mount() as mount:
        started = tmp_path / "started"
        job = start([sys.executable, "-c", READER, started, request.param], cwd=mount.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(started.exists, what="the job starts")
        mount.stall()
        Path(f"{started}.go").touch()
        if request.param == "reads":
            wait_for_state(job.pid, "D")
        else:
            wait_until(lambda: "request_wait_answer" in Path(f"/proc/{job.pid}/wchan").read_text(), what="the open blocks")
        yield job.pid, mount


@pytest.mark.parametrize("job_on_a_dead_mount", ["reads", "opens"], indirect=True)
def test_the_file_system_is_named(job_on_a_dead_mount, left_as_found, tmp_path: Path) -> None:
    pid, mount = job_on_a_dead_mount
    left_as_found(pid)
    bundle = tmp_path / "b.flatline.zip"
    done = flatline("collect", "--pid", pid, "-o", bundle, "--window", 2)
    assert done.code == 0, done.err
    left_as_found.check()
    report = report_of(bundle)
    assert cause_of(report) == "filesystem-not-responding", report["verdict"]
    assert report["verdict"]["state"] == "hung"
    # A stop that somebody left pending would show only now.
    left_as_found.release(pid)
    mount.resume()
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z", what="the job reads on and ends")
