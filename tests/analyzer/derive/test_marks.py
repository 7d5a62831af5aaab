"""The recorder's last events in the words of the verdict."""

from __future__ import annotations

from flatline.analyzer.case import FactStore
from flatline.analyzer.derive.edges.futexes import wakers_by_signal
from flatline.analyzer.derive.marks import last_marks, youngest
from flatline.analyzer.derive.scene import Scene
from flatline.analyzer.derive.silence import last_sign

from flatline.bundle.facts import Process, RecorderEvent


def scene_of(*events: tuple[str, float | None, str], process: str = "h1/12", **known) -> Scene:
    """Events as (kind, age, text), oldest first."""
    moments = [int((1000 - (age or 0)) * 1e9) for _, age, _ in events]
    rows = [RecorderEvent(process, kind, at, text, age_s=age) for (kind, age, text), at in zip(events, moments, strict=True)]
    job = Process("h1/12", "h1", 12, relation="target", age_s=600.0, is_python=True, **known)
    return Scene(FactStore({"processes": [job], "recorder_events": rows}))


def test_an_import_that_has_not_returned_is_named_with_the_module_inside_it():
    scene = scene_of(("import-open", 312.0, "torch"), ("looked-for", 311.0, "torch._C"), ("start", 320.0, "exec"))
    assert last_marks(scene, ["h1/12"]) == ["pid 12: last mark: importing torch since 312 s, where torch._C was looked for last"]


def test_of_several_that_are_open_the_innermost_is_told():
    scene = scene_of(("import-open", 40.0, "outer"), ("import-open", 30.0, "inner"), ("phase-open", 50.0, "set up"), ("looked-for", 30.5, "inner"))
    assert last_marks(scene, ["h1/12"]) == ["pid 12: last mark: in phase “set up” since 50 s; importing inner since 30 s"]


def test_with_nothing_open_the_last_event_is_told():
    scene = scene_of(("start", 90.0, "exec"), ("import-leave", 80.0, "torch 2.1"), ("armed", None, "50"))
    assert last_marks(scene, ["h1/12"]) == ["pid 12: last mark: import leave torch 2.1, 80 s ago"]


def test_a_swallowed_error_is_told_with_its_innermost_place():
    events = [("thread-exception", 9.0, "in feeder: KeyError: 'x'"), ("thread-exception-at", 9.0, "a.py:1 in run"), ("thread-exception-at", 9.0, "b.py:2 in feed")]
    told = last_marks(scene_of(*events), ["h1/12"])
    assert told[0] == "pid 12: a thread ended with an error 9 s ago: in feeder: KeyError: 'x' at b.py:2 in feed"


def test_a_process_that_is_gone_is_told_of_as_well():
    scene = scene_of(("phase-open", 5.0, "save"), process="h1/99")
    assert last_marks(scene, ["h1/12"]) == ["process 99, which is gone: last mark: in phase “save” since 5 s"]


def test_a_job_without_the_recorder_has_no_marks():
    scene = scene_of()
    assert last_marks(scene, ["h1/12"]) == []
    assert youngest(scene, ["h1/12"]) is None


def test_the_last_event_is_a_sign_of_life_and_what_is_open_is_none():
    scene = scene_of(("phase-enter", 50.0, "epoch 3"), ("looked-for", 1.0, "x"), ("phase-open", 50.0, "epoch 3"))
    assert last_sign(scene, 4.0) == (50.0, "last event of the recorder: phase-enter epoch 3")


def test_the_handler_that_prints_stacks_wakes_nobody():
    caught = (2, 15, 50)
    assert wakers_by_signal(scene_of(sig_caught=caught).processes["h1/12"]) == ["SIGTERM", "signal 50"]
    assert wakers_by_signal(scene_of(("armed", None, "50"), sig_caught=caught).processes["h1/12"]) == ["SIGTERM"]
