"""How a process was started, where only a stack or a list of processes says so."""

from __future__ import annotations

import pytest
from flatline.analyzer.case import FactStore
from flatline.analyzer.derive.scene import Scene

from flatline.bundle.facts import Frame, Process, Thread

LIB = "/usr/lib/python3.11/multiprocessing"


def start_of(*stack: Frame) -> str:
    """Of a process of which only this stack is known, innermost first."""
    frames = [Frame("h1/9/9", 0, n, f.function, file=f.file, kind=f.kind) for n, f in enumerate(stack)]
    store = FactStore({"threads": [Thread("h1/9/9", "h1/9", 9, 9, is_main=True)], "frames": frames})
    return Scene(store).processes["h1/9"].start_method


def python(function: str, file: str) -> Frame:
    return Frame("", 0, 0, function, file=file, kind="python")


@pytest.mark.parametrize(
    ("stack", "start"),
    [
        ((python("work", "/job/a.py"), python("_launch", f"{LIB}/popen_fork.py")), "fork"),
        ((python("work", "/job/a.py"), python("_launch", "/v/multiprocess/popen_fork.py")), "fork"),
        ((python("work", "/job/a.py"), python("_launch", "/v/billiard/popen_fork.py")), "fork"),
        ((python("_launch", f"{LIB}/popen_fork.py"), python("start", f"{LIB}/process.py")), "unknown"),
        ((python("work", "/job/a.py"), python("spawn_main", f"{LIB}/spawn.py")), "spawn"),
        ((python("work", "/job/a.py"), python("_serve_one", f"{LIB}/forkserver.py")), "forkserver"),
        ((Frame("", 0, 0, "PyOS_AfterFork_Child", kind="native"),), "fork"),
        ((Frame("", 0, 0, "PyOS_BeforeFork", kind="native"),), "unknown"),
    ],
)
def test_the_outer_frames_say_how_a_process_was_started(stack: tuple[Frame, ...], start: str):
    assert start_of(*stack) == start


def row(pid: int, ppid: int | None, **more: object) -> Process:
    return Process(f"h1/{pid}", "h1", pid, ppid=ppid, argv=("python", "train.py"), is_python=True, **more)  # type: ignore[arg-type]


def starts(*rows: Process) -> dict[int, str]:
    return {p.pid: p.start_method for p in Scene(FactStore({"processes": rows})).processes.values()}


def test_a_child_with_the_command_line_of_its_parent_was_forked():
    assert starts(row(5, 1), row(6, 5)) == {5: "unknown", 6: "fork"}


def test_without_parents_one_thread_beside_a_program_of_many_says_the_same():
    assert starts(row(5, None), row(6, None, threads_total=1)) == {5: "unknown", 6: "fork"}
    assert starts(row(5, None), row(6, None)) == {5: "unknown", 6: "unknown"}
