"""The table that a plain `nvidia-smi` prints, and hl-smi after its model. Pure: no I/O.

Three columns per accelerator in two lines, three from driver 450 on. Widths changed more than once, so cells are told
by the bars between them, never by position.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from flatline.bundle.facts import Gpu, GpuDriver, GpuProcess, GpuVendor

from . import complaints
from .readings import (
    HOST,
    Reading,
    bus_id,
    compute_mode,
    number,
    process_type,
    size,
    switch,
    version,
    whole,
    with_driver,
    word,
)

WIDEST = 400
"""Characters in a line: the table has about ninety."""
_VERSIONS = re.compile(r"(?:Driver|KMD) Version:\s*(\S+)(?:\s+CUDA(?: UMD)? Version:\s*(\S+))?", re.IGNORECASE)
_FIRST = re.compile(r"(\d{1,4})\s+(.+?)\s+(\S+)$")
"""``0  NVIDIA H100 80GB HBM3   On``"""
_PROCESS = re.compile(
    r"\|\s+(\d{1,4})\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(\d{1,10})\s+([CGM+]+)\s+(.*?)\s+(\d+MiB|N/A)\s*(?:\||$)"
)
"""``0   N/A  N/A   4242   C   python   745MiB``; without the two columns of MIG before driver 450."""


def parse_table(text: str, vendor: GpuVendor = "nvidia") -> Reading:
    """Accelerators, processes and versions of the table; what was cut off at either end is not missed."""
    lines = [line.rstrip() if len(line) <= WIDEST else "" for line in text.splitlines()]
    driver = _driver(lines, vendor)
    gpus = [with_driver(replace(gpu, vendor=vendor), driver) for gpu in _gpus(lines)]
    if driver and gpus:
        driver = replace(driver, state="device-lost" if any(gpu.lost for gpu in gpus) else "ok")
    return Reading(tuple(gpus), tuple(_processes(lines)), driver)


def is_gpu_line(line: str) -> bool:
    """Whether it is the first line of an accelerator, by its index and its address on the bus."""
    cells = _cells(line.strip())
    return len(cells) == 3 and bool(_FIRST.match(cells[0]) and bus_id(cells[1]))


def is_process_line(line: str) -> bool:
    """Whether it is a row of the second table."""
    return bool(_PROCESS.match(line.strip()))


def _driver(lines: list[str], vendor: GpuVendor) -> GpuDriver | None:
    for number_, line in enumerate(lines, 1):
        if found := _VERSIONS.search(line):
            return GpuDriver(HOST, vendor, module=version(found[1]), cuda=version(found[2]), line=number_)
    return None


def _gpus(lines: list[str]) -> Iterator[Gpu]:
    """Each begins with the one line that holds an index and an address on the bus."""
    for place, line in enumerate(lines):
        if line.startswith(("| Processes:", "| MIG devices:", "| Compute Processes:")):
            return
        cells = _cells(line)
        first = _FIRST.match(cells[0]) if len(cells) == 3 else None
        if first and bus_id(cells[1]):
            rest = [_cells(after) for after in lines[place + 1 : place + 3]]
            yield _gpu(place + 1, first, cells, [row for row in rest if len(row) == 3])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]] if line.startswith("|") else []


def _gpu(line: int, first: re.Match[str], cells: list[str], below: list[list[str]]) -> Gpu:
    values = below[0] if below else ["", "", ""]
    used, memory = _halves(values[1])
    draw, limit = _halves(values[0])
    load, _, mode = values[2].partition(" ")
    chosen: Any = compute_mode(mode)
    errors = tuple(_errors([*cells, *values]))
    persistence = switch(first[3]) if first[3] in ("On", "Off") else None
    return Gpu(
        host=HOST,
        index=int(first[1]),
        vendor="nvidia",
        name=word(first[2]),
        bus_id=bus_id(cells[1]),
        memory=size(memory),
        used=size(used),
        utilisation=number(load),
        temperature=_temperature(draw),
        power=number(draw.split()[-1] if draw.split() else ""),
        power_limit=number(limit),
        compute_mode=chosen,
        mig=switch(below[1][2]) if len(below) > 1 and not below[1][0] else None,
        persistence=persistence,
        ecc_uncorrected=whole(cells[2]),
        lost=any(complaints.says_lost(error) for error in errors) or _is_dead(values),
        errors=errors,
        line=line,
    )


def _halves(cell: str) -> tuple[str, str]:
    """``72W /  700W``; a slash without blanks is that of ``N/A``."""
    found = re.split(r"\s/\s", cell, maxsplit=1)
    return found[0], found[1] if len(found) > 1 else ""


def _temperature(cell: str) -> float | None:
    found = re.search(r"(\d+)C\b", cell)
    return float(found[1]) if found else None


def _errors(cells: list[str]) -> Iterator[str]:
    """``ERR!   38C    P5    49W``: the sensor is told by its place."""
    for cell in cells:
        if "ERR!" in cell:
            yield f"nvidia-smi shows {' '.join(cell.split())}"
        elif complaint := complaints.of_gpu(cell):
            yield complaint


def _is_dead(values: list[str]) -> bool:
    """A fan alone is often ``ERR!``; a temperature and a load that cannot be read either are a lost device."""
    return values[0].count("ERR!") >= 3 or ("ERR!" in values[0] and "ERR!" in values[2])


def _processes(lines: list[str]) -> Iterator[GpuProcess]:
    for place, line in enumerate(lines, 1):
        found = _PROCESS.match(line)
        if found:
            kind: Any = process_type(found[3])
            yield GpuProcess(HOST, int(found[1]), int(found[2]), word(found[4]), kind, size(found[5]), line=place)
