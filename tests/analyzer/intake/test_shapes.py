"""The same texts in all the clothes in which people paste them lead to the same cause."""

from __future__ import annotations

import html

import pytest
from flatline.analyzer.analysis import analyze
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.judge.pack import load_rulebook

BOOK = load_rulebook()
TEXTS = {
    "rendezvous-peers-missing": """\
[2026-02-03 09:14:07,412] torch.distributed.run: [WARNING] Setting OMP_NUM_THREADS environment variable for each process to be 1
[2026-02-03 09:14:07,501] INFO: Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 (world_size=8, worker_count=7, timeout=0:30:00)
[2026-02-03 09:14:17,512] INFO: Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 (world_size=8, worker_count=7, timeout=0:30:00)
[2026-02-03 09:14:27,523] INFO: Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 (world_size=8, worker_count=7, timeout=0:30:00)
""",
    "queue-not-drained": """\
Process 4711: python prepare.py
Python v3.11.4 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    poll (multiprocessing/popen_fork.py:27)
    wait (multiprocessing/popen_fork.py:43)
    join (multiprocessing/process.py:149)
    main (prepare.py:31)
    <module> (prepare.py:38)

Process 4719: python prepare.py
Python v3.11.4 (/usr/bin/python3.11)

Thread 4719 (idle): "MainThread"
    wait (threading.py:1119)
    _finalize_join (multiprocessing/queues.py:199)
    _exit_function (multiprocessing/util.py:360)
    _bootstrap (multiprocessing/process.py:317)
    main (prepare.py:28)
Thread 4725 (idle): "QueueFeederThread"
    _send (multiprocessing/connection.py:384)
    _send_bytes (multiprocessing/connection.py:427)
    send_bytes (multiprocessing/connection.py:200)
    _feed (multiprocessing/queues.py:246)
""",
    "oom-killed": """\
[81234.512345] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job_7,task_memcg=/job_7,task=python3,pid=4801,uid=1000
[81234.512399] Memory cgroup out of memory: Killed process 4801 (python3) total-vm:40123456kB, anon-rss:33554432kB, file-rss:0kB
""",
}  # fmt: skip


def every_line(put):
    return lambda text: "".join(put(number, line) + "\n" for number, line in enumerate(text.splitlines()))


def broken(text):
    return "".join(line[at : at + 97] + "\n" for line in text.splitlines() for at in range(0, max(len(line), 1), 97))


SHAPES = {
    "as it is": lambda text: text,
    "Windows": lambda text: text.replace("\n", "\r\n"),
    "quoted": every_line(lambda _, line: f"> {line}"),
    "indented": every_line(lambda _, line: f"    {line}"),
    "coloured": every_line(lambda _, line: f"\x1b[36m{line}\x1b[0m"),
    "of compose": every_line(lambda _, line: f"\x1b[32mtrainer-1  | \x1b[0m{line}"),
    "of one pod": every_line(lambda _, line: f"[pod/trainer-0/main] {line}"),
    "with times": every_line(lambda n, line: f"2026-02-03T09:15:{n:02d}.123456789Z {line}"),
    "of one node": every_line(lambda _, line: f"gn07: {line}"),
    "from a page": lambda text: html.escape(text, quote=False).replace("  ", "\xa0 "),
    "in a ticket": lambda text: f"It hangs, please help!\n\n```\n{text}\n```\n\nThanks in advance\n",
    "broken by a terminal": broken,
}


LEFT_OUT = {("oom-killed", "broken by a terminal")}
"""Lines that a parser knows are read before they are put together."""


@pytest.mark.parametrize(("cause", "shape"), [(c, s) for c in TEXTS for s in SHAPES if (c, s) not in LEFT_OUT])
def test_the_cause_is_the_same(tmp_path, cause, shape):
    path = tmp_path / "pasted.txt"
    path.write_text(SHAPES[shape](TEXTS[cause]), newline="")
    with open_case([path]) as case:
        findings = analyze(case, BOOK).findings
    assert [finding.cause for finding in findings if finding.role == "root-cause"][:1] == [cause]
