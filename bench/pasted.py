"""What a long log on standard input costs: its speed beside `wc -l`, and the largest memory of `flatline analyze -`.

    python bench/pasted.py [--mb 2048]

One block of training log is written into the pipe again and again, so that no disk is measured, with a time-out message
in the middle that must be found. Both programs read the same pipe from the same writer, one after the other.
Fails when the memory is above 300 MB, or when the message was not found.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass

from redaction import BAR, NCCL, OTHERS, STEP, fill

MAX_MB = 300
BLOCK = 8 * 1024**2
NEEDLE = (
    b"[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=417, "
    b"OpType=ALLREDUCE, NumelIn=33554432, NumelOut=33554432, Timeout(ms)=600000) ran for 600042 milliseconds before "
    b"timing out.\n"
)


@dataclass(frozen=True)
class Run:
    """One program that read the whole log."""

    seconds: float
    memory_mb: float
    output: str


def block() -> bytes:
    """Steps, bars, warnings, what NCCL says: a seeded mixture."""
    rng = random.Random(7)
    lines: list[bytes] = []
    size = n = 0
    while size < BLOCK:
        template = rng.choice([STEP] * 17 + [BAR] + list(OTHERS) + list(NCCL))
        lines.append(fill(rng, template, n).encode() + b"\n")
        size, n = size + len(lines[-1]), n + 1
    return b"".join(lines)


def fed(command: list[str], text: bytes, times: int) -> Run:
    """Run a program on the block `times` times; the needle stands in the middle."""
    begun = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False) as child:
        assert child.stdin
        assert child.stdout
        for count in range(times):
            child.stdin.write(NEEDLE + text if count == times // 2 else text)
        child.stdin.close()
        output = child.stdout.read().decode("utf-8", "replace")
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return Run(time.perf_counter() - begun, usage.ru_maxrss / 1024, output)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=2048)
    mb = parser.parse_args().mb
    text = block()
    times = max(3, mb * 1024**2 // len(text))
    size = times * len(text) / 1e6
    wc = fed(["wc", "-l"], text, times)
    flatline = fed([sys.executable, "-m", "flatline", "analyze", "-", "--format", "json"], text, times)
    found = "collective-timeout" in flatline.output or "Watchdog caught" in flatline.output
    print(f"{size:,.0f} MB on standard input: flatline analyze {size / flatline.seconds:,.0f} MB/s "
          f"({flatline.seconds:.1f} s), wc -l {size / wc.seconds:,.0f} MB/s ({wc.seconds:.1f} s)")  # fmt: skip
    print(f"largest memory {flatline.memory_mb:.0f} MB (at most {MAX_MB}); message in the middle found: {found}")
    return 0 if flatline.memory_mb < MAX_MB and found else 1


if __name__ == "__main__":
    sys.exit(main())
