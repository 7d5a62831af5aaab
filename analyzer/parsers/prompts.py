"""The prompt of a shell with the command that was typed: it names what the lines below it are.

``$ nvidia-smi``, ``root@node7:/w# cat /proc/12/wchan``, ``[ann@node7 ~]$ ps aux``. The parsers of texts that do not say
themselves whose they are ask `command_before`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .interface import Lines, Parsed, Parser

_TOOLS = (
    r"cat|sudo|ps|top|pstree|lsof|ss|netstat|strace|dmesg|journalctl|df|free|ulimit|ls|stat|mount|findmnt|uptime|id|"
    r"squeue|systemctl|scontrol|sacct|sinfo|kubectl|ray|docker|podman|nvidia-smi|rocm-smi|amd-smi|npu-smi|py-spy|gdb|pip|pip3|uv|"
    r"conda|"
    r"env|printenv|export|fuser|lslocks|pgrep|pidof|ibstatus|ibv_devinfo|ip|ifconfig|route|iptables|sqlite3|qstat|"
    r"bjobs|condor_q|python|python3|torchrun|accelerate|deepspeed|nvcc|ldd|uname|lscpu|lspci|ibstat|head|tail|grep|"
    r"for|kill|jobs|fg|bg|nohup|srun|sbatch|mpirun|bash|sh|pystack|eu-stack|pstack|du|quota|lfs|ipcs|numactl"
)
_HERE = r"(?:\([\w .-]{1,60}\) ?){0,2}"
"""``(venv)``."""
_WHERE = (
    rf"{_HERE}(?:\[[\w.-]{{1,64}}@[\w.-]{{1,255}} [^\]]{{1,200}}\]"
    r"|[\w.-]{1,64}@[\w.-]{1,255}(?::[^\s$#%>]{0,400})?)"
    r" ?[$#%>❯]|(?:bash|sh|zsh)-[\d.]{1,6}[$#]"
)
_PROMPT = re.compile(
    rf"(?:{_WHERE}) (?P<command>\S.{{0,4000}})$|{_HERE}[$❯➜] (?P<plain>[A-Za-z./_~(].{{0,4000}})$"
    rf"|{_HERE}[#+%] (?P<typed>(?:{_TOOLS})(?: .{{0,4000}})?)$"
)
_OPTIONS_END = re.compile(r"^(?:sudo(?: -\w+)*|time|timeout(?: -(?:k ?\S+|s ?\w+|-\S+))* \S+|watch(?: -n ?\d+)?) ")
_FILE = re.compile(r"(?:^|\s)(?P<path>/(?:proc|sys)/[^\s|;&>*]{1,300})")
_PROC = re.compile(r"/proc/(?P<pid>\d{1,9}|self)(?:/task/(?P<tid>\d{1,9}))?/(?P<file>[\w/]{1,40})$")


@dataclass(frozen=True)
class Command:
    """What was typed."""

    text: str
    """Without sudo and what else stands before the program."""
    paths: tuple[str, ...] = ()
    """The files below /proc and /sys that it shows."""

    @property
    def pid(self) -> int | None:
        """Of the process whose file below /proc it shows."""
        found = _PROC.search(self.paths[0]) if self.paths else None
        return int(found["pid"]) if found and found["pid"] != "self" else None

    @property
    def tid(self) -> int | None:
        """Of the one thread, where it shows its file."""
        found = _PROC.search(self.paths[0]) if self.paths else None
        return int(found["tid"]) if found and found["tid"] else None

    @property
    def file(self) -> str:
        """``status`` of /proc/12/status, ``memory.max`` of a control group; empty when it shows none."""
        return self.paths[0].rpartition("/")[2] if self.paths else ""


def command_in(text: str) -> Command | None:
    """The command of a line that is a prompt."""
    found = _PROMPT.match(text)
    if found is None:
        return None
    typed = _OPTIONS_END.sub("", found["command"] or found["plain"] or found["typed"])
    return Command(typed, tuple(m["path"].rstrip(",:)") for m in _FILE.finditer(typed)))


def command_before(lines: Lines, start: int) -> Command | None:
    """The command whose output begins at `start`: the line above it is a prompt, blank ones in between aside."""
    index = start - 1
    while index >= 0 and start - index <= 2 and not lines[index].bare:
        index -= 1
    return command_in(lines[index].bare) if index >= 0 else None


def parse(lines: Lines, start: int) -> Parsed | None:
    """The line itself."""
    command = command_in(lines[start].bare)
    return Parsed(start + 1, about=command.text[:100]) if command else None


BEGINS = re.compile(rf"(?:{_WHERE}) \S|{_HERE}[$❯➜] [A-Za-z./_~(]|{_HERE}[#+%] (?:{_TOOLS})(?: |$)")
"""How a line with a prompt begins."""
PARSERS = (Parser("prompt", BEGINS, parse),)
