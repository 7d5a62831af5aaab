"""The tables with bars that nvidia-smi, hl-smi, npu-smi, xpu-smi and amd-smi print, of every generation.

Recognised by their heads, and without those by the rows of NVIDIA's: cells, not positions, tell what they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from flatline.bundle.facts import Gpu, GpuDriver, GpuProcess, ToolRun
from flatline.texts.gpu import any_text, smi_table
from flatline.texts.gpu.readings import Reading

from .interface import Lines, Parsed, Parser
from .spans import Span, span

_HEAD = re.compile(
    r"\|\s*(?:NVIDIA-SMI \S|HL-SMI |npu-smi \d|AMD-SMI \d|Device ID\s*\|\s*Device Information|"
    r"GPU\s+Name\s.*\|\s*Bus-Id|AIP\s+Name|NPU\s+Name|Processes:\s.*(?:GPU|\|$)|No running processes found|"
    r"Compute Processes:)"
)
_DATE = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d \d{4}$")
_FRAME = re.compile(r"[|+]")
_BORDER = re.compile(r"[|+][-=+|]{10,}$")
_BEGINS = re.compile(rf"[|+][-=+|]{{20,}}$|\|\s+\d{{1,4}}\s+\S.*\||{_HEAD.pattern}|{_DATE.pattern}")
_TOOLS = {"nvidia": "nvidia-smi", "habana": "hl-smi", "huawei": "npu-smi", "intel": "xpu-smi", "amd": "amd-smi"}
_NEAR = 16
"""A head is at most so far from the first border, blank lines of the paste included."""
_NOT_MUCH = 600 << 20
"""Bytes that a driver takes of a device that nobody uses."""


def parse(lines: Lines, start: int) -> Parsed | None:
    """One table, with the one of the processes below it."""
    first = start + 1 if _DATE.match(lines[start].bare) else start
    near = [line.bare for line in lines[first : first + _NEAR]]
    if not near or not _FRAME.match(next((text for text in near if text), "")) or not _is_ours(near):
        return None
    found = span(lines, first, _FRAME.match)
    text = found.text
    reading = any_text.framed(text)
    if not reading and not _HEAD.search(text):
        return None
    return _parsed(found, reading)


def _is_ours(texts: Sequence[str]) -> bool:
    """Whether one of the next lines, as far as they are of a table, is unmistakable."""
    for text in texts:
        if text and not _FRAME.match(text):
            return False
        if _HEAD.match(text) or smi_table.is_gpu_line(text) or smi_table.is_process_line(text):
            return True
    return False


def _parsed(found: Span, reading: Reading) -> Parsed:
    rows: list[Gpu | GpuProcess | GpuDriver | ToolRun] = [*reading.gpus, *reading.processes]
    vendor = reading.driver.vendor if reading.driver else reading.gpus[0].vendor if reading.gpus else "nvidia"
    tool = _TOOLS.get(vendor, vendor)
    if reading.driver:
        rows.append(replace(reading.driver, source=reading.driver.source or tool))
        rows.append(ToolRun(tool, "ok", line=reading.driver.line))
    about = f"{tool}: {len(reading.gpus)} devices, {len(reading.processes)} processes"
    return Parsed(found.end, found.placed(rows), _collected(found.text, reading), about)


def _collected(text: str, reading: Reading) -> frozenset[str]:
    """Which lists are whole: the devices below a head; the processes up to the last border, unless memory is used and
    nobody is named, which is what a container sees."""
    whole = set()
    if reading.driver and reading.gpus:
        whole.add("gpus")
    lists = re.search(r"\|\s*(?:Compute )?Processes:", text) and _BORDER.match(text.rsplit("\n", 1)[-1])
    hidden = not reading.processes and any((gpu.used or 0) > _NOT_MUCH for gpu in reading.gpus)
    if lists and not hidden:
        whole.add("gpu_processes")
    return frozenset(whole)


PARSERS = (Parser("gpu-table", _BEGINS, parse),)
