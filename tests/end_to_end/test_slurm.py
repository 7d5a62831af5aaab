"""Jobs under a real Slurm, of two nodes on this host: what docs/ci.md says of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from end_to_end_support import cause_of, flatline, report_of
from programs import wait_until
from schedulers.local_slurm import Slurm, local_slurm, why_not_here

from flatline.bundle.reader import open_bundle

pytestmark = [pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "it is here"), pytest.mark.slow]
HANDBOOK = Path(__file__).resolve().parent.parent.parent / "docs" / "ci.md"
STUCK = (
    "import threading\ndone = threading.Event()\ndef feed(): raise KeyError('batch')\n"
    "threading.Thread(target=feed, name='feeder').start()\ndone.wait()\n"
)


@pytest.fixture(scope="module")
def slurm():
    with local_slurm() as running:
        yield running


@pytest.fixture
def job(tmp_path):
    (tmp_path / "train.py").write_text(STUCK)
    return tmp_path


def scheduler_of(bundle: Path):
    with open_bundle(bundle) as reader:
        return reader.tables().rows["scheduler"][0]


def test_each_task_of_a_step_is_collected_and_ended_and_the_step_says_so(slurm: Slurm, job: Path) -> None:
    words = ("run", "--silence", "2", "--on-hang", "collect+kill", "--grace", "2", "--bundle-dir", "bundles", "--")
    done = slurm.run("srun", "-N2", "-n2", sys.executable, "-m", "flatline", *words, sys.executable, "train.py", cwd=job)
    assert done.returncode == 124, done.stderr
    bundles = sorted((job / "bundles").glob("*.flatline.zip"))
    assert len(bundles) == 2
    assert {cause_of(report_of(bundle)) for bundle in bundles} == {"waits-for-ended-thread"}
    told = [scheduler_of(bundle) for bundle in bundles]
    assert {one.kind for one in told} == {"slurm"}
    assert len({one.job for one in told}) == 1
    both = flatline("analyze", *bundles)
    assert both.code == 10, both.err


def test_the_batch_script_of_the_handbook_leaves_a_bundle_before_the_limit(slurm: Slurm, job: Path) -> None:
    """The signal that `--signal=B:USR1@180` has sent three minutes before the limit, sent at once."""
    text = HANDBOOK.read_text()
    script = re.search(r"```bash\n(#SBATCH.*?)```", text, re.S)
    assert script
    body = script[1].replace("torchrun train.py", f"{sys.executable} train.py")
    (job / "job.sh").write_text(f"#!/bin/bash\n#SBATCH -o out.txt\n{body}")
    path = f"{Path(sys.executable).parent}:{slurm.env['PATH']}"
    sent = slurm.run("sbatch", "--parsable", "job.sh", cwd=job, env={**slurm.env, "PATH": path})
    number = sent.stdout.strip()
    assert number.isdigit(), sent.stderr

    def is_running() -> bool:
        return slurm.run("squeue", "-h", "-j", number, "-o", "%T").stdout.strip() == "RUNNING" and (job / "bundles").is_dir()

    wait_until(is_running, what="the job runs", seconds=60)
    slurm.run("scancel", "--batch", "--signal=USR1", number)

    def is_told() -> bool:
        return ".flatline.zip\n" in (job / "out.txt").read_text()  # its path is printed last

    wait_until(is_told, what="the bundle is made", seconds=120)
    (bundle,) = (job / "bundles").glob("*.flatline.zip")
    assert slurm.run("squeue", "-h", "-j", number, "-o", "%T").stdout.strip() == "RUNNING"
    assert scheduler_of(bundle).job == number
    assert cause_of(report_of(bundle)) == "waits-for-ended-thread"
    slurm.run("scancel", number)
