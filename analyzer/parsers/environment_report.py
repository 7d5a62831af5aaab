"""What programs print of their environment: collect_env of torch and vLLM, accelerate, transformers, DeepSpeed, JAX.

All are lines of a title and a value. A title that only such reports have begins one; then the other titles, the lists
of devices, of libraries and of the processor are read on, to the first line that is none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flatline.bundle.facts import Gpu, GpuDriver, Host, Library, Mount, Package, Process, process_id
from flatline.texts.gpu.readings import size, version

from .interface import HOST, NO_PID, Line, Lines, Parsed, Parser
from .spans import span

_NOBODY = process_id(NO_PID, HOST)
_MARKS = (
    "PyTorch version", "Is debug build", "CUDA used to build PyTorch", "ROCM used to build PyTorch",
    "Is CUDA available", "CUDA runtime version", "GPU models and configuration", "Nvidia driver version",
    "cuDNN version", "Libc version", "HIP runtime version", "MIOpen runtime version", "Is XNNPACK available",
    "CUDA_MODULE_LOADING set to", "Versions of relevant libraries", "Python platform", "vLLM Version",
    "Clang version", "vLLM Build Flags",
)  # fmt: skip
"""Titles that nothing else has."""
_ALSO = (
    "OS", "GCC version", "CMake version", "Python version", "Is XPU available", "CPU",
    "Caching allocator config",
    "ROCM Version", "Neuron SDK Version", "GPU Topology", "Vulkan", "Intel GPU driver version",
    "Intel GPU models onboard", "Intel GPU models detected", "oneCCL version", "Numpy version", "PyTorch XPU available",
)  # fmt: skip
_REPORT = re.compile(
    r"- `?(?:Accelerate|transformers|diffusers|datasets|huggingface_hub|peft|trl)`? version: \S|- PyTorch version|"
    r"- `?(?:Accelerate|accelerate)`? (?:config|default config|bash location)|- Huggingface_hub version: |"
    r"DeepSpeed general environment info:|DeepSpeed C\+\+/CUDA extension op report|"
    r"torch (?:install path|version) \.{3,}|jax: +\d"
)
_BEGINS = re.compile(
    rf"(?:{'|'.join(_MARKS)})\s*:|Collecting environment information|"
    rf"\[(?:pip3?|conda)\] [A-Za-z0-9][\w.-]*(?:==|\s+)\d|{_REPORT.pattern}"
)
_TITLED = re.compile(rf"({'|'.join((*_MARKS, *_ALSO))})\s*:\s*(.*)$")
_GPU = re.compile(r"GPU ?(?P<index>\d{1,3}(?:,\d{1,3})*): (?P<name>.{1,200}?)(?: \(UUID: (?P<uuid>\S{1,100})\))?$")
_LIBRARY = re.compile(r"/\S{1,300}\.so[\w.]*$")
_PINNED = re.compile(r"\[pip3?\] (?P<name>[A-Za-z0-9][\w.-]{0,80})==(?P<version>\S{1,80})$")
_CONDA = re.compile(r"\[conda\] (?P<name>[A-Za-z0-9][\w.-]{0,80})\s+(?P<version>\d\S{0,80})(?:\s|$)")
_LISTED = re.compile(
    r"-? ?`?(?P<name>[A-Za-z][\w-]{1,40})`? version(?: \([^()]{1,40}\))?\s*(?::|\.{3,}) "
    r"(?P<version>\d[\w.+!-]{0,60})(?:\s|$)"
)
_DEEPSPEED = re.compile(r"deepspeed info \.{3,} (?P<version>\d[\w.+]{0,40})")
_JAX = re.compile(r"(?P<name>jax|jaxlib|numpy): +(?P<version>\d\S{0,40})$")
_OWN = re.compile(
    r"\[(?:pip3?|conda)\] |- [`A-Z][^:]{1,60}:|={5,}|-{20,}|\w[\w. ]{1,60}\.{3,}|"
    r"\w+ +\[(?:NO|YES|OKAY)|shared memory|NOTE: Ops|NOTE: Redirects|"
    r"(?:runtime if needed|meet the required|JIT compiled ops)|op name|\[WARNING\]|Probably one of|"
    r"jax(?:lib)?: |numpy: |"
    r"(?:python|device info|process_count|platform|local_device_count|distributed_type|mixed_precision|use_cpu|num_\w+|"
    r"machine_rank|gpu_ids|rdzv_backend|same_network|main_\w+|downcast_bf16|tpu_\w+|deepspeed_\w+|fsdp_\w+|dynamo_\w+|"
    r"compute_environment|debug|enable_cpu_affinity|offload_\w+|zero\w*|gradient_\w+): |Not found$|"
    r"Pillow \(\S{1,40}\)$|(?:Architecture|CPU [\w()-]+(?: MHz)?|Address sizes|Byte Order|CPU\(s\)[\w ]*|Vendor ID|"
    r"On-line CPU.{0,20}|"
    r"Model name|Model|Thread\(s\) per core|Core\(s\) per \w+|Socket\(s\)|Cluster\(s\)|Stepping|BogoMIPS|Flags|"
    r"Hypervisor vendor|"
    r"Virtualization(?: type)?|L\d[di]? cache|NUMA node.{0,12}|Vulnerability [\w ]{1,40}|"
    r"Frequency boost|BIOS [\w ]{1,20}):"
)
_PYTHON = re.compile(r"(\d\.\d{1,2}(?:\.\d{1,2})?)")
_PLATFORM = re.compile(r"Linux-(?P<kernel>\d\S*?)-(?P<machine>x86_64|aarch64|ppc64le|arm64)(?:-|$)")
_CPUS = re.compile(r"CPU\(s\):\s+(\d{1,5})$")
_SHARED = re.compile(r"shared memory \(/dev/shm\) size \.{3,} (\d[\d.]* [KMG]?B)")
"""DeepSpeed's."""
_NEVER = ("Could not collect", "N/A", "")


