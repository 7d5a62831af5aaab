"""A child that works inside a GPU driver's library: asked to end, never killed.

SIGKILL in the middle of a driver call can leave the driver worse than it was found. So such a child leads its own
process group, is announced to the supervisor before it enters the driver, gets SIGTERM at its limit, and is then left
alone and named.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from .. import answers, tools
from ..linux import scarcity
from ..supervision import lifecycle

ASKED_TO_END_S = 0.2
"""How long after SIGTERM it may take to go."""
LETTING_GO_S = 1.5
"""How long after its last word: to close the last handle of a device can take the driver a second."""


@dataclass(frozen=True)
class Failed:
    """Instead of a value: nothing more will come."""

    kind: str
    """``timeout``, ``ended``, or the name of the exception that ended the work."""
    message: str


@dataclass(frozen=True)
class Finished:
    """Instead of a value: the work came to its end."""


class SparedChild:
    """Runs `work` in a child; its values (builtins and flatline's dataclasses) come one at a time.

    `name`: its comm, at most 15 bytes. A later collect knows by it what an earlier one had to leave.
    """

    def __init__(self, work: Callable[[], Iterable[Any]], name: str) -> None:
        self._reading, writing = os.pipe()
        go, let_go = os.pipe()
        self.pid = scarcity.fork()
        if self.pid == 0:
            _be_child(work, writing, go, name)
        for end in (writing, go):
            os.close(end)
        if tools.announce_spared is not None:
            tools.announce_spared(self.pid, name)
        os.write(let_go, b"g")
        os.close(let_go)
        self._is_done = False

    def next(self, deadline: float) -> Any:
        """The next value, `Finished`, or `Failed`; waits until `deadline` (time.monotonic()) at most."""
        try:
            kind, value = next(answers.receive(self._reading, deadline))
        except TimeoutError:
            return Failed("timeout", "did not come back")
        except (EOFError, ValueError, OSError) as error:
            return Failed("ended", f"ended early: {error}")
        if kind == b"V":
            return value
        self._is_done = True
        return Finished() if kind == b"." else Failed(*value)

    def end(self) -> int | None:
        """Let it go; its pid when it is still there: it must not be killed."""
        os.close(self._reading)
        if self._is_done and self._is_gone_within(LETTING_GO_S):
            return None
        if self._is_gone_within(0):
            return None
        try:
            os.killpg(self.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        return None if self._is_gone_within(ASKED_TO_END_S) else self.pid

    def _is_gone_within(self, seconds: float) -> bool:
        give_up = time.monotonic() + seconds
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() >= give_up:
                return False
            time.sleep(0.005)
        return True


def _be_child(work: Callable[[], Iterable[Any]], writing: int, go: int, name: str) -> NoReturn:
    """Never returns into the probe's code. Does not die with its parent: that would be SIGKILL."""
    try:
        os.setpgid(0, 0)
        lifecycle.reset_signals()
        lifecycle.lift_limits()
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        lifecycle.close_descriptors(keep=(0, 1, 2, writing, go))
        _take_name(name)
        if os.read(go, 1):  # else the probe was killed before it could announce us
            os.close(go)
            _work(work, writing)
    finally:
        os._exit(0)


def _take_name(name: str) -> None:
    try:
        with open("/proc/self/comm", "w", encoding="utf-8") as comm:
            comm.write(name)
    except OSError:  # a /proc that is read-only
        pass


def _work(work: Callable[[], Iterable[Any]], writing: int) -> None:
    try:
        for value in work():
            answers.send(writing, b"V", value)
        answers.send(writing, b".", None)
    except BrokenPipeError:  # nobody listens any more
        pass
    except BaseException as error:  # noqa: BLE001  whatever a vendor's binding raises is an answer
        answers.send(writing, b"E", (type(error).__name__, str(error)[:300]))
