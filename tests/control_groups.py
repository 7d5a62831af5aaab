"""Control groups of either version, to start programs in."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from programs import wait_until

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class ControlGroup:
    """One that was made for a test; `set` changes it while programs are in it."""

    path: Path

    @property
    def through(self) -> tuple[str, ...]:
        """The words before a command that start it in the group."""
        return ("sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh")

    def set(self, name: str, value: str) -> None:
        """Write one of its files."""
        (self.path / name).write_text(value)

    def end(self) -> None:
        """Kill all that is in it, and take it away."""
        wait_until(self._is_empty, what="the group is empty")
        wait_until(self._is_gone, what="the group is gone")

    def _is_empty(self) -> bool:
        pids = (self.path / "cgroup.procs").read_text().split()
        for pid in pids:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not pids

    def _is_gone(self) -> bool:
        try:
            self.path.rmdir()
        except OSError:
            return False
        return True


def new_group(kind: str, name: str, *, v1: dict[str, str], v2: dict[str, str]) -> ControlGroup:
    """A group of that controller with these settings; skips the test where none can be made."""
    unified = (CGROUPS / "cgroup.controllers").exists()
    path = (CGROUPS if unified else CGROUPS / kind) / name
    if unified and kind not in (CGROUPS / "cgroup.subtree_control").read_text().split():
        pytest.skip(f"no control group can be made here: there is none for {kind}")
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    group = ControlGroup(path)
    for setting, value in (v2 if unified else v1).items():
        group.set(setting, value)
    return group


def swap_is_counted() -> bool:
    """Of version 2: what may be swapped out without a limit is never killed for memory."""
    return any(True for _ in CGROUPS.glob("*/memory.swap.max"))
