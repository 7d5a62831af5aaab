"""What the bundle holds beside stacks and logs, as tables: devices, packages, limits, disks, the environment,
and what the job used in the half hour before.

A panel shows what can matter; what is amiss comes first, and is said in its `notes` too. The bundle has the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from flatline.bundle.facts import Cgroup, File, Gpu, Library, Mount, Package, ResourcePoint

from ..case import Case
from .visible import visible

MOST_ROWS = 60
MOST_CELL = 400
NEAR_ITS_END = 0.9
WORTH_A_ROW = 0.5

_FRAMEWORKS = re.compile(
    r"torch.*|pytorch.*|tensorflow.*|jax.*|flax|keras|numpy|triton|nvidia[-_].*|cuda[-_].*|rocm.*|transformers|tokenizers|"
    r"accelerate|datasets|safetensors|deepspeed|megatron.*|peft|trl|flash[-_]attn.*|flashinfer.*|xformers|apex|vllm|sglang|"
    r"ray|lightning|bitsandbytes|horovod|mpi4py|wandb|mlflow|huggingface[-_]hub|hf[-_]xet|opencv.*|pyarrow|grpcio"
)
_LIBRARIES = frozenset({
    "OpenMP", "cuDNN", "NCCL", "CUDA driver", "CUDA runtime", "ROCm", "PyTorch", "TensorFlow", "MPI",
})  # fmt: skip
_VARIABLES = re.compile(
    r"(CUDA|NVIDIA|HIP|ROCR|NCCL|RCCL|GLOO|UCX|FI|TORCH|PYTORCH|TRITON|OMP|MKL|KMP|OPENBLAS|HF|TRANSFORMERS|WANDB|MLFLOW|"
    r"SLURM|RAY|MASTER|PYTHON|LD)_?\w*|RANK|LOCAL_RANK|WORLD_SIZE|TMPDIR|TOKENIZERS_PARALLELISM|\w*(PROXY|proxy)|DISPLAY"
)
_ALWAYS_FULL = frozenset({"squashfs", "iso9660", "erofs", "efivarfs", "devtmpfs", "proc", "sysfs"})


@dataclass(frozen=True)
class Panel:
    """One table. Every text in it is `visible`; nothing is escaped for a markup."""

    id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    """What is amiss, a line each."""
    left_out: int = 0


def panels_of(case: Case) -> list[Panel]:
    """Every panel that has something to show, in a fixed order."""
    return [panel for make in PANELS if (panel := make(case)).rows or panel.notes]


# --- accelerators ---


def gpus(case: Case) -> Panel:
    """The accelerators, who uses them, and whether their drivers work."""
    users = case.store.rows("gpu_processes")
    rows = []
    for gpu in case.store.rows("gpus"):
        on_it = [user for user in users if (user.host, user.gpu) == (gpu.host, gpu.index)]
        shown = ", ".join(f"{_whose(u.in_job)} pid {u.pid} {size(u.memory)}".strip() for u in on_it[:8])
        use = f"{size(gpu.used) or '?'} of {size(gpu.memory) or '?'}"
        load = ", ".join(_with_units((gpu.utilisation, "%"), (gpu.power, " W"), (gpu.temperature, " °C")))
        rows.append((_pid(f"{gpu.host}/{gpu.index}"), gpu.name or gpu.vendor, use, load, shown, _remarks(gpu)))
    notes = [f"GPU {row[0]}: {row[5]}" for row in rows if row[5]] + list(_drivers(case))
    return _panel("gpus", "Accelerators", ("gpu", "device", "memory", "load", "processes", "remarks"), rows, notes)


def _drivers(case: Case) -> Iterator[str]:
    for driver in case.store.rows("gpu_drivers"):
        if driver.state != "ok":
            named = (("module", driver.module), ("library", driver.library))
            versions = "".join(f", {name} {version}" for name, version in named if version)
            told = f": {driver.message}" if driver.message else ""
            yield f"{driver.vendor} driver: {driver.state}{versions}{told}"


def _remarks(gpu: Gpu) -> str:
    found = [*gpu.errors, *(gpu.throttle or ())]
    found += ["lost"] if gpu.lost else []
    found += [f"{gpu.ecc_uncorrected} uncorrected errors"] if gpu.ecc_uncorrected else []
    found += ["a repair waits for a reset"] if gpu.repair_pending else []
    return ", ".join(found)


def _whose(in_job: bool | None) -> str:
    return {True: "the job's", False: "another's", None: ""}[in_job]


# --- packages and libraries ---


def packages(case: Case) -> Panel:
    """The packages a training job stands on, and all that are not whole."""
    shown = [row for row in case.store.rows("packages") if row.broken or _FRAMEWORKS.fullmatch(row.name.lower())]
    shown.sort(key=lambda row: not row.broken)
    rows = [(row.name, row.version or "", _origin(row), "; ".join(row.broken)) for row in shown]
    notes = [f"{row.name} {row.version or ''} is not whole: {'; '.join(row.broken[:2])}" for row in shown if row.broken]
    return _panel("packages", "Packages that matter", ("package", "version", "from", "broken"), rows, notes)


def _origin(row: Package) -> str:
    return row.direct_url or (row.path or "").rpartition("/")[0]


def libraries(case: Case) -> Panel:
    """Native libraries of the accelerator stack, those that are there twice first."""
    found = [row for row in case.store.rows("libraries") if row.family in _LIBRARIES or row.duplicate_of or row.deleted]
    found.sort(key=lambda row: not (row.duplicate_of or row.deleted))
    rows = [
        (_pid(row.process), row.family or "", row.path, row.version or "", row.package or "", _oddity(row))
        for row in found
    ]
    columns = ("pid", "family", "file", "version", "package", "remarks")
    return _panel("libraries", "Native libraries", columns, rows)


def _oddity(row: Library) -> str:
    removed = ["its file was replaced or removed"] if row.deleted else []
    return "; ".join([*removed, *(f"beside {other}" for other in row.duplicate_of or ())])


# --- limits, disks, kernel ---


def limits(case: Case) -> Panel:
    """Limits of which half is used, and what the control groups allow."""
    rows, notes = [], []
    for row in case.store.rows("limits"):
        used = share(row.used, row.soft)
        if used >= WORTH_A_ROW:
            rows.append((_pid(row.process), row.name, f"{row.used:,}", f"{row.soft:,}", f"{used:.0%}"))
        if used >= NEAR_ITS_END:
            notes.append(f"pid {_pid(row.process)} uses {used:.0%} of its limit on {row.name}")
    groups = {row.path: row for row in case.store.rows("cgroups")}
    for group in groups.values():
        rows += _group_rows(group)
        notes += _group_notes(group)
    return _panel("limits", "Limits", ("of", "what", "used", "allowed", "share"), rows, notes)


def _group_rows(group: Cgroup) -> Iterator[tuple[str, ...]]:
    if group.memory_max is not None:
        used = f"{share(group.memory_current, group.memory_max):.0%}"
        yield group.path, "memory", size(group.memory_current), size(group.memory_max), used
    if group.pids_max is not None:
        used = f"{share(group.pids_current, group.pids_max):.0%}"
        yield group.path, "tasks", str(group.pids_current or "?"), str(group.pids_max), used
    if group.cpu_quota is not None:
        held = f"held back in {group.cpu_throttled_share or 0:.0%} of the periods"
        yield group.path, "CPUs", "", f"{group.cpu_quota:g}", held


def _group_notes(group: Cgroup) -> Iterator[str]:
    if group.memory_oom_kills:
        yield f"the kernel has killed {group.memory_oom_kills} processes of {group.path} for lack of memory"
    if share(group.memory_current, group.memory_max) >= NEAR_ITS_END:
        yield f"the memory of {group.path} is used up: {size(group.memory_current)} of {size(group.memory_max)}"
    if share(group.pids_current, group.pids_max) >= NEAR_ITS_END:
        yield f"{group.path} has {group.pids_current} of {group.pids_max} tasks"
    if (group.cpu_throttled_share or 0) >= WORTH_A_ROW:
        yield f"{group.path} was held back in {group.cpu_throttled_share:.0%} of its CPU periods"
    if group.frozen:
        yield f"{group.path} is frozen"


def mounts(case: Case) -> Panel:
    """File systems that are silent, nearly full, or somebody else's."""
    shown = [row for row in case.store.rows("mounts") if _is_of_interest(row)]
    shown.sort(key=lambda row: (row.answers is not False, -_fullness(row)))
    rows = [(row.path, row.kind or "", row.source or "", _answer(row), _room(row)) for row in shown]
    notes = [f"{row.path} ({row.kind}) does not answer" for row in shown if row.answers is False]
    notes += [f"{row.path} is full: {_room(row)}" for row in shown if _fullness(row) >= 0.98]
    return _panel("mounts", "File systems", ("mount", "type", "source", "answers", "room"), rows, notes)


