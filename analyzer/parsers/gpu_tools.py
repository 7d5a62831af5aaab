"""What the accelerators' tools say when they fail, and AMD's lists, trees and JSON."""

from __future__ import annotations

import re
from dataclasses import replace

from flatline.bundle.facts import GpuVendor, ToolRun
from flatline.texts.gpu import amd_text, any_text
from flatline.texts.gpu.readings import Reading

from .interface import Lines, Parsed, Parser
from .json_text import json_span
from .spans import Span, span

_FAILED = re.compile(
    r"NVIDIA-SMI has failed because|NVIDIA-SMI couldn't find |Failed to initialize NVML: |"
    r"No devices (?:were )?found\.?$|amdgpu not found in modules|"
    r"Unable to determine the device handle for |ERROR:root:Driver not initialized|ERROR: ?\d* ?\w*(?:amdgpu|/dev/kfd)|"
    r"Unable to open /dev/kfd|dcmi (?:module )?initialize failed|Failed to initialize (?:hlml|HLML)"
)
_ALSO = re.compile(
    r"NVML library version: |Make sure that the latest NVIDIA driver|.{0,80}Reboot the system to recover|"
    r"Please also try "
)
_NAMED = r"(nvidia-smi|rocm-smi|amd-smi|npu-smi|xpu-smi|hl-smi|nvcc|ibstat|ibv_devinfo|show_gids)"
_MISSING = re.compile(
    rf"(?:-?\w{{2,5}}: )?(?:line )?(?:\d+: )?{_NAMED}: (?:command )?not found|.{{0,60}}[Cc]ommand '{_NAMED}' not found|"
    rf"zsh: command not found: {_NAMED}"
)
_TOOLS: dict[GpuVendor, str] = {
    "nvidia": "nvidia-smi", "amd": "rocm-smi", "huawei": "npu-smi", "intel": "xpu-smi", "habana": "hl-smi",
}  # fmt: skip
_MAY_FOLLOW = 3
_NEAR = 16
"""Lines to the first row of a table, blank ones of the paste included."""


def parse_failure(lines: Lines, start: int) -> Parsed | None:
    """The complaint, and what the tool says below it. It may be part of a log."""
    end = start + 1
    while end < min(len(lines), start + _MAY_FOLLOW) and _ALSO.match(lines[end].bare):
        end += 1
    found = Span(end, tuple(lines[start:end]))
    driver = any_text.parse(found.text).driver
    if driver is None:
        return None
    tool = _TOOLS.get(driver.vendor, driver.vendor)
    rows = found.placed([replace(driver, source=tool), ToolRun(tool, "error", message=driver.message)])
    whole = frozenset({"gpus"} if driver.state == "no-devices" else ())
    return Parsed(end, rows, whole, f"{tool}: {driver.state}")


def parse_missing(lines: Lines, start: int) -> Parsed | None:
    """A shell that does not find the tool."""
    found = _MISSING.match(lines[start].bare)
    if found is None:
        return None
    tool = next(name for name in found.groups() if name)
    row = ToolRun(tool, "absent", message=lines[start].bare[:300], line=lines[start].number)
    return Parsed(start + 1, (row,), about=f"no {tool} there")


# --- AMD ---

_ROCM = re.compile(
    r"=+ ?(?:ROCm System Management Interface|ROCm SMI.*|Concise Info) ?=+$|"
    r"(?:GPU|Device)\s+(?:Node\s+IDs|Temp\b.*PwrCap|\[Model).*|\d{1,3}\s.{10,200}%\s+\d{1,3}%$|GPU\[\d{1,3}\]\s*: "
)
_ROCM_OWN = re.compile(rf"=+|{_ROCM.pattern}|\(DID,|WARNING: |card\d|cardseries")
_AMD = re.compile(rf"{amd_text.TREE.pattern}|{amd_text.MONITOR.pattern}")
_AMD_OWN = re.compile(
    r"GPU: \d|[A-Z][A-Z0-9_ ]{1,60}:(?: |$)|[a-z_0-9]{1,40}:(?: |$)|\d{1,3}\s+(?:\d{1,3}\s+)?[\d.]+ W\s|"
    r"GPU\s+(?:XCP|POWER)\s"
)


def parse_rocm(lines: Lines, start: int) -> Parsed | None:
    """rocm-smi as table or list."""
    near = [line.bare for line in lines[start : start + _NEAR]]
    if not any(amd_text.CONCISE.match(text) or amd_text.LISTED.match(text) for text in near):
        return None
    found = span(lines, start, _ROCM_OWN.match)
    return _amd(found, amd_text.parse_rocm_text(found.text), "rocm-smi")


def parse_amd(lines: Lines, start: int) -> Parsed | None:
    """amd-smi as tree or as monitor."""
    near = [line.bare for line in lines[start + 1 : start + 4] if line.bare]
    if not near or not _AMD_OWN.match(near[0]):
        return None
    found = span(lines, start, _AMD_OWN.match)
    return _amd(found, amd_text.parse_amd_text(found.indented), "amd-smi")


_JSON = re.compile(r"[{\[]")
_JSON_MARK = re.compile(r'"card\d{1,3}": ?\{|"gpu_data": ?\[|"gpu": ?\d{1,3},')
_JSON_NEAR = 3


def parse_json(lines: Lines, start: int) -> Parsed | None:
    """`rocm-smi … --json`, `amd-smi … --json`."""
    if not any(_JSON_MARK.search(line.bare[:400]) for line in lines[start : start + _JSON_NEAR]):
        return None
    found = json_span(lines, start)
    reading = any_text.parse(found.text)
    return _amd(found, reading, "rocm-smi") if reading.gpus else None


def _amd(found: Span, reading: Reading, tool: str) -> Parsed:
    rows = [*reading.gpus, *reading.processes]
    rows_of_tool = [reading.driver, ToolRun(reading.driver.source or tool, "ok")] if reading.driver else []
    about = f"{tool}: {len(reading.gpus)} devices"
    return Parsed(
        found.end,
        (*found.placed(rows), *found.placed(rows_of_tool)),
        frozenset({"gpus"} if reading.gpus else ()),
        about,
    )


PARSERS = (
    Parser("gpu-tool-failure", _FAILED, parse_failure, is_log=True),
    Parser("tool-missing", _MISSING, parse_missing, is_log=True),
    Parser("rocm-smi", _ROCM, parse_rocm),
    Parser("amd-smi", _AMD, parse_amd),
    Parser("amd-json", _JSON, parse_json),
)
