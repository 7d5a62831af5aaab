"""The vendors' tools: what is run, where its text goes, and what is read from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flatline.bundle.facts import GpuVendor
from flatline.texts.gpu import any_text, rocm, smi_query, smi_table
from flatline.texts.gpu.readings import Reading

from .. import tools

_BESIDE_PATH = (
    "/usr/local/nvidia/bin", "/usr/lib/wsl/lib", "/opt/rocm/bin", "/usr/local/Ascend/driver/tools", "/usr/local/sbin",
)  # fmt: skip
"""Where container runtimes and installers put them without telling PATH."""


@dataclass(frozen=True)
class Command:
    """One call of a tool."""

    tool: str
    arguments: tuple[str, ...]
    member: str
    media_type: str = "text/plain; charset=utf-8"

    @property
    def line(self) -> str:
        """``nvidia-smi -q -x``."""
        return " ".join((self.tool, *self.arguments))


@dataclass(frozen=True)
class Vendor:
    """Commands in the order they run; the first that hangs is the last."""

    name: GpuVendor
    commands: tuple[Command, ...]
    parse: Callable[[Sequence[str]], Reading] = lambda texts: Reading()
    """Given the texts of all its commands."""


def _nvidia(texts: Sequence[str]) -> Reading:
    """The XML knows all; the table has shortened names, but is there when the XML is not."""
    readings = (*map(smi_query.parse_xml, texts), *map(smi_table.parse_table, texts))
    return next((reading.unplaced() for reading in readings if reading.gpus), Reading())


def _amd(texts: Sequence[str]) -> Reading:
    """amd-smi, where it is there, knows more than its predecessor."""
    readings = (rocm.parse_amd_smi(*texts), *(rocm.parse_rocm_smi(text) for text in texts))
    return next((reading for reading in readings if reading.gpus), Reading())


def _framed(texts: Sequence[str]) -> Reading:
    """The others print one table."""
    return next((reading.unplaced() for reading in map(any_text.framed, texts) if reading.gpus), Reading())


_JSON = "application/json"
NVIDIA = Vendor(
    "nvidia",
    (
        Command("nvidia-smi", (), "raw/nvidia-smi.txt"),
        Command("nvidia-smi", ("-q", "-x"), "raw/nvidia-smi.xml", "application/xml"),
        Command("nvidia-smi", ("topo", "-m"), "raw/nvidia-topo.txt"),
    ),
    _nvidia,
)
OTHERS = (
    Vendor(
        "amd",
        (
            Command("rocm-smi", (), "raw/rocm-smi.txt"),
            Command("rocm-smi", ("-a", "--json"), "raw/rocm-smi.json", _JSON),
            Command("amd-smi", ("static", "--json"), "raw/amd-smi-static.json", _JSON),
            Command("amd-smi", ("metric", "--json"), "raw/amd-smi-metric.json", _JSON),
            Command("amd-smi", ("process", "--json"), "raw/amd-smi-process.json", _JSON),
        ),
        _amd,
    ),
    Vendor("huawei", (Command("npu-smi", ("info",), "raw/npu-smi.txt"),), _framed),
    Vendor("intel", (Command("xpu-smi", ("discovery",), "raw/xpu-smi.txt"),), _framed),
    Vendor("habana", (Command("hl-smi", (), "raw/hl-smi.txt"),), _framed),
)


def find() -> dict[str, str]:
    """Full path of every tool that is here. A folder of PATH may not answer: ask in a process to spare."""
    names = {command.tool for vendor in (NVIDIA, *OTHERS) for command in vendor.commands}
    found = {name: tools.find_tool(name) or _beside_path(name) for name in names}
    return {name: path for name, path in found.items() if path}


def _beside_path(name: str) -> str | None:
    paths = (os.path.join(folder, name) for folder in _BESIDE_PATH)
    return next((path for path in paths if os.access(path, os.X_OK)), None)