@dataclass
class _Report:
    """What was read so far."""

    packages: dict[str, Package] = field(default_factory=dict)
    libraries: list[Library] = field(default_factory=list)
    gpus: list[Gpu] = field(default_factory=list)
    driver: GpuDriver | None = None
    python: Process | None = None
    kernel: Line | None = None
    told: dict[str, str] = field(default_factory=dict)
    cpus: int | None = None
    shared: Mount | None = None


def parse(lines: Lines, start: int) -> Parsed:
    """One report. It stands in logs as well, with the logger's words before its first line."""
    found = span(lines, start, _is_own)
    report = _Report()
    for line in found.lines:
        _take(report, line)
    rows = tuple(_rows(report))
    about = f"{len(report.packages)} packages, {len(report.gpus)} devices"
    return Parsed(found.end, rows, about=about)


def _is_own(bare: str) -> bool:
    return bool(
        _TITLED.match(bare) or _GPU.match(bare) or _LIBRARY.match(bare) or _OWN.match(bare) or _BEGINS.match(bare)
    )


def _take(report: _Report, line: Line) -> None:
    bare = line.bare
    if titled := _TITLED.match(bare):
        value = titled[2].strip()
        report.told.setdefault(titled[1], value)
        if value not in _NEVER:
            _take_titled(report, line, titled[1], value)
        return
    if gpu := _GPU.match(bare):
        report.gpus += _gpus(gpu, line)
    elif _LIBRARY.match(bare) and "libcudnn" in bare:
        number = bare.partition(".so.")[2]
        report.libraries.append(_library(line, bare, number or None, "cuDNN"))
    elif listed := next((m for p in (_PINNED, _CONDA, _DEEPSPEED, _JAX, _LISTED) if (m := p.match(bare))), None):
        _add(report, line, (listed.groupdict().get("name") or "deepspeed"), listed["version"])
    elif cpus := _CPUS.match(bare):
        report.cpus = int(cpus[1])
    elif shared := _SHARED.match(bare):
        report.shared = Mount("/dev/shm", "tmpfs", size=size(shared[1]), line=line.number)
    if platform := _PLATFORM.search(bare):
        report.kernel = report.kernel or line
        report.told.setdefault("kernel", platform["kernel"])
        report.told.setdefault("machine", platform["machine"])
    if python := re.match(r"- Python version: (\d[\d.]*)", bare):
        report.python = _process(line, python[1])


