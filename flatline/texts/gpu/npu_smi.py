"""The table of `npu-smi info` (Huawei Ascend). Pure: no I/O.

Two lines a chip, three columns; processes in a table of four columns below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatline.bundle.facts import Gpu, GpuDriver, GpuProcess

from .readings import HOST, Reading, bus_id, number, size, version, whole, word

HEAD = re.compile(r"\|\s*(?:npu-smi \S+\s|NPU\s+Name\s*\||NPU\s+Chip\s*\|)")
_VERSION = re.compile(r"\|\s*npu-smi (\S+)")
_PAIR = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})")


def parse_npu(text: str) -> Reading:
    """Chips by the number of their card, and their processes."""
    lines = [[cell.strip() for cell in line.strip().split("|")[1:-1]] for line in text.splitlines()]
    found = _VERSION.search(text)
    gpus = tuple(_chips(lines))
    driver = GpuDriver(HOST, "huawei", "ok" if gpus else "unknown", module=version(found[1])) if found else None
    return Reading(gpus, tuple(_processes(lines)), driver)


def _chips(lines: list[list[str]]) -> Iterator[Gpu]:
    for place, (first, second) in enumerate(zip(lines, lines[1:])):
        if len(first) == len(second) == 3 and bus_id(second[1]):
            head = re.match(r"(\d{1,4})\s+(\S+)$", first[0])
            if head:
                yield _chip(place + 1, head, first, second)


def _chip(line: int, head: re.Match[str], first: list[str], second: list[str]) -> Gpu:
    power = first[2].split()
    pairs = [(int(used), int(total)) for used, total in _PAIR.findall(second[2]) if int(total)]
    used, total = pairs[-1] if pairs else (None, None)  # the last one is the fast memory where there is any
    return Gpu(
        host=HOST,
        index=int(head[1]),
        vendor="huawei",
        name=word(head[2]),
        bus_id=bus_id(second[1]),
        memory=size(f"{total} MB") if total is not None else None,
        used=size(f"{used} MB") if used is not None else None,
        utilisation=number(second[2]),
        power=number(power[0]) if power else None,
        temperature=number(power[1]) if len(power) > 1 else None,
        errors=() if first[1] in ("OK", "", "NA") else (f"health: {first[1]}"[:100],),
        line=line,
    )


def _processes(lines: list[list[str]]) -> Iterator[GpuProcess]:
    for place, cells in enumerate(lines, 1):
        if len(cells) == 4 and re.fullmatch(r"\d{1,4}\s+\d{1,4}", cells[0]):
            pid = whole(cells[1])
            if pid is not None:
                used = size(f"{cells[3]} MB")
                yield GpuProcess(HOST, int(cells[0].split()[0]), pid, word(cells[2]), "compute", used, line=place)
