"""What a collect will be able to see here, asked beforehand: each check in a child of its own, as a probe is."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flatline.bundle.format import DEFAULT_MAX_SIZE

from . import output, tools
from .confine import Confined, ConfineFailed, run_as_target
from .linux import access, sockdiag
from .linux.census import INITIAL_PID_NAMESPACE
from .linux.mounts import by_id
from .linux.procfs import ProcFS, Unread
from .probes import kernel_log
from .probes.interface import Item, Result, Target, View
from .probes.process_rows import python_version
from .stacks import pyspy

CAP_SYS_ADMIN = 21
_TOOL_S = 3.0
_VISIBLE = ("", "0", "off")
_GPUS = {
    "NVIDIA": (("/dev/nvidiactl", "/proc/driver/nvidia"), ("nvidia-smi",), "pip install nvidia-ml-py"),
    "AMD": (("/dev/kfd",), ("amd-smi", "rocm-smi"), "put ROCm's bin folder on PATH, or run it on the host"),
    "Ascend": (("/dev/davinci_manager",), ("npu-smi",), "put npu-smi on PATH, or run it on the host"),
    "Gaudi": (("/dev/hl0", "/dev/accel/accel0"), ("hl-smi", "xpu-smi"), "put the vendor's tool on PATH"),
}  # fmt: skip
"""Vendor -> what shows that one is here, the tools that tell about it, and how to get one."""


@dataclass(frozen=True)
class Answer:
    """What one check found; `hint` is the line to type when something will be missing."""

    ok: bool
    text: str
    hint: str = ""


class Check:
    """One question, in the shape of a probe: so that the supervisor gives it a child and a limit."""

    tables: tuple[str, ...] = ()
    limit_s = 5.0
    spans_window = False

    def __init__(self, name: str, ask: Callable[[View], Answer]) -> None:
        self.name = name
        self.ask = ask

    def gather(self, view: View) -> Iterator[Item]:
        """Yield one `Answer`."""
        yield Result(self.ask(view))


def checks(folder: str, *, with_job: bool) -> list[Check]:
    """All of them, in the order a person reads them; those of a job only when there is one."""
    general = [
        Check("processes", process_table),
        Check("rights", rights_over_job if with_job else rights),
        Check("py-spy", py_spy_on_job if with_job else py_spy),
        Check("sockets", sockets),
        Check("kernel log", kernel_messages),
        Check("accelerators", accelerators),
        Check("output", lambda view: output_folder(folder)),
        Check("room", room),
    ]
    return [*general, Check("job's files", files_of_job)] if with_job else general


# --- what is seen of processes ---


def process_table(view: View) -> Answer:
    """Whether all processes of the host are there to be read."""
    proc = ProcFS(view.proc)
    pids = proc.numbers()
    if isinstance(pids, Unread):
        return Answer(False, f"{view.proc} cannot be read: {pids.detail}", "mount -t proc proc /proc")
    hidden = _hidepid(proc)
    if hidden not in _VISIBLE and not access.has_capability(access.CAP_SYS_PTRACE):
        text = f"/proc is mounted with hidepid={hidden}: other users' processes are not seen"
        return Answer(False, text, "run it with sudo")
    if proc.link("self", "ns", "pid") != INITIAL_PID_NAMESPACE:
        return Answer(True, f"{len(pids)} processes, those of this container only; for others run it on the host")
    return Answer(True, f"{len(pids)} processes, all of this host")


def _hidepid(proc: ProcFS) -> str:
    options = next((mount.options for mount in by_id(proc, "self").values() if mount.path == proc.root), "")
    return next((o.partition("=")[2] for o in options.split(",") if o.startswith("hidepid=")), "")


def rights(view: View) -> Answer:
    """What ptrace(2) permits in general: its rights decide about stacks, system calls, descriptors and environments."""
    if access.has_capability(access.CAP_SYS_PTRACE):
        return Answer(True, "CAP_SYS_PTRACE: stacks and descriptors of every user's processes")
    if os.geteuid() == 0:
        return Answer(False, "root without CAP_SYS_PTRACE", access.hint_when_denied({0}))
    scope = _ptrace_scope(view)
    if scope > 0:
        return Answer(False, f"Yama's ptrace_scope is {scope}: no stack of any running job", _yama_hint(scope))
    return Answer(True, f"processes of uid {os.geteuid()} only; for other users' jobs run it with sudo")


def rights_over_job(view: View) -> Answer:
    """The same, tried: /proc/PID/syscall asks for the very rights that reading a stack takes, and touches nothing."""
    proc = ProcFS(view.proc)
    job = _job(view)
    refused = [one for one in job if _is_refused(proc, one)]
    if not refused:
        return Answer(True, f"{len(job)} processes of the job may be read")
    first = refused[0]
    example = f"pid {first.pid}, {_why_refused(view, first)}"
    text = f"{len(refused)} of {len(job)} processes of the job may not be read ({example})"
    is_yama = first.uid == os.geteuid() != 0 and _ptrace_scope(view) > 0
    hint = _yama_hint(_ptrace_scope(view)) if is_yama else access.hint_when_denied({one.uid for one in refused})
    return Answer(False, text, hint)


def _job(view: View) -> Sequence[Target]:
    return [target for target in view.targets if target.relation != "ancestor"]


def _is_refused(proc: ProcFS, target: Target) -> bool:
    found = proc.raw(target.pid, "syscall")
    return isinstance(found, Unread) and found.reason == "denied"


def _why_refused(view: View, target: Target) -> str:
    if os.geteuid() == 0:
        return "root without CAP_SYS_PTRACE" if not access.has_capability(access.CAP_SYS_PTRACE) else "refused to root"
    if target.uid != os.geteuid():
        return f"of uid {target.uid}, we are {os.geteuid()}"
    scope = _ptrace_scope(view)
    return f"Yama's ptrace_scope is {scope}" if scope > 0 else "not dumpable"


def _ptrace_scope(view: View) -> int:
    """0 where Yama is absent."""
    text = ProcFS(view.proc).text("sys", "kernel", "yama", "ptrace_scope")
    return int(text) if isinstance(text, str) and text.strip().isdecimal() else 0


def _yama_hint(scope: int) -> str:
    return "run it with sudo" + ("" if scope > 2 else ", or: sudo sysctl kernel.yama.ptrace_scope=0")


# --- the tools ---


def py_spy(view: View) -> Answer:
    """Whether py-spy is there and runs."""
    program = tools.find_tool("py-spy", ours=True)
    if program is None:
        return Answer(False, "py-spy was not found: there will be no Python stacks", "pip install py-spy")
    ran = tools.run([program, "--version"], limit_s=_TOOL_S)
    if ran.outcome != "ok":
        return Answer(False, f"{program} does not run: {ran.message or ran.outcome}", "pip install -U py-spy")
    return Answer(True, f"{ran.stdout.decode('utf-8', 'replace').strip()} ({program})")


def py_spy_on_job(view: View) -> Answer:
    """One look at the job's first Python process, without stopping it: nothing else tells whether the two get along."""
    found, program = py_spy(view), tools.find_tool("py-spy", ours=True)
    target = next((one for one in _job(view) if one.is_python), None)
    if not found.ok or program is None or target is None:
        return found if target else Answer(True, f"{found.text}; the job has no Python process")
    python = _python(ProcFS(view.proc), target)
    ran = tools.run(pyspy.argv(program, target.pid), limit_s=_TOOL_S)
    if ran.outcome == "ok":
        return Answer(True, f"{found.text} reads pid {target.pid} (Python {python})")
    failure = pyspy.failure(ran)
    if failure.reason in ("moving", "gone"):
        return Answer(True, f"{found.text}; pid {target.pid} (Python {python}) moves just now: {failure.message}")
    return Answer(False, f"{found.text} on pid {target.pid} (Python {python}): {failure.message}", failure.hint)


