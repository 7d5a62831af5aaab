"""What Slurm prints of nodes, and its accounting between bars."""

from __future__ import annotations

from pathlib import Path

import pytest
from parsing import blocks_of, only, rows_of

from flatline.bundle.facts import Scheduler

PASTED = Path(__file__).parents[3] / "fixtures" / "pasted"
SACCT = """\
JobID|JobName|Partition|State|ExitCode|NodeList
77001|train|a100|CANCELLED by 1000|0:0|gpu[1-2]
77001.batch|batch||CANCELLED|0:15|gpu1
77002|eval|a100|OUT_OF_MEMORY|0:125|gpu3
"""


def told(name: str) -> list[tuple[object, ...]]:
    blocks = blocks_of((PASTED / name).read_text())
    return [(r.node, r.state, r.queue, r.reason) for block in blocks for r in rows_of(block, Scheduler)]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("sinfo/local-sinfo-up.txt", [("n[1-3]", "idle", "gpu", None)]),
        ("sinfo/local-sinfo-R-drain.txt", [
            ("n2", None, None, "Not responding"), ("n3", None, None, "Xid 79 GPU has falle")]),
        ("sinfo/local-sinfo-node-down.txt", [
            ("n1", "completing", "gpu", None), ("n2", "down*", "gpu", "Not responding"), ("n3", "idle", "gpu", None)]),
        ("nodes/local-scontrol-show-node-drain.txt", [
            ("n3", "IDLE+DRAIN", "gpu", "Xid 79 GPU has fallen off the bus")]),
    ],
)  # fmt: skip
def test_nodes_tell_their_state_and_why(name, rows):
    assert told(name) == rows


def test_every_node_has_a_row():
    assert [node for node, *_ in told("nodes/local-scontrol-show-node.txt")] == ["n1", "n2", "n3"]


def test_accounting_between_bars_tells_how_jobs_ended():
    rows = rows_of(only(SACCT, "sacct"), Scheduler)
    assert [(r.job, r.state, r.node, r.queue) for r in rows] == [
        ("77001", "CANCELLED", "gpu[1-2]", "a100"), ("77002", "OUT_OF_MEMORY", "gpu3", "a100"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["a|b|c", "NodeName=gpu-[1-8] CPUs=64", "PARTITION AVAIL", "JobID|State"])
def test_what_only_begins_like_one_stays_log(text):
    assert [block.kind for block in blocks_of(text)] == ["log"]
