"""Collects from jobs that are large or oddly named, and analyzes: a table of what it took.

    python fuzz/huge_targets.py [NAME…]

The exit code is 1 when a collect was late, a bundle not whole, a job not found in it, or an analysis failed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

DEADLINE_S = 30
LATE_S = 5.0
"""Starting and ending a process on a busy host."""
ODD = "odd \n name \x1b[31m\x1b]0;t\x07 \u202e \U0001f600 '\"$(true)`"
ENLARGE = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_STACK, (1 << 26, resource.getrlimit(resource.RLIMIT_STACK)[1]))
os.environ.update({f"FILLER_{n}": "x" * 99_980 for n in range(int(sys.argv[1]) // 100_000)})
os.execv(sys.argv[2], sys.argv[2:])
"""
"""A quarter of the stack's limit is what arguments and environment may take (execve(2))."""
READY = "\nopen(sys.argv[1], 'w').close()\ntime.sleep(3600)\n"


@dataclass(frozen=True)
class Huge:
    """One job."""

    program: str
    environment: int = 0
    """Bytes of it, more than usual."""
    odd: bool = False
    """Whether its folder, its log and its arguments have names that nobody would give."""


JOBS = {
    "100,000 descriptors, or as many as the limit allows": Huge(
        "import os, resource, sys, time\nwhich = resource.RLIMIT_NOFILE\nhard = resource.getrlimit(which)[1]\n"
        "try:\n    resource.setrlimit(which, (110_000, max(hard, 110_000)))\n"
        "except (ValueError, OSError):\n    resource.setrlimit(which, (hard, hard))\n"
        "log = open('train.log', 'w')\nmade = min(100_000, resource.getrlimit(which)[0] - 100)\n"
        "for _ in range(made):\n    os.dup(log.fileno())\nprint('descriptors:', made, flush=True)\n"
    ),
    "20,000 threads, or as many as there can be": Huge(
        "import sys, threading, time\nthreading.stack_size(65536)\nwait = threading.Event().wait\nbegun = 0\n"
        "try:\n    for begun in range(20_000):\n        threading.Thread(target=wait, daemon=True).start()\n"
        "except RuntimeError:\n    pass\nprint('threads:', begun + 1, flush=True)\n"
    ),
    "a log of 10 GB": Huge(
        "import os, sys, time\nlog = open('train.log', 'wb', 0)\nlog.write(b'step 1\\n')\nlog.truncate(10 << 30)\n"
        "log.seek(0, 2)\nlog.write(b'\\nstep 2, and then nothing\\n')\n"
    ),
    "an environment of 5 MB": Huge("import sys, time\n", environment=5_000_000),
    "odd names": Huge(
        "import ctypes, os, sys, time\nctypes.CDLL(None).prctl(15, b'\\x1b[2J\\n\\xf0\\x9f\\x98\\x80', 0, 0, 0)\n"
        "log = open(sys.argv[2] + '.log', 'w')\nlog.write('step 1\\n')\nlog.flush()\n",
        odd=True,
    ),
}


def start(job: Huge, folder: Path) -> subprocess.Popen[bytes]:
    """Begin it, and wait until it is as large as it shall be."""
    inside = folder / (ODD if job.odd else "job")
    inside.mkdir()
    ready = folder / "ready"
    command = [sys.executable, "-c", job.program + READY, str(ready), ODD if job.odd else "plain"]
    with open(folder / "out", "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", ENLARGE, str(job.environment), *command],
            cwd=inside, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    give_up = time.monotonic() + 120
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > give_up:
            process.kill()
            raise RuntimeError(f"the job did not begin: {(folder / 'out').read_text(errors='replace')[-500:]}")
        time.sleep(0.05)
    return process


def look_at(name: str) -> tuple[str, list[str]]:
    """A row of the table, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="flatline-huge-") as place:
        folder = Path(place)
        job = start(JOBS[name], folder)
        try:
            return _collected(name, job.pid, folder)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def _collected(name: str, pid: int, folder: Path) -> tuple[str, list[str]]:
    bundle, faults = folder / "b.flatline.zip", []
    command = [sys.executable, "-m", "flatline"]
    began = time.monotonic()
    done = subprocess.run(
        [*command, "collect", "--pid", str(pid), "-o", str(bundle), "--deadline", str(DEADLINE_S)],
        capture_output=True, text=True, errors="replace", timeout=300, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    took = time.monotonic() - began
    if done.returncode != 0:
        faults.append(f"collect ended with {done.returncode}: {done.stderr[-500:]}")
    if took > DEADLINE_S + LATE_S:
        faults.append(f"collect took {took:.1f} s")
    with zipfile.ZipFile(bundle) as archive:
        if archive.testzip():
            faults.append("the bundle is damaged")
        if "facts/processes.json" not in archive.namelist():
            faults.append("the job is not in the bundle")
    began = time.monotonic()
    told = subprocess.run([*command, "analyze", str(bundle)], capture_output=True, timeout=600, check=False)
    analyzed = time.monotonic() - began
    if told.returncode not in (0, 10, 11):
        faults.append(f"analyze ended with {told.returncode}: {told.stderr[-500:]!r}")
    if b"\x1b" in told.stdout:
        faults.append("the report steers the terminal")
    said = (folder / "out").read_text(errors="replace").strip()
    size = f"{bundle.stat().st_size >> 10} KiB"
    return f"| {name}{f' ({said})' if said else ''} | {took:.1f} s | {size} | {analyzed:.1f} s |", faults


def main() -> int:
    """Print the table; the exit code."""
    print("| job | collect | bundle | analyze |\n|---|---|---|---|")
    wrong = 0
    for name in sys.argv[1:] or JOBS:
        row, faults = look_at(name)
        print(row, flush=True)
        for fault in faults:
            print(f"{name}: {fault}", file=sys.stderr, flush=True)
        wrong += len(faults)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
