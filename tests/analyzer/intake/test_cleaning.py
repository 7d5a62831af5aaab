"""A line is what it was before somebody pasted it."""

from __future__ import annotations

import pytest
from flatline.analyzer.intake.cleaning import MAX_JSON, MAX_STATES, clean


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain", "plain"),
        ("plain\r\n", "plain"),
        ("> quoted", "quoted"),
        ("> > twice", "twice"),
        ("in &lt;module&gt; a &amp;&amp; b &alpha;", "in <module> a && b &alpha;"),
        ("<process_name>a &amp; b &lt;defunct&gt;</process_name>", "<process_name>a &amp; b &lt;defunct&gt;</process_name>"),
        ("a\xa0 b", "a  b"),
        (">>> import torch", ">>> import torch"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;https://x\x07link\x1b]8;;\x07", "link"),
        ("    indented", "    indented"),
        ('{"log":"step 1\\n","stream":"stdout","time":"2026-01-01T00:00:00Z"}', "step 1"),
        ('{"log":"half \\ud800 a letter\\n"}', "half ? a letter"),
        ('{"log": broken', '{"log": broken'),
        ("2026-01-01T00:00:00.123456789Z stdout F step 1", "step 1"),
        ("(gdb) bt", "bt"),
    ],
)
def test_what_was_put_around_a_line_is_taken_away(raw, text):
    assert clean(1, raw).text == text


@pytest.mark.parametrize(
    ("raw", "rank"),
    [
        ("[rank3]: Traceback", 3),
        ("[rank3]:[E ProcessGroupNCCL.cpp:563] x", 3),
        ("[default1]:step", 1),
        ("2: step", 2),
        ("[1,3]<stderr>:step", 3),
        ("[1,0]<stdout>:cn07:1:1 [0] NCCL INFO", 0),
        ("[1,mpirank:5,algo-2]<stderr>:step", 5),
        ("12:30:01 step", None),
        ("step 2: loss", None),
    ],
)
def test_the_rank_of_the_prefix_is_known(raw, rank):
    assert clean(1, raw).rank == rank


def test_the_prefix_stays_in_what_the_log_shows():
    line = clean(1, '[rank3]:   File "a.py", line 1')
    assert (line.text, line.shown) == ('  File "a.py", line 1', '[rank3]:   File "a.py", line 1')


def test_an_actor_s_pid_is_known():
    assert clean(1, "(EngineCore_0 pid=212) INFO waiting").pid == 212
    assert clean(1, "(RayTrainWorker pid=99, ip=10.0.0.1) x").text == "x"


def test_a_line_that_was_overwritten_says_what_it_said_last_and_keeps_the_rest():
    line = clean(1, "  1%|    | 1/9\r  2%|    | 2/9\r  3%|    | 3/9")
    assert line.bare == "3%|    | 3/9"
    assert "1/9" in line.shown
    many = clean(1, "\r".join(f"{n}/999" for n in range(999)))
    assert many.shown.count("|") == MAX_STATES - 1
    assert many.shown.startswith("0/999")


def test_a_line_without_end_is_cut():
    assert len(clean(1, "x" * 10_000_000).text) <= 64 * 1024


def test_a_whole_dump_in_one_line_is_not_cut_but_bounded():
    thread = '{"pid": 7, "thread_id": 9, "frames": [' + ", ".join(['{"name": "f"}'] * 20_000) + "]}"
    assert clean(1, f"[{thread}]").text == f"[{thread}]"
    assert len(clean(1, f"[{thread * 100}").text) <= MAX_JSON
