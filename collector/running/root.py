"""The job's first process, and no other that gets its number once it has ended (pidfd_open(2), proc_pid_stat(5))."""

from __future__ import annotations

import os
import select
import signal

from ..supervision import descendants
from ..supervision.descendants import Standing


def is_running(one: Standing) -> bool:
    """Whether it is still there: not ended, and its number not given to another."""
    now = descendants.standing(one.pid)
    return now is not None and now.state not in "ZX" and now.identity == one.identity


class Root:
    """One that is not our child: nobody keeps its number for us."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._is_gone = False
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self._descriptor, self._is_gone = -1, True
        except (OSError, AttributeError):  # a kernel before 5.3, a seccomp filter, a Python built without it
            self._descriptor = -1
        self._began = descendants.standing(pid)

    def has_ended(self) -> bool:
        """True also for one that nobody has collected yet."""
        if self._descriptor >= 0 and not self._is_gone:
            ended = select.poll()
            ended.register(self._descriptor, select.POLLIN)
            self._is_gone = bool(ended.poll(0))
        elif not self._is_gone:
            self._is_gone = self._began is None or not is_running(self._began)
        return self._is_gone

    def send(self, number: int) -> None:
        """To it, or to nobody."""
        if self.has_ended():
            return
        try:
            if self._descriptor >= 0:
                signal.pidfd_send_signal(self._descriptor, number)
            else:
                os.kill(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass
