"""What a task waits in, as the names of the kernel's functions tell: a stack, or the one name of wchan.

The names are those of the kernel's own tree and of the out-of-tree modules of NVIDIA, Lustre, GPFS and BeeGFS. The
module that a stack prints behind a function decides; without it the function's name does, where it is unmistakable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_MODULES = {
    "nvidia": "nvidia", "nvidia_uvm": "nvidia", "nvidia_modeset": "nvidia", "nvidia_drm": "nvidia",
    "nvidia_peermem": "nvidia", "nv_peer_mem": "nvidia", "gdrdrv": "nvidia", "nvidia_fs": "nvidia",
    "amdgpu": "amdgpu", "amdkfd": "amdgpu", "amdttm": "amdgpu", "i915": "intel-gpu", "xe": "intel-gpu",
    "habanalabs": "habana", "dxgkrnl": "wsl-gpu", "drv_davinci": "ascend", "davinci": "ascend",
    "nfs": "nfs", "nfsv3": "nfs", "nfsv4": "nfs", "sunrpc": "nfs", "rpcrdma": "nfs", "lockd": "nfs",
    "lustre": "lustre", "ptlrpc": "lustre", "osc": "lustre", "mdc": "lustre", "lov": "lustre", "lmv": "lustre",
    "obdclass": "lustre", "libcfs": "lustre", "lnet": "lustre", "mgc": "lustre",
    "ceph": "ceph", "libceph": "ceph", "rbd": "ceph", "cifs": "cifs", "fuse": "fuse", "virtiofs": "fuse",
    "mmfs": "gpfs", "mmfs26": "gpfs", "mmfslinux": "gpfs", "tracedev": "gpfs", "beegfs": "beegfs", "wekafsio": "weka",
    "9p": "9p", "9pnet": "9p", "autofs4": "autofs", "mlx5_core": "rdma", "mlx5_ib": "rdma", "ib_core": "rdma",
    "ib_uverbs": "rdma", "rdma_cm": "rdma", "rdma_ucm": "rdma", "ext4": "local-disk", "xfs": "local-disk",
    "btrfs": "local-disk", "jbd2": "local-disk", "zfs": "local-disk", "nvme": "local-disk", "dm_mod": "local-disk",
    "md_mod": "local-disk", "scsi_mod": "local-disk", "bcache": "local-disk",
}  # fmt: skip
_FUNCTIONS = re.compile(
    r"(?P<nvidia>_nv\d+rm|os_acquire_(?:rwlock|semaphore|mutex|spinlock)|nvidia_|nv_(?!ram)|nvkms_|rm_(?:ioctl|init|free|shutdown)|uvm_(?!fault$))"
    r"|(?P<amdgpu>amdgpu_|kfd_|amdkfd_|svm_range_)"
    r"|(?P<nfs>nfs\d?_|rpc_(?:wait|execute|run|sleep)|__rpc_|xprt_|rpcrdma_|nlmclnt_|nlm_)"
    r"|(?P<lustre>ll_|ptlrpc_|ldlm_|osc_|cl_(?:io|lock|sync|page|object)|mdc_|lov_|lmv_|obd_|lnet_)"
    r"|(?P<ceph>ceph_|rbd_)|(?P<cifs>cifs_|smb2_|SMB2_|wait_for_response$)"
    r"|(?P<fuse>fuse_|__fuse_|request_wait_answer|virtio_fs_)"
    r"|(?P<gpfs>gpfs_|cxi[A-Z]|kxWait)|(?P<beegfs>beegfs_|FhgfsOps)|(?P<autofs>autofs_)|(?P<p9>p9_|v9fs_)"
    r"|(?P<disk>ext4_|jbd2_|xfs_|xlog_|btrfs_|zfs_|zil_|dmu_|blk_mq_|blkdev_|submit_bio|wbt_wait|rq_qos_wait|f2fs_|balance_dirty)"
)  # fmt: skip
_GROUPS = {"p9": "9p", "disk": "local-disk"}
FILE_SYSTEMS = frozenset({"nfs", "lustre", "ceph", "cifs", "fuse", "gpfs", "beegfs", "weka", "9p", "autofs"})
"""Answers of `waits_in` that are file systems which somebody else has to answer for."""
DRIVERS = frozenset({"nvidia", "amdgpu", "intel-gpu", "habana", "wsl-gpu", "ascend"})
"""Answers of `waits_in` that are drivers of accelerators."""
_FRAME = re.compile(
    r"(?:\[<[0-9a-fA-Fx<>]{1,20}>\]\s?)?(?P<doubtful>\? )?"
    r"(?P<function>[A-Za-z_][\w.$:]{0,200})\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}"
    r"(?: \[(?P<module>[\w-]{1,60})[^\]]{0,60}\])?"
)


@dataclass(frozen=True)
class KernelFrame:
    """One line of a stack of the kernel."""

    function: str
    module: str | None = None


def frame_of(text: str) -> KernelFrame | None:
    """``nfs_wait_bit_killable+0x1e/0x90 [nfs]``; None for what the kernel marks with ``?``, and what is no frame."""
    found = _FRAME.match(text.strip())
    return None if found is None or found["doubtful"] else KernelFrame(found["function"], found["module"])


def is_frame(text: str) -> bool:
    """Whether a line is one of a stack, be it a doubtful one."""
    return bool(_FRAME.match(text.strip()))


def waits_in(frames: Iterable[KernelFrame]) -> str | None:
    """The part of the kernel that the innermost telling frame belongs to: ``nvidia``, ``nfs``, ``local-disk``."""
    return next((part for frame in frames if (part := _part(frame))), None)


def part_of_wchan(name: str | None) -> str | None:
    """The same of the one function that wchan, or the WCHAN column of ps, names."""
    return _part(KernelFrame(name)) if name else None


def _part(frame: KernelFrame) -> str | None:
    known = _MODULES.get((frame.module or "").replace("-", "_"))
    if known:
        return known
    found = _FUNCTIONS.match(frame.function)
    return _GROUPS.get(found.lastgroup or "", found.lastgroup) if found else None
