"""What a terminal has broken at its width is whole again; what is cut at a width, or ends there by chance, stays."""

from __future__ import annotations

import pytest
from flatline.analyzer.intake.wrapped import rejoined, width_of

LONG = (
    "[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=417, "
    "OpType=ALLREDUCE, NumelIn=33554432, NumelOut=33554432, Timeout(ms)=600000) ran for 600042 milliseconds before timing out."
)


def broken(lines, width):
    return [line[at : at + width] for line in lines for at in range(0, len(line), width)]


@pytest.mark.parametrize("width", [80, 97, 100])
def test_a_broken_line_is_whole_where_its_last_piece_stands(width):
    pieces = broken(["starting", LONG, "then nothing"], width)
    whole = rejoined(pieces, width_of(pieces))
    assert len(whole) == len(pieces)
    assert [line for line in whole if line] == ["starting", LONG, "then nothing"]
    assert whole.index(LONG) == len(pieces) - 2


@pytest.mark.parametrize(
    "lines",
    [
        [f"{n:3d}%|{'#' * 70}| {n}/999" for n in range(100, 103)],
        ["+" + "-" * 78 + "+", "|" + " " * 78 + "|", "+" + "-" * 78 + "+"],
        ["2026-03-01 10:00:00 " + "x" * 60, "2026-03-01 10:00:01 " + "y" * 60, "2026-03-01 10:00:02 done"],
        ["ann       4711 " + "x" * 65, "ann       4712 " + "y" * 65, "ann       4713 python"],
        ["x" * 79 + ":", "  the next"],
        ["x" * 79 + ":", ""],
        ["x" * 85, "the longest line of a text is as long as it is"],
        ["wandb: started", "x" * 80, "wandb: " + "y" * 20],
        ["x" * 80, "torch.OutOfMemoryError: CUDA out of memory"],
        ["x" * 132, "gpu04: rank 0 of 2"],
        ["short", "lines"],
        [],
    ],
)  # fmt: skip
def test_other_lines_stay_as_they_are(lines):
    assert rejoined(lines, width_of(lines)) == lines
