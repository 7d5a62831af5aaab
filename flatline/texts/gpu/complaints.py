"""The words in which drivers, tools and libraries say what is wrong with them, and what each means. Pure: no I/O.

Sources: nvmlReturn_t in the NVML reference manual; the messages of nvidia-smi, rocm-smi, amd-smi and npu-smi.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_STATES = (
    ("version-mismatch", r"driver/library version mismatch|NVML/RM version mismatch"),
    ("not-loaded", r"couldn't communicate with the NVIDIA driver|driver not loaded|amdgpu not found in modules"),
    ("library-missing", r"couldn't find libnvidia-ml|NVML shared library not found|libnvidia-ml\.so\S* (?:could )?not"),
    ("no-devices", r"no devices were found|no (?:supported |amd )?gpus? (?:was |were )?found"),
    ("device-lost", r"gpu is lost|unable to determine the device handle|fallen off the bus"),
    ("no-permission", r"insufficient permissions|access blocked by the operating system|unable to open /dev/kfd"),
    ("error", r"failed to initialize NVML|NVML: .*error|dcmi (?:module )?initialize failed|unknown error"),
)
_OF_A_GPU = re.compile(r"gpu is lost|gpu requires reset|unknown error|\bERR!", re.IGNORECASE)
_LOST = re.compile(r"gpu is lost|unable to determine the device handle|fallen off the bus", re.IGNORECASE)

NVML_STATES = {4: "no-permission", 9: "not-loaded", 12: "library-missing", 15: "device-lost", 18: "version-mismatch"}
"""nvmlReturn_t -> `GpuDriver.state`."""


@dataclass(frozen=True)
class Complaint:
    """What a text complains of."""

    state: str
    """As in `GpuDriver.state`."""
    message: str
    """The line, as printed."""


def of_driver(text: str) -> Complaint | None:
    """The gravest complaint in what a tool printed."""
    lines = [line.strip()[:1000] for line in text.splitlines() if line.strip()]
    for state, pattern in _STATES:
        found = next((line for line in lines if re.search(pattern, line, re.IGNORECASE)), None)
        if found:
            return Complaint(state, found[:300])
    return None


def of_gpu(text: str) -> str | None:
    """The complaint that stands where a value should: ``GPU is lost``, ``ERR!``."""
    return text.strip() if _OF_A_GPU.search(text) else None


def says_lost(text: str) -> bool:
    """Whether it says that an accelerator no longer answers."""
    return bool(_LOST.search(text))


def library_version(text: str) -> str | None:
    """Newer drivers print it below the complaint about a mismatch."""
    found = re.search(r"NVML library version:\s*(\d[\d.]*)", text)
    return found[1] if found else None
