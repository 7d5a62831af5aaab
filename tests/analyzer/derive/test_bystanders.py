"""Whether a thread only serves its library is found out once, however many threads ask."""

from __future__ import annotations

from flatline.analyzer.derive.derivation import derive
from flatline.analyzer.derive.edges import bystanders
from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.sieve import Kept
from flatline.analyzer.intake.sources import Source


def test_each_thread_is_looked_at_once_for_all_that_wait(monkeypatch):
    looked = []
    is_helper = bystanders._is_helper
    monkeypatch.setattr(bystanders, "_is_helper", lambda stack: looked.append(1) or is_helper(stack))
    threads = [
        f'Thread {tid} (idle): "T-{tid}"\n    wait (threading.py:327)\n    main (train.py:4)' for tid in range(500, 540)
    ]
    text = "Process 500: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n" + "\n".join(threads)
    derive(case_of_texts([Source("dump.txt", Kept(tuple(text.split("\n"))))], "dump.txt"))
    assert 0 < len(looked) <= 40
