"""Blocks hold whole lines, however the text comes; a line that is too long is several."""

from __future__ import annotations

import random

import pytest
from flatline.analyzer.scan import blocks as module
from flatline.analyzer.scan.blocks import blocks
from flatline.analyzer.scan.tail import Tail

LONGEST = 8


def cut(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    parts = [line[at : at + LONGEST] for line in lines for at in range(0, max(len(line), 1), LONGEST)]
    return parts[:-1] if text.endswith(b"\n") or not text else parts


@pytest.mark.parametrize("seed", range(200))
def test_the_lines_of_the_blocks_are_those_of_the_text(seed, monkeypatch):
    monkeypatch.setattr(module, "MAX_LINE", LONGEST)
    rng = random.Random(seed)
    text = b"".join(rng.choice([b"a", b"b", b"c" * LONGEST, b"\n", b"\n", b"d" * 7]) for _ in range(rng.randrange(40)))
    pieces = [text[at : at + 1 + seed % 11] for at in range(0, len(text), 1 + seed % 11)]
    found = list(blocks(pieces, lambda: rng.choice([1, 5, 8, 9, 30])))
    assert b"".join(found) == text
    assert [line for block in found for line in block.removesuffix(b"\n").split(b"\n")] == cut(text)
    assert all(len(line) <= LONGEST for block in found for line in block.split(b"\n"))


def test_one_line_of_many_pieces_comes_whole():
    joined = sum(map(len, blocks((b"x" * 1000 for _ in range(30_000)), lambda: 256 * 1024)))
    assert joined == 30_000_000


@pytest.mark.parametrize("seed", range(100))
def test_the_tail_is_the_last_lines_that_are_not_blank(seed):
    rng = random.Random(seed)
    lines = [rng.choice([b"a", b"b", b"", b" ", b"\t\r"]) for _ in range(rng.randrange(30))]
    tail, number = Tail(4), 0
    while number < len(lines):
        some = lines[number : number + rng.randrange(1, 6)]
        number += len(some)
        is_forced = rng.random() < 0.3
        tail.add(b"\n".join(some) + (b"" if is_forced and some[-1] else b"\n"), number)
    full = [(at, line) for at, line in enumerate(lines, start=1) if line.strip()]
    last = full[-1][0] if full else 0
    assert tail.last == last
    assert tail.lines() == [(at, line) for at, line in full if at > last - 4]
