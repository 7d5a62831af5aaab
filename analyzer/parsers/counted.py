"""Numbers that a person had counted or shown: how many descriptors a process has open, how many threads a user has, and
the files of a control group.

$ ls /proc/812/fd | wc -l
1021
$ cat /sys/fs/cgroup/pids.current /sys/fs/cgroup/pids.max
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from flatline.bundle.facts import Cgroup, Limit, Process, process_id

from .interface import HOST, NO_PID, Line, Lines, Parsed, Parser
from .prompts import Command, command_in
from .spans import next_shown

_COUNTS = re.compile(r"\|\s*(?:wc(?: -l\b|$)|grep -\w*c)")
_DESCRIPTORS = re.compile(r"/proc/(?P<pid>\d{1,9})/fd\b")
"""Not lsof: it has a line for every mapped file as well."""
_THREADS = re.compile(r"\bps\b.{0,30}(?:\s-?\w*[LTHm]\w*\b|nlwp)|/proc/(?P<pid>\d{1,9})/task\b")
_LONG = re.compile(r"\bls -\w*l")
"""Its first line is a total."""
_NUMBER = re.compile(r"(?P<value>\d{1,15}|max|-1)(?: (?P<second>\d{1,15}))?$")
_SHOWN = re.compile(r"(?:/sys/fs/cgroup/)\S*?(?P<file>[\w.]+):(?P<value>\d{1,15}|max|-1)(?: (?P<second>\d{1,15}))?$")
_HEADED = re.compile(r"==> (?P<path>/sys/fs/cgroup/\S{1,300}) <==$")
_FILES = frozenset({
    "pids.current", "pids.max", "memory.current", "memory.max", "memory.high", "memory.usage_in_bytes",
    "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us",
})  # fmt: skip
_NO_LIMIT = 1 << 60
"""What the first version of control groups shows of a group without a limit, and more."""
_PERIOD = 100_000


def parse_count(lines: Lines, start: int) -> Parsed | None:
    """The prompt, and the number below it."""
    command = command_in(lines[start].bare)
    if command is None or not _COUNTS.search(command.text):
        return None
    at = next_shown(lines, start)
    if at is None or not re.fullmatch(r"\d{1,9}", lines[at].bare):
        return None
    used = int(lines[at].bare)
    opened = _DESCRIPTORS.search(command.text)
    threads = _THREADS.search(command.text)
    if opened:
        row = Limit(process_id(int(opened["pid"]), HOST), "open files", used=used, line=lines[at].number)
    elif threads and not threads["pid"]:
        row = Limit(process_id(NO_PID, HOST), "processes", used=used, line=lines[at].number)
    elif threads:
        pid, total = int(threads["pid"]), used - bool(_LONG.search(command.text))
        process = Process(process_id(pid, HOST), HOST, pid, threads_total=total, line=lines[at].number)
        return Parsed(at + 1, (process,), about=f"{total} threads of pid {pid}")
    else:
        return None
    return Parsed(at + 1, (row,), about=f"{row.name}: {used} in use")


def parse_group(lines: Lines, start: int) -> Parsed | None:
    """Files of a control group, one behind the other, each a number or two."""
    command = command_in(lines[start].bare)
    begun = start + 1 if command else start
    names = [name for path in (command.paths if command else ()) if (name := path.rpartition("/")[2]) in _FILES]
    told: dict[str, tuple[int, int | None]] = {}
    end = begun
    for name, value, index in _values(lines, begun, names):
        told[name], end = value, index + 1
    if not told:
        return None
    return Parsed(end, (_group(told, _folder(command), lines[start]),), about=", ".join(told))


def _values(lines: Lines, begun: int, names: Sequence[str]) -> Iterator[tuple[str, tuple[int, int | None], int]]:
    """(file, what it holds, where that stands)."""
    waiting, headed = list(names), ""
    for index in range(begun, min(len(lines), begun + 3 * len(_FILES))):
        bare = lines[index].bare
        shown, head = _SHOWN.match(bare), _HEADED.match(bare)
        if head:
            headed = head["path"].rpartition("/")[2]
            continue
        found = shown or _NUMBER.match(bare)
        if found is None:
            if bare:
                return
            continue
        name = shown["file"] if shown else headed or (waiting.pop(0) if waiting else "")
        headed = ""
        if name not in _FILES:
            return
        second = found["second"]
        yield name, (-1 if found["value"] == "max" else int(found["value"]), int(second) if second else None), index


def _folder(command: Command | None) -> str:
    return command.paths[0].rpartition("/")[0] if command and command.paths else ""


def _group(told: Mapping[str, tuple[int, int | None]], path: str, line: Line) -> Cgroup:
    def of(*names: str) -> int | None:
        values = [told[name][0] for name in names if name in told]
        return values[0] if values and 0 <= values[0] < _NO_LIMIT else None

    quota, period = told.get("cpu.max") or (of("cpu.cfs_quota_us") or -1, of("cpu.cfs_period_us"))
    row = Cgroup(process_id(NO_PID, HOST), path, "1" if any("_in_bytes" in n or "cfs" in n for n in told) else "2",
                 line=line.number)  # fmt: skip
    return replace(
        row, pids_current=of("pids.current"), pids_max=of("pids.max"), memory_high=of("memory.high"),
        memory_current=of("memory.current", "memory.usage_in_bytes"),
        memory_max=of("memory.max", "memory.limit_in_bytes"),
        cpu_quota=round(quota / (period or _PERIOD), 3) if quota > 0 else None,
    )  # fmt: skip


PARSERS = (
    Parser("counted", re.compile(r".{0,400}(?:/proc/\d{1,9}/(?:fd|task)|\bps\b).{0,400}\|"), parse_count),
    Parser("cgroup-files", re.compile(r".{0,200}/sys/fs/cgroup/"), parse_group),
)