def _is_of_interest(row: Mount) -> bool:
    if row.kind in _ALWAYS_FULL:
        return False
    is_usual = row.path in ("/", "/dev/shm", "/tmp")
    return row.answers is False or bool(row.network) or is_usual or _fullness(row) >= NEAR_ITS_END


def _fullness(row: Mount) -> float:
    return max(share(_used(row.size, row.free), row.size), share(_used(row.inodes, row.inodes_free), row.inodes))


def _used(whole: int | None, free: int | None) -> int | None:
    return whole - free if whole is not None and free is not None else None


def _room(row: Mount) -> str:
    if row.size is None or row.free is None:
        return ""
    inodes = f", {row.inodes_free:,} inodes" if row.inodes and row.inodes_free is not None else ""
    return f"{size(row.free)} of {size(row.size)} free{inodes}"


def _answer(row: Mount) -> str:
    return {True: "yes", False: "no", None: "not asked"}[row.answers]


def kernel(case: Case) -> Panel:
    """What the kernel has complained of, the newest first."""
    events = case.store.rows("kernel_events")[::-1]
    rows = [(row.time or "", row.kind, str(row.pid or ""), row.text) for row in events]
    return _panel("kernel", "Kernel log", ("time", "kind", "pid", "line"), rows)


# --- environment and paths ---


