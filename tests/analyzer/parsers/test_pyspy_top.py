"""py-spy top says what is busy, of several screens the last."""

from __future__ import annotations

from parsing import blocks_of, only, rows_of
from programs import FIXTURES

from flatline.bundle.facts import Process

TOP = (FIXTURES / "pasted" / "stacks" / "py-spy-0.4.3-top.txt").read_bytes().decode()


def test_the_screen_of_a_terminal_names_the_program_and_where_it_spends_its_time():
    block = only(TOP, "py-spy-top")
    (process,) = rows_of(block, Process)
    assert process.argv == ("/opt/python-3.11.7/bin/python3", "plain.py", "1")
    assert (process.python, process.threads_total, process.is_python) == ("3.11.7", 3, True)
    assert block.about == "GIL 0.00 %, active 81.00 %, 27.00 % in Condition.wait (threading.py)"


def test_the_table_alone_is_known():
    rows = (
        "  %Own   %Total  OwnTime  TotalTime  Function (filename)\n 99.00%  99.00%    5.00s     5.00s   spin (a.py)\n"
    )
    assert only(rows, "py-spy-top").about == "99.00 % in spin (a.py)"


def test_what_follows_it_is_something_else():
    text = TOP + 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: x\n'
    assert [block.kind for block in blocks_of(text)] == ["py-spy-top", "python-traceback"]
