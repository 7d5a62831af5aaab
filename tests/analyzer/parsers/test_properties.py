"""What holds for every parser, on any input: it does not raise, it goes on, and it looks at each line a few times."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from flatline.analyzer.intake.blocks import cut
from flatline.analyzer.intake.cleaning import cleaned
from flatline.analyzer.parsers.interface import Line
from flatline.analyzer.parsers.registry import PARSERS

from flatline.bundle.facts import COLLECTED

PASTED = Path(__file__).parents[3] / "fixtures" / "pasted"
TEXTS = {str(p.relative_to(PASTED)): p.read_text("utf-8", "replace") for p in sorted(PASTED.rglob("*")) if p.is_file()}
ROWS = tuple(COLLECTED.values())


class Watched:
    """Lines that count how often they are looked at."""

    def __init__(self, lines: list[Line]) -> None:
        self._lines, self.looks = lines, 0

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, key):
        self.looks += 1 if isinstance(key, int) else len(range(*key.indices(len(self._lines))))
        return self._lines[key]

    def __iter__(self):
        for line in self._lines:
            self.looks += 1
            yield line


def blocks_of(text: str):
    lines = list(cleaned(text.split("\n")))
    blocks = cut(lines)
    assert all(a.end <= b.first for a, b in zip(blocks, blocks[1:], strict=False))
    covered = {index for block in blocks for index in range(block.first, block.end)}
    assert all(index in covered or not line.bare for index, line in enumerate(lines)), "a line got lost"
    for block in blocks:
        assert all(isinstance(row, ROWS) for row in block.rows), block.kind
        assert all(row.line is None or 1 <= row.line <= len(lines) for row in block.rows), block.kind
    return blocks


def test_every_kind_of_text_has_a_name_of_its_own():
    kinds = [parser.kind for parser in PARSERS]
    assert all(kind == kind.lower() and " " not in kind for kind in kinds)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_cut_anywhere_is_read_as_far_as_it_goes(name: str):
    lines = TEXTS[name].split("\n")
    random.seed(name)
    for _ in range(12):
        first, last = sorted(random.sample(range(len(lines) + 1), 2)) if len(lines) > 1 else (0, 1)
        blocks_of("\n".join(lines[first:last]))
    text = TEXTS[name]
    for _ in range(12):
        first, last = sorted(random.randrange(len(text) + 1) for _ in range(2))
        blocks_of(text[first:last])


@pytest.mark.parametrize("name", TEXTS)
def test_two_texts_line_by_line_in_one_do_no_harm(name: str):
    random.seed(name)
    other = TEXTS[random.choice(sorted(TEXTS))].split("\n")[:400]
    one = TEXTS[name].split("\n")[:400]
    mixed = [line for pair in zip(one, other, strict=False) for line in pair]
    blocks_of("\n".join(mixed))


@pytest.mark.parametrize("seed", range(30))
def test_any_bytes_are_read(seed: int):
    random.seed(seed)
    noise = bytes(random.randrange(256) for _ in range(4000)).decode("utf-8", "replace")
    blocks_of(noise)
    lines = [random.choice(list(TEXTS.values()) or [""]).split("\n") for _ in range(5)]
    words = [word for text in lines for line in text for word in line.split(" ")] or ["x"]
    blocks_of("\n".join(" ".join(random.choices(words, k=random.randrange(12))) for _ in range(300)))


@pytest.mark.parametrize("name", TEXTS)
def test_no_line_is_looked_at_more_often_the_longer_the_text_is(name: str):
    looks = []
    for times in (2, 8):
        lines = list(cleaned((TEXTS[name] + "\n").split("\n")[:-1] * times))
        watched = Watched(lines)
        cut(watched)  # type: ignore[arg-type]
        looks.append(watched.looks / max(len(lines), 1))
    assert looks[1] <= looks[0] * 1.5 + 20, looks


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.kind)
def test_a_first_line_a_thousand_times_costs_a_constant_each(parser):
    begun = {line for text in TEXTS.values() for line in text.split("\n") if parser.begins.match(line.strip())}
    for first in sorted(begun)[:5]:
        lines = list(cleaned([first, "something else entirely"] * 1000))
        watched = Watched(lines)
        cut(watched)  # type: ignore[arg-type]
        assert watched.looks <= len(lines) * 400, parser.kind


def test_every_kind_is_in_the_documentation():
    page = (Path(__file__).parents[3] / "docs" / "pasted-text.md").read_text()
    assert {parser.kind for parser in PARSERS} == set(re.findall(r"`([a-z][a-z-]+)`", page)) & {p.kind for p in PARSERS}
