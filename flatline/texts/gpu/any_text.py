"""Any text of a vendor's tool: find out which it is, and read it. Pure: no I/O.

Hostile input: a text that is none of these, cut or full of garbage gives an empty reading, never an exception.
"""

from __future__ import annotations

import re
from typing import Any

from flatline.bundle.facts import GpuDriver, GpuVendor

from . import amd_text, complaints, npu_smi, rocm, smi_csv, smi_list, smi_query, smi_table, xpu_smi
from .readings import HOST, Reading, version

_NOT_NVIDIA: tuple[tuple[str, GpuVendor], ...] = (
    (r"rocm|amdgpu|amd-?smi|/dev/kfd", "amd"),
    (r"npu-smi|dcmi", "huawei"),
    (r"xpu-smi", "intel"),
    (r"hl-smi", "habana"),
)
_VERSIONS = re.compile(r"^(?:KMD version|DRIVER version|NVML version)\s*:\s*(\d[\d.]+)", re.MULTILINE)
_CUDA = re.compile(r"^CUDA(?: UMD)? version\s*:\s*(\d[\d.]+)", re.MULTILINE | re.IGNORECASE)


def parse(text: str) -> Reading:
    """What it says. Where it only complains, the state of the driver, in its own words."""
    reading = _rows(text)
    if reading.gpus:
        return reading
    complaint = complaints.of_driver(text)
    if complaint is None:
        return reading
    state: Any = complaint.state
    library = complaints.library_version(text)
    driver = GpuDriver(HOST, _vendor(text), state, complaint.message, library=library)
    return Reading(processes=reading.processes, driver=driver)


def _vendor(text: str) -> GpuVendor:
    for pattern, vendor in _NOT_NVIDIA:
        if re.search(pattern, text, re.IGNORECASE):
            return vendor
    return "nvidia"


def _rows(text: str) -> Reading:
    if "<nvidia_smi_log" in text:
        return smi_query.parse_xml(text)
    if "NVSMI LOG" in text:
        return smi_query.parse_text(text)
    if re.search(r"^\| NVIDIA-SMI ", text, re.MULTILINE):
        return smi_table.parse_table(text)
    if re.search(r"^[ \t]*[|+]", text, re.MULTILINE):
        return framed(text)
    if re.search(r"^GPU \d+: .+\(UUID: ", text, re.MULTILINE):
        return smi_list.parse_list(text)
    if re.search(r"^[ \t]*[{\[]", text, re.MULTILINE):
        return _json(text)
    if smi_csv.is_table(text):
        return smi_csv.parse_csv(text)
    return _versions(text)


def framed(text: str) -> Reading:
    """A table with bars: whose it is, is told by its head; without one it is NVIDIA's, which is met most."""
    if npu_smi.HEAD.search(text):
        return npu_smi.parse_npu(text)
    if amd_text.TABLE.search(text):
        return amd_text.parse_amd_text(text)
    if xpu_smi.HEAD.search(text):
        return xpu_smi.parse_xpu(text)
    return smi_table.parse_table(text, "habana" if re.search(r"HL-SMI|\|\s*AIP\s+Name", text) else "nvidia")


def _json(text: str) -> Reading:
    reading = rocm.parse_rocm_smi(text)
    return reading if reading.gpus else rocm.parse_amd_smi(text)


def _versions(text: str) -> Reading:
    """`nvidia-smi --version`."""
    found, cuda = _VERSIONS.search(text), _CUDA.search(text)
    if not found:
        return Reading()
    return Reading(driver=GpuDriver(HOST, "nvidia", module=version(found[1]), cuda=version(cuda[1]) if cuda else None))
