"""The lines of the kernel's log that can explain a hang, and what NVIDIA's error numbers mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "xid", "oom", "hung-task", "nfs", "segfault", "soft-lockup", "io-error", "gpu-driver", "network", "other"
]

XIDS: Mapping[int, str] = {
    13: "the program's own fault in a kernel, or a fault of the GPU",
    31: "a page fault on the GPU, mostly the program's own",
    32: "a corrupted stream of commands",
    38: "the driver's firmware failed",
    43: "the program's channel was reset",
    45: "the program's channels were taken down, mostly after another error",
    46: "the GPU stopped processing",
    48: "a double-bit memory error",
    56: "the display engine failed",
    57: "the display or memory link failed",
    61: "the GPU's microcontroller stopped at a breakpoint",
    62: "the GPU's microcontroller halted",
    63: "a page or row of memory is to be taken out of use",
    64: "a page or row of memory could not be taken out of use",
    69: "the program's own fault in a kernel, or a fault of the GPU",
    74: "an NVLink error",
    79: "the GPU has fallen off the bus",
    92: "many single-bit memory errors",
    94: "a contained memory error",
    95: "an uncontained memory error: the GPU needs a reset",
    109: "a switch between contexts timed out",
    110: "a security fault",
    119: "the GPU's firmware (GSP) does not answer",
    120: "the GPU's firmware (GSP) failed",
    121: "the link between chips has an error",
    122: "the inventory ROM could not be read",
    136: "a training of the link failed",
    137: "an access over NVLink failed at its far end",
    140: "an uncorrected memory error",
    143: "the GPU could not be initialised",
    144: "an NVLink SAW error",
    145: "an NVLink RLW error",
    149: "an NVLink NETIR error",
    154: "the GPU needs to be reset or its node restarted",
    155: "an NVLink's software failed",
    156: "a resource of the GPU was taken out of use",
    158: "a fatal time-out of the GPU",
}
"""What the codes mean that end or explain a job: NVIDIA's "Xid Errors", in few words."""

_NAME = "(?P<name>.{1,16})"
"""comm: anything but NUL, at most 15 bytes."""
_PID, _PCI, _DISK = r"(?P<pid>\d{1,9})", r"(?:PCI:)?(?P<device>[\w:.]{7,40}?)", r"(?P<device>[\w-]{1,40})"
_SERVER, _SECONDS = r"(?P<name>\S{1,255})", r"(?P<seconds>\d{1,9})"


@dataclass(frozen=True)
class Pattern:
    """One line that the kernel prints; the named groups are fields of KernelEvent."""

    kind: Kind
    mark: str
    """A text without which the expression need not be tried."""
    expression: re.Pattern[str]


def _pattern(kind: Kind, mark: str, *pieces: str) -> Pattern:
    return Pattern(kind, mark, re.compile("".join(pieces)))


