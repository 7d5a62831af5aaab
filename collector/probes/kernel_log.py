"""The tail of the kernel's log, and the events in it that can explain a hang."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace

from flatline.texts import kernel_events

from .. import tools
from ..linux import access, kernel_log
from ..linux.procfs import Unread, text_of
from .interface import Artefact, Facts, Gap, Item, Run, View

MEMBER = "raw/kernel-log.txt"
MOST_LINES = 5_000
MOST_BYTES = 2 << 20
MOST_EVENTS = 500
_TOOL_S = 1.5
_TOOLS = (
    ("dmesg",),
    ("journalctl", "-k", "-n", str(MOST_LINES), "-o", "short-monotonic", "--no-pager", "-q"),
)  # fmt: skip
"""dmesg(1) may have rights of its own, and the journal can be open to a group (adm, systemd-journal)."""


class KernelLog:
    """The tail of the kernel's log: lost GPUs, kills for memory, hung tasks, silent servers, faults of disks."""

    name = "kernel-log"
    tables = ("kernel_events",)
    limit_s = 5.0
    spans_window = False
    reads = ("the kernel's log: syslog(2), else /dev/kmsg",)
    runs = tuple(Run(shlex.join(argv), _TOOL_S, "where the kernel refuses its log") for argv in _TOOLS)

    def gather(self, view: View) -> Iterator[Item]:
        text = read()
        if isinstance(text, Unread):
            yield Gap(text.reason, f"the kernel's log could not be read: {text.detail}", hint(), tables=self.tables)
            return
        kept, omitted = kernel_log.tail(text, MOST_LINES, MOST_BYTES)
        cut = ((0, omitted),) if omitted else ()
        yield Artefact(MEMBER, kept, original_path=kernel_log.DEVICE, truncated=cut)
        found = kernel_events.events(kept, boot_s=time.time() - time.monotonic())
        rows = [replace(event, artefact=MEMBER) for event in found[-MOST_EVENTS:]]
        yield Facts("facts/kernel-log.json", {"kernel_events": rows})
        if len(rows) < len(found):
            yield Gap("partial", f"the last {MOST_EVENTS} of {len(found)} events are rows", tables=self.tables)


def read() -> str | Unread:
    """The log by the first way that is permitted. What is answered when none is: why the kernel itself refused."""
    refused = kernel_log.read_buffer()
    if not isinstance(refused, Unread):
        return refused
    text = kernel_log.read_device()
    if not isinstance(text, Unread):
        return text
    for argv in _TOOLS:
        printed = _printed(argv)
        if printed:
            return printed
    return refused if refused.reason == "denied" else text


def _printed(argv: tuple[str, ...]) -> str:
    program = tools.find_tool(argv[0])
    if program is None:
        return ""
    output = tools.run([program, *argv[1:]], limit_s=_TOOL_S)
    return text_of(output.stdout) if output.outcome in ("ok", "flooded", "timeout") else ""


def hint() -> str:
    """The line that would open the log to us."""
    if os.geteuid() == 0 and not access.has_capability(kernel_log.CAP_SYSLOG):
        return "start the container with --cap-add SYSLOG, or run dmesg on the host"
    if os.geteuid() == 0:
        return "run dmesg on the host: the kernel refuses even root here"
    return "run it with sudo, or on the host: sudo sysctl kernel.dmesg_restrict=0"
