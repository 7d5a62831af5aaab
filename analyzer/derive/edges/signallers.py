"""The thread that was to signal: found by its code, when that names what another thread waits for.

Plain locks, events and queues of Python have no owner in memory. The source around each frame still tells: one thread
stands in ``done.wait()``, the code of another goes on to ``done.set()``; one stands at ``with a:``, another within it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flatline.bundle.facts import Frame, SourceLine, Strength, Thread, WaitEdge

from ..known import known_wait
from ..scene import Scene, Stack, innermost_user, is_user
from .draw import MAX_BRANCHES, edge

ANSWERS: Mapping[str, str] = {
    "wait": "set|notify|notify_all|abort",
    "wait_for": "set|notify|notify_all",
    "get": "put|put_nowait",
    "put": "get|get_nowait",
    "join": "task_done",
    "acquire": "release",
    "result": "set_result|set_exception|cancel",
}
"""What a thread calls -> what another one calls to let it go on."""
_CALL = re.compile(rf"([\w.\[\]]+)\.({'|'.join(ANSWERS)})\(")
_WITH = re.compile(r"\bwith\s+([\w.\[\]]+)\s*[,:]")
FRAMES = 12
"""How far out the other thread's code is read."""


@dataclass(frozen=True)
class Signal:
    """Another thread whose code names the same thing."""

    thread: Thread
    frame: Frame
    line: SourceLine
    holds: bool
    """It is within a `with` block of that lock."""


def find_signaller(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A wait inside the process whose other side stands in another thread's code."""
    stack = scene.stack(thread.id)
    found, where = known_wait(stack), innermost_user(stack)
    in_c = found is None and thread.syscall is not None and thread.syscall.name == "futex"
    if where is None or not (in_c or (found is not None and found[0].kind == "futex")):
        return
    yield from _signals(scene, thread, where, *_awaited(where))


def find_setter(scene: Scene, thread: Thread, where: Frame, name: str) -> Iterator[WaitEdge]:
    """The same for a loop that asks for an event now and then."""
    yield from _signals(scene, thread, where, name, "wait")


def _signals(scene: Scene, thread: Thread, where: Frame, name: str, method: str) -> Iterator[WaitEdge]:
    key = f"{method} {name} in {thread.process}"
    found = scene.once(key, lambda: list(_signals_in(scene, thread.process, name, method)))
    signals = [signal for signal in found if signal.thread.id != thread.id or _may_block_itself(scene, signal)]
    strength: Strength = "strong" if len(signals) == 1 else "suggested"
    for signal in signals[:MAX_BRANCHES]:
        yield _edge(scene, thread, where, name, signal, strength)


def _may_block_itself(scene: Scene, signal: Signal) -> bool:
    """Whether it stands within the block of the very lock it waits for; who has an RLock may take it again."""
    row = scene.futex(signal.thread)
    return signal.holds and row is not None and row.primitive == "python-lock"


def _signals_in(scene: Scene, process: str, name: str, method: str) -> Iterator[Signal]:
    """Asked once of each process and name: thousands of threads may wait alike."""
    for thread in scene.threads_of(process):
        if thread.liveness != "exited" and (signal := _signal(scene.stack(thread.id), thread, name, method)):
            yield signal


def _awaited(frame: Frame) -> tuple[str, str]:
    """(``done``, ``wait``) of the line it stands at; ("", "") when that names nothing."""
    line = next((line.text for line in frame.source if line.line == frame.line_no), "")
    if called := _CALL.search(line):
        return _last(called[1]), called[2]
    entered = _WITH.search(line)
    return (_last(entered[1]), "acquire") if entered else ("", "")


def _last(expression: str) -> str:
    """``done`` of ``self.state.done``: the same thing has other names in front elsewhere."""
    return expression.rpartition(".")[2]


def _signal(stack: Stack, thread: Thread, name: str, method: str) -> Signal | None:
    if not name:
        return None
    own = [frame for frame in stack[:FRAMES] if is_user(frame)]
    if method == "acquire":
        blocks = ((frame, line) for frame in own for line in frame.enclosing if line.line != frame.line_no)
        held = ((f, line) for f, line in blocks if name in map(_last, _WITH.findall(line.text)))
        return next((Signal(thread, frame, line, holds=True) for frame, line in held), None)
    answer = re.compile(rf"\b{re.escape(name)}\.({ANSWERS[method]})\(")
    to_come = ((f, line) for f in own for line in f.source if answer.search(line.text))
    return next((Signal(thread, frame, line, holds=False) for frame, line in to_come), None)


def _edge(scene: Scene, thread: Thread, where: Frame, name: str, signal: Signal, strength: Strength) -> WaitEdge:
    place = f"{(signal.frame.file or '?').rpartition('/')[2]}:{signal.line.line}"
    at = f"{(where.file or '?').rpartition('/')[2]}:{where.line_no}"
    other = signal.thread.name or str(signal.thread.tid)
    lock = "the lock" if name == "lock" else f"the lock {name}"
    if signal.holds and signal.thread.id == thread.id:
        text = f"waits for {lock} at {at}, which it has probably taken itself at {place}"
        reason = f"it is within the block that begins with `{signal.line.text.strip()}`"
    elif signal.holds:
        text = f"waits for {lock} at {at}, which its thread {other} has probably taken at {place}"
        reason = f"the thread {other} is within the block that begins with `{signal.line.text.strip()}`"
    else:
        text = f"waits for {name} at {at}, probably for its thread {other}, which is to signal it at {place}"
        reason = f"the code of the thread {other} has `{signal.line.text.strip()}`"
    return edge(scene, thread, f"thread:{signal.thread.id}", "futex", strength, text, reason=reason, owner="thread",
                inside_job=True, resource=f"{lock if signal.holds else name} at {at}",
                rows=(where, signal.frame, signal.thread))  # fmt: skip
