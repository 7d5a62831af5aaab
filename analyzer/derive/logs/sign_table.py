"""What single lines of a log mean for the question whether the job is stuck. The first pattern that fits decides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

SignKind = Literal[
    "interrupted",
    "timed-out",
    "stalled",
    "ended",
    "peer-gone",
    "joined",
    "waits",
    "joining",
    "not-given",
    "fallback",
    "trouble",
]
"""What a line says.

* ``interrupted``: somebody ended it from outside, as one does with what is stuck.
* ``timed-out``: it, or a watchdog, says that it has waited in vain.
* ``stalled``: it says again and again that something does not come.
* ``ended``: the error or signal that a process ends with.
* ``peer-gone``: the other end has closed the connection.
* ``joined``, ``joining``: all ranks have come; a rank says that it joins the others.
* ``waits``: it says that it waits or tries again.
* ``not-given``: it refuses its arguments.
* ``fallback``: it runs on the CPU.
* ``trouble``: an error is reported, and not that anything ended.
"""


@dataclass(frozen=True)
class SignPattern:
    """One kind of line."""

    kind: SignKind
    what: str
    """What it means, after "…": the line."""
    pattern: re.Pattern[str]


def _sign(kind: SignKind, what: str, *patterns: str) -> SignPattern:
    """Patterns that begin with (?i) do not care about case."""
    parts = (f"(?i:{p[4:]})" if p.startswith("(?i)") else f"(?:{p})" for p in patterns)
    return SignPattern(kind, what, re.compile("|".join(parts)))


WATCHDOG_ENDED = "its watchdog has ended it"
INTERRUPTS_ITSELF = "OpenBLAS could not start its threads, and interrupts the program"

SIGNS: tuple[SignPattern, ...] = (
    # --- ended from outside ---
    _sign(
        "interrupted",
        "it was interrupted",
        r"^(?:\^C)*KeyboardInterrupt\b",
        r"\^C\s*$",
        r"\^CTraceback",
        r"SignalException: ",
        r"death signal, shutting down",
        r"[Rr]eceived (?:SIGINT|SIGTERM|signal (?:2|15)\b)",
        r"^Terminated$",
        r"(?i)interrupted by user",
    ),
    _sign("interrupted", "the scheduler ended it at its time limit", r"DUE TO TIME LIMIT"),
    _sign("ended", "the scheduler took its nodes away", r"(?i)due to preemption"),
    _sign(
        "interrupted",
        "it was interrupted at its exit, where it waited for a thread",
        r"Exception ignored in: <module 'threading'",
    ),
    # --- waited in vain ---
    _sign(
        "ended",
        "it gave up waiting, and ended",
        r"^(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*(?:Error|Exception|Timeout): "
        r"(?!.*(?:Watchdog caught|collective operation timeout|Timed out waiting \d+ ?ms|[Rr]etrying|[Ww]ill retry))"
        r".*(?:[Tt]imed? ?out|TIMED? ?OUT|[Dd]eadlock|DEADLINE|[Ww]aiting|[Cc]onnect)",
        r"monitoredBarrier",
    ),
    _sign("ended", WATCHDOG_ENDED, r"Terminating the process after attempting to dump debug info"),
    _sign(
        "timed-out",
        "a collective was waited for until its time-out",
        r"collective operation timeout",
        r"Timeout at (?:NCCL|collective|XCCL|HCCL) work",
        r"(?:failure|timeout\)) detected by watchdog at work",
        r"Timed out waiting \d+ ?ms for (?:recv|send|wait)",
        r"waitForInput: .{0,300}timed out after \d+ ?ms",
        r"Not all ranks joining collective",
        r"[Hh]eartbeat monitor timed out",
        r"NCCL operations have failed or timed out",
        r"(?:HCCL|hccl).*timeout",
        r"Barrier timed out",
        r"DEADLINE_EXCEEDED.*[Bb]arrier",
    ),
    _sign(
        "timed-out",
        "a watchdog says that nothing gets on",
        r"watchdog got stuck for",
        r"(?i)\b(?:made|making|makes) no progress",
        r"(?i)no progress (?:for|in|since)\b",
        r"(?i)(?:appears?|seems?|is) (?:to be )?(?:hung|stuck|deadlocked)\b",
        r"(?i)\b(?:hang|deadlock|stall) detected",
        r"^Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!",
    ),
    # --- one rank for all ---
    _sign(
        "joined",
        "all ranks have joined",
        r"All distributed processes registered",
        r"\bInit COMPLETE\b",
        r"Connected all (?:rings|trees)",
        r"Rendezvous complete",
        r"Completed store-based barrier",
        r"Network error resolved",
        r"has been allocated resources",
    ),
    # --- it says that it waits ---
    _sign("stalled", "ranks wait for others that have not come", r"submitted to be reduced", r"[Mm]issing [Rr]anks"),
    _sign(
        "waits",
        "it waits for a lock",
        r"(?i)waiting to acquire (?:the )?lock",
        r"(?i)lock file exists",
        r"(?i)another process is (?:holding|using)",
        r"(?i)waiting for .{0,80}\block\b",
    ),
    _sign(
        "waits",
        "it waits for resources",
        r"(?i)waiting for creating a placement group",
        r"\bQOS\w+|\(Resources\)|\(Priority\)",
        r"(?i)no available node types? can fulfill",
        r"^Number of trials: \d{1,9}(?:/\d{1,9})? \(\d{1,9} PENDING\)",
        r"(?i)\bpending (?:tasks?|placement|demands?|resources?|actors?)",
        r"(?i)cannot be scheduled|queued and waiting for resources|insufficient (?:nvidia|resources|cpu|memory|gpu)",
        r"(?i)waiting for (?:a free |free )?gpus?\b|will try again to get a gpu",
    ),
    _sign("waits", "what its container needs does not come", r"MountVolume\.SetUp failed", r"Failed to pull image"),
    _sign(
        "waits",
        "the ranks' rendezvous does not answer",
        r"failed to send a keep-alive heartbeat",
        r"client socket has timed out",
        r"trying to connect to \(",
        r"RendezvousConnectionError",
        r"[Cc]lient socket (?:has failed to connect|will attempt to connect|is attempting to connect)",
    ),
    _sign(
        "waits",
        "a connection cannot be made",
        r"connect\(\) to \S+ failed",
        r"(?i)^(?!.*NCCL WARN).*\bno route to host\b",
        r"btl: ?tcp: attempting to connect\(\) to",
        r"received unexpected process identifier",
        r"Known IPs of peer:",
        r"This attempted connection will be ignored",
    ),
    _sign(
        "waits",
        "it tries again and again",
        r"(?i)\bentering retry loop",
        r"(?i)\bretrying (?:in|after|again|request to|\()",
        r"(?i)\bretry connect to\b",
        r"(?i)\bwill retry\b",
        r"(?i)\bretrying error\b|\bfailed[;,] retrying\b",
        r"(?i)\bretry(?:ing)? ?(?:attempt )?\d+ ?(?:/|of)",
        r"(?i)\b(?:again|retry) in \d",
        r"(?i)retrying\.{2,}",
        r"(?i)reconnecting",
    ),
    _sign(
        "waits",
        "it says that it waits",
        r"(?i)(?<!timed out )\b(?:still |now |are |is )?waiting (?:\d+ \w+ )?(?:for|on|to|until)\b"
        r"(?! application startup)(?!.{0,40}\btimed out)",
        r"(?i)wait(?:ing)? in store based barrier",
    ),
    # --- it ended ---
    _sign(
        "ended",
        "a signal ended a process",
        r"Fatal Python error: ",
        r"Segmentation fault",
        r"\(core dumped\)",
        r"^Aborted$",
        r"[Bb]us error",
        r"^Killed$|: Killed$|: +\d+ Killed\b",
        r"terminate called (?:after|without)",
        r"in the fork\(\) child process\. Crashing instead",
        r"Terminating: fork\(\) called from a process",
        r"^\s*Reason: +OOMKilled",
        r"Process received signal",
        r"exited on signal \d",
        r"(?:is|was|been) killed by signal",
        r"exitcode ?: ?-[1-9]",
        r"Signal \d+ \(SIG\w+\) received by PID",
        r"exit code 1(?:3[2-9]|4[0-9])\b",
        r"(?i)\boom[-_ ]kill",
        r"abruptly (?:died|terminated)|terminated abruptly",
        r"(?i)\b(?:worker|actor|process|task)\b.{0,40}\b(?:died|crashed) (?:unexpectedly|with)",
    ),
    _sign("ended", INTERRUPTS_ITSELF, r"blas_thread_init: pthread_create failed"),
    _sign(
        "ended",
        "a process ended with an error",
        r"exitcode ?: ?[1-9]",
        r"ChildFailedError",
        r"[Ee]xited with exit code [1-9]",
        r"MPI_ABORT was invoked|MPI_Abort|MPI_INIT has failed",
        r"returned non-zero exit status",
        r"exits with return code = -?[1-9]",
        r"finished with exit code -?[1-9]",
        r"Terminating process because the JAX distributed service",
        r"\bexit(?:ed)?(?: with)?(?: (?:code|status))+:? [1-9]",
        r"CANCELLED AT \S+ DUE TO NODE FAILURE|: error: Node failure on",
        r"^F\d{4} \d\d:\d\d:\d\d",
        r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: F \S",
        r"Check failure stack trace",
        r"CalledProcessError",
    ),
    _sign(
        "ended",
        "the ranks' collectives did not fit each other",
        r"Detected mismatch between collectives",
        r"MISMATCH\b.*[Cc]ulprit",
        r"[Mm]ismatched collective",
    ),
    _sign(
        "ended",
        "the device refused",
        r"CUDA out of memory",
        r"OMP: Error #\d",
        r"\bCUDA error: ",
        r"HIP error: ",
        r"CUDNN_STATUS_|CUBLAS_STATUS_",
        r"Error 802: system not yet initialized",
        r"device-side assert",
        r"(?:unhandled (?:cuda|system)|internal|remote process) error.{0,20}NCCL",
        r"ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError",
    ),
    _sign(
        "peer-gone", "the other end has closed the connection", r"NCCL WARN .*(?:closed by remote peer|reset by peer)"
    ),
    _sign(
        "ended",
        "a call of NCCL failed",
        r"NCCL WARN (?!.*(?:(?:[Ff]ailed to|[Cc]ould not) (?:open|find|load)|Got async event))"
        r".*(?:[Ff]ail(?:ed|ure)|[Ee]rror\b|Duplicate GPU|[Nn]o (?:usable|(?:socket )?interface|space left)|unsupported"
        r"|[Mm]ismatch|Got completion (?:from|with))",
    ),
    _sign(
        "ended", "the port is taken", r"server socket has failed to listen", r"(?:EADDRINUSE|[Aa]ddress already in use)"
    ),
    _sign(
        "ended",
        "an error ended it",
        r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Failure|Timeout|Expired|NotFound|Abort)\b(?:: |:$|$)",
        r"^(?:\w+ )?ERROR (?:[\d: .,-]+ ?\[?[\w./]+:\d+\] )? *(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b: ",
        r"\bException in worker \w+ while processing method",
        r"^\[?ERROR\]?:? Uncaught exception",
    ),
    _sign(
        "not-given",
        "it refuses what it was given",
        r"^usage: ",
        r"error: (?:the following arguments|unrecognized arguments|argument )",
        r"(?i)please (?:verify|check|specify|provide|set)\b",
        r"(?i)\bno (?:data|images?|files?|samples?|checkpoint)s? (?:was |were )?found",
        r"(?i)^(?!(?:ls|cat|stat|grep|head|tail|find|du|df|wc|readlink): ).*: No such file or directory$",
        r"(?i): (?:command|file|model|module|path) not found",
    ),
    # --- it runs, but not as asked ---
    _sign(
        "joining",
        "ranks are still joining",
        r"(?i)initializing (?:distributed|ddp|process[_ ]group|torch distributed|parallel)",
        r"(?i)(?<!call )\binit_process_group\b",
        r"(?i)distributed init \(rank",
        r"Rank \d+/\d+ (?:joining|connecting)",
        r"[Cc]lient socket has connected to",
        r"(?i)\bjoining (?:the )?(?:rendezvous|group|cluster)",
    ),
    _sign(
        "fallback",
        "it runs on the CPU",
        r"(?i)reports CUDA not available",
        r"(?i)\btorch(?: version:?)? v?\d[\w.]*\+cpu",
        r"(?i)fall(?:ing|s)? ?back (?:to|on) (?:the )?cpu",
        r"(?i)accelerator to CPU",
        r"(?i)GPU will not be used",
        r"(?i)CUDA is not available",
        r"(?i)\bno (?:cuda )?(?:capable )?gpus? (?:(?:is|are|was|were) )?(?:available|found|detected)",
        r"(?i)\b(?:running|training|executing) on (?:the )?cpu\b",
        r"(?i)\busing (?:the )?(?:device:? ?)?cpu\b(?! offload)",
        r"(?i)\bdevices? ?[:=] ?['\"]?cpu\b",
        r"GPU available: \w+(?: \(\w+\))?, used: False",
        r"(?i)gpu not (?:found|available|detected)",
        r"FP16 is not supported on CPU",
        r"Skipping registering GPU devices|Cannot dlopen some GPU libraries",
        r"\boffloaded 0/\d+ layers to GPU",
    ),
    _sign(
        "trouble",
        "it reports an error",
        r"^E\d{4} \d\d:\d\d:\d\d",
        r"NCCL WARN .*Got async event",
        r"^\[?(?:\w+\]? )?ERROR\b",
        r"(?:^|\s)\[?ERROR\]?[: ]",
        r"Error: E[A-Z]+:",
    ),
)
"""In the order in which they are tried."""

TELLING = (
    "interrupt", "^c", "signal", "termina", "time limit", "preempt", "exception", "timeout", "timed", "watchdog",
    "barrier", "heartbeat", "progress", "hung", "stuck", "deadlock", "hang ", "stall",
    "registered", "complete", "connect", "missing", "submitted", "lock", "process is", "waiting", "qos", "(resources)",
    "(priority)", "node type", "pending", "schedul", "insufficient", "gpu", "keep-alive", "socket", "rendezvous",
    "route", "retry", "again", "fatal", "segmentation", "abort", "bus error", "killed", "exit", "received", "oom",
    "abruptly", "died", "crash", "fail", "mpi_", "check ", "mismatch", "cuda", "hip error", "cudnn", "cublas", "assert",
    "nccl", "hccl", "port", "address", "error", "expired", "notfound", "usage:", "please", "found", "no such", "init",
    "rank", "joining", "cpu", "accelerator", "stop", "identifier", "known ips", "fork()", "offloaded",
    "core dumped", "allocated",
)  # fmt: skip
"""A line without any of these, in lower case, is no sign: looked for first, as most lines of a log are none."""
GLOG = re.compile(r"[EF]\d{4} \d\d:")
"""The beginning of an error or a fatal error as Google's logging writes it."""