def environment(case: Case) -> Panel:
    """The target's environment, redacted; names that steer such jobs first."""
    target = next((row for row in case.store.rows("processes") if row.relation == "target"), None)
    own = [row for row in case.store.rows("env") if target is not None and row.process == target.id]
    own.sort(key=lambda row: (not _VARIABLES.fullmatch(row.name), row.name))
    rows = [(row.name, row.value if row.value is not None else "", _inherited(row.from_launcher)) for row in own]
    overwritten = target is not None and target.environ_state == "overwritten"
    notes = ["the environment was overwritten by a process title"] if overwritten else []
    return _panel("environment", "Environment of the target", ("name", "value", ""), rows, notes, most=150)


def _inherited(from_launcher: str) -> str:
    return {"changed": "not as in its launcher", "added": "not in its launcher"}.get(from_launcher, "")


def files(case: Case) -> Panel:
    """Paths that were named and are missing, or that the job may not write."""
    shown = [row for row in case.store.rows("files") if _is_amiss(row)]
    rows = [(row.path, row.named_by or row.why_looked, _amiss(row)) for row in shown]
    return _panel("files", "Paths that are missing or may not be written", ("path", "named by", ""), rows)


def _is_amiss(row: File) -> bool:
    named = row.why_looked in ("argument", "environment", "stack", "log", "cwd")
    return (row.exists is False and named) or (row.writable is False and row.why_looked != "stack")


def _amiss(row: File) -> str:
    if row.exists is False:
        return "does not exist"
    return f"may not be written ({row.why_not_writable})" if row.why_not_writable else "may not be written"


# --- the time before ---


