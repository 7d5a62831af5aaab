"""What nvidia-smi prints besides its table: -q, -q -x, -L, nvlink -s, --query-gpu, topo -m, dmon, pmon, --version.

And the two files of its kernel module that people paste beside them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from flatline.bundle.facts import GpuDriver, ToolRun
from flatline.texts.gpu import any_text, kernel_module, smi_csv, smi_list, smi_monitor, smi_query
from flatline.texts.gpu.readings import HOST, Reading

from .interface import LOOKAHEAD, Lines, Parsed, Parser
from .spans import Span, span

_TOOL = "nvidia-smi"


def _parsed(found: Span, reading: Reading, about: str = "", *, before: int = 0, whole: bool = False) -> Parsed:
    """Rows of a listing; `whole`: of all devices."""
    rows = [*reading.gpus, *reading.processes]
    if reading.driver:
        driver = replace(reading.driver, source=_TOOL)
        rows_of_driver = [driver, ToolRun(_TOOL, "ok", line=driver.line)]
    else:
        rows_of_driver = []
    placed = (*found.placed(rows, before=before), *found.placed(rows_of_driver, before=before))
    collected = frozenset({"gpus"} if whole and reading.gpus else ())
    return Parsed(found.end, placed, collected, about or f"{len(reading.gpus)} devices")


# --- nvidia-smi -q ---

_TITLED = re.compile(r"[A-Za-z#][\w ./()#+-]{0,60}?\s*:")
_SECTION = re.compile(r"[A-Z][\w ./()#+-]{0,60}$")
_QUERY = re.compile(r"=+NVSMI LOG=+$|GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d$")
_QUERIED = re.compile(r"[A-Z][\w ./()#+-]{0,60}?\s+: ")


def parse_query(lines: Lines, start: int) -> Parsed | None:
    """The indented form, whole or from the title of a device on. Titles and values are told by their columns: what is
    not indented deeper than the first line is not of it, but for the values above the devices."""
    near = [line.bare for line in lines[start + 1 : start + 8] if line.bare]
    if not near or not any(_QUERIED.match(text) for text in near[:3]):
        return None
    base = _indent(lines[start].text)
    found = _query_span(lines, start, base)
    reading = smi_query.parse_text(found.indented)
    if not reading.driver and not reading.gpus:
        return None
    is_whole = lines[start].bare.startswith("=") and _attached(found.text) == len(reading.gpus)
    return _parsed(found, reading, whole=is_whole)


def _query_span(lines: Lines, start: int, base: int) -> Span:
    end, blanks = start + 1, 0
    for index in range(start + 1, len(lines)):
        bare = lines[index].bare
        blanks = 0 if bare else blanks + 1
        if blanks > 4 or (bare and not _is_of_query(lines[index].text, bare, base)):
            break
        end = index + 1 if bare else end
    return Span(end, tuple(line for line in lines[start:end] if line.bare))


def _is_of_query(text: str, bare: str, base: int) -> bool:
    if _indent(text) > base:
        return bool(_TITLED.match(bare) or _SECTION.match(bare) or bare.startswith(("ERROR", "N/A", "0x")))
    return bool(_QUERY.match(bare) or _QUERIED.match(bare))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _attached(text: str) -> int | None:
    found = re.search(r"^Attached GPUs\s+: (\d{1,4})$", text, re.MULTILINE)
    return int(found[1]) if found else None


# --- nvidia-smi -q -x ---

_XML = re.compile(r"<\?xml |<!DOCTYPE nvidia_smi_log|<nvidia_smi_log>|<gpu id=\"[0-9A-Fa-f:.]{7,20}\">")
_ROOT, _END = "<nvidia_smi_log>", "</nvidia_smi_log"
_LONGEST_VALUE = 6
"""Lines."""


def parse_xml(lines: Lines, start: int) -> Parsed | None:
    """From the head, or from a device on when the head is lost, to where the document ends or is cut."""
    near = [line.bare for line in lines[start : start + 6]]
    if not any("nvidia_smi_log" in text or text.startswith("<gpu id=") for text in near):
        return None
    found = _xml_span(lines, start)
    headless = not any(_ROOT in text for text in near)
    text = f"{_ROOT}\n{found.text}" if headless else found.text
    reading = smi_query.parse_xml(text)
    return _parsed(found, reading, before=int(headless), whole=not headless and _END in text)


def _xml_span(lines: Lines, start: int) -> Span:
    """A value may be long enough for lines of its own."""
    end, others = start + 1, 0
    for index in range(start, len(lines)):
        bare = lines[index].bare
        if not bare.startswith("<"):
            others += 1
            if others > _LONGEST_VALUE:
                break
            continue
        others, end = 0, index + 1
        if bare.startswith(_END):
            break
    return Span(end, tuple(lines[start:end]))


# --- nvidia-smi -L, nvlink -s ---


def parse_list(lines: Lines, start: int) -> Parsed | None:
    """The list, and what stands below each device."""
    found = span(lines, start, lambda text: smi_list.LISTED.match(text) or smi_list.BELOW.match(text))
    reading = smi_list.parse_list(found.text)
    has_links = any("Link" in line.bare for line in found.lines)
    about = f"{len(reading.gpus)} devices{', NVLink' if has_links else ''}"
    return _parsed(found, reading, about, whole=not has_links)


# --- nvidia-smi --query-gpu=…, --query-compute-apps=… ---

_COLUMN = r"[a-z][\w.]{1,100}(?: \[[\w%]{1,8}\])?"
_CSV = re.compile(rf"{_COLUMN}(?:, ?{_COLUMN}){{1,300}}$")
_KNOWN = re.compile(
    r"\b(?:utilization\.|memory\.(?:used|total|free)\b|gpu_uuid|gpu_bus_id|used_gpu_memory|used_memory|temperature\.gpu|"
    r"power\.draw|pci\.bus_id|driver_version|compute_mode|clocks\.|ecc\.)"
)


def parse_columns(lines: Lines, start: int) -> Parsed | None:
    """The heading, and the rows that have as many commas."""
    if not _KNOWN.search(lines[start].bare):
        return None
    commas = lines[start].bare.count(",")
    found = span(lines, start, lambda text: text.count(",") >= commas and len(text) < 8000, blanks=1)
    reading = smi_csv.parse_csv(found.text)
    parsed = _parsed(found, reading, f"{len(reading.gpus)} devices, {len(reading.processes)} processes")
    of_processes = bool(re.search(r"\bpid\b", lines[start].bare))
    return replace(parsed, collected=frozenset({"gpu_processes" if of_processes else "gpus"}))


# --- nvidia-smi topo -m ---

_LINKS = r"(?:X|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|SOC|N/A)"
_TOPO = re.compile(rf"GPU0\s+(?:GPU1\b.*|.*CPU Affinity.*|{_LINKS}\s+\S.*)$")
_TOPO_OWN = re.compile(
    rf"(?:GPU|NIC|mlx\w{{0,4}}_|nic)\d{{1,3}}\s+{_LINKS}\s|GPU0\s|(?:NIC )?Legend: ?$|{_LINKS}#?\s+= |NV# += |"
    r"NIC\d{1,3}: \S+ ?$"
)


def parse_topology(lines: Lines, start: int) -> Parsed | None:
    """How devices reach each other: nothing of it is a fact that a rule asks for."""
    found = span(lines, start, lambda text: _TOPO_OWN.match(f"{text} "))
    devices = sum(bool(re.match(rf"GPU\d{{1,3}}\s+{_LINKS}\s", f"{line.bare} ")) for line in found.lines)
    return Parsed(found.end, about=f"topology of {devices} devices") if devices else None


# --- nvidia-smi dmon, pmon ---


def parse_monitor(lines: Lines, start: int) -> Parsed | None:
    """Rows below the heading of dmon or pmon; the heading comes again every so often."""
    found = span(lines, start, smi_monitor.ROW.match)
    reading = smi_monitor.parse_monitor(found.text)
    if not reading.gpus and not reading.processes:
        return None
    rows = found.placed([*reading.gpus, *reading.processes])
    about = f"{len(found.lines)} lines of {'pmon' if reading.processes else 'dmon'}"
    return Parsed(found.end, rows, about=about)


# --- nvidia-smi --version, /proc/driver/nvidia ---

_VERSION = re.compile(r"NVIDIA-SMI version\s*:|(?:DRIVER|KMD) version\s+: \d")
_VERSION_OWN = re.compile(r"(?:NVIDIA-SMI|NVML|DRIVER|KMD|CUDA|CUDA UMD)\s*(?:[vV]ersion)?\s*:")


def parse_version(lines: Lines, start: int) -> Parsed | None:
    """`nvidia-smi --version`."""
    found = span(lines, start, _VERSION_OWN.match)
    reading = any_text.parse(found.text)
    about = f"driver {reading.driver.module}" if reading.driver else ""
    return _parsed(found, reading, about)


_MODULE = re.compile(r"NVRM version: NVIDIA ")
_MODULE_OWN = re.compile(r"NVRM version: |GCC version: ")
_INFORMATION = re.compile(r"Model:\s+\S.*|Device Minor:\s+\d")
_INFORMATION_OWN = re.compile(
    r"(?:Model|IRQ|GPU UUID|Video BIOS|Bus Type|DMA Size|DMA Mask|Bus Location|Device Minor|GPU Firmware|GPU Excluded|"
    r"Blacklisted):"
)


def parse_module(lines: Lines, start: int) -> Parsed | None:
    """/proc/driver/nvidia/version."""
    found = span(lines, start, _MODULE_OWN.match)
    module = kernel_module.parse_version(found.text)
    driver = GpuDriver(HOST, "nvidia", module=module, source="proc")
    return Parsed(found.end, found.placed([driver]), about=f"kernel module {module}")


def parse_information(lines: Lines, start: int) -> Parsed | None:
    """/proc/driver/nvidia/gpus/…/information."""
    if not any(line.bare.startswith("Device Minor:") for line in lines[start : start + LOOKAHEAD // 2]):
        return None
    found = span(lines, start, _INFORMATION_OWN.match)
    gpu = kernel_module.parse_information(found.text)
    return Parsed(found.end, found.placed([gpu] if gpu else []), about=(gpu.name if gpu else None) or "")


PARSERS = (
    Parser("nvidia-smi-q", _QUERY, parse_query),
    Parser("nvidia-smi-xml", _XML, parse_xml),
    Parser("nvidia-smi-list", smi_list.LISTED, parse_list),
    Parser("nvidia-smi-csv", _CSV, parse_columns),
    Parser("nvidia-smi-topo", _TOPO, parse_topology),
    Parser("nvidia-smi-monitor", smi_monitor.HEAD, parse_monitor),
    Parser("nvidia-smi-version", _VERSION, parse_version),
    Parser("nvidia-module-version", _MODULE, parse_module),
    Parser("nvidia-gpu-information", _INFORMATION, parse_information),
)