KERNEL = re.compile(
    r"(?:<\d{1,3}>)?\[ *\d{1,9}\.\d{3,9}\] |\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "
    r"|.{0,80}\bkernel: |.{0,80}NVRM: "
)
"""The beginning of a line of the kernel's log: what it says is about the machine, not about the job."""

OF_AN_ERROR = re.compile(
    r"\s{2,}|Traceback \(|[=*~^-]{5,}|During handling of|The above exception"
    r"|\S{1,80} FAILED\s*$|Failures:|Root Cause|\[\d+\]:"
    r"|frame #\d+:|\s*@ +0x|<NO_OTHER_FAILURES>|\s*(?:time|host|rank|exitcode|error_file|traceback|msg) *: "
    r"|[WEF]\d{4} \d\d:\d\d|srun: |slurmstepd|\[[EWF]\d{3,4} |Exception (?:raised from|ignored)|C\+\+ CapturedTraceback"
)
"""The beginning of a line that belongs to an error which is told above or below it."""

OF_A_PART = re.compile(
    r"Exception (?:raised )?in thread\b|Thread \w+:$|--- Logging error ---|Process \S{1,60}-\d+(?::\d+)*:$"
    r"|(?:.{0,80}\W)?(?:(?:Task|Future) exception was never retrieved|exception calling callback <Future"
    r"|Exception in (?:callback|ASGI application)\b|Exception on \S{1,80} \[[A-Z]{3,7}\]|ERROR[: -]+asyncio\b"
    r"|asyncio\W{1,4}ERROR\b|[Tt]rial \S{1,40} (?:failed|errored)\b)"
)
"""The beginning of a line that says whose the error below it is: a thread's, a task's, a request's, a child's of
multiprocessing, a trial's of a search. The process at hand lives on."""

WARNS = re.compile(r".{0,200}\b(?:[A-Z]\w*Warning: |WARNING\b|[Tt]rial \S{1,40} (?:failed|errored)\b)")
"""What such a line quotes of an error has not ended anything."""

PROMPT = re.compile(
    r"(?i)(?:\[y(?:es)?/n(?:o)?\]|\(y(?:es)?/n(?:o)?(?:/[^)]{1,40})?\)"
    r"|\(\[y(?:es)?\]/n(?:o)?\)|\(y(?:es)?/\[n(?:o)?\]\))[?:]?\s*\S?$"
    r"|(?:password|passphrase|passcode|username|verification code|api key|access token)\b.{0,160}:\s*$"
    r"|\b(?:enter|type|choose|select|paste) (?:your |an? |the )?\w[^:]{0,60}[:?]\s*$"
    r"|^\(?i?pdb(?:\+\+)?[)>] ?$|^>>> ?$|\bpress (?:any key|enter|return)\b[^:]{0,30}$"
    r"|\b(?:continue|proceed|overwrite)\? *(?:[\[(].{0,12}[\])])?:? *$"
)
"""The end of a question to a person."""
