"""What the README says it can name: the causes exist, and an end-to-end test takes the row's program to each of them."""

from __future__ import annotations

import re

import pytest
from flatline.analyzer.judge.pack import load_rulebook
from programs import FIXTURES, ROOT

BOOK = load_rulebook()
PROGRAM = re.compile(r"`(fixtures/[\w./-]+)`")
CAUSE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*-?…?")


def rows() -> list[tuple[str, list[str], list[str]]]:
    """(text, causes, programs) of every row of the tables below "What it can name today"."""
    text = (ROOT / "README.md").read_text()
    part = text.partition("## What it can name today")[2].partition("\n## ")[0]
    found, column = [], 0
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "cause" in cells:
            column = cells.index("cause")
        elif line.startswith("| ") and len(cells) == 3:
            named = re.sub(r"\([^)]*\)", "", cells[column])
            found.append((line, [c for c in CAUSE.findall(named) if c], PROGRAM.findall(line)))
    return found


ROWS = rows()
TESTS = {path.name: path.read_text() for path in (ROOT / "tests" / "end_to_end").glob("*.py")}


def test_both_tables_are_read() -> None:
    assert len(ROWS) >= 25
    assert len([row for row in ROWS if "Node.js" in row[0]]) == 1


@pytest.mark.parametrize("row", ROWS, ids=[", ".join(row[1])[:60] for row in ROWS])
def test_the_causes_of_a_row_exist_and_its_programs_lead_to_them(row: tuple[str, list[str], list[str]]) -> None:
    line, causes, programs = row
    whole = [cause for cause in causes if not cause.endswith("…")]
    assert whole
    assert set(whole) <= set(BOOK.causes)
    assert {rule.model.cause for rule in BOOK.rules} >= set(whole)
    assert all((ROOT / program).exists() for program in programs)
    if not programs:
        assert "public reports" in line
        return
    stems = [(FIXTURES.parent / program).stem for program in programs]
    by_tests = [text for text in TESTS.values() if any(stem in text for stem in stems)]
    unshown = [cause for cause in whole if not any(re.search(rf"\b{cause}\b", text) for text in by_tests)]
    assert not unshown, "no end-to-end test that runs a program of this row names it"
