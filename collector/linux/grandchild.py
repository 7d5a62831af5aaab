"""One question that may never be answered, asked by a process that can be left behind.

statvfs(2) on a dead mount cannot be interrupted, and setns(2) cannot be undone in a process that has more to do.
Both go into a grandchild: the answer comes back through a pipe, and at the deadline the grandchild is killed or,
when it sleeps uninterruptibly, abandoned and named.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import scarcity

_PIPE = 3
"""Where the grandchild keeps its end of the pipe; everything above is closed."""
_DYING_S = 0.1
"""How long a killed grandchild gets to die before it is called left running."""


@dataclass(frozen=True)
class Answer:
    """What came back. Exactly one of `value` (also None), `error` and `timed_out` speaks."""

    value: Any = None
    error: OSError | None = None
    timed_out: bool = False
    seconds: float = 0.0
    left_running: int | None = None
    """Pid of a grandchild that SIGKILL has not ended: it sleeps in the kernel."""


def ask(question: Callable[[], Any], limit_s: float) -> Answer:
    """Run `question` in a forked grandchild, at most `limit_s` seconds."""
    return ask_all([question], limit_s)[0]


def ask_all(questions: Sequence[Callable[[], Any]], limit_s: float) -> list[Answer]:
    """The same for many at once, each in a grandchild of its own: twenty dead mounts cost one limit, not twenty.

    The grandchildren stay in our process group, so that whoever kills the probe's group kills them too. They hold no
    descriptor but their own pipe: an abandoned one must not keep anybody waiting for an end of file.
    """
    began = time.monotonic()
    asked = [_begin(question) for question in questions]
    begun = [one for one in asked if isinstance(one, _Asked)]
    _read_until(begun, began + limit_s)
    for one in begun:
        one.close()
    deadline = time.monotonic() + _DYING_S
    return [one.answer(began, deadline) if isinstance(one, _Asked) else one for one in asked]


def _begin(question: Callable[[], Any]) -> _Asked | Answer:
    try:
        return _Asked(question)
    except OSError as refused:  # no process or descriptor is left on this host
        return Answer(error=refused)


class _Asked:
    """One grandchild and what it has said so far."""

    def __init__(self, question: Callable[[], Any]) -> None:
        self.pid, self.reading, writing = scarcity.fork_with_pipe()
        if self.pid == 0:
            _answer_and_exit(question, writing)
        os.close(writing)
        os.set_blocking(self.reading, False)
        self._chunks: list[bytes] = []
        self.ended_at: float | None = None

    def read(self) -> bool:
        """Take what has come; False at the end of file."""
        chunk = os.read(self.reading, 1 << 16)
        self._chunks.append(chunk)
        if not chunk:
            self.ended_at = time.monotonic()
        return bool(chunk)

    def close(self) -> None:
        os.close(self.reading)
        if self.ended_at is None:
            os.kill(self.pid, signal.SIGKILL)

    def answer(self, began: float, deadline: float) -> Answer:
        left = None if _ended(self.pid, deadline) else self.pid
        if self.ended_at is None:
            return Answer(timed_out=True, seconds=time.monotonic() - began, left_running=left)
        seconds = self.ended_at - began
        try:
            value, error = pickle.loads(b"".join(self._chunks))
        except (EOFError, TypeError, pickle.UnpicklingError):
            error, value = ChildProcessError("the grandchild ended without an answer"), None
        return Answer(value, error, seconds=seconds, left_running=left)


def _answer_and_exit(question: Callable[[], Any], writing: int) -> None:
    try:
        os.dup2(writing, _PIPE)
        _close_above(_PIPE)
        try:
            answer = (question(), None)
        except OSError as error:
            answer = (None, error)
        view = memoryview(pickle.dumps(answer))
        while view:
            view = view[os.write(_PIPE, view) :]
    finally:
        os._exit(0)


def _close_above(last: int) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > last:
            try:
                os.close(int(name))
            except OSError:  # the descriptor of the listing itself
                pass


def _read_until(asked: Sequence[_Asked], deadline: float) -> None:
    """Read them all until each is at its end of file, or the deadline comes."""
    poll = select.poll()
    waiting = {one.reading: one for one in asked}
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    while waiting:
        left_ms = (deadline - time.monotonic()) * 1000
        ready = poll.poll(left_ms) if left_ms > 0 else []
        if not ready:
            return
        for descriptor, _ in ready:
            if not waiting[descriptor].read():
                poll.unregister(descriptor)
                del waiting[descriptor]


def _ended(pid: int, deadline: float) -> bool:
    """Reap without ever waiting for good: waitpid on a task in state D would not return."""
    while True:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
