"""``lsof``: the open files of processes, in the columns COMMAND PID [TID] USER FD TYPE DEVICE SIZE/OFF NODE NAME."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from flatline.bundle.facts import Fd, FdKind, Process, Socket, process_id
from flatline.texts.descriptor_links import kind_of_printed

from .interface import HOST, Line, Lines, Parsed, Parser, any_of
from .process_rows import named

_HEAD = re.compile(r"COMMAND\s+PID\s+(?:TID\s+(?:TASKCMD\s+)?)?(?:USER\s+)?FD\s+TYPE\s+DEVICE\s+")
_FD = r"(?:cwd|rtd|txt|mem|DEL|NOFD|ltx|err|mmap|pd|\d{1,7}[rwu-]?[NrRwWuUx ]?)"
_TYPE = r"(?:REG|DIR|CHR|BLK|FIFO|IPv4|IPv6|unix|sock|a_inode|LINK|netlink|unknown|inet|pack|DEL|PIPE|0{4}|raw6?)"
_ROW = re.compile(
    rf"(?P<command>\S{{1,64}})\s+(?P<pid>\d{{1,9}})\s+(?:(?P<tid>\d{{1,9}})\s+(?:\S{{1,16}}\s+)?)?"
    rf"(?P<user>[\w.+@⟪·⟫-]{{1,32}})\s+"
    rf"(?P<fd>{_FD})\s+(?P<type>{_TYPE})(?P<rest>\s.*|$)"
)
_PLACE = re.compile(
    r"\s+(?P<device>\d{1,5},\d{1,9})\s+(?:(?P<size>(?:0t)?\d{1,20}|0x[0-9a-f]{1,16})\s+)?"
    r"(?P<node>\d{1,20})\s+(?P<name>\S.*)$"
)
_NET = re.compile(
    r"\s+(?P<inode>\d{1,18})\s+0t0\s+(?P<proto>TCP|UDP|UDPLITE)\s+(?P<local>[^\s>-]\S*?)(?:->(?P<remote>\S+))?"
    r"(?:\s+\((?P<state>\w+)\))?$"
)
_UNIX = re.compile(r"\s+0x[0-9a-f]{1,16}\s+0t0\s+(?P<inode>\d{1,18})\s+(?P<name>\S.*)$")
_MODES: dict[str, Literal["read", "write", "both"]] = {"r": "read", "w": "write", "u": "both"}
_KINDS: dict[str, FdKind] = {"REG": "file", "DIR": "directory", "FIFO": "pipe", "BLK": "device", "IPv4": "socket",
                             "IPv6": "socket", "unix": "socket", "sock": "socket", "netlink": "socket"}  # fmt: skip


_ASIDE = re.compile(r"lsof: WARNING|Output information may be incomplete|\S{1,64}\s+\d{1,9}\s.{0,60}\sNOFD\s")
"""What it prints between the rows; of a process whose descriptors it may not see."""


@dataclass
class _Open:
    processes: dict[int, Process] = field(default_factory=dict)
    rows: list[Any] = field(default_factory=list)


def parse(lines: Lines, start: int) -> Parsed | None:
    """Rows, with or without the headline."""
    found, count = _Open(), 0
    begun = end = start + bool(_HEAD.match(lines[start].bare))
    for index in range(begun, len(lines)):
        bare = lines[index].bare
        row = _ROW.match(bare)
        if row is None:
            if bare and not _ASIDE.match(bare):
                break
            continue
        _add(found, row, lines[index])
        count += 1
        end = index + 1
    if not count:
        return None
    return Parsed(
        end, (*found.processes.values(), *found.rows), about=f"{count} files of {len(found.processes)} processes"
    )


def _add(found: _Open, row: re.Match[str], line: Line) -> None:
    pid, descriptor = int(row["pid"]), row["fd"].strip()
    user = row["user"]
    process = found.processes.get(pid) or Process(
        process_id(pid, HOST), HOST, pid, uid=int(user) if user.isdecimal() else None,
        user=None if user.isdecimal() else user, name=named(row["command"].replace("\\x20", " "))[0],
        is_python=True if row["command"].startswith("python") else None, line=line.number,
    )  # fmt: skip
    place = _PLACE.match(row["rest"])
    path = place["name"].removesuffix(" (deleted)") if place else None
    if descriptor == "cwd":
        process = replace(process, cwd=path)
    elif descriptor == "txt" and process.exe is None:
        process = replace(process, exe=path)
    found.processes[pid] = process
    if descriptor[:1].isdecimal() and row["tid"] is None:
        found.rows += _descriptor(row, process.id, line)


def _descriptor(row: re.Match[str], process: str, line: Line) -> list[Any]:
    number = re.match(r"\d+", row["fd"])
    fd = Fd(process, int(number[0]) if number else -1, _KINDS.get(row["type"], "unknown"), line=line.number)
    mode = _MODES.get(row["fd"].strip().lstrip("0123456789")[:1])
    fd = replace(fd, mode=mode) if mode else fd
    net, unix, place = _NET.match(row["rest"]), _UNIX.match(row["rest"]), _PLACE.match(row["rest"])
    if net and row["type"] in ("IPv4", "IPv6"):
        inode = int(net["inode"])
        family: Literal["inet", "inet6"] = "inet" if row["type"] == "IPv4" else "inet6"
        socket = Socket(inode, family, "stream" if net["proto"] == "TCP" else "dgram",
                        state=net["state"], local=net["local"], remote=net["remote"], line=line.number)  # fmt: skip
        return [replace(fd, path=f"socket:[{inode}]", inode=inode), socket]
    if unix and row["type"] == "unix":
        inode = int(unix["inode"])
        return [replace(fd, path=f"socket:[{inode}]", inode=inode), Socket(inode, "unix", line=line.number)]
    if place is None:
        return [fd]
    return [_placed(fd, row["type"], place)]


def _placed(fd: Fd, kind: str, place: re.Match[str]) -> Fd:
    name, node = place["name"], int(place["node"])
    deleted = name.endswith(" (deleted)")
    name = name.removesuffix(" (deleted)")
    device = place["device"].replace(",", ":")
    if kind == "FIFO":
        pipe = name.startswith("pipe")
        return replace(fd, kind="pipe" if pipe else "fifo", path=f"pipe:[{node}]" if pipe else name, inode=node)
    if kind == "CHR":
        kind_of_it = kind_of_printed(name)
        return replace(fd, kind=kind_of_it if kind_of_it in ("tty", "null") else "device", path=name, inode=node)
    if kind == "a_inode":
        link = f"anon_inode:[{name.strip('[]').partition(':')[0]}]"
        return replace(fd, kind=kind_of_printed(link), path=link)
    return replace(fd, path=name, inode=node, device=device, deleted=deleted)


PARSERS = (Parser("lsof", any_of(_HEAD, _ROW), parse),)
