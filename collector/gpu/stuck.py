"""GPU tools that were started by others and do not come back: evidence by themselves, and a reason to start no more."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from flatline.bundle.facts import GpuVendor

from ..linux.grandchild import ask
from ..linux.procfs import ProcFS, Stat, Unread

OLD_S = 10.0
"""A tool that has run for so long is no slow one any more: they answer in well under a second."""
OURS = "flatline-nvml"
"""The child of an earlier collect that had to be left in NVIDIA's library."""
MONITOR = "flatline-gpus"
"""The child of `flatline run` that asks the library as long as the job runs; one of its arguments says so."""
OURS_OLD_S = 60.0
"""One of a collect that is at work lives as long as its window."""
TOOLS: dict[str, GpuVendor] = {
    OURS: "nvidia",
    MONITOR: "nvidia",
    "nvidia-smi": "nvidia",
    "nvidia-debugdump": "nvidia",
    "nvidia-bug-report.sh": "nvidia",
    "dcgmi": "nvidia",
    "rocm-smi": "amd",
    "rocm_smi.py": "amd",
    "amd-smi": "amd",
    "rocminfo": "amd",
    "npu-smi": "huawei",
    "xpu-smi": "intel",
    "hl-smi": "habana",
}
_BY_COMM = {name[:15]: name for name in TOOLS}
_MEANT_TO_STAY = frozenset({"-l", "-lms", "dmon", "pmon", "daemon", "replay", "-w", "--watch", "monitor", "dump"})
_LOOKS, _BETWEEN_S = 3, 0.03
_ARGV_S = 0.5


@dataclass(frozen=True)
class StuckTool:
    """A tool that has not come back."""

    pid: int
    name: str
    vendor: GpuVendor
    state: str
    age_s: float
    wchan: str = ""
    """Where in the kernel; empty: unknown."""

    def __str__(self) -> str:
        where = f" in {self.wchan}" if self.wchan else ""
        return f"{self.name} (pid {self.pid}) has not come back for {self.age_s:.0f} s: state {self.state}{where}"


def find(proc: ProcFS, own_pids: Collection[int] = (), *, scripts: bool = False) -> list[StuckTool]:
    """Longest first. A tool in state D is stuck whatever it was asked; one that sleeps may be meant to (``-l 1``).

    `scripts`: look for tools written in Python too (AMD's), whose name only their arguments tell.
    """
    old = {pid: stat for pid, stat in _old(proc) if pid not in own_pids}
    named = {pid: _BY_COMM[stat.name] for pid, stat in old.items() if stat.name in _BY_COMM}
    if scripts:
        named.update(_scripts(proc, [pid for pid, stat in old.items() if stat.name.startswith("python")]))
    found = [_tool(proc, pid, name, old[pid]) for pid, name in named.items()]
    return sorted((tool for tool in found if _is_stuck(proc, tool)), key=lambda tool: -tool.age_s)


def _old(proc: ProcFS) -> Iterator[tuple[int, Stat]]:
    pids = proc.numbers()
    for pid in () if isinstance(pids, Unread) else pids:
        stat = proc.stat(pid)
        if not isinstance(stat, Unread) and stat.state not in ("Z", "X") and proc.age_s(stat.start_ticks) > OLD_S:
            yield pid, stat


def _scripts(proc: ProcFS, pids: list[int]) -> dict[int, str]:
    """In a process to spare, for all at once: the arguments of one that waits for a dead mount are not to be had."""
    answer = ask(lambda: {pid: proc.argv(pid) for pid in pids}, _ARGV_S)
    found = {}
    for pid, argv in (answer.value or {}).items():
        name = os.path.basename(argv[1]) if isinstance(argv, tuple) and len(argv) > 1 else ""
        if name in TOOLS:
            found[pid] = name
    return found


def _tool(proc: ProcFS, pid: int, name: str, stat: Stat) -> StuckTool:
    wchan = proc.text(pid, "wchan")
    where = wchan if isinstance(wchan, str) and wchan.strip("0") else ""
    return StuckTool(pid, name, TOOLS[name], stat.state, proc.age_s(stat.start_ticks), where)


def _is_stuck(proc: ProcFS, tool: StuckTool) -> bool:
    if _stays_in_d(proc, tool.pid):
        return True
    if tool.name == OURS:
        return tool.age_s > OURS_OLD_S
    answer = ask(lambda: proc.argv(tool.pid), _ARGV_S)
    if answer.timed_out:
        return True
    argv = answer.value if isinstance(answer.value, tuple) else ()
    return bool(argv) and not any(one in _MEANT_TO_STAY or one.startswith("--loop") for one in argv[1:])


def _stays_in_d(proc: ProcFS, pid: int) -> bool:
    for look in range(_LOOKS):
        stat = proc.stat(pid)
        if isinstance(stat, Unread) or stat.state != "D":
            return False
        if look + 1 < _LOOKS:
            time.sleep(_BETWEEN_S)
    return True
