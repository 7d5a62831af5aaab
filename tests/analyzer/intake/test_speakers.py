"""Stacks of several ranks are of several processes, as the names of files and the headings say."""

from __future__ import annotations

import pytest
from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.sieve import Kept
from flatline.analyzer.intake.sources import Source
from flatline.analyzer.intake.speakers import speaker_of_name

DUMP = 'Thread 1 (idle): "MainThread"\n    {} (torch/distributed/distributed_c10d.py:{})\n    main (fit.py:9)\n'


def processes(**texts: str) -> list[tuple[int, int | None]]:
    """Pid and rank of the processes in texts of these names."""
    case = case_of_texts([Source(name, Kept(tuple(text.splitlines()))) for name, text in texts.items()], "x")
    return sorted((p.pid, p.rank) for p in case.store.rows("processes"))


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.txt", 3),
        ("pyspy-rank0.txt", 0),
        ("dump_r2.log", 2),
        ("node1-rank9.txt", 9),
        ("logs/rank_4/stack.txt", 4),
        ("tp5.txt", 5),
    ],
)
def test_a_name_tells_the_rank(name: str, rank: int) -> None:
    speaker = speaker_of_name(name)
    assert speaker is not None
    assert speaker.rank == rank


@pytest.mark.parametrize("name", ["stack1.txt", "dump-2.txt", "py-spy-0.4.0.txt", "before.txt", "log.txt"])
def test_a_number_alone_is_a_look_and_no_rank(name: str) -> None:
    assert speaker_of_name(name) is None


def test_two_containers_have_two_first_processes() -> None:
    assert len(processes(host0=DUMP.format("barrier", 3), host1=DUMP.format("all_reduce", 4))) == 2


def test_two_looks_at_one_process_stay_one() -> None:
    assert len(processes(look1=DUMP.format("barrier", 3), look2=DUMP.format("barrier", 3))) == 1


def test_a_heading_above_a_stack_tells_the_rank() -> None:
    text = "== rank 2 ==\n" + DUMP.format("barrier", 3) + "== rank 0 ==\n" + DUMP.format("all_reduce", 4)
    assert sorted(rank for _, rank in processes(dump=text) if rank is not None) == [0, 2]


def test_what_is_written_above_the_fence_of_a_ticket_tells_it_too() -> None:
    stacks = (f"host{number}.txt:\n\n```\n{DUMP.format('barrier', number)}```\n" for number in (0, 1))
    assert len(processes(ticket="It hangs.\n\n" + "\n".join(stacks))) == 2


def test_a_socket_s_owner_of_which_nothing_else_is_told_breaks_nothing() -> None:
    text = (
        "State    Recv-Q Send-Q Local Address:Port  Peer Address:Port Process\n"
        'SYN-SENT 0      1      10.2.0.5:44120      10.2.0.4:29500    users:(("python",pid=881,fd=44))\n'
    )
    assert processes(env="MASTER_ADDR=10.2.0.4\nMASTER_PORT=29500\n", ss=text)


def test_frames_without_the_head_of_their_thread_are_a_main_thread() -> None:
    text = "all_gather (torch/distributed/distributed_c10d.py:2)\nstep (fit.py:7)\nmain (fit.py:9)\n"
    case = case_of_texts([Source("rank1.txt", Kept(tuple(text.splitlines())))], "x")
    (thread,) = case.store.rows("threads")
    assert (thread.is_main, thread.rank) == (True, 1)
