"""The table of `xpu-smi discovery` (Intel). Pure: no I/O."""

from __future__ import annotations

import re
from typing import Any

from flatline.bundle.facts import Gpu, GpuDriver

from .readings import HOST, Reading, bus_id, size, word

HEAD = re.compile(r"\|\s*(?:Device ID|\d{1,4})\s*\|\s*Device (?:Information|Name: )")
_ROW = re.compile(r"\|\s*(\d{0,4})\s*\|\s*([A-Za-z][\w ()/]{1,60}):\s*(.*?)\s*\|?$")


def parse_xpu(text: str) -> Reading:
    """A block of ``Name: value`` lines a device; its number stands in the first."""
    found: dict[int, dict[str, Any]] = {}
    index = -1
    for number, line in enumerate(text.splitlines(), 1):
        row = _ROW.match(line.strip())
        if row and row[1]:
            index = int(row[1])
            found[index] = {"line": number}
        if row and index >= 0:
            found[index][row[2].lower()] = row[3]
    gpus = tuple(_gpu(index, about) for index, about in sorted(found.items()) if "device name" in about)
    return Reading(gpus, driver=GpuDriver(HOST, "intel", "ok") if gpus else None)


def _gpu(index: int, about: dict[str, Any]) -> Gpu:
    return Gpu(
        host=HOST,
        index=index,
        vendor="intel",
        uuid=word(about.get("soc uuid") or about.get("uuid")),
        name=word(about["device name"]),
        bus_id=bus_id(about.get("pci bdf address")),
        memory=size(about.get("memory physical size")),
        line=about["line"],
    )
