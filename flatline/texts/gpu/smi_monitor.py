"""What `nvidia-smi dmon` and `nvidia-smi pmon` print: a line a second and device or process. Pure: no I/O.

The columns depend on ``-s``; their names stand in a comment that is repeated, their units in the one below it.
"""

from __future__ import annotations

import re
from typing import Any

from flatline.bundle.facts import Gpu, GpuProcess

from .readings import HOST, Reading, number, process_type, size, whole, word

HEAD = re.compile(r"#\s?(?:Date\s+Time\s+|Time\s+)?gpu\s+(?:pwr|sm|gtemp|mclk|pviol|fb|bar1|sbecc|rxpci|pid|mem|enc)\b")
ROW = re.compile(
    rf"{HEAD.pattern}|#\s?(?:YYYYMMDD\s+|HH:MM:SS\s+){{0,2}}Idx\b|"
    r"(?:\d{8}\s+)?(?:\d\d:\d\d:\d\d\s+)?\d{1,4}\s+(?:[\d.]+|-)(?:\s|$)"
)


def parse_monitor(text: str) -> Reading:
    """The last line of each device; every process once, as it was seen last."""
    titles: list[str] = []
    gpus: dict[int, Gpu] = {}
    processes: dict[tuple[int, int], GpuProcess] = {}
    for place, line in enumerate(text.splitlines(), 1):
        words = line.replace("#", " ").split()
        if HEAD.match(line.strip()):
            titles = words
        elif titles and words and not line.strip().startswith("#"):
            row = dict(zip(titles, words))
            index = whole(row.get("gpu"))
            if index is None:
                continue
            if "pid" in titles:
                if process := _process(index, row, place):
                    processes[index, process.pid] = process
            else:
                gpus[index] = _gpu(index, row, place)
    return Reading(tuple(gpus.values()), tuple(processes.values()))


def _gpu(index: int, row: dict[str, str], line: int) -> Gpu:
    return Gpu(
        HOST, index, "nvidia", used=_mebibytes(row.get("fb")), utilisation=number(row.get("sm")),
        power=number(row.get("pwr")), temperature=number(row.get("gtemp")), clock=whole(row.get("pclk")), line=line,
    )  # fmt: skip


def _process(index: int, row: dict[str, str], line: int) -> GpuProcess | None:
    pid = whole(row.get("pid"))
    if pid is None:
        return None  # "-": nobody uses it
    kind: Any = process_type(row.get("type"))
    name = word(row.get("command") or row.get("name"))
    return GpuProcess(HOST, index, pid, name, kind, _mebibytes(row.get("fb")), line=line)


def _mebibytes(text: str | None) -> int | None:
    return size(f"{text} MiB") if text and text.isdecimal() else None
