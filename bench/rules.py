"""All rules on a large job: what judging costs, without collecting, deriving and reporting.

    python bench/rules.py [--processes 512] [--threads 50] [--most 1.0]

The facts are those of bench/derive.py, derived before the clock starts. Prints the seconds at half and at full size,
the slowest rules, and how fast this machine runs a loop of Python, to hold it against others. Fails above `--most`
seconds.
"""

from __future__ import annotations

import argparse
import sys
import time

from derive import threads
from flatline.analyzer.case import FactStore, case_of
from flatline.analyzer.derive import derive
from flatline.analyzer.judge.index import FactIndex
from flatline.analyzer.judge.pack import Rulebook, load_rulebook
from flatline.analyzer.judge.verdicts import judge, judge_rule

SLOWEST = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=512)
    parser.add_argument("--threads", type=int, default=50)
    parser.add_argument("--most", type=float, default=1.0)
    args = parser.parse_args()
    book = load_rulebook()
    half = seconds(book, args.processes // 2, args.threads)
    full = seconds(book, args.processes, args.threads, show=True)
    print(f"{len(book.rules)} rules, {args.processes} processes x {args.threads} threads: half {half:.2f} s   "
          f"full {full:.2f} s   x {full / half:.2f}   (a loop of a million: {loop():.3f} s)")  # fmt: skip
    return int(full > args.most)


def seconds(book: Rulebook, processes: int, each: int, *, show: bool = False) -> float:
    """CPU seconds of this process: others may be at work beside it."""
    case = case_of(FactStore(threads(processes, each)))
    scope = derive(case).scope
    index = FactIndex(case.store)
    begun = time.process_time()
    judge(book.rules, index, scope)
    took = time.process_time() - begun
    if show:
        fresh, costs = FactIndex(case.store), []
        for rule in book.rules:
            since = time.process_time()
            judge_rule(rule, fresh)
            costs.append((time.process_time() - since, rule.id))
        for cost, name in sorted(costs, reverse=True)[:SLOWEST]:
            print(f"  {cost:6.3f} s  {name}")
    return took


def loop() -> float:
    begun = time.process_time()
    sum(number & 1 for number in range(1_000_000))
    return time.process_time() - begun


if __name__ == "__main__":
    sys.exit(main())
