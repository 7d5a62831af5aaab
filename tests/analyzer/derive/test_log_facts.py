"""What logs add to the tables: collectives and ranks."""

from __future__ import annotations

from pathlib import Path

from flatline.analyzer.case import FactStore
from flatline.analyzer.derive import derive
from flatline.analyzer.intake.opening import open_case

from flatline.bundle.facts import Collective

MISMATCH = (
    "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint("
    "SequenceNumber=34, OpType=BROADCAST, TensorShape=[1, 7], TensorDtypes=Long, TensorDeviceTypes=TensorOptions(dtype="
    "float (default), device=cuda)), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=35, OpType="
    "ALLGATHER, TensorShape=[4], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default)))."
    "Collectives differ in the following aspects:\n"
)


def store_of(tmp_path: Path, **texts: str) -> FactStore:
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
    with open_case([tmp_path]) as case:
        derive(case)
        return case.store


def collectives(tmp_path: Path, **texts: str) -> list[tuple[object, ...]]:
    rows: list[Collective] = store_of(tmp_path, **texts).rows("collectives")
    return [(row.rank, row.seq, row.op, row.sizes, row.state) for row in rows]


def test_a_watchdog_line_is_a_collective_that_was_started(tmp_path: Path) -> None:
    line = "[rank3]:[E411 02:10:07 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=71, OpType=_ALLGATHER_BASE, NumelIn=8, NumelOut=16, Timeout(ms)=600000) ran for 600051 milliseconds before timing out.\n"
    assert collectives(tmp_path, log=line * 2) == [(3, 71, "_ALLGATHER_BASE", ((8,), (16,)), "started")]


def test_an_old_watchdog_names_no_sequence_number(tmp_path: Path) -> None:
    line = "[E ProcessGroupNCCL.cpp:566] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, TensorShape=[64, 3], Timeout(ms)=600000) ran for 600051 milliseconds before timing out.\n"
    assert collectives(tmp_path, log=line) == [(1, None, "BROADCAST", ((64, 3),), "started")]


def test_how_far_a_rank_has_come_is_told_with_its_group(tmp_path: Path) -> None:
    line = "[rank0]:[E411 02:10:07 ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID 0(default_pg) Rank 0] Timeout at NCCL work: 71, last enqueued NCCL work: 72, last completed NCCL work: 70.\n"
    store = store_of(tmp_path, log=line)
    assert [(r.rank, r.seq, r.state, r.group) for r in store.rows("collectives")] == [
        (0, 72, "scheduled", "0(default_pg)"), (0, 70, "completed", "0(default_pg)"),
    ]  # fmt: skip
    assert not store.collected("collectives")


def test_fingerprints_that_do_not_fit_name_both_ranks(tmp_path: Path) -> None:
    assert collectives(tmp_path, log=MISMATCH) == [
        (1, 34, "BROADCAST", ((1, 7),), "started"), (0, 35, "ALLGATHER", ((4,),), "started"),
    ]  # fmt: skip


def test_a_fingerprint_that_is_cut_off_gives_what_is_left(tmp_path: Path) -> None:
    assert collectives(tmp_path, log=MISMATCH[:230])[0][:3] == (1, 34, "BROADCAST")


def ranks(tmp_path: Path, **texts: str) -> list[tuple[int, bool | None]]:
    return [(row.rank, row.present) for row in store_of(tmp_path, **texts).rows("ranks")]


def test_ranks_that_have_not_come_are_told_by_those_that_have(tmp_path: Path) -> None:
    joining = "".join(f"initializing ddp: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/4\n" for rank in (0, 2))
    assert ranks(tmp_path, log=joining) == [(0, True), (1, False), (2, True), (3, False)]


def test_nobody_is_missing_once_all_have_registered(tmp_path: Path) -> None:
    joining = "".join(f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/4\n" for rank in (0, 1))
    assert ranks(tmp_path, log=joining + "All distributed processes registered. Starting with 4 processes\n") == [
        (0, True), (1, True),
    ]  # fmt: skip


def test_the_log_of_one_rank_does_not_know_of_the_others(tmp_path: Path) -> None:
    assert ranks(tmp_path, log="initializing ddp: GLOBAL_RANK: 0, MEMBER: 1/4\n") == [(0, True)]


def test_logs_of_several_ranks_are_told_together(tmp_path: Path) -> None:
    one = {f"r{rank}": f"init {{'MASTER_PORT': '29511', 'RANK': '{rank}', 'WORLD_SIZE': '2'}}\n" for rank in (0, 1)}
    assert ranks(tmp_path, **one) == [(0, True), (1, True)]
