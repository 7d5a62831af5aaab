"""A deeper look at a stack stands beside the rounds: it never becomes the newest, and helps where no round saw any."""

from __future__ import annotations

from flatline.analyzer.case import FactStore
from flatline.analyzer.derive.scene import Scene
from flatline.analyzer.judge.index import FactIndex
from flatline.analyzer.merge import merge_rows
from flatline.analyzer.reports.view import last_stacks

from flatline.bundle.facts import KERNEL_SAMPLE, LOCALS_SAMPLE, NATIVE_SAMPLE, Frame

SEEN, UNSEEN, KERNEL_ONLY = "h1/1/1", "h1/1/2", "h1/2/2"
FRAMES = [
    Frame(SEEN, 0, 0, "old", file="a.py", line_no=1),
    Frame(SEEN, 2, 0, "wait", file="a.py", line_no=2, mono_ns=5),
    Frame(SEEN, NATIVE_SAMPLE, 0, "futex_wait", kind="native", mono_ns=9),
    Frame(SEEN, NATIVE_SAMPLE, 1, "wait", mono_ns=9),
    Frame(SEEN, KERNEL_SAMPLE, 0, "do_futex", kind="kernel", mono_ns=1),
    Frame(UNSEEN, NATIVE_SAMPLE, 0, "poll", kind="native"),
    Frame(UNSEEN, KERNEL_SAMPLE, 0, "do_poll", kind="kernel"),
    Frame(KERNEL_ONLY, KERNEL_SAMPLE, 0, "nfs_wait", kind="kernel"),
]


def functions(stack):
    return [frame.function for frame in stack]


def test_rules_see_the_round_and_a_deeper_look_only_without_one() -> None:
    index = FactIndex(FactStore({"frames": FRAMES}), lambda log: "")
    assert functions(index.stack(SEEN)) == ["wait"]
    assert functions(index.stack(UNSEEN)) == ["poll"]
    assert index.stack(KERNEL_ONLY) == []


def test_a_kernel_stack_alone_does_not_mean_that_its_python_stack_was_read() -> None:
    index = FactIndex(FactStore({"frames": FRAMES}), lambda log: "")
    assert index.stacks.has("h1/1")
    assert not index.stacks.has("h1/2")


def test_what_moved_is_judged_by_the_rounds() -> None:
    scene = Scene(FactStore({"frames": FRAMES}))
    assert functions(scene.stack(SEEN)) == ["wait"]
    assert functions(scene.stack(UNSEEN)) == ["poll"]
    assert scene.stack(KERNEL_ONLY) == ()


def test_the_report_shows_the_kernel_only_where_there_is_nothing_else() -> None:
    shown = {thread: functions(stack) for thread, stack in last_stacks(FRAMES).items()}
    assert shown == {SEEN: ["wait"], UNSEEN: ["poll"], KERNEL_ONLY: ["nfs_wait"]}


def test_locals_as_printed_are_not_taken_for_the_paths_that_were_looked_at() -> None:
    round_, path = Frame(SEEN, 1, 0, "wait", file="a.py", line_no=2), {"lock": "/data/x.lock"}
    looked = Frame(SEEN, 100, 0, "wait", file="a.py", line_no=2, locals=path)
    printed = Frame(SEEN, LOCALS_SAMPLE, 0, "wait", file="a.py", line_no=2, locals={"lock": "'/data/x.lock'"})
    merged = merge_rows({"frames": [round_, looked, printed]})["frames"]
    assert merged[0].locals == path
