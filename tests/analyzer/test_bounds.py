"""Thousands of processes that wait in one long line: what is told stays small, says what it leaves out, and is right."""

from __future__ import annotations

import pytest
from builders import USER, Job, reads
from flatline.analyzer.analysis import analyze
from flatline.analyzer.case import case_of
from flatline.analyzer.derive.chains import MAX_DEPTH, TOLD_FIRST, TOLD_LAST
from flatline.analyzer.derive.derivation import MAX_TOLD_STEPS
from flatline.analyzer.reports import render


def ring(size, *, closed=True):
    """Ranks of which each reads a pipe that the next one has the other end of; the last one waits for the first."""
    job = Job()
    for number in range(size):
        pid = 1000 + number
        relation = "target" if number == 0 else "descendant"
        job.process(pid, ppid=1000 if number else 1, relation=relation, role="rank", rank=number, world_size=size)
        job.thread(pid, syscall=reads(3, f"pipe:[{number}]"), stacks=((USER, "step", 10), (USER, "main", 3)))
    for number in range(size if closed else size - 1):
        job.pipe(number, reader=(1000 + number, 3), writer=(1000 + (number + 1) % size, 4))
    return case_of(job.store)


@pytest.fixture(scope="module")
def report():
    case = ring(600)
    return analyze(case), case


def test_no_more_steps_are_told_than_a_person_or_a_program_can_take(report) -> None:
    told, _ = report
    assert sum(len(chain.steps) for chain in told.chains) <= MAX_TOLD_STEPS + MAX_DEPTH + 1
    assert len(told.chains) + told.chains_left_out == 600
    assert told.chain is not None
    assert told.chains[told.chain].end.kind in ("cut", "cycle")


def test_the_sentence_of_a_long_chain_has_its_beginning_and_its_end(report) -> None:
    told, _ = report
    text = told.chains[0].text
    assert text.startswith("rank 0 (pid 1000) ")
    assert f"and so on, {MAX_DEPTH - TOLD_FIRST - TOLD_LAST} more steps" in text
    assert text.endswith(f"followed for {MAX_DEPTH} steps")
    assert len(text) < 3000


@pytest.mark.parametrize(("form", "limit"), [("text", 20_000), ("md", 20_000), ("html", 2_000_000), ("json", 30_000_000)])
def test_every_report_stays_within_bounds(report, form: str, limit: int) -> None:
    assert 100 < len(render(form, *report)) < limit


def test_the_page_says_how_many_chains_it_does_not_tell(report) -> None:
    assert f"and {600 - 200} more" in render("html", *report)


def test_a_ring_that_is_short_enough_is_told_whole_as_a_cycle() -> None:
    told = analyze(ring(5))
    assert (told.verdict.state, told.chains_left_out, len(told.chains)) == ("hung", 0, 5)
    assert {chain.end.kind for chain in told.chains} == {"cycle"}
