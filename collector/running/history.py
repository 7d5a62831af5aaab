"""The last half hour of a job, a point every ten seconds and closer at its start: what moved, and when it stopped."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import asdict, replace
from pathlib import Path

from flatline.bundle.facts import ResourcePoint

from .accelerators import GpuUse
from .movement import Usage

POINT_S = 10.0
EARLY_S, EARLY_POINT_S = 30.0, 1.0
"""A job that gets stuck at its start has a history too."""
KEPT_S = 1800.0
MOST_POINTS = int(KEPT_S / POINT_S)
HOST = "h1"


class History:
    """Filled at the looks that are made anyway; bounded, and nothing but numbers."""

    def __init__(self) -> None:
        self.points: deque[ResourcePoint] = deque(maxlen=MOST_POINTS)
        self._usage: Usage | None = None
        self._printed = 0
        self._began = self._at = time.monotonic()

    def is_due(self) -> bool:
        """Whether the last point is old enough. The first look begins the first interval."""
        now = time.monotonic()
        return now - self._at >= (EARLY_POINT_S if now - self._began < EARLY_S else POINT_S)

    def note(self, usage: Usage, printed: int, gpu: GpuUse) -> None:
        """A point; `printed`: bytes of output so far."""
        now, before = time.monotonic(), self._usage
        if before is not None:
            self.points.append(_point(before, usage, now - self._at, printed - self._printed, gpu))
        self._usage, self._printed, self._at = usage, printed, now

    def write(self, path: Path) -> bool:
        """As JSON that `read` reads; False where there is nothing to tell or no room for it."""
        if not self.points:
            return False
        try:
            path.write_text(json.dumps([asdict(point) for point in self.points]), encoding="ascii")
        except OSError:
            return False
        return True


def read(path: Path, now_ns: int) -> list[ResourcePoint]:
    """The points with their ages at `now_ns` (CLOCK_MONOTONIC). ValueError or TypeError for what is no history."""
    rows = json.loads(path.read_text(encoding="ascii"))
    points = [ResourcePoint(**row) for row in rows[-MOST_POINTS:]]
    return [replace(point, age_s=round((now_ns - point.mono_ns) / 1e9, 1)) for point in points]


def _point(before: Usage, now: Usage, seconds: float, printed: int, gpu: GpuUse) -> ResourcePoint:
    # A process that has ended took its sums with it: then nobody knows how much it was.
    cpu_s = now.cpu_s - before.cpu_s
    read, written = now.read - before.read, now.written - before.written
    return ResourcePoint(
        host=HOST,
        mono_ns=time.monotonic_ns(),
        seconds=round(seconds, 1),
        processes=now.processes,
        cpu=round(cpu_s / max(seconds, 0.01), 2) if cpu_s >= 0 else None,
        rss=now.rss,
        read=read if read >= 0 else None,
        written=written if written >= 0 else None,
        printed=printed,
        logs=now.logged,
        gpu=gpu.utilisation,
        gpu_used=gpu.used,
    )
