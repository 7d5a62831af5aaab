"""What the recorder costs a job: starts with and without it, side by side in one run.

    python bench/recorder.py [--runs 40] [--imports 5]

Prints, for `python -c pass`, `import torch` (where it is installed) and a loop of marked phases, the median of what the
pairs differ by: processor time, and time on the clock. The bytecode of the recorder is compiled beforehand, as
`flatline run` does.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import time

from flatline.recorder import compile_once, environment

STEPS = 20_000
LOOP = f"""
import flatline, time
begin = time.perf_counter()
for _ in range({STEPS}):
    with flatline.phase("step"): pass
print((time.perf_counter() - begin) / {STEPS} * 1e6)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--imports", type=int, default=5)
    args = parser.parse_args()
    compile_once()
    plain = {k: v for k, v in os.environ.items() if not k.startswith("FLATLINE_")}
    recorded = environment(plain)
    print(f"python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
    print(compared("python -c pass", "pass", args.runs, plain, recorded))
    if importlib.util.find_spec("torch"):
        print(compared("import torch", "import torch", args.imports, plain, recorded))
    without, with_it = (float(subprocess.check_output([sys.executable, "-c", LOOP], env=e)) for e in (plain, recorded))
    print(f"with flatline.phase(...): {without:.2f} us without, {with_it:.2f} us with the recorder")
    return 0


def compared(name: str, code: str, runs: int, plain: dict[str, str], recorded: dict[str, str]) -> str:
    """One line: the plain start, and what the recorder adds."""
    for env in (plain, recorded):
        once(code, env)
    pairs = [(once(code, plain), once(code, recorded)) for _ in range(runs)]
    base_cpu, base = (statistics.median(a[i] for a, _ in pairs) for i in (0, 1))
    more_cpu, more = (statistics.median(b[i] - a[i] for a, b in pairs) for i in (0, 1))
    return (
        f"{name}: cpu {base_cpu * 1e3:.1f} ms, recorded {more_cpu * 1e3:+.1f} ms ({more_cpu / base_cpu:+.1%}); "
        f"clock {base * 1e3:.1f} ms, {more * 1e3:+.1f} ms ({runs} pairs)"
    )


def once(code: str, env: dict[str, str]) -> tuple[float, float]:
    """(processor time, time on the clock) of one start, in seconds."""
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.DEVNULL)
    usage = os.wait4(process.pid, 0)[2]
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
