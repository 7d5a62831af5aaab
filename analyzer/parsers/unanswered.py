"""Commands that did not come back, as a shell shows them: what was typed, and below it nothing but ``^C``, the status
of timeout(1), or the remark of who typed it.

$ timeout 30 nvidia-smi; echo $?
124
"""

from __future__ import annotations

import re

from flatline.bundle.facts import GpuDriver, GpuVendor, ToolRun

from .interface import HOST, Lines, Parsed, Parser
from .prompts import BEGINS, command_in

_VENDORS: dict[str, GpuVendor] = {
    "nvidia-smi": "nvidia", "nvtop": "nvidia", "nvitop": "nvidia", "gpustat": "nvidia", "dcgmi": "nvidia",
    "nvidia-debugdump": "nvidia", "nvidia-persistenced": "nvidia", "nvidia-bug-report.sh": "nvidia",
    "rocm-smi": "amd", "amd-smi": "amd", "rocminfo": "amd", "npu-smi": "huawei", "xpu-smi": "intel", "hl-smi": "habana",
}  # fmt: skip
_FILE_TOOLS = frozenset(
    {"ls", "ll", "df", "stat", "cd", "touch", "du", "mount", "umount", "sync", "fusermount", "mountpoint"}
)
"""They ask a file system, and nothing else."""
_WITHOUT_PATH = frozenset({"df", "mount", "sync"})
_PATH = re.compile(r"(?:^|\s)['\"]?(?P<path>/(?!proc/|sys/|dev/)[^\s;|&'\"]{1,400})")
_ECHOES = ("^C", "^Z", "^\\")
_INTERRUPTED = re.compile(r"(?:\^[CZ\\]\s*)+(?:\[\d+\]\+?\s+Stopped\b.*|Killed|Terminated)?$")
_STATUS = re.compile(
    r"(?:(?:rc|exit(?:ed)?(?: with)?(?: code| status)?|status|returned)\s*[:=]?\s*)?(?:124|137)$|Terminated$|Killed$"
)
_SAID = (
    r"(?:just |simply |still )?(?:hangs?|hung|hanging|never returns?|never comes back|"
    r"does(?: not|n't) (?:return|come back|respond)|"
    r"no output|no response|blocks?|blocked|freezes|frozen|(?:is |gets )?stuck|nothing happens|waits? forever)\b"
)
_REMARK = re.compile(rf"\s(?:#|<-+|//|->|=>|\.\.\.|\(|\[)\s*\(?(?:it |this )?{_SAID}.{{0,80}}$", re.IGNORECASE)
_REMARK_BELOW = re.compile(rf"[(\[<#.*]{{1,4}}\s*(?:it |this )?{_SAID}.{{0,80}}$", re.IGNORECASE)
_NEAR = 4


def parse(lines: Lines, start: int) -> Parsed | None:
    """The prompt, and what shows that the command was given up."""
    bare = lines[start].bare
    typed = _without_echo(bare)
    remark = _REMARK.search(typed)
    command = command_in(typed[: remark.start()] if remark else typed)
    tool = _tool(command.text) if command else None
    if command is None or tool is None:
        return None
    end = start + 1 if remark or typed != bare else _given_up(lines, start, timed="timeout " in bare)
    if end is None:
        return None
    said = f"{command.text[:120]} did not come back"
    run = ToolRun(tool, "timeout", message=said, line=lines[start].number)
    vendor = _VENDORS.get(tool)
    driver = GpuDriver(HOST, vendor, "hangs", message=said, source=tool, line=lines[start].number) if vendor else None
    return Parsed(end, (run, *([driver] if driver else ())), about=said)


def _without_echo(bare: str) -> str:
    """Without the ``^C`` that a terminal shows behind what was typed, however often the key was hit."""
    end = len(bare)
    while bare.endswith(_ECHOES, 0, end):
        end -= 2
    return bare if end == len(bare) else bare[:end].rstrip()


def _tool(typed: str) -> str | None:
    """The tool that was asked, when all that it does is ask a driver or a file system."""
    words = typed.split()
    tool = words[0].rpartition("/")[2].rstrip(";") if words else ""
    if tool in _VENDORS:
        return tool
    asks = tool in _FILE_TOOLS and (_PATH.search(typed) or tool in _WITHOUT_PATH)
    return tool if asks and "|" not in typed else None


def _given_up(lines: Lines, start: int, *, timed: bool) -> int | None:
    """The index behind the sign that the command printed nothing and was ended."""
    for index in range(start + 1, min(start + 1 + _NEAR, len(lines))):
        bare = lines[index].bare
        if _INTERRUPTED.match(bare) or _REMARK_BELOW.match(bare) or (timed and _STATUS.match(bare)):
            return index + 1
        if bare:
            return None
    return None


PARSERS = (Parser("unanswered-command", BEGINS, parse),)
