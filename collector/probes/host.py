"""The machine, what the collector may see on it, and the limits and control groups of the job."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flatline.bundle.facts import Host, Limit, process_id

from ..linux import cgroups
from ..linux.census import INITIAL_PID_NAMESPACE
from ..linux.mounts import by_id
from ..linux.procfs import LARGE, ProcFS, Stat, Unread, parse_fields, parse_kilobytes, parse_limits
from .interface import Artefact, Facts, Gap, Item, Target, View

HOST = "h1"
MOST_PROCESSES = 64
_CAPABILITIES = {
    1: "CAP_DAC_OVERRIDE", 2: "CAP_DAC_READ_SEARCH", 5: "CAP_KILL", 6: "CAP_SETGID", 7: "CAP_SETUID",
    12: "CAP_NET_ADMIN", 18: "CAP_SYS_CHROOT", 19: "CAP_SYS_PTRACE", 21: "CAP_SYS_ADMIN", 34: "CAP_SYSLOG",
    37: "CAP_AUDIT_READ", 38: "CAP_PERFMON", 39: "CAP_BPF", 40: "CAP_CHECKPOINT_RESTORE",
}  # fmt: skip
"""capabilities(7); only those that decide what can be collected."""
_AVERAGE = re.compile(r"^(some|full) avg10=(\d{1,3}\.\d{1,4})", re.MULTILINE)
_RAW = ("meminfo", "loadavg", "uptime", "locks", "pressure/cpu", "pressure/io", "pressure/memory")


class HostFacts:
    """The machine, what the collector may see on it, and the limits and control groups of the job."""

    name = "host"
    tables = ("hosts", "limits", "cgroups")
    limit_s = 4.0
    spans_window = False
    reads = (
        "/proc/{loadavg,locks,meminfo,pressure,uptime}",
        "/proc/self/{cgroup,mountinfo,ns,status}",
        "/proc/sys/kernel/{random/boot_id,yama/ptrace_scope}",
        "/proc/PID/{cgroup,fd,limits,mountinfo,stat,status}",
        "the files of the job's control groups, below /sys/fs/cgroup",
    )
    runs = ()

    def gather(self, view: View) -> Iterator[Item]:
        proc = ProcFS(view.proc)
        job = [target for target in view.targets if target.relation != "ancestor"][:MOST_PROCESSES]
        tables: dict[str, Sequence[Any]] = {"hosts": [_host_row(proc)]}
        limits = _limit_rows(proc, job)
        groups = [row for target in job if (row := cgroups.of_process(proc, target.pid, process_id(target.pid)))]
        tables.update({"limits": limits} if limits else {}, **({"cgroups": groups} if groups else {}))
        yield Facts("facts/host.json", tables)
        yield from _raw(proc, view)
        left_out = sum(target.relation != "ancestor" for target in view.targets) - len(job)
        if left_out:
            message = f"limits and control groups of {MOST_PROCESSES} processes are taken, not of {left_out} more"
            yield Gap("partial", message, tables=("limits", "cgroups"))
        if job and not groups:
            yield Gap("absent", "the control groups of the job cannot be seen from here", tables=("cgroups",))


def _host_row(proc: ProcFS) -> Host:
    memory = _fields(proc, "meminfo")
    status = _fields(proc, "self", "status")
    system = os.uname()
    return Host(
        HOST,
        kernel=system.release,
        machine=system.machine,
        cpus=os.cpu_count(),
        memory_total=parse_kilobytes(memory.get("MemTotal")),
        memory_available=parse_kilobytes(memory.get("MemAvailable")),
        swap_total=parse_kilobytes(memory.get("SwapTotal")),
        swap_free=parse_kilobytes(memory.get("SwapFree")),
        load_1m=_first_float(proc, "loadavg"),
        pressure=_pressure(proc),
        boot_id=_word(proc, "sys", "kernel", "random", "boot_id"),
        uptime_s=_first_float(proc, "uptime"),
        container=_container(proc),
        collector_uid=os.geteuid(),
        collector_caps=_capabilities(status.get("CapEff")),
        ptrace_scope=_number(_word(proc, "sys", "kernel", "yama", "ptrace_scope")),
        seccomp=_number(status.get("Seccomp")),
        hidepid=_hidepid(proc),
    )


def _fields(proc: ProcFS, *parts: str) -> Mapping[str, str]:
    text = proc.text(*parts)
    return {} if isinstance(text, Unread) else parse_fields(text)


def _word(proc: ProcFS, *parts: str) -> str | None:
    text = proc.text(*parts)
    return None if isinstance(text, Unread) else (text.split() or [None])[0]


def _first_float(proc: ProcFS, *parts: str) -> float | None:
    try:
        return float(_word(proc, *parts) or "")
    except ValueError:
        return None


def _pressure(proc: ProcFS) -> Mapping[str, float] | None:
    """avg10 of ``some avg10=1.53 avg60=0.87 …`` (Documentation/accounting/psi.rst). None: the kernel does not count."""
    found = {}
    for resource in ("cpu", "io", "memory"):
        text = proc.text("pressure", resource)
        for kind, percent in _AVERAGE.findall(text if isinstance(text, str) else ""):
            found[f"{resource} {kind}"] = float(percent)
    return found or None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _capabilities(mask: str | None) -> tuple[str, ...] | None:
    try:
        bits = int(mask or "", 16)
    except ValueError:
        return None
    return tuple(name for bit, name in _CAPABILITIES.items() if bits >> bit & 1)


def _hidepid(proc: ProcFS) -> str | None:
    """The option's value; ``0`` where it is not set."""
    mount = next((found for found in by_id(proc, "self").values() if found.path == proc.root), None)
    options = mount.options.split(",") if mount else []
    given = next((option.partition("=")[2] for option in options if option.startswith("hidepid=")), "0")
    return given if mount else None


