"""A dump of thousands of threads: what is asked of every thread is not looked up anew for each of the others."""

from __future__ import annotations

from collections import Counter

import pytest
from flatline.analyzer.derive import derive
from flatline.analyzer.derive.scene import Scene
from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.sieve import Kept
from flatline.analyzer.intake.sources import Source

MAIN = 'Process 1000: python train.py\nThread 1000 (idle): "MainThread"\n    join (threading.py:1100)\n    main (train.py:9)\n'
IDLE = "    wait (threading.py:327)\n    get (queue.py:171)\n    _worker (concurrent/futures/thread.py:81)\n"
FUTURE = "    wait (threading.py:327)\n    result (concurrent/futures/_base.py:451)\n    step (train.py:31)\n"
EVENT = "    wait (threading.py:327)\n    wait (threading.py:629)\n    step (train.py:44)\n"
TASK = (
    "    load (train.py:12)\n    run (concurrent/futures/thread.py:58)\n    _worker (concurrent/futures/thread.py:83)\n"
)
PARENT = (
    "    _recv (multiprocessing/connection.py:379)\n    get (multiprocessing/queues.py:103)\n"
    "    _worker_loop (torch/utils/data/_utils/worker.py:275)\n"
)
LOADER = "    _try_get_data (torch/utils/data/dataloader.py:1133)\n    <module> (train.py:3)\n"


def threads(*stacks: str):
    return lambda n: MAIN + "".join(f'Thread {1001 + i} (idle): "t{i}"\n{stacks[i % len(stacks)]}' for i in range(n))


def workers(n: int) -> str:
    main = f'Process 999: python train.py\nThread 999 (idle): "MainThread"\n{LOADER}'
    return main + "".join(
        f'Process {2000 + i}: python\nThread {2000 + i} (idle): "MainThread"\n{PARENT}' for i in range(n)
    )


@pytest.mark.parametrize(
    "text_of",
    [threads(IDLE), threads(IDLE, FUTURE), threads(EVENT, IDLE), threads(FUTURE, TASK), threads(EVENT), workers],
    ids=["idle", "futures", "events", "tasks", "events alone", "workers"],
)
def test_looks_grow_with_the_threads_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch, text_of):
    looks = Counter[str]()
    stack_of, threads_of = Scene.stack, Scene.threads_of

    def stack(self: Scene, thread: str):
        looks["stack"] += 1
        return stack_of(self, thread)

    def of_process(self: Scene, process: str):
        found = threads_of(self, process)
        looks["threads"] += len(found)
        return found

    monkeypatch.setattr(Scene, "stack", stack)
    monkeypatch.setattr(Scene, "threads_of", of_process)
    counts = []
    for n in (40, 160):
        looks.clear()
        text = text_of(n)
        derive(case_of_texts([Source("d.txt", Kept(tuple(text.split("\n")), size=len(text)))], "d"))
        counts.append(looks.total())
    assert counts[1] <= counts[0] * 5 + 500, counts