def _python(proc: ProcFS, target: Target) -> str:
    exe, maps = proc.link(target.pid, "exe"), proc.maps(target.pid)
    version = python_version(exe if isinstance(exe, str) else None, [] if isinstance(maps, Unread) else maps)
    return version or "of unknown version"


def accelerators(view: View) -> Answer:
    """Whether the devices that are here have a tool that tells about them. None is started: it could hang."""
    here = [vendor for vendor, (marks, _, _) in _GPUS.items() if any(map(os.path.exists, marks))]
    mute = [vendor for vendor in here if not _is_told_of(vendor)]
    if mute:
        return Answer(False, f"{mute[0]} devices are here, and no tool that tells about them", _GPUS[mute[0]][2])
    return Answer(True, f"{', '.join(here)} with their tools" if here else "none here")


def _is_told_of(vendor: str) -> bool:
    if vendor == "NVIDIA" and importlib.util.find_spec("pynvml") is not None:
        return True
    return any(tools.find_tool(name) for name in _GPUS[vendor][1])


# --- the kernel ---


def sockets(view: View) -> Answer:
    """Whether the kernel says who is at the other end of a socket, where the job lives."""
    pid = view.targets[0].pid if view.targets else os.getpid()
    _, refused = sockdiag.read_sockets(pid, (), proc=view.proc)
    if refused:
        return Answer(False, f"peers of sockets are not told: {refused}", "run it as root, with CAP_SYS_ADMIN")
    return Answer(True, "sock_diag answers: both ends of every socket")


def kernel_messages(view: View) -> Answer:
    """Whether the kernel's log can be read."""
    text = kernel_log.read()
    if isinstance(text, Unread):
        return Answer(False, f"may not be read: {text.detail}", kernel_log.hint())
    return Answer(True, "may be read")


# --- the bundle ---


def output_folder(folder: str) -> Answer:
    """Whether the bundle can be written where it is wanted."""
    parent = output.final_name(folder, "x").parent
    problem = output.why_not(parent)
    return Answer(not problem, problem or f"{parent} can be written", "flatline collect … -o /another/folder/")


def room(view: View) -> Answer:
    """Whether the folder that stands in for it has room for a bundle."""
    folder = tempfile.gettempdir()
    problem = output.why_not(Path(folder))
    free = shutil.disk_usage(folder).free
    if problem or free < 2 * DEFAULT_MAX_SIZE:
        text = problem or f"{free >> 20} MiB are free in {folder}; a bundle can take {2 * DEFAULT_MAX_SIZE >> 20}"
        return Answer(False, text, "TMPDIR=/another/folder flatline collect …")
    return Answer(True, f"{free >> 20:,} MiB are free in {folder}")


def files_of_job(view: View) -> Answer:
    """Whether the job's folder can be looked at as its user sees it."""

    def look(confined: Confined) -> Iterator[str]:
        confined.listdir(".", 1)
        yield confined.cwd_path

    target = view.targets[0]
    answer = next(run_as_target(target, look, proc=view.proc, limit_s=2.0))
    if isinstance(answer, ConfineFailed):
        text = f"the folder of pid {target.pid} may not be looked at: {answer.message}"
        return Answer(False, text, access.hint_when_denied({target.uid}))
    return Answer(True, f"{answer or 'its folder'} may be looked at as uid {target.uid}")
