"""What a person writes below a pasted log is not its last line."""

from __future__ import annotations

import pytest
from flatline.analyzer.intake.closing_words import closing_words
from flatline.analyzer.intake.tickets import parts

LOG = ["09:12:01 INFO world size 16", "wandb: Enter your choice: ", ""]


@pytest.mark.parametrize(
    "words",
    [
        ["it has been like this all night, what do I do"],
        ["Any idea?", "Thanks"],
        ["只有一个节点是这样。请问是防火墙的问题吗?"],
    ],
)
def test_a_persons_last_paragraph_is_told_from_the_log(words: list[str]) -> None:
    assert closing_words([*LOG, *words]) == len(LOG)
    assert [(part.first, part.is_prose) for part in parts([*LOG, *words])] == [(0, False), (len(LOG), True)]


@pytest.mark.parametrize(
    "words",
    [
        ["Do you wish to run the custom code? [y/N] "],
        ["Please enter my password: "],
        ["Please restart the kernel to use updated packages."],
        ["ValueError: I expected two tensors"],
        ["[rank0] I am waiting for the others"],
        ["是否覆盖?"],
        ["step 10 loss 2.3"],
    ],
)
def test_a_programs_last_paragraph_stays_in_the_log(words: list[str]) -> None:
    lines = [*LOG, *words]
    assert closing_words(lines) == len(lines)
    assert len(parts(lines)) == 1


def test_words_with_nothing_above_them_are_searched_as_before() -> None:
    assert len(parts(["", "My laptop hangs, any idea?"])) == 1


def test_words_without_an_empty_line_above_are_the_logs() -> None:
    assert len(parts([*LOG[:-1], "I wait for you"])) == 1


def test_a_long_last_paragraph_is_the_logs() -> None:
    assert len(parts([*LOG, *["I wait"] * 7])) == 1
