"""PyTorch's flight recorder: dumps as JSON and as Python prints them, and the analyzer's report."""

from __future__ import annotations

import json
import pprint
from pathlib import Path
from typing import Any

import pytest
from flatline.analyzer.derive import derive
from flatline.analyzer.intake.cleaning import cleaned
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.parsers.flight_recorder import parse_dump, parse_report

from flatline.bundle.facts import Collective


def entry(seq: int, op: str = "all_reduce", state: str = "completed") -> dict[str, Any]:
    return {
        "frames": [{"name": op, "filename": "/v/site-packages/torch/distributed/distributed_c10d.py", "line": 2501}],
        "record_id": seq, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": seq, "p2p_seq_id": 0,
        "op_id": seq, "profiling_name": f"nccl:{op}", "input_sizes": [[64, 3]], "input_dtypes": ["Float"],
        "output_sizes": [[64, 3]], "output_dtypes": ["Float"], "state": state, "timeout_ms": 600000,
    }  # fmt: skip


def dump(*entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "entries": list(entries),
    }


def rows(text: str) -> tuple[Any, ...]:
    parsed = parse_dump(list(cleaned(text.split("\n"))), 0)
    assert parsed is not None
    return parsed.rows


@pytest.mark.parametrize("text_of", [json.dumps, lambda d: json.dumps(d, indent=2), repr, pprint.pformat])
def test_a_dump_gives_its_collectives_however_it_is_printed(text_of) -> None:
    assert rows(text_of(dump(entry(6), entry(7, "broadcast", "started")))) == (
        Collective(group="0(default_pg)", seq=6, op="ALL_REDUCE", sizes=((64, 3),), dtype="Float", state="completed",
                   frame="all_reduce (distributed_c10d.py:2501)", line=1),
        Collective(group="0(default_pg)", seq=7, op="BROADCAST", sizes=((64, 3),), dtype="Float", state="started",
                   frame="broadcast (distributed_c10d.py:2501)", line=1),
    )  # fmt: skip


def test_of_a_long_dump_the_end_is_kept_and_its_rank_is_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "nccl_trace_rank_3.json").write_text(json.dumps(dump(*(entry(n) for n in range(1, 900))), indent=1))
    with open_case([tmp_path]) as case:
        derive(case)
        found = case.store.rows("collectives")
    assert (len(found), found[-1].seq, found[-1].rank) == (400, 899, 3)


def test_a_log_line_after_a_dump_stays_one(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(json.dumps(dump(entry(6)), indent=1) + "\nstep 7 loss 0.2\n")
    with open_case([tmp_path]) as case:
        assert [log.last_line for log in case.store.rows("logs")] == ["step 7 loss 0.2"]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        json.dumps(dump(entry(6)))[:-9],
        '{"entries": 3, "pg_config": {}}',
        "{'entries': __import__('os')}",
        "{" * 3000,
    ],
)
def test_what_is_no_whole_dump_is_left_alone(text: str) -> None:
    assert parse_dump(list(cleaned(text.split("\n"))), 0) is None


REPORT = """\
Collective sequence number: 7 has errors
internal record id: 6
group info: 0:default_pg
collective: nccl:all_reduce
input sizes: [[64]]
output sizes: [[64]]
world size: 3
expected ranks: {0, 1, 2}
collective state: scheduled
error msg: Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH, Expected collective type: all_reduce does not match found collective type: broadcast
"""


def test_a_report_names_the_ranks_that_agree() -> None:
    parsed = parse_report(list(cleaned(REPORT.split("\n"))), 0)
    assert parsed is not None
    assert [(row.rank, row.seq, row.op, row.group, row.state) for row in parsed.rows] == [
        (0, 7, "ALL_REDUCE", "0(default_pg)", "scheduled"), (2, 7, "ALL_REDUCE", "0(default_pg)", "scheduled"),
    ]  # fmt: skip


def test_a_report_of_ranks_that_have_not_come_names_those_that_have() -> None:
    text = REPORT.replace(
        "Collective sequence number: 7 has errors", "Not all ranks joining collective, sequence number: 7"
    )
    text = text.replace("world size", "missing ranks: {2}\nworld size").split("error msg")[0]
    parsed = parse_report(list(cleaned(text.split("\n"))), 0)
    assert parsed is not None
    assert [row.rank for row in parsed.rows] == [0, 1]


def test_a_head_without_its_fields_is_left_alone() -> None:
    assert parse_report(list(cleaned(["Collective sequence number: 7 has errors", "bye"])), 0) is None


OLDER = """\
Not all ranks joining collective 31 at entry 30
group info: 2:tp
collective: nccl:all_gather
missing ranks: {3}
input sizes: [[8]]
output sizes: [[32]]
expected ranks: 4
collective state: started
collective stack trace:
 all_gather at /v/site-packages/torch/distributed/distributed_c10d.py:3100
Collective 32 at entry 31 errors
group info: 2:tp
collective: nccl:broadcast
expected ranks: 4
collective state: scheduled
error message: Culprit rank 0; MatchState.COLLECTIVE_TYPE_MISMATCH
"""


def test_the_report_of_an_older_analyzer_says_how_many_ranks_were_expected() -> None:
    lines = list(cleaned(OLDER.split("\n")))
    missing = parse_report(lines, 0)
    differs = parse_report(lines, next(i for i, line in enumerate(lines) if line.bare.endswith("errors")))
    assert missing is not None
    assert differs is not None
    assert [(row.rank, row.seq, row.op, row.state) for row in missing.rows] == [
        (rank, 31, "ALL_GATHER", "started") for rank in (0, 1, 2)
    ]
    assert [(row.rank, row.seq, row.op) for row in differs.rows] == [(rank, 32, "BROADCAST") for rank in (1, 2, 3)]