def time_before(case: Case) -> Panel:
    """What the job used in the half hour before the bundle, where `flatline run` or `watch` kept it: a line each."""
    points = case.store.rows("resource_points")
    rows, notes = [], []
    for host in dict.fromkeys(point.host for point in points):
        own = sorted((point for point in points if point.host == host), key=lambda point: point.mono_ns)
        rows += [row for curve in CURVES if (row := _curve_row(host, curve, own))]
        notes += _last_signs(host, own)
    title = "The time before"
    return _panel("before", title, ("of", "from then to now", "least", "most", "last"), rows, notes)


@dataclass(frozen=True)
class Curve:
    """One field of the points, and how its values are said."""

    field: str
    name: str
    said: Callable[[float], str]


CURVES = (
    Curve("cpu", "processors in use", lambda value: f"{value:.2f}"),
    Curve("rss", "memory", lambda value: size(int(value))),
    Curve("read", "read", lambda value: size(int(value))),
    Curve("written", "written", lambda value: size(int(value))),
    Curve("printed", "printed", lambda value: size(int(value))),
    Curve("logs", "logs", lambda value: size(int(value))),
    Curve("gpu", "GPU at work", lambda value: f"{value:.0f} %"),
    Curve("gpu_used", "GPU memory", lambda value: size(int(value))),
)
BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 60


def _curve_row(host: str, curve: Curve, points: Sequence[ResourcePoint]) -> tuple[str, ...]:
    values = [getattr(point, curve.field) for point in points]
    known = [value for value in values if value is not None]
    if not known or not max(known):
        return ()
    whose = "" if host == "h1" else f"{host}: "
    ends = (curve.said(value) for value in (min(known), max(known), known[-1]))
    return (f"{whose}{curve.name}", _bars(values), *ends)


def _bars(values: Sequence[float | None]) -> str:
    """At most `MOST_BARS`, each the highest of its share; a blank where nothing is known."""
    each = max(1, -(-len(values) // MOST_BARS))
    shares = [[one for one in values[at : at + each] if one is not None] for at in range(0, len(values), each)]
    top = max(max(some) for some in shares if some) or 1.0
    return "".join(BARS[round(max(some) / top * (len(BARS) - 1))] if some else " " for some in shares)


def _last_signs(host: str, points: Sequence[ResourcePoint]) -> Iterator[str]:
    """Since when it neither worked nor printed, where that was seen to stop."""
    whose = "" if host == "h1" else f"{host}: "
    for field, least, what in (("cpu", 0.02, "a processor was in use"), ("printed", 1, "it printed")):
        at = [n for n, point in enumerate(points) if (getattr(point, field) or 0) >= least]
        if at and at[-1] < len(points) - 1 and (age := points[at[-1]].age_s) is not None:
            yield f"{whose}{what} for the last time {age:.0f} s before the bundle"


PANELS: Sequence[Callable[[Case], Panel]] = (
    time_before, gpus, packages, libraries, limits, mounts, kernel, files, environment,
)  # fmt: skip


# --- putting it in shape ---


def _panel(
    id_: str,
    title: str,
    columns: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    notes: Iterable[str] = (),
    most: int = MOST_ROWS,
) -> Panel:
    once = list(dict.fromkeys(rows))
    shown = tuple(tuple(visible(cell, MOST_CELL) for cell in row) for row in once[:most])
    said = tuple(visible(note, MOST_CELL) for note in dict.fromkeys(notes))
    return Panel(id_, title, columns, shown, said[:most], max(0, len(once) - most))


def share(used: float | None, allowed: float | None) -> float:
    """0 to 1; 0 where either is not known."""
    return used / allowed if used is not None and allowed else 0.0


def size(count: int | None) -> str:
    """``64.0 MiB``; empty when it is not known."""
    if count is None:
        return ""
    value, units = float(count), ("bytes", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if value < 1024 or unit == units[-1]:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return ""


def _with_units(*pairs: tuple[float | None, str]) -> list[str]:
    return [f"{value:g}{unit}" for value, unit in pairs if value is not None]


def _pid(process: str) -> str:
    """``4242``; with several bundles also the host: ``h2/4242``."""
    return process.removeprefix("h1/")
