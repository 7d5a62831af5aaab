"""`nvidia-smi -q`, as XML and as text: one tree, one way to read it. Pure: no I/O.

Tags changed over the years (nvsmi_device_v9.dtd to v13.dtd), so every value is looked for under all its names. The
text form has the same tree in indentation, its titles being the tags in plain words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from flatline.bundle.facts import Gpu, GpuDriver, GpuProcess

from . import complaints
from .readings import (
    HOST,
    Reading,
    bus_id,
    compute_mode,
    number,
    process_type,
    size,
    switch,
    total,
    version,
    whole,
    with_driver,
    word,
)

MOST_COMPLAINTS = 10
_THROTTLES = {
    "sw_power_cap": "power-cap",
    "hw_slowdown": "hw-slowdown",
    "hw_thermal_slowdown": "hw-thermal",
    "hw_power_brake_slowdown": "hw-power-brake",
    "sw_thermal_slowdown": "sw-thermal",
    "sync_boost": "sync-boost",
}
_THROTTLE_PREFIX = re.compile(r"clocks_(?:event|throttle)_reason_")
_LINE = "line"
"""An attribute that the tool does not have."""
_CUSTOM_ENTITY = "<!ENTITY"
"""The tool defines none; whoever does wants the parser to blow up."""


def parse_xml(text: str) -> Reading:
    """`nvidia-smi -q -x`. Of a text that was cut, the accelerators that are complete."""
    if _CUSTOM_ENTITY in text:
        return Reading()
    return _reading(list(_elements(text)))


def parse_text(text: str) -> Reading:
    """`nvidia-smi -q`, also with only some of its sections (`-d MEMORY`)."""
    return _reading(list(_tree(text)))


# --- from text to elements ---


def _elements(text: str) -> Iterator[Element]:
    """The finished children of the root, in order."""
    depth = 0
    for number_, event, element in _events(text):
        depth += 1 if event == "start" else -1
        if event == "start":
            element.set(_LINE, str(number_))
        elif depth == 1:
            yield element


def _events(text: str) -> Iterator[tuple[int, str, Element]]:
    """What begins and ends, with its line. Of a text that is cut, or followed by a message, what came before counts."""
    parser = ElementTree.XMLPullParser(("start", "end"))
    # bytes would obey the declared encoding, which is not the one of a text that was decoded already
    lines = re.sub(r"^\s*<\?xml[^>]*\?>", "", text).split("\n")
    try:
        for number_, line in enumerate(lines, 1):
            parser.feed(line + "\n")
            events: Iterator[Any] = parser.read_events()
            for event, element in events:
                yield number_, event, element
    except ElementTree.ParseError:
        return


def _tree(text: str) -> Iterator[Element]:
    """Top-level elements of the indented form."""
    open_: list[tuple[int, Element]] = []
    for number_, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("="):
            continue
        indent = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
        element = _element(line.strip())
        element.set(_LINE, str(number_))
        while open_ and open_[-1][0] >= indent:
            open_.pop()
        if open_:
            open_[-1][1].append(element)
        else:
            yield element
        open_.append((indent, element))


def _element(line: str) -> Element:
    found = re.fullmatch(r"GPU ([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F.]+)", line)
    if found:
        return Element("gpu", id=found[1])
    title, _, value = line.partition(" : ") if " : " in line else line.rpartition(" :")[::-1]
    element = Element(re.sub(r"[^a-z0-9]+", "_", (title or line).strip().lower()).strip("_") or "_")
    element.text = value.strip()
    return element


# --- from elements to rows ---


def _reading(elements: list[Element]) -> Reading:
    of_all = {element.tag: (element.text or "").strip() for element in elements if element.tag != "gpu"}
    found = [element for element in elements if element.tag == "gpu"]
    driver = _driver(of_all, found)
    gpus = tuple(with_driver(_gpu(index, element), driver) for index, element in enumerate(found))
    processes = tuple(row for index, element in enumerate(found) for row in _processes(index, element))
    return Reading(gpus, processes, driver)


def _driver(of_all: dict[str, str], found: list[Element]) -> GpuDriver | None:
    module = version(of_all.get("driver_version")) or version(of_all.get("kmd_version"))
    cuda = version(of_all.get("cuda_version")) or version(of_all.get("cuda_umd_version"))
    if module is None and not found:
        return None
    lost = any(complaints.says_lost(text) for gpu in found for text in gpu.itertext())
    state = "device-lost" if lost else "ok" if found else "no-devices"
    return GpuDriver(HOST, "nvidia", state, module=module, cuda=cuda)


def _gpu(index: int, gpu: Element) -> Gpu:
    errors = _errors(gpu)
    single = ("retired_pages/multiple_single_bit_retirement/retired_count", "retired_pages/single_bit_ecc")
    double = ("retired_pages/double_bit_retirement/retired_count", "retired_pages/double_bit_ecc")
    pending = (
        "retired_pages/pending_retirement", "retired_pages/pending_blacklist", "retired_pages/pending_page_blacklist",
        "remapped_rows/remapped_row_pending", "remapped_rows/pending",
    )  # fmt: skip
    throttle: Any = _throttle(gpu)
    mode: Any = compute_mode(_first(gpu, "compute_mode"))
    return Gpu(
        host=HOST,
        index=index,
        vendor="nvidia",
        uuid=word(_first(gpu, "uuid", "gpu_uuid")),
        name=word(_first(gpu, "product_name")),
        bus_id=bus_id(gpu.get("id") or _first(gpu, "pci/pci_bus_id", "pci/bus_id")),
        minor=whole(_first(gpu, "minor_number")),
        memory=size(_first(gpu, "fb_memory_usage/total", "memory_usage/total")),
        used=size(_first(gpu, "fb_memory_usage/used", "memory_usage/used")),
        utilisation=number(_first(gpu, "utilization/gpu_util", "utilization/gpu")),
        temperature=number(_first(gpu, "temperature/gpu_temp", "temperature/gpu_current_temp", "temperature/gpu")),
        power=number(_power(gpu, "power_draw", "instant_power_draw", "instantaneous_power_draw", "average_power_draw")),
        power_limit=number(_power(gpu, "enforced_power_limit", "current_power_limit", "power_limit")),
        clock=whole(_first(gpu, "clocks/sm_clock", "clocks/sm")),
        clock_max=whole(_first(gpu, "max_clocks/sm_clock", "max_clocks/sm")),
        throttle=throttle,
        compute_mode=mode,
        mig=switch(_first(gpu, "mig_mode/current_mig", "mig_mode/current")),
        persistence=switch(_first(gpu, "persistence_mode")),
        ecc=switch(_first(gpu, "ecc_mode/current_ecc", "ecc_mode/current")),
        ecc_uncorrected=_uncorrected(gpu),
        retired_pages=total(whole(_first(gpu, *single)), whole(_first(gpu, *double))),
        remapped_rows=total(
            whole(_first(gpu, "remapped_rows/remapped_row_corr", "remapped_rows/correctable_error")),
            whole(_first(gpu, "remapped_rows/remapped_row_unc", "remapped_rows/uncorrectable_error")),
        ),
        repair_pending=_any(switch(_first(gpu, path)) for path in pending),
        repair_failed=switch(
            _first(gpu, "remapped_rows/remapped_row_failure", "remapped_rows/remapping_failure_occurred")
        ),
        lost=any(complaints.says_lost(error) for error in errors),
        errors=errors,
        line=_line(gpu),
    )


def _line(element: Element) -> int | None:
    return whole(element.get(_LINE))


def _first(gpu: Element, *paths: str) -> str | None:
    """The first of these that says something."""
    texts = (gpu.findtext(path) for path in paths)
    return next((text.strip() for text in texts if text and word(text)), None)


def _power(gpu: Element, *names: str) -> str | None:
    return _first(gpu, *(f"{section}/{name}" for section in ("gpu_power_readings", "power_readings") for name in names))


def _throttle(gpu: Element) -> tuple[str, ...] | None:
    """None when the driver does not tell."""
    for title in ("clocks_event_reasons", "clocks_throttle_reasons"):
        section = gpu.find(title)
        if section is not None and len(section):
            names = ((_THROTTLE_PREFIX.sub("", one.tag), (one.text or "").strip()) for one in section.iter())
            return tuple(_THROTTLES[name] for name, text in names if text == "Active" and name in _THROTTLES)
    return None


def _uncorrected(gpu: Element) -> int | None:
    """Since the driver was loaded ("volatile"); a driver of 2018 calls them double bit errors."""
    volatile = gpu.find("ecc_errors/volatile")
    if volatile is None:
        return None
    new = [whole(one.text) for one in volatile if "uncorrectable" in one.tag]
    return total(*new, whole(volatile.findtext("double_bit/total")))


_FABRIC_NOT_READY = frozenset({"Not Started", "In Progress"})
_FABRIC_WELL = frozenset({"Success", "0", "0x0"})
"""What stands there when the fabric manager has let the device into the NVLink fabric."""


def _errors(gpu: Element) -> tuple[str, ...]:
    found = dict.fromkeys(_complaints(gpu))
    return tuple(found)[:MOST_COMPLAINTS]


def _complaints(gpu: Element) -> Iterator[str]:
    for one in gpu.iter():
        text = complaints.of_gpu(one.text or "")
        if text:
            yield text if text.lower().startswith("gpu ") else f"{one.tag}: {text}"
    if switch(_first(gpu, "gpu_reset_status/reset_required")):
        yield "reset required"
    action = _first(gpu, "gpu_recovery_action")
    if action:
        yield f"recovery action: {action}"
    state, status = (_first(gpu, f"fabric/{name}") for name in ("state", "status"))
    if state in _FABRIC_NOT_READY:
        yield f"fabric state: {state}"
    elif status and status not in _FABRIC_WELL:
        yield f"fabric status: {status}"


def _processes(index: int, gpu: Element) -> Iterator[GpuProcess]:
    for one in gpu.iterfind("processes/process_info"):
        yield from _process(index, one.findtext("pid"), one, "process_name", "used_memory")
    for one in gpu.iterfind("processes/process_id"):
        yield from _process(index, one.text, one, "name", "used_gpu_memory")


def _process(index: int, pid: str | None, one: Element, name: str, memory: str) -> Iterator[GpuProcess]:
    number_ = whole(pid)
    if number_ is not None:
        kind: Any = process_type(one.findtext("type"))
        used = size(one.findtext(memory))
        yield GpuProcess(HOST, index, number_, word(one.findtext(name)), kind, used, line=_line(one))


def _any(switches: Iterator[bool | None]) -> bool | None:
    known = [one for one in switches if one is not None]
    return any(known) if known else None
