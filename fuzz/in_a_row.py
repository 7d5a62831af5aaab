"""Collects again and again from one job, two at a time now and then, and looks at what stays behind.

    python fuzz/in_a_row.py [--collects 50]

Nothing may: no process (but those a ledger names), no file but the bundles, nothing in the temporary folder or in
shared memory, no descriptor or change of the job. The exit code is 1 when something did.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from kill_trials import MARK, Job, still_there


def collect(job: Job, bundle: Path, tmpdir: Path, mark: str) -> subprocess.Popen[bytes]:
    """Begin one."""
    command = [sys.executable, "-m", "flatline", "collect", "--pid", str(job.pid), "-o", str(bundle), "--window", "0.3",
               "--deadline", "120", "--quiet"]  # fmt: skip
    env = {**os.environ, MARK: mark, "TMPDIR": str(tmpdir)}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=env)


def descriptors(pid: int) -> int:
    """How many the job has."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def ours(folder: str) -> set[str]:
    """What a collect might leave in a folder that all of a host share."""
    return {name for name in os.listdir(folder) if name.startswith(".flatline-") or ".flatline.zip" in name}


def main() -> int:
    """Run them; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--collects", type=int, default=50)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="flatline-row-"))
    tmpdir, out = folder / "tmp", folder / "bundles"
    tmpdir.mkdir()
    out.mkdir()
    job = Job(folder)
    shared = {place: ours(place) for place in ("/tmp", "/dev/shm")}
    before, faults, began, named = descriptors(job.pid), list[str](), time.monotonic(), set[str]()
    try:
        for number in range(0, args.collects, 2):
            pair = [collect(job, out / f"{number + each}.flatline.zip", tmpdir, "in-a-row") for each in range(2)]
            faults += [f"exit code {code}" for process in pair if (code := process.wait(300)) != 0]
        for bundle in sorted(out.iterdir()):
            with zipfile.ZipFile(bundle) as archive:
                if archive.testzip():
                    faults.append(f"{bundle.name} is damaged")
                for entry in json.loads(archive.read("manifest.json"))["ledger"]:
                    named |= {text.split()[1] for text in entry["left_running"]}
        faults += [f"a process: {left}" for left in still_there("in-a-row") if left.split()[0] not in named]
        faults += [f"a file: {path.name}" for path in out.iterdir() if not path.name.endswith(".flatline.zip")]
        faults += [f"in TMPDIR: {path.name}" for path in tmpdir.iterdir()]
        for place, known in shared.items():
            faults += [f"in {place}: {name}" for name in ours(place) - known - {folder.name}]
        faults += [f"the job: {change}" for change in job.changes()]
        if descriptors(job.pid) != before:
            faults.append("the job has other descriptors")
    finally:
        job.end()
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - began
    print(f"{args.collects} collects, two at a time, in {seconds:.0f} s: {len(faults)} things left behind or changed")
    for fault in faults:
        print(f"  {fault}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
