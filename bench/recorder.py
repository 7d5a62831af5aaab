"""What the recorder costs a job: the same program with and without it, side by side in one run.

    python bench/recorder.py [--runs 40] [--imports 15] [--trainings 15]

For `python -c pass`, `import torch` and a step of a small training (where torch is installed), and for a marked phase:
the median of what the two of a pair differ by, and the middle half of these differences. Which of a pair goes first
alternates, so that a machine that gets slower or warmer favours neither. Processor time is what counts on a busy
machine; time on the clock is shown beside it, and is worth something below a load of 1.5 only. The bytecode of the
recorder is compiled beforehand, as `flatline run` does.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flatline.recorder import compile_once, environment

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


@dataclass(frozen=True)
class Cost:
    """Of one run, in seconds."""

    cpu: float
    clock: float = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--imports", type=int, default=15)
    parser.add_argument("--trainings", type=int, default=15)
    args = parser.parse_args()
    compile_once()
    plain = {k: v for k, v in os.environ.items() if not k.startswith("FLATLINE_")}
    envs = (plain, environment(plain))
    load = os.getloadavg()[0]
    print(f"python {sys.version.split()[0]}, {os.cpu_count()} processors, load {load:.1f} at the start")
    print(compared("python -c pass", lambda env: started("pass", env), args.runs, envs))
    if importlib.util.find_spec("torch"):
        print(compared("import torch", lambda env: started("import torch", env), args.imports, envs))
        print(compared("a training step", lambda env: told(TRAINING, env), args.trainings, envs))
    print(compared("with flatline.phase(...)", lambda env: told(LOOP, env), max(5, args.runs // 4), envs))
    if max(load, os.getloadavg()[0]) >= QUIET_LOAD:
        print(f"the load was {QUIET_LOAD} or more: of these, only processor time is worth something")
    return 0


def compared(
    name: str, measure: Callable[[Environment], Cost], runs: int, envs: tuple[Environment, Environment]
) -> str:
    """One line: what it costs without, and what the recorder adds."""
    for env in envs:
        measure(env)  # files are in memory from here on
    pairs = [pair(measure, envs, is_plain_first=number % 2 == 0) for number in range(runs)]
    base = statistics.median(a.cpu for a, _ in pairs)
    more = [b.cpu - a.cpu for a, b in pairs]
    line = f"{name}: cpu {shown(base)}, recorded {shown(statistics.median(more), sign=True)}"
    line += f" ({statistics.median(more) / base:+.2%}; middle half {half(more)}"
    if pairs[0][0].clock:
        clock = [b.clock - a.clock for a, b in pairs]
        base = statistics.median(a.clock for a, _ in pairs)
        line += f"; clock {shown(statistics.median(clock), sign=True)} on {shown(base)}"
    return f"{line}; {runs} pairs)"


def pair(
    measure: Callable[[Environment], Cost], envs: tuple[Environment, Environment], *, is_plain_first: bool
) -> tuple[Cost, Cost]:
    """Without and with, one right after the other."""
    plain, recorded = envs
    if is_plain_first:
        return measure(plain), measure(recorded)
    after = measure(recorded)
    return measure(plain), after


def half(values: Sequence[float]) -> str:
    low, _, high = statistics.quantiles(values, n=4)
    return f"{shown(low, sign=True)} to {shown(high, sign=True)}"


def shown(seconds: float, *, sign: bool = False) -> str:
    unit, factor = ("ms", 1e3) if abs(seconds) >= 1e-3 else ("us", 1e6)
    return f"{seconds * factor:{'+' if sign else ''}.1f} {unit}"


def started(code: str, env: Environment) -> Cost:
    """A start and an end."""
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.DEVNULL)
    usage = os.wait4(process.pid, 0)[2]
    process.returncode = 0
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - begin)


def told(code: str, env: Environment) -> Cost:
    """What the program measures itself."""
    return Cost(float(subprocess.check_output([sys.executable, "-c", code], env=env, stderr=subprocess.DEVNULL)))


if __name__ == "__main__":
    sys.exit(main())
