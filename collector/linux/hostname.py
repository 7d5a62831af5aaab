"""The name a process knows its host by: a container has one of its own (uts_namespaces(7))."""

from __future__ import annotations

import os

from . import grandchild
from .procfs import ProcFS, Unread

try:
    import ctypes as _ctypes
except ImportError:  # a Python built without libffi
    _ctypes = None

CLONE_NEWUTS = 0x04000000
_LIMIT_S = 0.5


def of_process(pid: int, proc: ProcFS) -> str | None:
    """What uname(2) tells that process. None: it is in a container that we may not enter (CAP_SYS_ADMIN)."""
    own, theirs = proc.link("self", "ns", "uts"), proc.link(pid, "ns", "uts")
    if own == theirs and not isinstance(own, Unread):
        return os.uname().nodename
    answer = grandchild.ask(lambda: _inside(proc.path(pid, "ns", "uts")), _LIMIT_S)
    return answer.value


def _inside(namespace: str) -> str:
    if _ctypes is None:
        raise OSError("this Python has no ctypes to call setns with")
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    # os.setns exists from Python 3.12 on
    if _ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWUTS):
        raise OSError(_ctypes.get_errno(), "setns")
    return os.uname().nodename
