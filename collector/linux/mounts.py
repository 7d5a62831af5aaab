"""Mounts as one process sees them: /proc/PID/mountinfo, read by flatline.texts.mounts."""

from __future__ import annotations

from collections.abc import Mapping

from flatline.texts.mounts import MountLine, mount_of, parse

from .procfs import LARGE, ProcFS, Unread

__all__ = ["MountLine", "by_id", "mount_of", "parse"]


def by_id(proc: ProcFS, pid: int | str) -> Mapping[int, MountLine]:
    """The mounts a process sees, in order; empty when they may not be seen."""
    text = proc.text(pid, "mountinfo", limit=LARGE)
    return {} if isinstance(text, Unread) else {mount.mount_id: mount for mount in parse(text)}
