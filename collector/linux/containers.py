"""In which kind of container a process runs, from the kernel's own tables: nothing of the container is opened."""

from __future__ import annotations

from .census import INITIAL_PID_NAMESPACE
from .procfs import LARGE, ProcFS, Unread

_GROUP_MARKS = (
    ("kubepods", "kubernetes"), ("libpod", "podman"), ("docker", "docker"), ("crio-", "cri-o"),
    ("cri-containerd", "containerd"), ("/lxc", "lxc"), ("machine.slice/machine-", "nspawn"),
)  # fmt: skip
_MOUNT_MARKS = (
    ("/kubelet/pods/", "kubernetes"), ("/kubernetes.io~", "kubernetes"), ("/docker/containers/", "docker"),
    ("/docker/overlay2/", "docker"), ("/overlay-containers/", "podman"), ("/containers/storage/", "podman"),
    ("/io.containerd.", "containerd"), ("/apptainer/mnt/session", "apptainer"),
    ("/singularity/mnt/session", "singularity"), ("/enroot/", "enroot"),
)  # fmt: skip
"""Where the runtimes keep layers and the files they lay over /etc: seen also from within, unlike the group."""


def container_of(proc: ProcFS, pid: int) -> str | None:
    """``docker``, ``kubernetes`` …; ``other`` when only its pid namespace is its own; ``none``. None: not to be seen.

    A mark counts only on what belongs to the process: on the host of a container its layers are mounted as well.
    """
    groups, mounts = proc.text(pid, "cgroup"), proc.text(pid, "mountinfo", limit=LARGE)
    named = next((kind for mark, kind in _GROUP_MARKS if isinstance(groups, str) and mark in groups), None)
    if named:
        return named
    named = _by_mounts(mounts) if isinstance(mounts, str) else None
    if named:
        return named
    namespace = proc.link(pid, "ns", "pid")
    if isinstance(namespace, Unread):
        return None
    return "none" if namespace == INITIAL_PID_NAMESPACE else "other"


def _by_mounts(text: str) -> str | None:
    """By the root, and by the files that are mounted over /etc."""
    own = [line for line in text.splitlines() if line.split(" ", 5)[4:5] in (["/"], ["/etc/hosts"], ["/etc/hostname"])]
    return next((kind for mark, kind in _MOUNT_MARKS if any(mark in line for line in own)), None)
