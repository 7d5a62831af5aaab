"""Accelerators: how they stand, who uses them, whether they work over the window, and whether their driver answers.

A tool or library that hangs is evidence, not an accident: whatever enters a driver does so one after another, the first
that does not come back is the last that is started, and none is killed hard.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from flatline.bundle.facts import Gpu, GpuDriver, GpuProcess, GpuSample, GpuVendor, ToolRun, process_id
from flatline.texts.gpu import complaints
from flatline.texts.gpu.readings import HOST, Reading, bus_id

from ..gpu import driver_files, nvml, stuck, vendors, wishes
from ..gpu.driver_files import DriverFiles
from ..gpu.spared import Failed, Finished, SparedChild
from ..gpu.vendors import Command, Vendor
from ..linux.grandchild import ask_all
from ..linux.procfs import ProcFS
from ..tools import ToolOutput, run
from .interface import Artefact, Doing, Facts, Gap, Item, Milestone, Run, View

MOST_TEXT = 4 << 20
RESERVE_S = 1.0
"""Kept back at the end, to send what there is."""
LATE_S = 2.0
"""How long after it is due the last sample may come."""
_FILES_S = 1.0
_TOOL_S = 8.0
_LIBRARY = "nvml"
_HUNG = frozenset({"timeout", "left-running"})
_SAYS_LITTLE = frozenset({"unknown", "error", "library-missing"})
"""States of the library that the tool may know better: it may find another library than we do."""
_ROWS = ("gpus", "gpu_processes")


class Gpus:
    """Accelerators: memory, load, power, errors, who uses them, and whether the driver answers.

    Where nothing of any vendor is, it says nothing and fills no table, unless the job asks for an accelerator. A driver
    that is there but not usable is a row of `gpu_drivers`; the devices that its kernel module knows are rows anyway.
    """

    name = "gpu"
    tables = ("gpus", "gpu_processes", "gpu_samples", "gpu_drivers", "tool_runs")
    limit_s = 7.5
    spans_window = True
    reads = (
        "/proc/driver/nvidia/{version,params,gpus}",
        "/proc/PID/{fd,root/dev,stat,status,wchan} of the job, and of tools of the driver that are stuck",
        "libnvidia-ml.so.1, through pynvml, in a child that may hang",
    )
    runs = tuple(
        Run(command.line, _TOOL_S, "where it is installed, until one hangs")
        for vendor in (vendors.NVIDIA, *vendors.OTHERS)
        for command in vendor.commands
    )

    def __init__(self, *, library_s: float = 6.0, tool_s: float = _TOOL_S) -> None:
        self._library_s = library_s
        self._tool_s = tool_s

    def gather(self, view: View) -> Iterator[Item]:
        yield from _Look(view, self._library_s, self._tool_s).items()


class _Look:
    def __init__(self, view: View, library_s: float, tool_s: float) -> None:
        self._view = view
        self._proc = ProcFS(view.proc)
        self._library_s = library_s
        self._tool_s = tool_s
        self._job = {target.pid for target in view.targets if target.relation != "ancestor"}
        self._files = DriverFiles()
        self._programs: dict[str, str] = {}
        self._drivers: dict[GpuVendor, GpuDriver] = {}
        self._tool_runs: list[ToolRun] = []
        self._gpus: list[Gpu] = []
        self._processes: list[GpuProcess] = []
        self._samples: list[GpuSample] = []

    def items(self) -> Iterator[Item]:
        yield Doing("what the kernel says of accelerators")
        yield from self._read_files()
        hung = {tool.vendor: tool for tool in reversed(self._find_stuck())}
        if "nvidia" in hung:
            yield from self._start_none(vendors.NVIDIA, hung["nvidia"])
        else:
            yield from self._nvidia()
        for vendor in vendors.OTHERS:
            if vendor.name in hung:
                yield from self._start_none(vendor, hung[vendor.name])
            else:
                yield from self._texts(vendor)
        yield from self._close()

    # --- without entering a driver ---

    def _read_files(self) -> Iterator[Item]:
        job = next((t.pid for t in self._view.targets if t.relation != "ancestor"), None)
        files, programs = ask_all([lambda: driver_files.read(self._proc, job), vendors.find], _FILES_S)
        self._files = files.value or DriverFiles()
        self._programs = programs.value or {}
        if files.timed_out:
            yield Gap("timeout", f"/proc/driver/nvidia did not answer within {_FILES_S:g} s", tables=_ROWS)
        if programs.timed_out:
            yield Gap("timeout", f"a folder of PATH did not answer within {_FILES_S:g} s: no GPU tool was run")
        if self._files.text:
            yield Artefact("raw/nvidia-driver.txt", self._files.text)
        for vendor in self._files.devices:
            self._note(GpuDriver(HOST, vendor))
        if self._files.module or self._files.gpus:
            self._note(GpuDriver(HOST, "nvidia"))

    def _find_stuck(self) -> list[stuck.StuckTool]:
        return stuck.find(self._proc, self._view.own_pids, scripts="amd" in self._files.devices)

    def _start_none(self, vendor: Vendor, tool: stuck.StuckTool) -> Iterator[Item]:
        """A second tool would only get stuck beside the first."""
        names = dict.fromkeys(command.tool for command in vendor.commands)
        for name in ([_LIBRARY, *names] if vendor is vendors.NVIDIA else names):
            self._tool_runs.append(ToolRun(name, "not-started", stuck_pid=tool.pid, message=str(tool)))
        self._note(GpuDriver(HOST, vendor.name, "hangs", message=str(tool), source="proc"))
        message = f"no GPU tool of this kind was started: {tool}"
        yield Gap("skipped", message, f"cat /proc/{tool.pid}/stack", f"h1/{tool.pid}", ("gpus", "gpu_samples"))

    # --- NVIDIA ---

    def _nvidia(self) -> Iterator[Item]:
        """The library first; while it goes on sampling, the tool's texts."""
        rounds = [self._view.sample_at_ns(sample) for sample in range(max(1, self._view.samples))]
        yield Doing("NVIDIA's library")
        began = time.monotonic()
        library = SparedChild(lambda: nvml.watch(rounds), stuck.OURS)
        try:
            end = self._listen(library, began + min(self._library_s, self._time_left()))
            if self._gpus:
                yield _rows("facts/gpu-nvidia.json", tuple(self._gpus), tuple(self._processes))
            if not _is_stuck(end):
                yield from self._texts(vendors.NVIDIA)
            if end is None:
                due = max(rounds[-1] / 1e9, time.monotonic()) + LATE_S
                end = self._listen(library, min(due, time.monotonic() + self._time_left()))
        finally:
            left = library.end()
        yield from self._tell_library(end, left, time.monotonic() - began)

    def _listen(self, library: SparedChild, deadline: float) -> Failed | Finished | None:
        """Take what it says, up to the milestone after the rows (None) or to its end."""
        doing = ""
        while True:
            value = library.next(deadline)
            if isinstance(value, Failed):
                if doing == f" from {nvml.IMPORT}" and value.kind == "timeout":
                    return Failed("ImportError", "pynvml does not answer: the place where flatline is installed")
                return replace(value, message=value.message + doing)
            if isinstance(value, Finished):
                return value
            if isinstance(value, Milestone):
                return None
            if isinstance(value, Doing):
                doing = f" from {value.text}"
            else:
                self._take(value)

    def _take(self, value: Any) -> None:
        if isinstance(value, GpuDriver):
            self._note(value)
        elif isinstance(value, Gpu):
            self._gpus.append(value)
        elif isinstance(value, GpuProcess):
            self._processes.append(self._whose(value))
        elif isinstance(value, GpuSample):
            self._samples.append(value)

    def _tell_library(self, end: Failed | Finished | None, left: int | None, seconds: float) -> Iterator[Item]:
        """Its run, and what is missing because of how it went. Nothing where nothing of NVIDIA's is."""
        ran = ToolRun(_LIBRARY, "ok", round(seconds, 3), left)
        if _is_stuck(end):
            yield from self._tell_hanging_library(ran, end)
            return
        driver = self._drivers.get("nvidia")
        if driver is None or (driver.state == "library-missing" and not self._is_here()):
            self._drivers.pop("nvidia", None)
            return
        if isinstance(end, Failed) and end.kind in ("ImportError", "ModuleNotFoundError"):
            ran = replace(ran, outcome="absent", message=end.message)
            hint = "pip install nvidia-ml-py"
            yield Gap("partial", f"no samples over the window: {end.message}", hint, tables=("gpu_samples",))
        elif isinstance(end, Failed):
            ran = replace(ran, outcome="error", message=end.message)
            yield Gap("error", f"NVIDIA's library {end.message}", tables=("gpus", "gpu_samples"))
        elif driver.source == _LIBRARY and driver.state not in ("ok", "no-devices"):
            ran = replace(ran, outcome="error", message=driver.message)
        self._tool_runs.append(ran)

    def _tell_hanging_library(self, ran: ToolRun, end: Any) -> Iterator[Item]:
        message = f"NVIDIA's library {end.message} within {ran.seconds:.1f} s"
        outcome: Any = "left-running" if ran.stuck_pid else "timeout"
        self._tool_runs.append(replace(ran, outcome=outcome, message=message))
        self._note(GpuDriver(HOST, "nvidia", "hangs", message, _LIBRARY))
        yield Gap("timeout", message + _left(ran.stuck_pid), tables=("gpus", "gpu_samples"))
        if "nvidia-smi" in self._programs and not any(one.tool == "nvidia-smi" for one in self._tool_runs):
            self._tool_runs.append(ToolRun("nvidia-smi", "not-started", stuck_pid=ran.stuck_pid, message=message))

    # --- texts ---

    def _texts(self, vendor: Vendor) -> Iterator[Item]:
        """Every text is kept; rows are read from it where nothing better has given them."""
        texts: list[str] = []
        for command in vendor.commands:
            program = self._programs.get(command.tool)
            if program is None:
                continue
            yield Doing(command.line)
            limit_s = min(self._tool_s, self._time_left())
            output = run((program, *command.arguments), limit_s=limit_s, max_bytes=MOST_TEXT, hard_kill=False)
            yield from self._keep(command, output)
            texts.append(output.stdout.decode("utf-8", "replace"))
            self._judge(vendor, command, output)
            if output.outcome in _HUNG or output.left_running:
                yield from self._tell_hang(vendor, command, output)
                break
        yield from self._use(vendor, vendor.parse(texts))

    def _keep(self, command: Command, output: ToolOutput) -> Iterator[Item]:
        self._tool_runs.append(_tool_run(command, output))
        printed = output.stdout + output.stderr
        if printed:
            yield Artefact(command.member, printed, command.media_type)

    def _judge(self, vendor: Vendor, command: Command, output: ToolOutput) -> None:
        """What it complains of counts, unless the library has said how the driver stands."""
        printed = (output.stdout + output.stderr).decode("utf-8", "replace")
        self._note(GpuDriver(HOST, vendor.name))
        known = self._drivers[vendor.name]
        found = complaints.of_driver(printed)
        if found is None or (known.source == _LIBRARY and known.state not in _SAYS_LITTLE):
            return
        state: Any = found.state
        library = complaints.library_version(printed)
        self._note(GpuDriver(HOST, vendor.name, state, found.message, command.tool, library=library))

    def _tell_hang(self, vendor: Vendor, command: Command, output: ToolOutput) -> Iterator[Item]:
        left = output.pid if output.left_running else None
        message = f"{command.line} did not end within {output.seconds:.1f} s"
        self._note(GpuDriver(HOST, vendor.name, "hangs", message, command.tool))
        yield Gap("timeout", message + _left(left), tables=() if self._gpus else _ROWS)

    def _use(self, vendor: Vendor, reading: Reading) -> Iterator[Item]:
        """The rows of a text, where the library gave none."""
        if not reading.gpus or any(gpu.vendor == vendor.name for gpu in self._gpus):
            return
        self._gpus += reading.gpus
        if reading.driver:
            said = replace(reading.driver, source=vendor.commands[-1].tool)
            hangs = self._drivers[vendor.name].state == "hangs"  # and one text more does not change that
            self._note(replace(said, state="unknown") if hangs else said)
        yield _rows(f"facts/gpu-{vendor.name}.json", reading.gpus, [self._whose(row) for row in reading.processes])

    # --- the end ---

    def _close(self) -> Iterator[Item]:
        if not any(gpu.vendor == "nvidia" for gpu in self._gpus) and self._files.gpus:
            driver = self._drivers["nvidia"]
            gone = bus_id(driver.message) if driver.state == "device-lost" else None
            gpus = [
                replace(gpu, driver=self._files.module, lost=True if gone and gpu.bus_id == gone else None)
                for gpu in self._files.gpus
            ]
            self._gpus += gpus
            yield Facts("facts/gpu-nvidia.json", {"gpus": gpus})
        if self._samples:
            yield Facts("samples/gpus.jsonl", {"gpu_samples": self._samples})
        drivers = [self._settled(driver) for driver in self._drivers.values()]
        told = {"gpu_drivers": drivers, "tool_runs": self._tool_runs}
        if any(told.values()):
            yield Facts("facts/gpu-drivers.json", {name: rows for name, rows in told.items() if rows})
        yield from self._missing(drivers)

    def _settled(self, driver: GpuDriver) -> GpuDriver:
        """With what the kernel says, and a state that fits the accelerators."""
        lost = [gpu for gpu in self._gpus if gpu.vendor == driver.vendor and gpu.lost]
        if lost and driver.state in ("ok", "unknown", "error"):
            which = ", ".join(str(gpu.index) for gpu in lost)
            said = "; ".join(lost[0].errors) or "it is lost"
            driver = replace(driver, state="device-lost", message=f"GPU {which}: {said}")
        devices = self._files.devices.get(driver.vendor)
        if driver.vendor != "nvidia":
            return replace(driver, devices=devices)
        return replace(
            driver,
            devices=devices,
            module=self._files.module or driver.module,
            gpus=len(self._files.gpus) or driver.gpus,
        )

    def _missing(self, drivers: list[GpuDriver]) -> Iterator[Gap]:
        wish = wishes.of_job(self._proc, self._view)
        if not drivers and wish:
            hint = "in a container: start it with its devices, e.g. --gpus all"
            message = f"the job asks for an accelerator ({wish}), but no driver of one is here"
            yield Gap("absent", message, hint, tables=_ROWS)
        for driver in drivers:
            told = driver.state in ("ok", "unknown", "hangs") or driver.message is None
            if not told and not any(gpu.vendor == driver.vendor for gpu in self._gpus):
                yield Gap("error", f"no {driver.vendor} accelerator can be asked: {driver.message}", tables=_ROWS)

    # --- small steps ---

    def _note(self, driver: GpuDriver) -> None:
        """Known fields are kept; of the state, the newest word that says something."""
        known = self._drivers.get(driver.vendor, driver)
        kept = {name: getattr(driver, name) or getattr(known, name) for name in ("module", "library", "cuda", "gpus")}
        said = driver if driver.state != "unknown" else known
        self._drivers[driver.vendor] = replace(said, **kept)

    def _whose(self, row: GpuProcess) -> GpuProcess:
        in_job = row.pid in self._job
        stat = self._proc.stat(row.pid)
        name = getattr(stat, "name", None)
        return replace(
            row,
            name=row.name or name,
            process=process_id(row.pid) if in_job else None,
            in_job=True if in_job else None if name is None else False,
        )

    def _is_here(self) -> bool:
        """Whether anything but its library speaks for NVIDIA."""
        tool = any(one.tool == "nvidia-smi" for one in self._tool_runs)
        return tool or "nvidia" in self._files.devices or bool(self._files.module or self._files.gpus)

    def _time_left(self) -> float:
        return max(0.1, self._view.left_s() - RESERVE_S)


def _rows(path: str, gpus: Sequence[Gpu], processes: Sequence[GpuProcess]) -> Facts:
    return Facts(path, {"gpus": gpus, "gpu_processes": processes})


def _is_stuck(end: Any) -> bool:
    return isinstance(end, Failed) and end.kind == "timeout"


def _tool_run(command: Command, output: ToolOutput) -> ToolRun:
    said = output.message or output.stderr.decode("utf-8", "replace").strip()[:300]
    return ToolRun(
        tool=command.tool,
        outcome=output.outcome,
        seconds=round(output.seconds, 3),
        stuck_pid=output.pid if output.left_running else None,
        message=": ".join(filter(None, (command.line, said))),
    )


def _left(pid: int | None) -> str:
    return f"; pid {pid} is left running, as what works in a GPU driver must not be killed hard" if pid else ""