def _container(proc: ProcFS) -> str:
    """By the marks that the runtimes leave for whoever is inside. Virtual machines are built from the same images,
    marks and all: there the root is a disk, and every process is seen."""
    root = next((mount for mount in by_id(proc, "self").values() if mount.path == "/"), None)
    sees_all = proc.link("self", "ns", "pid") == INITIAL_PID_NAMESPACE
    if sees_all and root is not None and root.source.startswith("/dev/"):
        return "none"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    if os.path.exists("/.dockerenv"):
        return "docker"
    groups = proc.text("self", "cgroup")
    for mark, name in (("kubepods", "kubernetes"), ("libpod", "podman"), ("docker", "docker"), ("/lxc", "lxc")):
        if isinstance(groups, str) and mark in groups:
            return name
    return "none"


# --- limits ---


def _limit_rows(proc: ProcFS, job: Sequence[Target]) -> list[Limit]:
    tasks = _tasks_by_uid(proc)
    return [row for target in job for row in _limits_of(proc, target, tasks.get(target.uid))]


def _limits_of(proc: ProcFS, target: Target, tasks: int | None) -> Iterator[Limit]:
    text = proc.text(target.pid, "limits")
    status = _fields(proc, str(target.pid), "status")
    open_files = proc.numbers(target.pid, "fd")
    used = {
        "open files": None if isinstance(open_files, Unread) else len(open_files),
        "processes": tasks,
        "address space": parse_kilobytes(status.get("VmSize")),
        "locked memory": parse_kilobytes(status.get("VmLck")),
        "resident set": parse_kilobytes(status.get("VmRSS")),
    }
    for line in () if isinstance(text, Unread) else parse_limits(text):
        name = line.name.lower()
        yield Limit(process_id(target.pid), name, line.soft, line.hard, line.soft is None, used.get(name))


def _tasks_by_uid(proc: ProcFS) -> Mapping[int, int]:
    """The limit on processes counts the threads of a user, wherever they are (getrlimit(2), RLIMIT_NPROC)."""
    counts: dict[int, int] = {}
    pids = proc.numbers()
    for pid in pids if isinstance(pids, list) else ():
        stat, status = proc.stat(pid), _fields(proc, str(pid), "status")
        if isinstance(stat, Stat) and not stat.is_kernel_thread and status.get("Uid"):
            uid = int(status["Uid"].split()[0])
            counts[uid] = counts.get(uid, 0) + stat.threads
    return counts


# --- as the kernel prints it ---


def _raw(proc: ProcFS, view: View) -> Iterator[Artefact]:
    for name in _RAW:
        text = proc.text(name, limit=LARGE)
        if isinstance(text, str) and text:
            yield Artefact(f"raw/{name.replace('/', '-')}.txt", text, original_path=proc.path(name))
    for target in view.targets[:1]:
        text = proc.text(target.pid, "mountinfo", limit=LARGE)
        if isinstance(text, str) and text:
            yield Artefact("raw/mountinfo.txt", text, original_path=proc.path(target.pid, "mountinfo"))
