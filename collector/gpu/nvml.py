"""NVIDIA's management library, asked through pynvml. Only for a child that may be left behind: any call may hang.

Yields, in this order: where it is (`Doing`, before every step that may not come back), one `GpuDriver`, per device one
`Gpu` and its `GpuProcess` rows, then a `Milestone` ("rows"), then `GpuSample` rows at the times given.
Source: the NVML API reference; numbers of nvmlReturn_t are stable.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Union

from flatline.bundle.facts import Gpu, GpuDriver, GpuProcess, GpuSample
from flatline.texts.gpu import complaints
from flatline.texts.gpu.readings import HOST, bus_id, total

from ..probes.interface import Doing, Milestone

Seen = Union[Doing, Milestone, GpuDriver, Gpu, GpuProcess, GpuSample]

MOST_DEVICES = 64
MOST_PROCESSES = 512
_LOST = 15
_SAYS_NOTHING = frozenset({2, 3, 4, 6, 7, 13, 21, 22, 25, 26})
"""nvmlReturn_t: invalid argument, not supported, no permission, not found, insufficient size, no such function,
no data, no ECC on a virtual GPU, version of a structure, deprecated. The card or its driver does not tell: no
complaint."""
_THROTTLES = (
    (0x04, "power-cap"), (0x08, "hw-slowdown"), (0x10, "sync-boost"), (0x20, "sw-thermal"), (0x40, "hw-thermal"),
    (0x80, "hw-power-brake"),
)  # fmt: skip
_COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")
_UNCORRECTED, _VOLATILE, _CLOCK_SM, _TEMPERATURE_OF_GPU = 1, 0, 1, 0
_RETIREMENT_CAUSES = (0, 1)
IMPORT = "import pynvml"
"""What it does first: the only step that says nothing of the driver when it does not come back."""


def watch(rounds: Sequence[int]) -> Iterator[Seen]:
    """Everything once, then a sample per round (CLOCK_MONOTONIC, ns). ImportError when pynvml is not there."""
    yield Doing(IMPORT)
    import pynvml

    yield Doing("nvmlInit")
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        yield _not_usable(pynvml, error)
        return
    driver = _driver(pynvml, count)
    yield driver
    devices = []
    for index in range(min(count, MOST_DEVICES)):
        yield Doing(f"the look at GPU {index}")
        device = _Device(pynvml, index)
        devices.append(device)
        yield replace(device.row(), driver=driver.module, cuda=driver.cuda)
        yield from device.processes()
    yield Milestone("rows")
    for sample, due_ns in enumerate(rounds):
        time.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
        yield Doing(f"sample {sample}")
        yield from (device.sample(sample) for device in devices)


def follow(rounds: Iterable[int]) -> Iterator[Union[Gpu, GpuSample, GpuProcess, Milestone]]:
    """Per device a `Gpu`, then per round samples and processes, and a `Milestone` ("round"). ImportError as above."""
    import pynvml

    try:
        pynvml.nvmlInit()
        devices = [_Device(pynvml, index) for index in range(min(pynvml.nvmlDeviceGetCount(), MOST_DEVICES))]
    except pynvml.NVMLError:
        return
    yield from (device.row() for device in devices)
    for sample, due_ns in enumerate(rounds):
        time.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
        for device in devices:
            yield device.sample(sample)
            yield from device.processes()
        yield Milestone("round")


def _not_usable(nvml: Any, error: Any) -> GpuDriver:
    state: Any = complaints.NVML_STATES.get(getattr(error, "value", 0), "error")
    library = None if state == "library-missing" else _library_version(nvml)
    return GpuDriver(HOST, "nvidia", state, message=str(error), source="nvml", library=library)


def _driver(nvml: Any, count: int) -> GpuDriver:
    cuda = _asked(nvml, "nvmlSystemGetCudaDriverVersion_v2")
    return GpuDriver(
        host=HOST,
        vendor="nvidia",
        state="ok" if count else "no-devices",
        source="nvml",
        module=_asked(nvml, "nvmlSystemGetDriverVersion"),
        library=_library_version(nvml),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        gpus=count,
    )


def _library_version(nvml: Any) -> str | None:
    """``12.535.129.03`` is that of driver 535.129.03, which serves CUDA 12."""
    _, _, version = (_asked(nvml, "nvmlSystemGetNVMLVersion") or "").partition(".")
    return version or None


def _asked(nvml: Any, name: str) -> Any:
    try:
        return getattr(nvml, name)()
    except Exception:  # noqa: BLE001  as below
        return None


class _Device:
    """One device; what it cannot tell is None, what is wrong with it is kept."""

    def __init__(self, nvml: Any, index: int) -> None:
        self._nvml = nvml
        self._index = index
        self._complaints: dict[str, None] = {}
        self._lost = False
        self._handle: Any = None
        try:
            self._handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            self._note(error)

    def row(self) -> Gpu:
        memory = self._memory()
        utilisation, power = self._ask("nvmlDeviceGetUtilizationRates"), self._milliwatts("nvmlDeviceGetPowerUsage")
        remapped = self._ask("nvmlDeviceGetRemappedRows")
        mode = self._ask("nvmlDeviceGetComputeMode")
        mig, ecc = self._ask("nvmlDeviceGetMigMode"), self._ask("nvmlDeviceGetEccMode")
        pci = self._ask("nvmlDeviceGetPciInfo")
        row: dict[str, Any] = {
            "uuid": self._ask("nvmlDeviceGetUUID"),
            "name": self._ask("nvmlDeviceGetName"),
            "bus_id": bus_id(_text(pci.busId)) if pci else None,
            "minor": self._ask("nvmlDeviceGetMinorNumber"),
            "memory": memory.total if memory else None,
            "used": memory.used if memory else None,
            "utilisation": float(utilisation.gpu) if utilisation else None,
            "temperature": _float(self._ask("nvmlDeviceGetTemperature", _TEMPERATURE_OF_GPU)),
            "power": power,
            "power_limit": self._milliwatts("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"),
            "clock": self._ask("nvmlDeviceGetClockInfo", _CLOCK_SM),
            "clock_max": self._ask("nvmlDeviceGetMaxClockInfo", _CLOCK_SM),
            "throttle": self._throttle(),
            "compute_mode": _COMPUTE_MODES[mode] if mode in range(len(_COMPUTE_MODES)) else None,
            "mig": bool(mig[0]) if mig else None,
            "persistence": _bool(self._ask("nvmlDeviceGetPersistenceMode")),
            "ecc": bool(ecc[0]) if ecc else None,
            "ecc_uncorrected": self._ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE),
            "retired_pages": self._retired(),
            "remapped_rows": remapped[0] + remapped[1] if remapped else None,
            "repair_pending": self._repair_pending(remapped),
            "repair_failed": bool(remapped[3]) if remapped else None,
        }
        return Gpu(HOST, self._index, "nvidia", **row, lost=self._lost, errors=tuple(self._complaints))

    def processes(self) -> Iterator[GpuProcess]:
        """Compute and graphics; a process that does both is listed twice by the driver."""
        found: dict[int, GpuProcess] = {}
        for kind, word in (("compute", "Compute"), ("mps", "MPSCompute"), ("graphics", "Graphics")):
            for one in self._listed(word)[:MOST_PROCESSES]:
                chosen: Any = "both" if one.pid in found else kind
                found[one.pid] = GpuProcess(HOST, self._index, one.pid, type=chosen, memory=one.usedGpuMemory)
        yield from found.values()

    def sample(self, number: int) -> GpuSample:
        utilisation, memory = self._ask("nvmlDeviceGetUtilizationRates"), self._memory()
        return GpuSample(
            host=HOST,
            gpu=self._index,
            sample=number,
            mono_ns=time.monotonic_ns(),
            utilisation=float(utilisation.gpu) if utilisation else None,
            used=memory.used if memory else None,
            power=self._milliwatts("nvmlDeviceGetPowerUsage"),
            clock=self._ask("nvmlDeviceGetClockInfo", _CLOCK_SM),
        )

    # --- single questions ---

    def _ask(self, name: str, *arguments: Any) -> Any:
        """None when the card, the driver or this pynvml does not tell. A lost device is asked no more."""
        function = getattr(self._nvml, name, None)
        if function is None or self._handle is None or self._lost:
            return None
        try:
            return function(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            self._note(error)
        except Exception:  # noqa: BLE001  pynvml says "not in this driver" with exceptions of all kinds
            return None
        return None

    def _note(self, error: Any) -> None:
        code = getattr(error, "value", 0)
        self._lost = self._lost or code == _LOST
        if code not in _SAYS_NOTHING:
            self._complaints[str(error)] = None

    def _memory(self) -> Any:
        """The second form keeps what the driver reserves out of `used`, like nvidia-smi; older drivers lack it."""
        second = getattr(self._nvml, "nvmlMemory_v2", None)
        found = self._ask("nvmlDeviceGetMemoryInfo", second) if second else None
        return found or self._ask("nvmlDeviceGetMemoryInfo")

    def _milliwatts(self, *names: str) -> float | None:
        found = next((value for name in names if (value := self._ask(name)) is not None), None)
        return None if found is None else found / 1000

    def _throttle(self) -> tuple[str, ...] | None:
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if bits is None:
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if bits is None else tuple(word for bit, word in _THROTTLES if bits & bit)

    def _retired(self) -> int | None:
        pages = [self._ask("nvmlDeviceGetRetiredPages", cause) for cause in _RETIREMENT_CAUSES]
        return total(*(None if found is None else len(found) for found in pages))

    def _repair_pending(self, remapped: Any) -> bool | None:
        pages = self._ask("nvmlDeviceGetRetiredPagesPendingStatus")
        known = [bool(one) for one in (pages, remapped[2] if remapped else None) if one is not None]
        return any(known) if known else None

    def _listed(self, word: str) -> list[Any]:
        for version in ("_v3", "_v2", ""):
            found = self._ask(f"nvmlDeviceGet{word}RunningProcesses{version}")
            if found is not None:
                return found
        return []


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def _bool(value: Any) -> bool | None:
    return None if value is None else bool(value)
