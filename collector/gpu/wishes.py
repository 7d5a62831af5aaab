"""Whether the job asks for an accelerator: only then is a host without one worth a word."""

from __future__ import annotations

from collections.abc import Iterator

from ..linux import descriptors
from ..linux.procfs import ProcFS, Unread
from ..probes.interface import Target, View

_VISIBLE = (
    "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES",
    "HABANA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
)  # fmt: skip
"""Not NVIDIA_VISIBLE_DEVICES: CUDA's images set it to ``all`` wherever they run."""
_NONE = frozenset({"", "-1", "none", "void", "nodevfiles"})
_NODES = ("/dev/nvidia", "/dev/kfd", "/dev/davinci", "/dev/hl")


def of_job(proc: ProcFS, view: View) -> str:
    """``CUDA_VISIBLE_DEVICES=0,1 of pid 12``; empty when nothing says so."""
    for target in view.targets:
        if target.relation != "ancestor":
            for wish in _of(proc, target, view):
                return f"{wish} of pid {target.pid}"
    return ""


def _of(proc: ProcFS, target: Target, view: View) -> Iterator[str]:
    environment = view.env_names.get(target.pid, {})
    for name in _VISIBLE:
        if environment.get(name, "").strip().lower() not in _NONE:
            yield f"{name}={environment[name]}"
    links = descriptors.links(proc, target.pid)
    yield from (link for _, link in (() if isinstance(links, Unread) else links) if link.startswith(_NODES))
