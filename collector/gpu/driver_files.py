"""What the kernel says about accelerators without any tool: /proc/driver/nvidia and the device nodes in the job's /dev.

Sources: chapter "The /proc file system interface" of NVIDIA's driver README; devices.txt of the kernel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flatline.bundle.facts import Gpu, GpuVendor
from flatline.texts.gpu.kernel_module import parse_information, parse_version

from ..linux.procfs import ProcFS, Unread, text_of

MOST_GPUS = 64
_NODES: Mapping[GpuVendor, re.Pattern[str]] = {
    "nvidia": re.compile(r"nvidia(?:\d+|ctl|-uvm|-uvm-tools|-modeset)"),
    "amd": re.compile(r"kfd"),
    "huawei": re.compile(r"davinci(?:\d+|_manager)"),
    "habana": re.compile(r"hl\d+"),
}


@dataclass(frozen=True)
class DriverFiles:
    """All that could be read; empty on a host without accelerators."""

    module: str | None = None
    """Version of NVIDIA's kernel module."""
    gpus: tuple[Gpu, ...] = ()
    """NVIDIA's, with name, place and number only. `index` is the minor number: the tools may count otherwise."""
    devices: Mapping[GpuVendor, tuple[str, ...]] = field(default_factory=dict)
    text: str = ""
    """The files of /proc/driver/nvidia as they are, one after another."""


def read(proc: ProcFS, job: int | None) -> DriverFiles:
    """`job`: the process whose /dev counts. May block in a driver that is stuck: ask in a process to spare."""
    texts = _texts(proc)
    gpus = [parse_information(text) for name, text in texts.items() if name.endswith("/information")]
    return DriverFiles(
        module=parse_version(texts.get("version", "")),
        gpus=tuple(sorted((gpu for gpu in gpus if gpu), key=lambda gpu: gpu.index)),
        devices=_devices("/dev" if job is None else proc.path(job, "root", "dev")),
        text="".join(f"--- /proc/driver/nvidia/{name}\n{text.rstrip()}\n" for name, text in texts.items()),
    )


def _texts(proc: ProcFS) -> dict[str, str]:
    names = ["version", "params"]
    try:
        buses = sorted(os.listdir(proc.path("driver", "nvidia", "gpus")))[:MOST_GPUS]
    except OSError:
        buses = []
    names += [f"gpus/{bus}/information" for bus in buses]
    found: dict[str, Any] = {name: proc.raw("driver", "nvidia", name) for name in names}
    return {name: text_of(raw) for name, raw in found.items() if not isinstance(raw, Unread)}


def _devices(folder: str) -> dict[GpuVendor, tuple[str, ...]]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return {}
    devices: dict[GpuVendor, tuple[str, ...]] = {}
    for vendor, node in _NODES.items():
        found = tuple(name for name in names if node.fullmatch(name))
        if found:
            devices[vendor] = found
    return devices
