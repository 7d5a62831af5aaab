"""What a job feels of being collected: the longest pause of a busy loop, alone and while collect looks at it.

    python bench/pause.py [--runs 5] [--threads 8]

The job notes the longest gap between two turns of its loop. Side by side, several times: nobody looks; collect without
C frames (as with no tool that attaches); collect as it is; and one `py-spy dump --native` for scale.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

BIN = Path(sys.executable).parent
JOB = """
import os, sys, threading, time
for _ in range(int(sys.argv[2])):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
longest, last = 0.0, time.monotonic()
open(sys.argv[1] + ".ready", "w").close()
while not os.path.exists(sys.argv[1] + ".stop"):
    now = time.monotonic()
    longest, last = max(longest, now - last), now
open(sys.argv[1], "w").write(repr(longest))
"""
NO_ATTACH = """
import sys
from flatline.collector import plan
from flatline.collector.probes.deep_stacks import DeepStacks
plan.PROBES = tuple(probe for probe in plan.PROBES if probe is not DeepStacks)
from flatline.cli import main
sys.exit(main())
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=8)
    args = parser.parse_args()
    collect = ["collect", "--window", "2", "--quiet", "-o"]
    looks = {
        "nobody looks": lambda pid, to: ["sleep", "3"],
        "collect, without deep-stacks": lambda pid, to: [sys.executable, "-c", NO_ATTACH, *collect, to, "--pid", pid],
        "collect": lambda pid, to: [sys.executable, "-m", "flatline", *collect, to, "--pid", pid],
        "py-spy dump --native": lambda pid, to: [str(BIN / "py-spy"), "dump", "--native", "--pid", pid],
    }
    gaps: dict[str, list[float]] = {name: [] for name in looks}
    for _ in range(args.runs):
        for name, look in looks.items():
            gaps[name].append(longest_gap(look, args.threads))
    base = middle(gaps["nobody looks"])
    for name, found in gaps.items():
        usual = middle(found)
        print(f"{name:30} {usual * 1000:7.0f} ms  {usual / base:5.1f}x  (most {max(found) * 1000:.0f} ms)")
    return 0


def longest_gap(look: Callable[[str, str], list[str]], threads: int) -> float:
    """Seconds, as the job itself saw it."""
    with tempfile.TemporaryDirectory() as folder:
        says = Path(folder, "gap")
        job = subprocess.Popen([sys.executable, "-c", JOB, str(says), str(threads)], start_new_session=True)
        try:
            wait_for(Path(f"{says}.ready"))
            subprocess.run(look(str(job.pid), f"{folder}/b.flatline.zip"), stdout=subprocess.DEVNULL, check=True)
            Path(f"{says}.stop").touch()
            job.wait(60)
            return float(says.read_text())
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.02)


def middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    sys.exit(main())
