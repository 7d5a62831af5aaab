"""What one text of a vendor's tool says, and the spellings of quantities in such texts. Pure: no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from flatline.bundle.facts import Gpu, GpuDriver, GpuProcess

HOST = "h1"
_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "kb": 1 << 10, "mib": 1 << 20, "mb": 1 << 20, "gib": 1 << 30, "gb": 1 << 30}
"""The vendors write MB for MiB."""
_QUANTITY = re.compile(r"\s*\(?\s*(-?\d{1,18}(?:\.\d{1,18})?)(?!\d)\s*([A-Za-z%]*)")
_COMPUTE_MODES = {
    "default": "default",
    "exclusiveprocess": "exclusive-process",
    "eprocess": "exclusive-process",
    "exclusivethread": "exclusive-thread",
    "ethread": "exclusive-thread",
    "prohibited": "prohibited",
}
_PROCESS_TYPES = {"C": "compute", "G": "graphics", "C+G": "both", "M": "mps", "M+C": "mps"}


@dataclass(frozen=True)
class Reading:
    """Rows with their line in the text, 1-based. A text that is no such text gives an empty one."""

    gpus: tuple[Gpu, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    driver: GpuDriver | None = None

    def __bool__(self) -> bool:
        return bool(self.gpus or self.processes or self.driver)

    def unplaced(self) -> Reading:
        """The same without lines: for who writes the rows down as facts."""
        gpus = tuple(replace(row, line=None) for row in self.gpus)
        processes = tuple(replace(row, line=None) for row in self.processes)
        return Reading(gpus, processes, replace(self.driver, line=None) if self.driver else None)


def number(text: str | None) -> float | None:
    """``98 %``, ``142.33 W``, ``(500Mhz)``, ``46C``; None for ``N/A`` and every other word."""
    found = _QUANTITY.match(text or "")
    return float(found[1]) if found else None


def whole(text: str | None) -> int | None:
    """The same, as a whole number."""
    found = number(text)
    return None if found is None else int(found)


def size(text: str | None) -> int | None:
    """``10240 MiB`` in bytes."""
    found = _QUANTITY.match(text or "")
    unit = _UNITS.get(found[2].lower()) if found else None
    return None if found is None or unit is None else int(float(found[1]) * unit)


def switch(text: str | None) -> bool | None:
    """``Enabled``, ``On``, ``Yes`` and their opposites."""
    word = (text or "").strip().lower()
    if word in ("enabled", "on", "yes"):
        return True
    return False if word in ("disabled", "off", "no") else None


def version(text: str | None) -> str | None:
    """``535.129.03``; None for ``N/A`` and ``Not Found``."""
    word = (text or "").strip()
    return word if re.fullmatch(r"\d[\w.+-]*", word) else None


def bus_id(text: str | None) -> str | None:
    """``00000000:3b:00.0``, whether the domain was written with four digits or eight."""
    found = re.search(r"(?<![0-9a-fA-F])([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.(\d)", text or "")
    return f"{int(found[1], 16):08x}:{found[2].lower()}:{found[3].lower()}.{found[4]}" if found else None


def word(text: str | None) -> str | None:
    """A name, unless it is one of the ways to say that there is none."""
    text = (text or "").strip()
    return text if text and text.strip("[]") not in ("N/A", "None", "Unknown", "Not Supported") else None


def compute_mode(text: str | None) -> str | None:
    """As in `Gpu.compute_mode`."""
    return _COMPUTE_MODES.get(re.sub(r"[^a-z]", "", (text or "").lower()))


def process_type(text: str | None) -> str:
    """As in `GpuProcess.type`."""
    return _PROCESS_TYPES.get((text or "").strip(), "unknown")


def total(*counts: int | None) -> int | None:
    """The sum of those that are known; None when none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def with_driver(gpu: Gpu, driver: GpuDriver | None) -> Gpu:
    """A text names the driver once, for all its accelerators."""
    return replace(gpu, driver=driver.module, cuda=driver.cuda) if driver else gpu
