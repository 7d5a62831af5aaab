"""What a pasted piece of a program says of who calls what."""

from __future__ import annotations

import time

import pytest
from flatline.analyzer.derive.logs.guarded_calls import guards_of


def guarded(code: str) -> dict[str, str]:
    return {name: guard.text for name, guard in guards_of(list(enumerate(code.split("\n"), start=1))).items()}


def test_a_call_in_the_branch_of_one_rank_is_under_its_condition() -> None:
    code = "for step in steps:\n    if rank == 0:  # only here\n        evaluate(model)\n    train(step)"
    assert guarded(code) == {"evaluate": "if rank == 0:"}


def test_how_far_above_the_call_the_condition_stands() -> None:
    code = "if rank == 0:\n    a = 1\n    evaluate(model)"
    assert guards_of(list(enumerate(code.split("\n"), start=1)))["evaluate"].above == 2


def test_a_body_on_the_line_of_the_condition() -> None:
    assert guarded("if dist.get_rank() == 0: dist.barrier()") == {"barrier": "if dist.get_rank() == 0:"}


def test_what_stands_behind_a_return_is_for_the_others() -> None:
    code = "def save(model):\n    if rank != 0:\n        return\n    dist.barrier()\n"
    assert guarded(code) == {"barrier": "if rank != 0: return"}


def test_a_function_for_the_main_process_alone() -> None:
    assert guarded("@rank_zero_only\ndef report(self):\n    gather_metrics()") == {"gather_metrics": "@rank_zero_only"}


@pytest.mark.parametrize(
    "code",
    [
        "if rank == 0:\n    dist.barrier()\nelse:\n    dist.barrier()",
        "if rank != 0:\n    dist.barrier()\nload()\nif rank == 0:\n    dist.barrier()",
        "if rank == 0:\n    dist.barrier()\ndist.barrier()",
        "if epoch == 0:\n    dist.barrier()",
        "if rank == 0:\n    print(1)\n\ndist.barrier()",
    ],
)
def test_what_all_ranks_call_is_under_no_condition(code: str) -> None:
    assert "barrier" not in guarded(code)


@pytest.mark.parametrize("numbered", ["{}: {}", "{}| {}"])
def test_numbers_before_the_lines_are_no_code(numbered: str) -> None:
    code = ["if rank == 0:", "    dist.barrier()"]
    assert guarded("\n".join(numbered.format(n, line) for n, line in enumerate(code, start=41))) == {
        "barrier": "if rank == 0:"
    }


@pytest.mark.parametrize(
    ("condition", "rank", "admits"),
    [
        ("if rank == 0:", 0, True),
        ("if rank == 0:", 3, False),
        ("if rank != 0:", 0, False),
        ("if rank != 0: return", 0, True),
        ("if not is_main_process(): return", 2, False),
        ("if rank == 0:", None, True),
    ],
)
def test_which_rank_a_condition_admits(condition: str, rank: int | None, admits: bool) -> None:
    found = guards_of([(1, condition.partition(" return")[0]), (2, "    return"), (3, "dist.barrier()")])
    if "return" not in condition:
        found = guards_of([(1, condition), (2, "    dist.barrier()")])
    assert found["barrier"].admits(rank) is admits


def test_a_line_of_one_endless_word_costs_what_it_is_long() -> None:
    code = [(1, "if rank == 0:"), (2, "    barrier()"), (3, "A" * 65536)]
    begin = time.process_time()
    assert set(guards_of(code)) == {"barrier"}
    assert time.process_time() - begin < 8, "some milliseconds where nothing else runs; quadratic would be a minute"
