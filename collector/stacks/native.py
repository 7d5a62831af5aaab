"""Stacks in which C frames stand between the Python ones: pystack's text, and rows for what any tool printed.

pystack follows C frames only while it stops the process, as py-spy does; verified with pystack 1.7.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from flatline.bundle.facts import Frame
from flatline.texts.stack_lines import Head, RawFrame, RawThread, pystack_frame, pystack_head

from ..linux.procfs import text_of
from . import source, thread_ids

MOST_FRAMES = 400
"""Of one thread: the innermost."""


def pystack_argv(program: str, pid: int | str) -> list[str]:
    """One look that stops the process: see attach."""
    return [program, "--no-color", "remote", "--native", str(pid)]


def pystack_core_argv(program: str, core: str) -> list[str]:
    """One look at a core dump; it finds the program by itself."""
    return [program, "--no-color", "core", "--native", core]


def parse_pystack(stdout: bytes) -> list[RawThread]:
    """The threads of pystack's text, which prints the innermost frame last. Empty for any other text."""
    threads = frames_by_thread(stdout, pystack_head, pystack_frame)
    return [numbered_thread(tid, stack[::-1]) for tid, stack in threads.items()]


def frames_by_thread(
    printed: bytes, head: Callable[[str], Head | None], frame: Callable[[str], RawFrame | None]
) -> dict[int, list[RawFrame]]:
    """Of a text in which a line names a thread and its frames stand below: those frames, by the number the kernel gave
    the thread, else by its pthread. Without threads that have none, and without lines of no known form."""
    threads: dict[int, list[RawFrame]] = {}
    here: list[RawFrame] | None = None
    for line in text_of(printed).splitlines():
        named, found = head(line), frame(line)
        if named:
            number = named.tid or named.pthread
            here = threads.setdefault(number, []) if number else None
        elif found and here is not None:
            here.append(found)
    return {number: frames for number, frames in threads.items() if frames}


def numbered_thread(tid: int, frames: Sequence[RawFrame]) -> RawThread:
    """A thread of a tool that prints its kernel number and no more."""
    kept = tuple(frames[:MOST_FRAMES])
    return RawThread(0, None, tid, active=None, owns_gil=None, frames=kept, depths=tuple(range(len(kept))))


def rows(
    pid: int, threads: Sequence[RawThread], tids: Mapping[int, int], *, sample: int, mono_ns: int
) -> Iterator[Frame]:
    """One row per frame. `tids`: what a thread is called -> our thread id."""
    for thread in threads:
        key = thread_ids.row_id(pid, tids.get(_called(thread)), thread)
        for depth, frame in zip(thread.depths, thread.frames):
            yield _row(key, thread, depth, frame, sample, mono_ns)


def _called(thread: RawThread) -> int:
    return thread.pthread or thread.os_thread_id or 0


def _row(key: str, thread: RawThread, depth: int, frame: RawFrame, sample: int, mono_ns: int) -> Frame:
    is_native = bool(frame.module)
    short = frame.name if is_native else frame.name.rpartition(".")[2] or frame.name
    return Frame(
        thread=key,
        sample=sample,
        depth=depth,
        function=short,
        qualname=frame.name if short != frame.name else None,
        file=None if frame.file == frame.module else frame.file or None,
        line_no=frame.line or None,
        module=frame.module.strip("?") or None,
        kind="native" if is_native else "python",
        is_user=None if is_native else source.is_user(frame.file),
        active=thread.active,
        owns_gil=thread.owns_gil,
        thread_name=thread.name,
        pthread=thread.pthread or None,
        mono_ns=mono_ns,
    )
