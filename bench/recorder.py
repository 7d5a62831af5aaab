"""What the recorder costs a job: the same program with and without it, side by side in one run.

    python bench/recorder.py [--runs 100] [--imports 60] [--trainings 20] [--no-count]

For `python -c pass`, `import torch` and a step of a small training (where torch is installed), and for a marked phase.

- Processor time (user and system) of pairs that run at the same time, started in alternating order: what else the
  machine does slows both. (One after the other, they differ by three times as much on a busy machine.) What is told is
  the median of the differences, and between which values it lies with 95 % certainty: ranks of the sorted differences
  by the sign test, which asks nothing of how the noise is distributed.
  The time on the clock is shown beside it, and is worth something on a quiet machine only.
- Where valgrind is installed: the instructions that both run outside of the kernel. They are the same in each run, on
  a busy machine too, so a thousandth can be told where the processor time of two runs differs by a tenth.

Beside each limit stands whether it is kept, missed, or not decided by this run; a busy machine misses none that is in
seconds. The exit code is 1 when one is missed.
The bytecode of the recorder is compiled beforehand, as `flatline run` does.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from flatline.recorder import compile_once, environment

CERTAIN = 0.95
START_S = 0.005
"""The most that a start may take longer."""
IMPORT = 0.01
"""The most of its own time by which `import torch` may."""
QUIET_LOAD = 1.5
STEPS = 20_000
LOOP = f"""
import flatline, time
begin = time.process_time()
for _ in range({STEPS}):
    with flatline.phase("step"): pass
