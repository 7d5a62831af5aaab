"""Collecting from 72 real Python processes, side by side with one `py-spy dump` of one of them.

    python bench/collect_72.py [--ranks 8] [--workers 8] [--runs 3]

Prints a line per run: seconds until the first bundle is published (stacks and /proc state of all processes are in it),
seconds of the whole collect beyond its window, size of the bundle; and each as a multiple of one `py-spy dump`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
WINDOW_S = 4.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        job, pid = start(Path(folder), args.ranks, args.workers)
        try:
            processes = args.ranks * (args.workers + 1)
            print(f"{args.ranks} ranks x {args.workers} workers: {processes} processes and a launcher")
            for run in range(args.runs):
                print(line(run, Path(folder), pid))
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    return 0


def start(folder: Path, ranks: int, workers: int) -> tuple[subprocess.Popen[bytes], int]:
    ready = folder / "ready"
    env = {**os.environ, "READY": str(ready), "RANKS": str(ranks), "WORKERS": str(workers)}
    program = [sys.executable, ROOT / "fixtures/stuck/ranks.py"]
    job = subprocess.Popen(program, env=env, cwd=folder, start_new_session=True)
    while not ready.exists():
        if job.poll() is not None:
            raise SystemExit("the ranks did not start")
        time.sleep(0.05)
    return job, int(ready.read_text())


def line(run: int, folder: Path, pid: int) -> str:
    dump = py_spy(pid)
    bundle = folder / f"run{run}.flatline.zip"
    began = time.monotonic()
    collect = subprocess.Popen(
        [BIN / "flatline", "collect", "--pid", str(pid), "-o", bundle, "--window", str(WINDOW_S), "--quiet"],
        stdout=subprocess.DEVNULL,
    )
    first = 0.0
    while collect.poll() is None:
        if not first and bundle.exists():
            first = time.monotonic() - began
        time.sleep(0.01)
    whole = time.monotonic() - began
    size = bundle.stat().st_size
    stacks, processes = contents(bundle)
    return (
        f"run {run}: first published {first:.2f} s ({first / dump:.0f}x), whole {whole:.2f} s = window {WINDOW_S:g} + "
        f"{whole - WINDOW_S:.2f} s ({(whole - WINDOW_S) / dump:.0f}x), {size / 2**20:.2f} MiB, {stacks} stacks of "
        f"{processes} processes, exit {collect.returncode}; one py-spy dump {dump * 1000:.0f} ms"
    )


def py_spy(pid: int) -> float:
    """Seconds of one dump, the middle of five."""
    took = []
    for _ in range(5):
        began = time.monotonic()
        command = [BIN / "py-spy", "dump", "--nonblocking", "--pid", str(pid)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        took.append(time.monotonic() - began)
    return sorted(took)[2]


def contents(bundle: Path) -> tuple[int, int]:
    with zipfile.ZipFile(bundle) as archive:
        stacks = [name for name in archive.namelist() if name.startswith("stacks/") and name.endswith(".0.json")]
        rows = json.loads(archive.read("facts/processes.json"))["tables"]["processes"]
    return len(stacks), len(rows)


if __name__ == "__main__":
    sys.exit(main())
