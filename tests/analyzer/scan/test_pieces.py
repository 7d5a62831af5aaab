"""Of a pattern with gaps the piece that says most is looked for."""

from __future__ import annotations

import pytest
from flatline.analyzer.scan.outline import outline


@pytest.mark.parametrize(
    ("pattern", "same_as"),
    [
        (r"rank \d+\b.{0,160}exhausted", "exhausted"),
        (r"Retrying in \S+ seconds.*after", "Retrying in "),
        (r"(No space left.{0,40}device|quota .{0,20}exceeded) again", "No space left|exceeded"),
        (r"watchdog(.{0,80}rank)? caught it", " caught it"),
        (r"(?i)rank.{0,80}请按任意键", "请按任意键"),
    ],
)
def test_a_pattern_is_looked_for_by_one_piece(pattern, same_as):
    assert outline(pattern).replace("(?:", "").replace(")", "") == outline(same_as).replace("(?:", "").replace(")", "")


@pytest.mark.parametrize("pattern", [r"step \d+.{0,60}loss", r"\d+.{0,9}: o", r"x.*y"])
def test_pieces_that_are_in_every_log_are_looked_for_together(pattern):
    assert r"[^\n]{0,}" in outline(pattern)


def test_a_pattern_without_a_gap_is_looked_for_whole():
    assert outline(r"lost \d: connection") == r"lost\x20[0-9]\x3a\x20connection"
