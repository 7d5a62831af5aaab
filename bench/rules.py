"""All rules on a large job: what judging costs after deriving, without collecting and reporting.

    python bench/rules.py [--processes 512] [--threads 50] [--most 1.0]

The facts are those of bench/derive.py. Deriving groups the frames by thread, and judging uses those groups: so the
seconds of both are printed, and those of judging when it has to group them itself; at half and at full size, with the
slowest rules, and how fast this machine runs a loop of Python, to hold it against others. Fails when judging takes
more than `--most` seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from derive import threads
from flatline.analyzer.case import FactStore, case_of
from flatline.analyzer.derive import derive
from flatline.analyzer.judge.index import FactIndex
from flatline.analyzer.judge.pack import Rulebook, load_rulebook
from flatline.analyzer.judge.verdicts import judge, judge_rule

SLOWEST = 5
Result = TypeVar("Result")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=512)
    parser.add_argument("--threads", type=int, default=50)
    parser.add_argument("--most", type=float, default=1.0)
    args = parser.parse_args()
    book = load_rulebook()
    half = seconds(book, args.processes // 2, args.threads)
    full = seconds(book, args.processes, args.threads, show=True)
    print(f"{len(book.rules)} rules, {args.processes} processes x {args.threads} threads (a loop of a million: "
          f"{loop():.3f} s)")  # fmt: skip
    for name, less, more in zip(("deriving", "judging", "judging, nothing grouped before"), half, full, strict=True):
        print(f"  {name:36}  half {less:.2f} s   full {more:.2f} s   x {more / less:.2f}")
    return int(full[1] > args.most)


def seconds(book: Rulebook, processes: int, each: int, *, show: bool = False) -> tuple[float, float, float]:
    """CPU seconds of this process: others may be at work beside it."""
    case = case_of(FactStore(threads(processes, each)))
    deriving, derived = timed(lambda: derive(case))
    judging, _ = timed(lambda: judge(book.rules, FactIndex(case.store), derived.scope))
    alone = FactStore({table: case.store.rows(table) for table in case.store.tables})
    judging_alone, _ = timed(lambda: judge(book.rules, FactIndex(alone), derived.scope))
    if show:
        fresh = FactIndex(case.store)
        costs = [(timed(lambda rule=rule: judge_rule(rule, fresh))[0], rule.id) for rule in book.rules]
        for cost, name in sorted(costs, reverse=True)[:SLOWEST]:
            print(f"  {cost:6.3f} s  {name}")
    return deriving, judging, judging_alone


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def loop() -> float:
    begun = time.process_time()
    sum(number & 1 for number in range(1_000_000))
    return time.process_time() - begun


if __name__ == "__main__":
    sys.exit(main())
