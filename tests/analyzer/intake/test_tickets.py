"""Tickets whose lines only begin like a fence or a tag, as long as somebody likes: looked at once, taken as text."""

import pytest
from flatline.analyzer.intake.tickets import parts

LONG = 400_000


@pytest.mark.parametrize("line", ["~" * LONG + "`", "```" + " " * LONG + "`", "```" + "a" * LONG + "`"])
def test_a_line_that_only_begins_like_a_fence_is_text(line: str) -> None:
    (part,) = parts([line, "RuntimeError: boom"])
    assert part.lines == (line, "RuntimeError: boom")


@pytest.mark.parametrize("begin", ["<pre ", "<code x=", "<"])
def test_tags_that_nobody_closes_are_text(begin: str) -> None:
    line = begin * (LONG // len(begin))
    (part,) = parts(["<html>", line])
    assert part.lines[1] == line


def test_an_artefact_in_a_fence_of_any_length_stands_apart_from_the_prose() -> None:
    prose, artefact = parts(["It hangs:", "~~~~~ text of the log", "RuntimeError: boom", "~~~~~"])
    assert prose.is_prose
    assert artefact.lines == ("RuntimeError: boom",)
