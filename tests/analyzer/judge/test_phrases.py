"""Words worked out for texts: what a program asks, and where a debugger has halted it."""

from __future__ import annotations

import pytest
from flatline.analyzer.judge.fields import value_of
from flatline.analyzer.judge.index import FactIndex
from flatline.analyzer.judge.phrases import breakpoint_of, prompt, stream
from flatline.analyzer.judge.samples import sample_store


def about(phrase, *stack, **tables):
    store, _ = sample_store({"threads": [{"pid": 7, "tid": 7, "syscall": {"name": "write", "fd": 2}, "stack": list(stack)}], **tables})
    return phrase(store.rows("threads")[0], FactIndex(store))


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        ('answer = input("Go on? [y/N] ")', "Go on? [y/N]"),
        ("if not typer.confirm('Delete it all?'):", "Delete it all?"),
        ('key = click.prompt(text, default=None)', None),
        ('name = Prompt.ask(prompt=f"Run {name}?")', "Run {name}?"),
        ('x = input("a\\nb\\"c? ")', 'a b\\"c?'),
        ("secret = getpass.getpass()", "Password: "),
        ("line = input()", None),
        ('line = input("")', None),
        ("line = read_input('x')", None),
    ],
)
def test_a_line_says_what_it_asks(code, asks):
    store, _ = sample_store({"threads": [{"pid": 7, "tid": 7, "stack": [{"at": "t.py:3 main", "code": code}]}]})
    assert value_of(store.rows("frames")[0], "prompt") == asks


def test_the_unfinished_line_of_the_output_comes_before_the_text_in_the_code():
    frame = {"at": "t.py:3 main", "code": 'input(f"Run {name}? ")', "user": True}
    log = {"stream": "stdout", "writers": ["h1/7"], "content": "loading\nRun m7? "}
    assert about(prompt, frame, logs=[log]) == '"Run m7? "'
    assert about(prompt, frame, logs=[{**log, "content": "loading\n"}]) == '"Run {name}?"'
    assert about(prompt, "t.py:3 main") is None


def test_a_debugger_that_steps_has_halted_before_the_line_it_shows():
    bdb = "/usr/lib/python3.11/bdb.py:94 trace_dispatch"
    user = {"at": "t.py:8 step", "user": True, "code": "return x"}
    assert about(breakpoint_of, user, bdb) == "just before t.py:8 in step"
    assert about(breakpoint_of, user) == "at t.py:8 in step"


def test_the_call_that_halts_is_found_in_the_lines_before():
    source = [{"line": 7, "text": "    breakpoint()"}, {"line": 8, "text": "    return x"}]
    store, _ = sample_store({
        "threads": [{"pid": 7, "tid": 7}],
        "frames": [{"thread": "h1/7/7", "sample": 0, "depth": 0, "function": "step", "file": "/j/t.py", "line_no": 8,
                    "is_user": True, "source": source}],
    })  # fmt: skip
    assert breakpoint_of(store.rows("threads")[0], FactIndex(store)) == "at t.py:7 in step"


def test_a_descriptor_is_called_by_what_it_is():
    assert about(stream) == "standard error"
