"""Facts about conditions that no row can fulfil: they are found out once, and the answers stay the same."""

from __future__ import annotations

from flatline.analyzer.judge.evaluate import Match, Solver, compile_condition
from flatline.analyzer.judge.index import FactIndex
from flatline.analyzer.judge.language import Find
from flatline.analyzer.judge.samples import sample_store

THREADS = [{"pid": 11, "tid": 11 + n, "liveness": "frozen", "stack": ["/job/a.py:3 main"]} for n in range(40)]
ASKS = {
    "find": "threads",
    "as": "t",
    "with": [{"find": "frames", "where": {"thread": {"same": "t.id"}, "prompt": {"exists": True}}}],
}


def found(facts: dict, condition: dict, *, steps: int) -> tuple[list[Match], list[Match]]:
    """(solutions, guesses); so many rows may be looked at, or it raises."""
    store, _ = sample_store(facts)
    compiled = compile_condition(Find.model_validate(condition), {}, trusted=True)
    solver = Solver(FactIndex(store), steps)
    return list(solver.solutions([compiled], {})), list(solver.guesses([compiled], {}))


def test_threads_are_not_asked_one_by_one_for_what_no_frame_has():
    stack = [{"at": "/job/a.py:3 main", "code": "x = 1", "user": True}]
    facts = {"threads": [{**row, "stack": stack} for row in THREADS]}
    assert found(facts, {**ASKS, "with": [_native("input")]}, steps=0) == ([], [])


def test_the_one_thread_that_has_it_is_found():
    asks = {"pid": 11, "tid": 99, "stack": [{"at": "/job/a.py:4 ask", "code": 'input("Go on? ")', "user": True}]}
    solutions, _ = found({"threads": [*THREADS, asks]}, ASKS, steps=1_000)
    assert [match.bindings["t"].tid for match in solutions] == [99]


def _native(function: str) -> dict:
    return {"find": "frames", "where": {"thread": {"same": "t.id"}, "kind": "native", "function": function}}


def test_what_was_not_collected_is_not_ruled_out():
    rows = [{"pid": 11, "tid": 11, "liveness": "frozen"}]
    solutions, guesses = found({"threads": rows}, ASKS, steps=1_000)
    assert not solutions
    assert guesses
