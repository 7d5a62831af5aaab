"""`nvidia-smi --query-gpu=… --format=csv` and `--query-compute-apps=…`: what monitoring scripts print. Pure: no I/O."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flatline.bundle.facts import Gpu, GpuDriver, GpuProcess

from .readings import HOST, Reading, bus_id, compute_mode, number, size, switch, total, version, whole, word

_UNIT = re.compile(r"\s*\[(\w+|%)\]$")


def is_table(text: str) -> bool:
    """Whether the first line is a heading of one of the two."""
    first = text.lstrip().split("\n", 1)[0]
    return first.count(",") > 0 and bool(re.search(r"\b(uuid|gpu_uuid|name|gpu_name|index|pci\.bus_id|pid)\b", first))


def parse_csv(text: str) -> Reading:
    """Rows of accelerators, or of processes when there is a column of pids. Without units, memory is MiB."""
    reader = csv.reader(text.splitlines(), skipinitialspace=True)
    try:
        numbered = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error:
        return Reading()
    lines = [cells for _, cells in numbered]
    if len(lines) < 2:
        return Reading()
    units = [found[1] if (found := _UNIT.search(title)) else "" for title in lines[0]]
    titles = [_UNIT.sub("", title) for title in lines[0]]
    rows = [_row(titles, units, cells) for cells in lines[1:]]
    places = [number_ for number_, _ in numbered[1:]]
    if "pid" in titles:
        return Reading(processes=_processes(rows, places))
    gpus = tuple(replace(_gpu(place, row), line=line) for place, (row, line) in enumerate(zip(rows, places)))
    module = version(rows[0].get("driver_version"))
    return Reading(gpus, driver=GpuDriver(HOST, "nvidia", "ok", module=module))


def _row(titles: Sequence[str], units: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """`nounits` leaves the unit to the heading, and some scripts leave out both."""
    named = zip(titles, units, cells)
    return {title: f"{cell} {unit}" if unit and cell.isdecimal() else cell for title, unit, cell in named}


def _gpu(place: int, row: Mapping[str, str]) -> Gpu:
    index, mode = whole(row.get("index")), compute_mode(row.get("compute_mode"))
    chosen: Any = mode
    pending = [switch(row.get(name)) for name in ("retired_pages.pending", "remapped_rows.pending")]
    known = [one for one in pending if one is not None]
    return Gpu(
        host=HOST,
        index=place if index is None else index,
        vendor="nvidia",
        uuid=word(row.get("uuid") or row.get("gpu_uuid")),
        name=word(row.get("name") or row.get("gpu_name")),
        bus_id=bus_id(row.get("pci.bus_id") or row.get("gpu_bus_id")),
        memory=_mebibytes(row.get("memory.total")),
        used=_mebibytes(row.get("memory.used")),
        utilisation=number(row.get("utilization.gpu")),
        temperature=number(row.get("temperature.gpu")),
        power=number(row.get("power.draw")),
        power_limit=number(row.get("enforced.power.limit") or row.get("power.limit")),
        clock=whole(row.get("clocks.current.sm") or row.get("clocks.sm")),
        clock_max=whole(row.get("clocks.max.sm")),
        compute_mode=chosen,
        mig=switch(row.get("mig.mode.current")),
        persistence=switch(row.get("persistence_mode")),
        ecc=switch(row.get("ecc.mode.current")),
        ecc_uncorrected=whole(row.get("ecc.errors.uncorrected.volatile.total")),
        retired_pages=_sum(row, "retired_pages.single_bit_ecc.count", "retired_pages.double_bit.count"),
        remapped_rows=_sum(row, "remapped_rows.correctable", "remapped_rows.uncorrectable"),
        repair_pending=any(known) if known else None,
        repair_failed=switch(row.get("remapped_rows.failure")),
        driver=version(row.get("driver_version")),
    )


def _processes(rows: Sequence[Mapping[str, str]], lines: Sequence[int]) -> tuple[GpuProcess, ...]:
    """The index of a device is not printed; devices are numbered as their addresses come."""
    order = {row.get("gpu_uuid") or row.get("gpu_bus_id", ""): None for row in rows}
    places = {name: place for place, name in enumerate(order)}
    found = []
    for row, line in zip(rows, lines):
        pid = whole(row.get("pid"))
        memory = _mebibytes(row.get("used_gpu_memory") or row.get("used_memory"))
        place = places[row.get("gpu_uuid") or row.get("gpu_bus_id", "")]
        name = word(row.get("process_name") or row.get("name"))
        if pid is not None:
            found.append(GpuProcess(HOST, place, pid, name, "compute", memory, line=line))
    return tuple(found)


def _mebibytes(text: str | None) -> int | None:
    return size(f"{text} MiB") if text and text.isdecimal() else size(text)


def _sum(row: Mapping[str, str], *names: str) -> int | None:
    return total(*(whole(row.get(name)) for name in names))
