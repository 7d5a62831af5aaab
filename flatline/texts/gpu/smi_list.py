"""The lists of `nvidia-smi -L` and of `nvidia-smi nvlink -s`, which begin alike. Pure: no I/O."""

from __future__ import annotations

import re
from dataclasses import replace

from flatline.bundle.facts import Gpu

from .readings import HOST, Reading

LISTED = re.compile(r"GPU (\d{1,4}): (.{1,200}?) \(UUID: ([\w-]{1,100})\)")
BELOW = re.compile(
    r"MIG .{1,80}\(UUID: \S+\)$|Link \d{1,3}: |NVML: .{0,100}NVLink|"
    r"Device does not have or support Nvlink|Nvlink queries "
)
"""What stands below an accelerator."""
_LINK = re.compile(r"Link (\d{1,3}): (.{1,60})$")
_MOST_ERRORS = 32


def parse_list(text: str) -> Reading:
    """The accelerators; of NVLink those links that carry nothing, as errors."""
    found: list[Gpu] = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if listed := LISTED.match(bare):
            found.append(Gpu(HOST, int(listed[1]), "nvidia", uuid=listed[3], name=listed[2], line=number))
        elif found and bare.startswith("MIG "):
            found[-1] = replace(found[-1], mig=True)
        elif found and (error := _error(bare)) and len(found[-1].errors) < _MOST_ERRORS:
            found[-1] = replace(found[-1], errors=(*found[-1].errors, error))
    return Reading(tuple(found))


def _error(line: str) -> str | None:
    link = _LINK.match(line)
    if link and "inactive" in link[2].lower():
        return f"NVLink {link[1]} is inactive"
    return line[:300] if line.startswith("NVML: ") and "NVLink" in line else None
