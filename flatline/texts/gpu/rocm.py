"""What AMD's tools print as JSON: `rocm-smi -a --json` and `amd-smi … --json`. Pure: no I/O.

Names of fields changed with almost every release of ROCm, in their case too; they are compared in lower case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flatline.bundle.facts import Gpu, GpuDriver, GpuProcess

from .readings import HOST, Reading, bus_id, number, size, version, whole, with_driver, word

_NAMES = ("device name", "card series", "card model", "gpu id", "device id")
"""Some releases put a number into one of them."""
_POWER = (
    "current socket graphics package power (w)", "average graphics package power (w)",
    "current graphics package power (w)",
)  # fmt: skip
_TEMPERATURE = ("temperature (sensor junction) (c)", "temperature (sensor edge) (c)")


def parse_rocm_smi(text: str) -> Reading:
    """`rocm-smi -a --json`: ``card0``, ``card1`` … and ``system``."""
    return rocm_smi(_mapping(_json(text)))


def rocm_smi(told: Mapping[str, Any]) -> Reading:
    """The same, from what was read of it."""
    cards = {name: _lower(about) for name, about in told.items() if isinstance(about, Mapping)}
    module = version(cards.get("system", {}).get("driver version"))
    found = {int(name[4:]): about for name, about in cards.items() if re.fullmatch(r"card\d{1,4}", name)}
    driver = GpuDriver(HOST, "amd", "ok", source="rocm-smi", module=module) if found else None
    return Reading(tuple(with_driver(_card(index, found[index]), driver) for index in sorted(found)), driver=driver)


def parse_amd_smi(*texts: str) -> Reading:
    """`amd-smi metric --json`, `list --json`, `static --json` and `process --json`: one list of accelerators each."""
    return amd_smi([one for text in texts for one in _listed(_json(text))])


def amd_smi(told: Sequence[Mapping[str, Any]]) -> Reading:
    """The same, from what was read of them."""
    about: dict[int, dict[str, Any]] = {}
    for one in told:
        index = whole(str(one.get("gpu", "")))
        if index is not None:
            about.setdefault(index, {}).update(one)
    driver = GpuDriver(HOST, "amd", "ok", source="amd-smi", module=_module(about)) if about else None
    gpus = tuple(with_driver(_amd_gpu(index, about[index]), driver) for index in sorted(about))
    return Reading(gpus, tuple(row for index in sorted(about) for row in _processes(index, about[index])), driver)


# --- rocm-smi ---


def _card(index: int, card: Mapping[str, str]) -> Gpu:
    def first(*names: str) -> str | None:
        return next((text for name in names if (text := word(card.get(name)))), None)

    names = [text for name in _NAMES if (text := word(card.get(name)))]
    return Gpu(
        host=HOST,
        index=index,
        vendor="amd",
        uuid=first("unique id"),
        name=next((name for name in names if not name.startswith("0x")), names[0] if names else None),
        bus_id=bus_id(first("pci bus")),
        memory=whole(first("vram total memory (b)")),
        used=whole(first("vram total used memory (b)")),
        utilisation=number(first("gpu use (%)")),
        temperature=number(first(*_TEMPERATURE)),
        power=number(first(*_POWER)),
        power_limit=number(first("max graphics package power (w)")),
        clock=whole(first("sclk clock speed:")),
    )


def _lower(about: Mapping[str, Any]) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in about.items()}


# --- amd-smi ---


def _amd_gpu(index: int, about: Mapping[str, Any]) -> Gpu:
    return Gpu(
        host=HOST,
        index=index,
        vendor="amd",
        uuid=word(_text(about, "uuid")),
        name=word(_text(about, "asic", "market_name")),
        bus_id=bus_id(_text(about, "bdf") or _text(about, "bus", "bdf")),
        memory=size(_text(about, "mem_usage", "total_vram") or _text(about, "vram", "size")),
        used=size(_text(about, "mem_usage", "used_vram")),
        utilisation=number(_text(about, "usage", "gfx_activity")),
        temperature=number(_text(about, "temperature", "hotspot") or _text(about, "temperature", "edge")),
        power=number(_text(about, "power", "socket_power")),
        power_limit=number(_text(about, "limit", "max_power") or _text(about, "limit", "socket_power_limit")),
        clock=whole(_text(about, "clock", "gfx_0", "clk")),
        ecc_uncorrected=whole(_text(about, "ecc", "total_uncorrectable_count")),
    )


def _module(about: Mapping[int, Mapping[str, Any]]) -> str | None:
    texts = (_text(one, "driver", "version") or _text(one, "driver", "driver_version") for one in about.values())
    return next((found for text in texts if (found := version(text))), None)


def _processes(index: int, about: Mapping[str, Any]) -> Iterator[GpuProcess]:
    listed = about.get("process_list")
    for one in listed if isinstance(listed, Sequence) else ():
        process = _mapping(_mapping(one).get("process_info", one))
        pid = whole(_text(process, "pid"))
        if pid is not None:
            memory = size(_text(process, "memory_usage", "vram_mem") or _text(process, "mem_usage"))
            yield GpuProcess(HOST, index, pid, word(_text(process, "name")), "compute", memory)


def _text(about: Mapping[str, Any], *path: str) -> str | None:
    """A value below `path`; ``{"value": 42, "unit": "W"}`` becomes ``42 W``."""
    value: Any = about
    for name in path:
        value = _mapping(value).get(name)
    if isinstance(value, Mapping):
        value = f"{value.get('value', '')} {value.get('unit', '')}"
    return None if value is None else str(value)


# --- JSON ---


def _json(text: str) -> Any:
    """The first JSON value in it: warnings may stand before. None when there is none."""
    begin = re.search(r"^[ \t]*[{\[]", text, re.MULTILINE)
    try:
        return json.JSONDecoder().raw_decode(text, begin.end() - 1)[0] if begin else None
    except (ValueError, RecursionError):
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Mapping[str, Any]]:
    """A list of accelerators, or the same below ``gpu_data`` (from ROCm 6.4 on)."""
    if isinstance(value, Mapping):
        value = value.get("gpu_data", [value])
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
