"""Whether the job's GPUs work, asked every few seconds by a child that may hang in the driver without holding anybody.

The child says a line of JSON per round on a pipe and ends when nobody reads it any more. It is never killed: SIGKILL
inside a driver call can leave the driver worse than it was. Where there is no NVML it ends at once, and all is unknown.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flatline.bundle.facts import Gpu, GpuProcess, GpuSample

from ..gpu import nvml, stuck
from ..probes.interface import Milestone
from ..supervision import descendants

PERIOD_S = 5.0
STALE_S = 4 * PERIOD_S
"""A child that has said nothing for so long is stuck, and what it said last is no news."""
ENDING_S = 0.3
"""How long after SIGTERM it may take to go; then it is left."""
BUSY_PERCENT = 2.0
MOST_LINE = 1 << 20
DRIVER = ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg")
"""NVIDIA's, also in a container and in WSL."""
_MAIN = "from flatline.collector.running import accelerators; accelerators.work()"


@dataclass(frozen=True)
class GpuUse:
    """The job's accelerators in one round."""

    utilisation: float | None = None
    """Percent, of the busiest."""
    used: int | None = None
    """Bytes of all together."""


def may_be_here() -> bool:
    """Whether there is a driver to ask: elsewhere a child would cost a start of Python for nothing."""
    return any(map(os.path.exists, DRIVER))


class Accelerators:
    """What the child says, read without ever waiting for it. `pid` is 0 where there is none."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self.pid, self._reading, self._text = 0, -1, b""
        self._round: dict[str, Any] = {}
        self._heard = 0.0
        self._period_s = period_s

    def start(self) -> int:
        """Its pid; 0 where it could not be started."""
        try:
            self._reading, writing = os.pipe()
        except OSError:
            return 0
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-c", _MAIN, "monitor", str(self._period_s)],
                {**os.environ, "FLATLINE_RECORDER": "off"},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, writing, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setpgroup=0,
                setsigmask=(),
                setsigdef=[signal.SIGPIPE],
            )
        except OSError:
            os.close(self._reading)
            self._reading = -1
        finally:
            os.close(writing)
        if self._reading >= 0:
            os.set_blocking(self._reading, False)
        return self.pid

    def look(self, pids: Sequence[int]) -> GpuUse:
        """Of the accelerators that these processes use; unknown where nobody tells."""
        self._listen()
        if not self._round or time.monotonic() - self._heard > STALE_S:
            return GpuUse()
        own = _used_by(self._round, pids)
        loads = [one["utilisation"] for one in own if one["utilisation"] is not None]
        sizes = [one["used"] for one in own if one["used"] is not None]
        return GpuUse(max(loads, default=None), sum(sizes) if sizes else None)

    def _listen(self) -> None:
        while self._reading >= 0:
            try:
                text = os.read(self._reading, 1 << 16)
            except BlockingIOError:
                return
            except OSError:
                text = b""
            if not text or len(self._text) > MOST_LINE:
                self.stop()
                return
            *lines, self._text = (self._text + text).split(b"\n")
            if lines:
                self._round, self._heard = json.loads(lines[-1]), time.monotonic()

    def stop(self) -> None:
        """Ask it to end. One that does not is left; a later collect knows it by its name."""
        if self._reading >= 0:
            os.close(self._reading)
            self._reading = -1
            found = descendants.standing(self.pid)
            if found is not None and found.ppid == os.getpid():
                os.kill(self.pid, signal.SIGTERM)
                self._collect()

    def _collect(self) -> None:
        give_up = time.monotonic() + ENDING_S
        while time.monotonic() < give_up:
            try:
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    return
            except ChildProcessError:  # collected by who collects all
                return
            time.sleep(0.005)


def _used_by(said: dict[str, Any], pids: Sequence[int]) -> list[dict[str, Any]]:
    """By the driver's own list of processes; where that counts in another namespace, by the devices they have open."""
    wanted = set(pids)
    own = [one for one in said["gpus"] if wanted & set(one["pids"])]
    if own:
        return own
    links = {link for pid in pids for link in _device_links(pid)}
    return [one for one in said["gpus"] if one["minor"] is not None and f"/dev/nvidia{one['minor']}" in links]


def _device_links(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder)[:1024]:
            link = os.readlink(f"{folder}/{name}")
            if link.startswith("/dev/nvidia"):
                yield link
    except OSError:
        return


# --- the child ---


def work() -> None:
    """In the child: a line per round, until nobody reads them."""
    with open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write(stuck.MONITOR)
    try:
        for line in lines(nvml.follow(_rounds(float(sys.argv[2])))):
            os.write(1, line)
    except (ImportError, OSError):
        pass
    os._exit(0)  # the library's own end may hang


def _rounds(period_s: float) -> Iterator[int]:
    due = time.monotonic_ns()
    while True:
        yield due
        due = time.monotonic_ns() + int(period_s * 1e9)


def lines(rows: Iterator[Any]) -> Iterator[bytes]:
    """The rows of the library as one line per round."""
    minors: dict[int, int | None] = {}
    gpus: dict[int, dict[str, Any]] = {}
    for row in rows:
        if isinstance(row, Gpu):
            minors[row.index] = row.minor
        elif isinstance(row, GpuSample):
            gpus[row.gpu] = {
                "minor": minors.get(row.gpu), "utilisation": row.utilisation, "used": row.used, "pids": [],
            }  # fmt: skip
        elif isinstance(row, GpuProcess) and row.gpu in gpus:
            gpus[row.gpu]["pids"].append(row.pid)
        elif isinstance(row, Milestone):
            yield json.dumps({"gpus": list(gpus.values())}).encode() + b"\n"
            gpus = {}
