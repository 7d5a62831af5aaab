"""Frames by thread: who derives and who judges look at the same groups, and see the stacks that were taken."""

from dataclasses import replace

from flatline.analyzer.case import FactStore
from flatline.analyzer.derive.scene import Scene

from flatline.bundle.facts import Frame


def stack(thread, sample, *functions, mono_ns=None, kind="python"):
    return [
        Frame(thread, sample, depth, function, kind=kind, mono_ns=mono_ns) for depth, function in enumerate(functions)
    ]


def names(stacks):
    return [[frame.function for frame in each] for each in stacks]


def frames_of(*stacks):
    return FactStore({"frames": [frame for each in stacks for frame in each]}).frames


def test_looks_come_in_the_order_of_the_clock_and_without_one_in_that_of_their_numbers():
    numbered = frames_of(stack("h1/1/1", 1, "b"), stack("h1/1/1", 0, "a"))
    assert names(numbered.stacks["h1/1/1"]) == [["a"], ["b"]]
    clocked = frames_of(stack("h1/1/1", 1, "later", mono_ns=9), stack("h1/1/1", 100, "between", mono_ns=5),
                        stack("h1/1/1", 0, "first", mono_ns=1))  # fmt: skip
    assert names(clocked.stacks["h1/1/1"]) == [["first"], ["between"], ["later"]]


def test_frames_in_any_order_are_a_stack_innermost_first():
    rows = stack("h1/1/1", 0, "wait", "get", "main")
    assert names(frames_of(reversed(rows)).stacks["h1/1/1"]) == [["wait", "get", "main"]]


def test_of_looks_of_one_number_between_which_there_was_another_the_last_one_counts():
    early, between, late = (stack("h1/1/1", number, name, mono_ns=at) for number, name, at in ((0, "a", 1), (1, "b", 2), (0, "c", 3)))  # fmt: skip
    assert names(frames_of(late, early, between).stacks["h1/1/1"]) == [["c"], ["b"]]


def test_a_look_at_c_frames_counts_where_there_is_no_other():
    deep = stack("h1/1/1", 900, "futex", kind="native")
    assert names(frames_of(deep).stacks["h1/1/1"]) == [["futex"]]
    assert names(frames_of(deep, stack("h1/1/1", 0, "get")).stacks["h1/1/1"]) == [["get"]]
    assert "h1/1/1" not in frames_of(stack("h1/1/1", 910, "do_futex", kind="kernel")).stacks


def test_threads_are_of_one_kind_when_their_stacks_are_and_each_has_its_own_frames():
    one, two, other = stack("h1/1/1", 0, "get"), stack("h1/1/2", 0, "get"), stack("h1/1/3", 0, "put")
    frames = frames_of([replace(frame, line_no=7) for frame in one], two, other)
    assert frames.kind_of["h1/1/1"] == frames.kind_of["h1/1/2"] != frames.kind_of["h1/1/3"]
    assert [frames.stacks[f"h1/1/{tid}"][0][0].line_no for tid in (1, 2)] == [7, None]


def test_frames_of_c_and_of_the_kernel_are_found_by_thread():
    frames = frames_of(stack("h1/1/1", 0, "get"), stack("h1/1/1", 900, "futex", kind="native"), stack("h1/1/2", 0, "f"))
    assert {thread: [f.function for f in rows] for thread, rows in frames.of_language("native").items()} == {
        "h1/1/1": ["futex"]
    }
    assert frames.of_language("kernel") == {}


def test_they_are_grouped_once_and_anew_when_the_table_changes():
    store = FactStore({"frames": stack("h1/1/1", 0, "get")})
    first = store.frames
    store.set("threads", [])
    assert store.frames is first
    assert names([Scene(store).stack("h1/1/1")]) == [["get"]]
    store.add("frames", stack("h1/1/2", 0, "put"))
    assert set(store.frames.of) == {"h1/1/1", "h1/1/2"}
    store.revise("frames", lambda frame: replace(frame, function="new"))
    assert names(store.frames.stacks["h1/1/2"]) == [["new"]]
    assert store.grouped("frames", "function").keys() == {"new"}