def _take_titled(report: _Report, line: Line, title: str, value: str) -> None:
    if title == "PyTorch version":
        _add(report, line, "torch", value)
    elif title == "vLLM Version":
        _add(report, line, "vllm", value.split()[0])
    elif title == "Python version" and (found := _PYTHON.match(value)):
        report.python = _process(line, found[1])
    elif title == "Nvidia driver version" and version(value):
        report.driver = GpuDriver(HOST, "nvidia", module=version(value), source="collect_env", line=line.number)
    elif title == "CUDA runtime version" and version(value):
        report.libraries.append(_library(line, "nvcc", version(value), "CUDA toolkit"))
    elif title == "Libc version":
        report.libraries.append(_library(line, "libc.so.6", value.removeprefix("glibc-"), "C library"))
    elif title == "cuDNN version" and (found := re.search(r"\.so\.(\d[\d.]*)$|^(\d[\d.]*)$", value)):
        report.libraries.append(_library(line, value if "/" in value else "libcudnn", found[1] or found[2], "cuDNN"))
    elif title == "GPU models and configuration" and (gpu := _GPU.match(value)):
        report.gpus += _gpus(gpu, line)
    elif title == "Python platform" and (found := _PLATFORM.match(value)):
        report.kernel = report.kernel or line
        report.told.update(kernel=found["kernel"], machine=found["machine"])


_DISTRIBUTIONS = {"pytorch": "torch", "numpy": "numpy", "accelerate": "accelerate", "deepspeed": "deepspeed"}


def _add(report: _Report, line: Line, name: str, number: str) -> None:
    """pip's word comes before conda's, which repeats it; the head's before both: it is what was imported."""
    name = _DISTRIBUTIONS.get(name.lower(), name)
    if name.lower() not in ("python", "gcc", "cmake", "clang", "libc", "nvcc", "cuda"):
        report.packages.setdefault(name.lower(), Package(_NOBODY, name, number, line=line.number))


def _gpus(found: re.Match[str], line: Line) -> Iterator[Gpu]:
    for index in found["index"].split(","):
        yield Gpu(HOST, int(index), "nvidia", name=found["name"].strip(), uuid=found["uuid"], line=line.number)


def _library(line: Line, path: str, number: str | None, family: str) -> Library:
    return Library(_NOBODY, path, version=number, family=family, line=line.number)


def _process(line: Line, python: str) -> Process:
    return Process(_NOBODY, HOST, NO_PID, python=python, is_python=True, line=line.number)


def _rows(report: _Report) -> Iterator[Any]:
    driver = report.driver
    yield from report.packages.values()
    yield from report.libraries
    for gpu in report.gpus:
        yield Gpu(**{**vars(gpu), "driver": driver.module if driver else None})
    if driver:
        unseen = report.gpus and report.told.get("Is CUDA available") == "False"
        yield GpuDriver(**{**vars(driver), "message": "torch.cuda.is_available() is False" if unseen else None})
    yield from (row for row in (report.python, report.shared) if row)
    if report.kernel or report.cpus:
        yield Host(HOST, kernel=report.told.get("kernel"), machine=report.told.get("machine"), cpus=report.cpus,
                   line=report.kernel.number if report.kernel else None)  # fmt: skip


PARSERS = (Parser("environment-report", _BEGINS, parse),)
