"""Tracebacks: which error ended a program, where it was raised, and where an interrupted one stood."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.blocks import cut
from flatline.analyzer.intake.cleaning import cleaned
from flatline.analyzer.intake.sieve import Kept
from flatline.analyzer.intake.sources import Source

from flatline.bundle.facts import Frame, LoggedError, Thread

PASTED = Path(__file__).parents[3] / "fixtures" / "pasted" / "stacks"


def store(text: str):
    return case_of_texts([Source("log.txt", Kept(tuple(text.split("\n")), size=len(text)))], "t").store


def errors(text: str) -> list[LoggedError]:
    return store(text).rows("errors")


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stderr


def test_the_error_that_ended_a_program_says_what_and_where():
    text = 'step 3\nTraceback (most recent call last):\n  File "/job/a.py", line 4, in step\n    x = 1 / 0\n        ~~^~~\nZeroDivisionError: division by zero\n'
    (error,) = errors(text)
    assert (error.type, error.message, error.function, error.line_no) == (
        "ZeroDivisionError",
        "division by zero",
        "step",
        4,
    )
    assert (error.is_user, error.handled, error.is_last, error.line) == (True, False, True, 6)


def test_an_error_that_the_program_got_over_is_not_the_last():
    text = 'Traceback (most recent call last):\n  File "/job/a.py", line 4, in step\n    f()\nOSError: busy\n'
    (error,) = errors(text + "\n".join(f"step {n} loss 0.1" for n in range(40)))
    assert error.is_last is False


def test_of_a_chain_only_the_last_was_not_handled():
    code = "try:\n  int('x')\nexcept ValueError as e:\n  raise RuntimeError('no number\\nat all') from e"
    assert [(e.type, e.handled) for e in errors(python(code))] == [("ValueError", True), ("RuntimeError", False)]


def test_a_group_gives_each_of_its_errors():
    found = errors((PASTED / "tracebacks.txt").read_text())
    assert [e.type for e in found][2:5] == ["ExceptionGroup", "ValueError", "TypeError"]


def test_ranks_that_fail_at_once_are_read_each_for_itself():
    found = errors((PASTED / "tracebacks.txt").read_text())[:2]
    assert {(e.rank, e.type) for e in found} == {(0, "ValueError"), (1, "torch.OutOfMemoryError")}


def test_the_lines_of_a_traceback_stay_in_the_log():
    (log,) = store(
        "begin\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nKeyError: 'x'\nend\n"
    ).rows("logs")
    assert (log.text_first, log.text_last) == (1, 5)


def test_a_log_line_between_is_not_taken_for_the_error():
    text = (
        'Traceback (most recent call last):\n  File "/job/a.py", line 4, in step\n    f()\n\n\nepoch 3: 4 of 9 done\n'
    )
    assert errors(text) == []


def test_where_the_user_gave_up_is_a_stack_of_the_main_thread():
    text = (
        '    for x in loader:\n  File "/v/lib/python3.9/site-packages/torch/utils/data/dataloader.py", line 940, in _shutdown\n'
        '    w.join()\n  File "/usr/lib/python3.9/multiprocessing/popen_fork.py", line 28, in poll\n'
        "    pid, sts = os.waitpid(self.pid, flag)\nKeyboardInterrupt\n"
    )
    found = store(text)
    (thread,) = found.rows("threads")
    assert (thread.is_main, thread.pid) == (True, -1)
    assert [f.function for f in found.rows("frames")] == ["poll", "_shutdown"]
    assert found.rows("errors")[0].process == thread.process


def test_an_error_that_ended_it_is_no_stack_of_a_living_thread():
    assert store('Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 1\n').rows("frames") == []


def test_a_launcher_that_was_told_to_end_names_itself():
    text = (
        'Traceback (most recent call last):\n  File "/v/torch/distributed/elastic/agent/server/api.py", line 700, in run\n    x()\n'
        '  File "/v/torch/distributed/elastic/multiprocessing/api.py", line 80, in _terminate_process_handler\n    raise e\n'
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 771 got signal: 2\n"
    )
    found = store(text)
    assert [(t.pid, t.tid) for t in found.rows("threads")] == [(771, 771)]
    assert [f.function for f in found.rows("frames")] == ["run"]


def test_an_interrupted_coroutine_shows_where_it_waited():
    code = (
        "import asyncio, os, signal, threading\n"
        "async def never():\n  threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n  await asyncio.Event().wait()\n"
        "asyncio.run(never())"
    )
    found = store(python(code))
    assert "never" in [frame.function for frame in found.rows("frames")]


def test_a_traceback_cut_at_the_lock_of_the_interpreter_s_end_is_an_interrupted_one():
    text = 'Exception ignored in: <module>\nTraceback (most recent call last):\n  File "/usr/lib/python3.10/threading.py", line 1567, in _shutdown\n    lock.acquire()\n'
    assert [f.function for f in store(text).rows("frames")] == ["_shutdown"]


def test_a_paste_without_indentation_is_read():
    text = 'Traceback (most recent call last):\nFile "a.py", line 1, in f\ng(1)\nFile "b.py", line 3, in g\nraise KeyError\nKeyError: 1\n'
    (error,) = errors(text)
    assert (error.type, error.function) == ("KeyError", "g")


def test_a_notebook_s_traceback_is_read():
    lines = list(cleaned((PASTED / "notebook.txt").read_text().split("\n")))
    block = next(b for b in cut(lines) if b.kind == "ipython-traceback")
    frames = [row for row in block.rows if isinstance(row, Frame)]
    assert [(f.function, f.line_no) for f in frames] == [("get", 113), ("_try_get_data", 1120), ("<module>", 3)]
    assert [row.is_main for row in block.rows if isinstance(row, Thread)] == [True]
    assert [line.line for frame in frames for line in frame.source or ()] == [f.line_no for f in frames if f.source]
    assert any(f.source for f in frames)


def test_an_error_that_python_ignored_ended_nothing() -> None:
    (ignored,) = errors(python("class Bar:\n def __del__(self): raise ValueError('closed')\nBar()"))
    (raised,) = errors(python("def close(): raise ValueError('closed')\nclose()"))
    assert (ignored.type, ignored.handled) == ("ValueError", True)
    assert (raised.type, raised.handled) == ("ValueError", False)


def test_a_frame_of_an_interrupted_program_has_the_line_that_was_printed_below_it():
    text = (
        'Traceback (most recent call last):\n  File "/job/pool.py", line 9, in borrow\n    with self._lock:\n'
        "         ^^^^^^^^^^\nKeyboardInterrupt\n"
    )
    (block,) = cut(list(cleaned(text.splitlines())))
    (frame,) = (row for row in block.rows if isinstance(row, Frame))
    assert [(line.line, line.text) for line in frame.source] == [(9, "with self._lock:")]
