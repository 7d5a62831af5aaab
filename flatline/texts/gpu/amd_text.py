"""What AMD's tools print for people: rocm-smi's tables and lists, amd-smi's tree, table and monitor. Pure: no I/O.

The names in lists and trees are those of the JSON, so both are read by rocm.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from flatline.bundle.facts import Gpu, GpuDriver, GpuProcess

from .readings import HOST, Reading, bus_id, number, size, version, word
from .rocm import amd_smi, rocm_smi

CONCISE = re.compile(
    r"(?P<index>\d{1,3})\s.*?(?P<temperature>\d[\d.]*) ?(?:c|°C)\s.*\s(?P<vram>\d{1,3})%\s+(?P<load>\d{1,3})%$"
)
"""``0    35.0c  41.0W  300Mhz  1200Mhz  0%  auto  300.0W    0%   0%``; newer ones have more columns in front."""
LISTED = re.compile(r"(?:GPU|card)\[?(?P<index>\d{1,3})\]?\s*:\s+(?P<name>[^:]{1,80}?)(?::\s*(?P<value>.*))?$")
"""``GPU[0]		: GPU use (%): 99``"""
TREE = re.compile(r"GPU: \d{1,4}$")
TABLE = re.compile(r"\|\s*AMD-SMI \S+")
MONITOR = re.compile(r"GPU\s+(?:XCP\s+)?POWER\s.*\bGFX")
_WATTS = re.compile(r"\s(\d[\d.]*) ?W\b")
_TABLE_VERSION = re.compile(r"amdgpu version:\s*(\S+)")
_TABLE_PROCESS = re.compile(r"\|\s+(\d{1,4})\s+(\d{1,10})\s+([^\s\d|]\S*)\s+(?:\S+ \w?B|N/A)\s+([\d.]+ \w?B|N/A)\s")
"""``0  7777  python3  2.0 MB  12.3 GB  12.4 GB  0.0 %``: the second size is that of the device."""


def parse_rocm_text(text: str) -> Reading:
    """`rocm-smi` as table, and as the list of `rocm-smi -a`."""
    rows, cards, lines = [], {}, {}
    for place, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if found := CONCISE.match(bare):
            rows.append(_concise(found, place))
        elif (found := LISTED.match(bare)) and found["value"] is not None:
            lines.setdefault(f"card{int(found['index'])}", place)
            cards.setdefault(f"card{int(found['index'])}", {})[found["name"].strip()] = found["value"].strip()
    listed = rocm_smi(cards)
    gpus = tuple(replace(gpu, line=lines.get(f"card{gpu.index}")) for gpu in listed.gpus)
    return Reading((*rows, *gpus), driver=listed.driver or _ok(bool(rows), "rocm-smi"))


def _concise(found: re.Match[str], line: int) -> Gpu:
    watts = [float(value) for value in _WATTS.findall(found.string)]
    return Gpu(
        HOST, int(found["index"]), "amd", utilisation=float(found["load"]), temperature=number(found["temperature"]),
        power=watts[0] if len(watts) > 1 else None, power_limit=watts[-1] if watts else None, line=line,
    )  # fmt: skip


def _ok(answers: bool, source: str, module: str | None = None) -> GpuDriver | None:
    return GpuDriver(HOST, "amd", "ok", source=source, module=module) if answers else None


# --- amd-smi ---


def parse_amd_text(text: str) -> Reading:
    """`amd-smi`, `amd-smi monitor`, and the trees of `amd-smi static`, `metric`, `list` and `process`."""
    lines = text.splitlines()
    head = next((place for place, line in enumerate(lines) if MONITOR.match(line.strip())), None)
    if head is not None:
        gpus = tuple(_monitored(lines, head))
        return Reading(gpus, driver=_ok(bool(gpus), "amd-smi"))
    return _table(lines) if any(TABLE.match(line.strip()) for line in lines) else _tree(lines)


def _monitored(lines: list[str], head: int) -> Iterator[Gpu]:
    titles = lines[head].split()
    for place, line in enumerate(lines[head + 1 :], head + 2):
        # a quantity and its unit are one column: ``140 W``, ``99 %``, ``283.0 MB``
        cells = re.sub(r"(?<=[\d.]) (?=[A-Za-z%°])", "", line.strip()).split()
        row = dict(zip(titles, cells))
        index = row.get("GPU", "")
        if index.isdecimal() and len(index) <= 4:
            used, _, total = row.get("VRAM_USAGE", "").partition("/")
            unit = re.sub(r"[\d.]", "", total)
            yield Gpu(
                HOST, int(index), "amd", memory=size(row.get("VRAM_TOTAL") or total),
                used=size(row.get("VRAM_USED") or f"{used} {unit}"),
                utilisation=number(row.get("GFX%", row.get("GFX_UTIL"))), power=number(row.get("POWER")),
                temperature=number(row.get("GPU_T", row.get("GPU_TEMP"))), line=place,
            )  # fmt: skip


def _table(lines: list[str]) -> Reading:
    """Two lines a device; the first holds its address."""
    module = next((version(found[1]) for line in lines if (found := _TABLE_VERSION.search(line))), None)
    gpus: list[Gpu] = []
    processes: list[GpuProcess] = []
    for place, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.strip().split("|")[1:-1]]
        if len(cells) == 2 and bus_id(cells[0]):
            below = lines[place].strip().split("|")[1:-1] if place < len(lines) else []
            gpus.append(_of_table(cells, [cell.strip() for cell in below], place, module))
        elif found := _TABLE_PROCESS.match(line.strip()):
            gpu, pid, name, used = int(found[1]), int(found[2]), word(found[3]), size(found[4])
            processes.append(GpuProcess(HOST, gpu, pid, name, "compute", used, line=place))
    return Reading(tuple(gpus), tuple(processes), _ok(bool(gpus), "amd-smi", module))


def _of_table(first: list[str], second: list[str], line: int, module: str | None) -> Gpu:
    bus, _, name = first[0].partition(" ")
    watts = re.search(r"(\d+)/(\d+) W", first[1])
    index = re.match(r"\d{1,4}", second[0]) if second else None
    used = re.search(r"(\d+)/(\d+) ([MG]B)", second[1]) if len(second) > 1 else None
    heat = re.search(r"(\d+) °C", first[1])
    return Gpu(
        HOST, int(index[0]) if index else 0, "amd", name=word(name), bus_id=bus_id(bus), driver=module, line=line,
        power=number(watts[1]) if watts else None, power_limit=number(watts[2]) if watts else None,
        temperature=number(heat[1]) if heat else None, utilisation=number(second[1]) if len(second) > 1 else None,
        used=size(f"{used[1]} {used[3]}") if used else None, memory=size(f"{used[2]} {used[3]}") if used else None,
    )  # fmt: skip


def _tree(lines: list[str]) -> Reading:
    """``GPU: 0`` and what is indented below it, as the JSON has it."""
    found: list[dict[str, Any]] = []
    places: dict[int, int] = {}
    open_: list[tuple[int, dict[str, Any]]] = []
    for place, line in enumerate(lines, 1):
        name, colon, value = line.strip().partition(":")
        if not colon:
            continue
        indent = len(line) - len(line.lstrip())
        if TREE.match(line.strip()):
            about: dict[str, Any] = {"gpu": value.strip()}
            found.append(about)
            places.setdefault(int(value), place)
            open_ = [(indent, about)]
            continue
        while len(open_) > 1 and open_[-1][0] >= indent:
            open_.pop()
        if open_:
            below: dict[str, Any] = {}
            open_[-1][1][name.strip().lower()] = value.strip() or below
            if not value.strip():
                open_.append((indent, below))
    reading = amd_smi(found)
    return replace(reading, gpus=tuple(replace(gpu, line=places.get(gpu.index)) for gpu in reading.gpus))
