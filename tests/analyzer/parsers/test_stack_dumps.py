"""Stacks of all threads that a program has printed itself, in the forms that are in use."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import traceback

import pytest
from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.sieve import Kept
from flatline.analyzer.intake.sources import Source

from flatline.bundle.facts import Frame, Thread

STACK = """\
  File "/job/shelf.py", line 12, in tidy
    self._sweep()
  File "/job/shelf.py", line 40, in _sweep
    with self._shelf_lock:
"""
MAIN = """\
  File "/job/run.py", line 3, in <module>
    serve()
  File "/job/shelf.py", line 77, in serve
    with self._till_lock:
"""


def store_of(text: str):
    return case_of_texts([Source("log.txt", Kept(tuple(text.split("\n"))))], "log.txt").store


def stacks_of(text: str) -> dict[str | None, list[tuple[str, str]]]:
    """Thread -> functions and their lines, innermost first."""
    store = store_of(text)
    frames: list[Frame] = sorted(store.rows("frames"), key=lambda frame: frame.depth)
    code = lambda frame: frame.source[0].text if frame.source else ""  # noqa: E731
    return {
        thread.name: [(frame.function, code(frame)) for frame in frames if frame.thread == thread.id]
        for thread in store.rows("threads")
    }


@pytest.mark.parametrize(
    ("side", "main"),
    [
        ("# Thread: tidier(140213223323)", "# Thread: MainThread(140213223399)"),
        ("~~~~~~~~ Stack of tidier (140213223323) ~~~~~~~~", "~~~~~~~~ Stack of MainThread (140213223399) ~~~~~~~~"),
        ('----- Thread 6001 "tidier" hangs -----', '----- Thread 6000 "MainThread" hangs -----'),
        ("Thread tidier:", "Thread MainThread:"),
    ],
)
def test_whose_a_stack_is_stands_above_it_in_whatever_words(side: str, main: str):
    found = stacks_of(f"{side}\n{STACK}\n{main}\n{MAIN}")
    assert found == {
        "tidier": [("_sweep", "with self._shelf_lock:"), ("tidy", "self._sweep()")],
        "MainThread": [("serve", "with self._till_lock:"), ("<module>", "serve()")],
    }


def test_without_names_the_thread_that_no_thread_has_started_is_the_main_one():
    text = f"# ThreadID: 140213\n{STACK.replace('tidy', '_bootstrap')}\n# ThreadID: 140999\n{MAIN}"
    threads: list[Thread] = store_of(text).rows("threads")
    assert [(thread.tid, thread.is_main) for thread in threads] == [(140213, False), (140999, True)]


def test_an_error_of_a_thread_is_no_such_stack():
    text = f"Exception in thread Thread-4:\nTraceback (most recent call last):\n{STACK}KeyError: 'a'\n"
    assert not store_of(text).rows("threads")
    assert not store_of(f"Thread 4 failed at\n{STACK}KeyError: 'a'\n").rows("threads")


def test_what_this_python_prints_is_read():
    stands, let_go = threading.Event(), threading.Event()

    def worker() -> None:
        stands.set()
        let_go.wait()

    thread = threading.Thread(target=worker, name="idler")
    thread.start()
    stands.wait()
    stack = "".join(traceback.format_stack(sys._current_frames()[thread.ident]))
    let_go.set()
    thread.join()
    found = stacks_of(f"--- Thread idler ({thread.ident}) ---\n{stack}")
    assert ("worker", "let_go.wait()") in found["idler"]


def test_the_stack_of_a_task_is_one_of_the_thread_of_its_loop():
    said = io.StringIO()

    async def main() -> None:
        waits = asyncio.create_task(asyncio.Event().wait(), name="reader")
        await asyncio.sleep(0)
        waits.print_stack(file=said)
        waits.cancel()

    asyncio.run(main())
    (functions,) = stacks_of(said.getvalue()).values()
    assert functions[0][0] == "wait"