PATTERNS: Sequence[Pattern] = (
    _pattern(
        "xid",
        "NVRM: Xid",
        rf"NVRM: Xid \({_PCI}\): (?P<code>\d{{1,4}})",
        rf"(?:, pid='?(?:{_PID}|[^',]{{0,40}})'?)?(?:, name=(?P<name>[^,<]{{1,64}}))?",
    ),
    _pattern("xid", "fallen off the bus", rf"NVRM: (?:The )?GPU (?:at )?\(?{_PCI}\)?: .{{0,40}}fallen off the bus"),
    _pattern(
        "gpu-driver",
        "NVRM: ",
        rf"NVRM: (?:GPU (?:at )?{_PCI}: )?(?=.{{0,120}}(?:",
        r"RmInitAdapter failed|rm_init_adapter failed|API mismatch|No NVIDIA GPU found|Failed to enable MSI|",
        r"failed to copy|is not supported|GPU lost|GSP RPC timeout|",
        r"Assertion failed|BAR0 is|rpcSendMessage failed|Gsp\w{1,30} failed))",
    ),
    _pattern("gpu-driver", "nvidia-modeset", r"nvidia-modeset: ERROR: .{0,200}"),
    _pattern("gpu-driver", "nvidia-nvlink", r"nvidia-nvlink: .{0,80}(?:[Ee]rror|[Ff]ail)"),
    _pattern("gpu-driver", "nvidia-nvswitch", rf"nvidia-nvswitch\d*: SXid \({_PCI}\): (?P<code>\d{{1,6}})"),
    _pattern(
        "gpu-driver",
        "amdgpu",
        rf"amdgpu(?: {_PCI})?: .{{0,60}}(?:GPU reset begin|ring \S+ timeout|GPU reset\(\d+\) failed|GPU recovery|",
        r"page fault|VM fault|GPU fault detected|failed to suspend process|MES failed|[Uu]ncorrectable hardware error|",
        r"fence wait loop timeout|unrecoverable state|Failed to (?:evict|quiesce)|SMU: I.m not done|",
        r"device lost from bus|failed to (?:halt|start) cp|MODE\d reset failed)",
    ),
    _pattern(
        "gpu-driver",
        "[drm:amdgpu",
        r"\[drm:amdgpu_\w{1,60} \[amdgpu\]\] \*ERROR\* (?:ring \S+ timeout|GPU Recovery|IB test failed)",
    ),
    _pattern(
        "gpu-driver",
        "habanalabs",
        rf"habanalabs(?: {_PCI})?: .{{0,100}}?(?:[Hh]eartbeat|reset|timed out|stuck|ECC|[Ff]ailed|fatal)",
    ),
    _pattern("gpu-driver", "ascend", r"\[ascend\].{0,200}(?:[Hh]eartbeat lost|ECC|[Ff]ault|[Tt]imeout)"),
    _pattern("gpu-driver", "amdkfd", r"amdkfd: .{0,80}(?:[Ff]ailed|[Hh]ang|timeout)"),
    _pattern(
        "oom",
        "ut of memory",
        r"(?P<cgroup>Memory cgroup )?[Oo]ut of memory(?: \(oom_kill_allocating_task\))?: ",
        rf"Kill(?:ed)? process {_PID} \({_NAME}\)",
    ),
    _pattern("oom", "oom-kill:", r"oom-kill:constraint=(?P<constraint>\w{1,40}),.{0,4000}?,task=(?P<name>.{1,16}),",
             rf"pid={_PID},uid="),
    _pattern("oom", "invoked oom-killer", r"invoked oom-killer: (?P<asked>gfp_mask)"),
    _pattern("hung-task", "blocked", rf"INFO: task {_NAME}:{_PID} blocked.{{0,40}} for more than {_SECONDS} seconds"),
    _pattern("nfs", "not responding", rf"(?:nfs\d?|lockd): server {_SERVER} not responding"),
    _pattern("segfault", "segfault", rf"^{_NAME}\[{_PID}\]: segfault at "),
    _pattern("segfault", "traps: ", rf"^traps: {_NAME}\[{_PID}\] (?:general protection|trap )"),
    _pattern("soft-lockup", "soft lockup", rf"soft lockup - CPU#\d+ stuck for {_SECONDS}s! \[{_NAME}:{_PID}\]"),
    _pattern("soft-lockup", "detected stall", r"rcu(?:_\w{1,20})?:? (?:INFO: )?.{0,40}detected stalls? on CPU"),
    _pattern("soft-lockup", "hard LOCKUP", r"[Ww]atchdog detected hard LOCKUP on cpu"),
    _pattern("io-error", "I/O error", rf"I/O error,? (?:on )?dev {_DISK}"),
    _pattern("io-error", "-fs error", rf"\w{{2,10}}-fs error \(device {_DISK}\)"),
    _pattern("io-error", "XFS (", rf"XFS \({_DISK}\): .{{0,40}}(?:I/O error|[Cc]orruption|[Ss]hutting down)"),
    _pattern("io-error", "read-only", rf"\({_DISK}\): Remounting filesystem read-only"),
    _pattern("io-error", "nvme", r"nvme (?P<device>nvme\d{1,4}): I/O .{0,60}timeout"),
    _pattern(
        "network",
        "mlx",
        rf"mlx[45]_(?:core|ib) {_PCI}(?: \w{{1,15}})?: .{{0,80}}?",
        r"(?:[Ee]rror|[Ff]ail|timeout|fatal|health|syndrome|unhealthy|(?i:link down))",
    ),
    _pattern("network", "infiniband ", r"infiniband (?P<device>[a-z]\w{2,20}): .{0,120}",
             r"(?:error|fail|timeout|fatal|dump_cqe)"),
    _pattern("network", "nvidia-peermem", r"nvidia-peermem .{0,80}ERROR"),
    _pattern("other", "has not responded", rf"CIFS:? VFS:.{{0,20}}?(?:Server |\\\\){_SERVER} has not responded"),
    _pattern("other", "was lost", rf"Lustre: .{{0,80}}: Connection to {_SERVER} .{{0,60}}was lost"),
    _pattern("other", "ptlrpc_expire_one_request", r"Request sent has (?:timed out|failed)"),
    _pattern("other", "LustreError: ", r"LustreError: .{0,200}(?:timed out|evicted|[Cc]onnection .{0,60}lost|",
             r"rc = -1(?:07|08|10|12|13)\b)"),
    _pattern("other", "beegfs: ", r"beegfs: .{0,160}(?:[Cc]ommunication error|[Rr]eceive timed out|[Rr]etrying|",
             r"unreachable|[Cc]onnect failed)"),
    _pattern("other", "mmfs", r"mmfs: .{0,120}(?:panic|lost|expel|unmount|[Ww]aiting)"),
    _pattern("other", "libceph: ", r"libceph: (?P<name>(?:mds|osd|mon)\d{1,6}) .{0,80}",
             r"(?:socket closed|socket error|down|connect error|session lost)"),
    _pattern("other", "NFS: ", r"NFS: (?:state manager|nfs4_discover_server_trunking|_{0,2}nfs4_reclaim).{0,120}",
             r"(?:failed|error|unhandled)"),
    _pattern("other", "CIFS", r"CIFS: .{0,60}(?:has not responded|Send error|reconnect|No task to wake|mount failed)"),
    _pattern("other", "9pnet", r"9pnet.{0,60}(?:timed out|[Rr]equest .{0,20}(?:hung|wait))"),
    _pattern("other", "ceph: ", r"ceph: (?P<name>(?:mds|osd|mon)\d{1,6}) .{0,80}(?:hung|down|socket closed|lost)"),
    _pattern("other", "Kernel panic", r"Kernel panic - not syncing"),
    _pattern("other", "BUG: ", r"^BUG: (?:unable to handle|kernel NULL|Bad page|scheduling while atomic)"),
)  # fmt: skip
ANSWERS = (
    re.compile(rf"(?:nfs\d?|lockd): server {_SERVER} OK"),
    re.compile(rf"Lustre: .{{0,80}}: Connection restored to {_SERVER}"),
)