print((time.process_time() - begin) / {STEPS})
"""
TRAINING = """
import statistics, time, torch
from torch.utils.data import DataLoader
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]).to("cpu")
optimizer = torch.optim.AdamW(model.parameters())
model.train()
costs = []
for epoch in range(4):
    for batch in DataLoader(torch.randn(6400, 64), batch_size=64):
        begin = time.process_time()
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        costs.append(time.process_time() - begin)
print(statistics.median(costs[50:]))
"""
Environment = dict[str, str]
Environments = tuple[Environment, Environment]
"""Without the recorder, and with it."""


@dataclass(frozen=True)
class Cost:
    """Of one run, in seconds."""

    cpu: float
    clock: float = 0.0


@dataclass(frozen=True)
class Median:
    """Of the differences of pairs, and between which values it surely lies."""

    value: float
    low: float
    high: float

    def against(self, limit: float) -> str:
        if self.high <= limit:
            return "kept"
        return "missed" if self.low > limit else "not decided"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--imports", type=int, default=60)
    parser.add_argument("--trainings", type=int, default=20)
    parser.add_argument("--no-count", action="store_true", help="leave out the instructions, which take minutes")
    args = parser.parse_args()
    compile_once()
    plain = {k: v for k, v in os.environ.items() if not k.startswith("FLATLINE_")}
    envs = (plain, environment(plain))
    load = os.getloadavg()[0]
    valgrind = None if args.no_count else shutil.which("valgrind")
    has_torch = importlib.util.find_spec("torch") is not None
    print(f"python {sys.version.split()[0]}, {os.cpu_count()} processors, load {load:.1f} at the start")

    said = [compared("python -c pass", "pass", args.runs, envs, most_s=START_S)]
    if has_torch:
        said.append(compared("import torch", "import torch", args.imports, envs, most=IMPORT))
        said.append(compared("a training step", TRAINING, args.trainings, envs))
    said.append(compared("with flatline.phase(...)", LOOP, max(6, args.runs // 10), envs))
    if valgrind:
        said.append(counted(valgrind, "pass", envs))
        if has_torch:
            said.append(counted(valgrind, "import torch", envs, most=IMPORT))
    else:
        print("instructions are not counted: valgrind is not there, or --no-count was given")
    if max(load, os.getloadavg()[0]) >= QUIET_LOAD:
        print(f"the load was {QUIET_LOAD} or more: seconds are longer than they would be; shares and instructions hold")
    return 1 if "missed" in said else 0


def compared(name: str, code: str, runs: int, envs: Environments, *, most_s: float = 0.0, most: float = 0.0) -> str:
    """Print what it costs without, what the recorder adds, and whether that is at most so many seconds or so much of
    it; returns the last."""
    side_by_side(code, envs, order=(0, 1))  # files are in memory from here on
    pairs = [side_by_side(code, envs, order=(number % 2, 1 - number % 2)) for number in range(runs)]
    base = statistics.median(plain.cpu for plain, _ in pairs)
    more = median([recorded.cpu - plain.cpu for plain, recorded in pairs])
    line = f"{name}: cpu {shown(base)}, recorded {spread(more)} ({more.value / base:+.2%}; {runs} pairs)"
    if pairs[0][0].clock:
        clock = median([recorded.clock - plain.clock for plain, recorded in pairs])
        line += f"; clock {spread(clock)} on {shown(statistics.median(plain.clock for plain, _ in pairs))}"
    limit = most_s or most * base
    verdict = more.against(limit) if limit else ""
    if verdict == "missed" and most_s and os.getloadavg()[0] >= QUIET_LOAD:
        verdict = "not decided"
    print(line + (f"; at most {f'{most:.0%}' if most else shown(limit)}: {verdict}" if limit else ""), flush=True)
    return verdict


def counted(valgrind: str, code: str, envs: Environments, *, most: float = 0.0) -> str:
    """The same by instructions: once each, for they do not change."""
    plain, recorded = (instructions(valgrind, code, env) for env in envs)
    share = (recorded - plain) / plain
    verdict = ("kept" if share <= most else "missed") if most else ""
    line = f"python -c {code!r}: {plain / 1e6:.1f} million instructions, "
    line += f"recorded {(recorded - plain) / 1e6:+.1f} ({share:+.2%})"
    print(line + (f"; at most {most:.0%}: {verdict}" if most else ""), flush=True)
    return verdict


def instructions(valgrind: str, code: str, env: Environment) -> int:
    tool = [valgrind, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    env = {**env, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*tool, sys.executable, "-c", code], env=env, stderr=subprocess.PIPE, check=True)
    found = re.search(rb"I +refs: +([\d,]+)", done.stderr)
    if found is None:
        raise RuntimeError(f"valgrind tells no count: {done.stderr[-300:]!r}")
    return int(found[1].replace(b",", b""))


def side_by_side(code: str, envs: Environments, *, order: tuple[int, int]) -> list[Cost]:
    """Both at the same time. What a program measures itself it prints."""
    begin = time.perf_counter()
    argv = [sys.executable, "-c", code]
    started = {
        which: subprocess.Popen(argv, env=envs[which], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for which in order
    }
    ended = {}
    while len(ended) < len(started):
        pid, status, usage = os.wait4(-1, 0)
        if status:
            raise RuntimeError(f"ended with {os.waitstatus_to_exitcode(status)}: {code}")
        ended[pid] = Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - begin)
    costs = []
    for which in (0, 1):
        process = started[which]
        process.returncode = 0
        printed = process.communicate()[0]
        costs.append(Cost(float(printed)) if printed else ended[process.pid])
    return costs


def median(values: Sequence[float]) -> Median:
    """With its interval: the narrowest two ranks, as far from both ends, that hold it with the wanted certainty."""
    ordered = sorted(values)
    count = len(ordered)
    rank, outside = 0, 2 / 2**count  # how likely it is that all values lie on one side of it
    while rank + 1 < count // 2 and outside + 2 * comb(count, rank + 1) / 2**count <= 1 - CERTAIN:
        rank += 1
        outside += 2 * comb(count, rank) / 2**count
    return Median(statistics.median(ordered), ordered[rank], ordered[-1 - rank])


def spread(more: Median) -> str:
    return f"{shown(more.value, sign=True)} [{shown(more.low, sign=True)} to {shown(more.high, sign=True)}]"


def shown(seconds: float, *, sign: bool = False) -> str:
    unit, factor = ("ms", 1e3) if abs(seconds) >= 1e-3 else ("us", 1e6)
    return f"{seconds * factor:{'+' if sign else ''}.1f} {unit}"


if __name__ == "__main__":
    sys.exit(main())
