"""What we may see of other processes, and the one line that would let us see more (ptrace(2), capabilities(7))."""

from __future__ import annotations

import os
from collections.abc import Collection

from .procfs import ProcFS, Unread

CAP_SYS_PTRACE = 19


def has_capability(number: int, proc: ProcFS | None = None) -> bool:
    """Whether this process has an effective capability."""
    status = (proc or ProcFS()).status(os.getpid())
    mask = "" if isinstance(status, Unread) else status.get("CapEff", "")
    try:
        return bool(int(mask, 16) >> number & 1)
    except ValueError:
        return os.geteuid() == 0


def hint_when_denied(uids: Collection[int], proc: ProcFS | None = None) -> str:
    """What to do so that processes of these users can be read."""
    me = os.geteuid()
    if me == 0 and not has_capability(CAP_SYS_PTRACE, proc):
        return "start the container with --cap-add SYS_PTRACE (Kubernetes: capabilities: add: [SYS_PTRACE])"
    if me == 0:
        return "the kernel refuses even root here: a security module, lockdown, or a process of an outer namespace"
    if set(uids) <= {me}:
        return "run it with sudo: the process is not dumpable, or Yama's ptrace_scope allows only its parent"
    return "run it with sudo, or as the user the job runs as"
