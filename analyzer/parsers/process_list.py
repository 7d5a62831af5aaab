"""Lists of processes: ps in all its formats, and what top prints.

The headline names the columns; where a filter took it away, the command above does (``ps -eo pid,stat,cmd | grep D``).
Without both the rows are known by their shape, in the formats that people paste: those of
``ps aux``, ``ps -ef``, ``ps -eLf`` and top, and a column of numbers beside a drawn tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flatline.bundle.facts import Host, Process, Thread, ToolRun, process_id

from .columns import split_row
from .interface import HOST, LOOKAHEAD, Line, Lines, Parsed, Parser
from .process_rows import Listed, listed, state_of
from .prompts import command_before, command_in
from .spans import next_shown

_WORDS = (
    r"USER|UID|PID|TGID|PPID|PGID|PGRP|SID|SESS|TPGID|LWP|SPID|TID|NLWP|THCNT|C|%CPU|CPU|%MEM|MEM|VSZ|RSS|RSZ|SZ|SIZE|"
    r"TTY|TT|STAT|STATE|S|START|STARTED|STIME|LSTART|TIME|TIME\+|ELAPSED|COMMAND|CMD|ARGS|WCHAN|F|PRI|PR|NI|ADDR|CLS|RTPRIO|"
    r"PSR|P|GROUP|CGROUP|EUSER|RUSER|EUID|RUID|EGID|GID|LABEL|VIRT|RES|SHR|SWAP|DATA|CODE|UNIT|MACHINE|nFLT|nDRT"
)
_HEAD = re.compile(
    r"(?=(?:\S+\s+){0,24}(?:PID|LWP|TID|SPID)\b)(?=.*\b(?:CMD|COMMAND|ARGS|STAT|WCHAN|TTY)\b)"
    rf"(?:(?:{_WORDS})\s+){{1,30}}(?:{_WORDS})$"
)
_STATE = r"[RSDTtZXIW][<NLsl+]{0,5}"
_TTY = r"(?:\?|-|pts/\d{1,6}|tty\w{0,6}|console|hvc\d|:\d{1,3})"
_TIME = r"(?:\d{1,6}-)?(?:\d{1,5}:)?\d{1,6}:\d\d(?:\.\d\d)?"
_START = r"(?:\d\d:\d\d(?::\d\d)?|[A-Z][a-z]{2} ?\d{1,2}|[A-Z][a-z]{2}\d\d|\d{4})"
_NUMBER, _SHARE, _CLOCK = r"\d{1,10}", r"\d{1,6}(?:[.,]\d)?", r"(?:\d{1,6}-)?\d\d:\d\d:\d\d"
_SIZE = r"[\d.,]{1,15}[kmgtp]?"
_WCHAN = r"[a-z_]{2,30}_[a-z0-9_.]{2,40}"
_SHAPES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("USER", "PID", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "STAT", "START", "TIME", "COMMAND"),
        rf"\S{{1,40}}\s+{_NUMBER}\s+{_SHARE}\s+{_SHARE}\s+\d{{1,15}}\s+\d{{1,15}}\s+{_TTY}\s+{_STATE}\s+{_START}\s+"
        rf"{_TIME}\s+\S",
    ),
    (
        ("UID", "PID", "PPID", "LWP", "C", "NLWP", "STIME", "TTY", "TIME", "CMD"),
        rf"\S{{1,40}}\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+\d{{1,3}}\s+\d{{1,6}}\s+{_START}\s+{_TTY}\s+{_CLOCK}\s+\S",
    ),
    (
        ("UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"),
        rf"\S{{1,40}}\s+{_NUMBER}\s+{_NUMBER}\s+\d{{1,3}}\s+{_START}\s+{_TTY}\s+{_CLOCK}\s+\S",
    ),
    (
        ("PID", "USER", "PR", "NI", "VIRT", "RES", "SHR", "S", "%CPU", "%MEM", "TIME+", "COMMAND"),
        rf"{_NUMBER}\s+\S{{1,40}}\s+(?:rt|-?\d{{1,3}})\s+-?\d{{1,3}}\s+{_SIZE}\s+{_SIZE}\s+{_SIZE}\s+[RSDTtZXI]\s+{_SHARE}\s+"
        rf"{_SHARE}\s+{_TIME}\s+\S",
    ),
    (
        ("PID", "TTY", "STAT", "TIME", "COMMAND"),
        rf"{_NUMBER}\s+{_TTY}\s+{_STATE}\s+{_TIME}\s+\S",
    ),
    (
        ("PID", "TTY", "TIME", "CMD"),
        rf"{_NUMBER}\s+(?:pts/\d{{1,6}}|tty\w{{1,6}})\s+{_CLOCK}\s+\S",
    ),
    (
        ("PID", "STAT", "WCHAN", "COMMAND"),
        rf"{_NUMBER}\s+{_STATE}\s+{_WCHAN}\s+\S",
    ),
    (
        ("STAT", "PID", "WCHAN", "COMMAND"),
        rf"{_STATE}\s+{_NUMBER}\s+{_WCHAN}\s+\S",
    ),
    (
        ("STAT", "PID", "PPID", "COMMAND"),
        rf"{_STATE}\s+{_NUMBER}\s+{_NUMBER}\s+(?:/|\[[\w/:.-]{{1,30}}\]$)",
    ),
    (
        ("PID", "PPID", "STAT", "COMMAND", "WCHAN"),
        rf"{_NUMBER}\s+{_NUMBER}\s+{_STATE}\s+\S{{1,40}}\s+(?:[a-z_][\w.]{{2,40}}|-|0)$",
    ),
    (
        ("PID", "COMMAND"),
        rf"{_NUMBER}\s+[| ]{{0,200}}\\_ \S",
    ),
)  # fmt: skip
"""Rows without their headline: the columns, and how such a row begins."""
_ROWS = tuple((columns, re.compile(pattern)) for columns, pattern in _SHAPES)
_KEYWORDS = {
    "s": "S", "state": "S", "stat": "STAT", "cmd": "CMD", "args": "ARGS", "command": "COMMAND", "comm": "COMMAND",
    "ucmd": "COMMAND", "ucomm": "COMMAND", "pid": "PID", "ppid": "PPID", "tgid": "TGID", "pgid": "PGID", "pgrp": "PGID",
    "sid": "SID", "sess": "SID", "session": "SID", "tpgid": "TPGID", "lwp": "LWP", "tid": "TID", "spid": "SPID",
    "nlwp": "NLWP", "thcount": "NLWP", "user": "USER", "uname": "USER", "euser": "EUSER", "ruser": "RUSER",
    "uid": "UID", "euid": "EUID", "wchan": "WCHAN", "pcpu": "%CPU", "%cpu": "%CPU", "c": "C", "cp": "CPU",
    "pmem": "%MEM", "%mem": "%MEM", "rss": "RSS", "rssize": "RSS", "rsz": "RSZ", "vsz": "VSZ", "vsize": "VSZ",
    "tty": "TTY", "tt": "TT", "tname": "TTY", "etime": "ELAPSED", "etimes": "TIME+", "time": "TIME", "cputime": "TIME",
    "start": "STARTED", "start_time": "START", "stime": "STIME", "bsdstart": "START", "lstart": "LSTART",
    "psr": "PSR", "ni": "NI", "nice": "NI", "pri": "PRI", "cls": "CLS", "f": "F", "flags": "F", "cgroup": "CGROUP",
}  # fmt: skip
"""What ``ps -o`` calls a column -> its headline."""
_FORMAT = re.compile(
    r"\s(?:-?[a-zA-Z]*o|--format)[ =]?['\"]?(?P<format>[a-z%][a-z%_]*[=:,][\w%:,= -]{0,300}?)['\"]?(?=\s*[|;>]|\s+-|$)"
)
_OF_ONE = re.compile(
    r"ps(?=\s)(?!.*[|;]).{0,80}?(?:\s-{0,2}p(?:id)?[= ]?|\s-\w{0,4}p ?|\s)(?P<pid>\d{1,9})(?:\s+-\w.{0,60})?$"
)
"""``ps`` of one process by its number."""
_COUNT = re.compile(r"^ps\s(?:.{0,60}\s)?-o ?nlwp=?(?:\s|$)")
_TOP = re.compile(r"top - \d\d:\d\d:\d\d up .{1,60}load average: \d")
_SUMMARY = re.compile(r"(?:Tasks|Threads|%?Cpu\(s\)|%Cpu\d+ ?|[KMGTP]iB (?:Mem|Swap)|Mem|Swap) ?:")
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}
_FIGURES = re.compile(r"(?P<number>\d{1,15}(?:[.,]\d{1,3})?)[k+]* (?P<name>total|free|used|buff/cache|avail Mem)")


@dataclass
class _List:
    """What was read so far."""

    processes: dict[str, Process] = field(default_factory=dict)
    threads: dict[str, Thread] = field(default_factory=dict)
    above: list[tuple[int, int]] = field(default_factory=list)
    """Of a drawn tree: (depth, pid) of the lines that the next one may stand below."""
    host: Host | None = None
    last: Process | None = None
    threaded: set[str] = field(default_factory=set)
    single: set[str] = field(default_factory=set)
    """With and without the letter l of STAT."""

    def add(self, found: Listed) -> None:
        process = found.process
        if found.has_threads is not None:
            (self.threaded if found.has_threads else self.single).add(process.id)
        if found.depth is not None and process.ppid is None:
            process = replace(process, ppid=self._parent(found.depth, process.pid))
        elif process.ppid is None:
            self.above = [(0, process.pid)]
        known = self.processes.get(process.id)
        if known is None or (found.thread.is_main and found.is_thread):
            self.processes[process.id] = process
        self.threads[found.thread.id] = found.thread
        self.last = process

    def add_thread_states(self, text: str) -> None:
        """``ps m`` has a line for every thread below its process, with no number: the first is the main thread's."""
        letters = next((word for word in text.split()[6:9] if re.fullmatch(_STATE, word)), "")
        state = state_of(letters)
        if state == "unknown" or self.last is None or self.last.state != "unknown":
            return
        main = next(iter(t for t in self.threads.values() if t.process == self.last.id))
        self.last = replace(self.last, state=state)
        self.processes[self.last.id] = self.last
        self.threads[main.id] = replace(main, state=state)

    def _parent(self, depth: int, pid: int) -> int | None:
        self.above = [(d, p) for d, p in self.above if d < depth]
        parent = self.above[-1][1] if self.above else None
        self.above.append((depth, pid))
        return parent

    def rows(self) -> Iterator[Process]:
        """Where one has the letter of several threads, those without it have one."""
        for process in self.processes.values():
            alone = self.threaded and process.id in self.single and process.threads_total is None
            yield replace(process, threads_total=1) if alone else process


def parse_ps(lines: Lines, start: int) -> Parsed | None:
    """A list with its headline, or rows that are unmistakable without one."""
    head = lines[start].bare
    if _HEAD.match(head):
        return _below_head(lines, start, _List()) or _nobody(lines, start)
    for columns, pattern in _ROWS:
        if pattern.match(head):
            return _without_head(lines, start, columns, pattern)
    return None


def _nobody(lines: Lines, start: int) -> Parsed:
    """A headline alone: where one process was asked for, it is not there."""
    command = command_before(lines, start)
    asked = _OF_ONE.match(command.text) if command else None
    if asked is None:
        return Parsed(start + 1, about="0 processes")
    said = f"there is no process {asked['pid']}"
    return Parsed(start + 1, (ToolRun("ps", "error", message=said, line=lines[start].number),), about=said)


def parse_asked(lines: Lines, start: int) -> Parsed | None:
    """The prompt with ``ps -o FORMAT``, and rows below it that have lost their headline."""
    command = command_in(lines[start].bare)
    if command is not None and _COUNT.search(command.text):
        return _count_of(lines, start + 1, command.text)
    asked = _FORMAT.search(command.text) if command and re.match(r"(?:watch .{0,20})?ps\b", command.text) else None
    if command is None or asked is None:
        return None
    words = [word.partition(":")[0].rstrip("=") for word in re.split(r"[, ]", asked["format"]) if word]
    columns = tuple(_KEYWORDS.get(word, word.upper()) for word in words)
    first = next_shown(lines, start, within=3)
    if first is None or not {"PID", "LWP", "TID"} & set(columns) or _HEAD.match(lines[first].bare):
        return None
    return _rows_of(lines, first, columns, lambda bare: _row_of(bare, columns))


def _count_of(lines: Lines, first: int, command: str) -> Parsed | None:
    """The one number that ``ps -o nlwp= -p PID`` gives, with or without its headline."""
    asked = re.search(r"(?:-p ?|--pid[ =]| )(\d{1,9})\b", command)
    at = first + (first < len(lines) and lines[first].bare == "NLWP")
    if asked is None or at >= len(lines) or not re.fullmatch(r"\d{1,6}", lines[at].bare):
        return None
    pid, count = int(asked[1]), int(lines[at].bare)
    row = Process(process_id(pid, HOST), HOST, pid, threads_total=count, line=lines[at].number)
    return Parsed(at + 1, (row,), about=f"{count} threads of pid {pid}")


def _row_of(bare: str, columns: tuple[str, ...]) -> Mapping[str, str] | None:
    row = split_row(bare, columns)
    return row if row is not None and _fits(row) and row.get("PID", "0").isdecimal() else None


def parse_top(lines: Lines, start: int) -> Parsed | None:
    """The summary, then the list; of several rounds (``-n 3``) the last one counts."""
    found = _List(host=_host(lines[start].bare, lines[start]))
    at = start + 1
    while at < len(lines) and at - start < LOOKAHEAD:
        bare = lines[at].bare
        if _SUMMARY.match(bare):
            found.host = _with_memory(found.host, bare)
        elif _HEAD.match(bare):
            return _below_head(lines, at, found)
        elif bare:
            break
        at += 1
    return Parsed(at, (found.host,) if found.host else ()) if at > start + 1 else None


def _below_head(lines: Lines, head_at: int, found: _List) -> Parsed | None:
    columns, head, end = tuple(lines[head_at].bare.split()), lines[head_at].bare, head_at + 1
    indent = len(lines[head_at].text) - len(lines[head_at].text.lstrip())
    for index in range(head_at + 1, len(lines)):
        line = lines[index]
        if not line.bare:
            if index - end > 1:
                break
            continue
        row = None if _HEAD.match(line.bare) else split_row(line.text[min(indent, _indent(line)) :], columns, head)
        if row is None or not _fits(row):
            break
        if row.get("PID") == "-":
            found.add_thread_states(line.bare)
        elif entry := listed(row, line):
            found.add(entry)
        end = index + 1
    if end == head_at + 1 and found.host is None:
        return None
    return _parsed(end, found, whole="PPID" in columns or "USER" in columns or "UID" in columns)


def _indent(line: Line) -> int:
    return len(line.text) - len(line.text.lstrip())


def _fits(row: Mapping[str, str]) -> bool:
    """Whether the fields are what their columns say."""
    checks: Sequence[tuple[str, Callable[[str], bool]]] = (
        ("PID", lambda text: text.isdecimal() or text == "-"),
        ("PPID", str.isdecimal),
        ("LWP", lambda text: text.isdecimal() or text == "-"),
        ("TID", str.isdecimal),
        ("STAT", lambda text: bool(re.fullmatch(rf"{_STATE}|-", text))),
        ("S", lambda text: bool(re.fullmatch(r"[RSDTtZXIWP-]", text))),
        ("%CPU", lambda text: bool(re.fullmatch(r"\d{1,6}(?:[.,]\d)?|-", text))),
    )
    return all(check(row[name]) for name, check in checks if name in row)


def _without_head(lines: Lines, start: int, columns: tuple[str, ...], pattern: re.Pattern[str]) -> Parsed | None:
    parsed = _rows_of(lines, start, columns, lambda bare: split_row(bare, columns) if pattern.match(bare) else None)
    if (
        parsed is not None
        and len(columns) <= 4
        and len({row.pid for row in parsed.rows if isinstance(row, Process)}) < 2
    ):
        return None  # one line of such a shape may be anything
    return parsed


def _rows_of(
    lines: Lines, start: int, columns: tuple[str, ...], row_of: Callable[[str], Mapping[str, str] | None]
) -> Parsed | None:
    found, end = _List(), start
    for index in range(start, len(lines)):
        bare = lines[index].bare
        if not bare:
            continue
        row = row_of(bare)
        entry = listed(row, lines[index]) if row is not None else None
        if entry is None or index - end > 2:
            break
        found.add(entry)
        end = index + 1
    return _parsed(end, found, whole=False) if found.processes else None


def _parsed(end: int, found: _List, *, whole: bool) -> Parsed:
    seen = {process.pid for process in found.processes.values()}
    collected = frozenset({"processes"}) if whole and (1 in seen or 2 in seen) and len(seen) > 2 else frozenset()
    rows = (*([found.host] if found.host else ()), *found.rows(), *found.threads.values())
    threads = f", {len(found.threads)} threads" if len(found.threads) > len(found.processes) else ""
    return Parsed(end, rows, collected, f"{len(found.processes)} processes{threads}")


def _host(text: str, line: Line) -> Host:
    load = re.search(r"load average: (\d{1,6}[.,]\d\d)", text)
    return Host(HOST, load_1m=float(load[1].replace(",", ".")) if load else None, line=line.number)


def _with_memory(host: Host | None, text: str) -> Host | None:
    what = text.partition(":")[0].rstrip()
    if not what.endswith(("Mem", "Swap")):
        return host
    unit = _UNITS.get(text[0], 1024)
    figures = {f["name"]: int(float(f["number"].replace(",", ".")) * unit) for f in _FIGURES.finditer(text)}
    if host is None or not figures:
        return host
    if what.endswith("Mem"):
        return replace(host, memory_total=figures.get("total"))
    return replace(host, swap_total=figures.get("total"), swap_free=figures.get("free"),
                   memory_available=figures.get("avail Mem"))  # fmt: skip


_BEGINS = re.compile(f"{_HEAD.pattern}|" + "|".join(pattern for _, pattern in _SHAPES))
PARSERS = (
    Parser("top", _TOP, parse_top),
    Parser("ps", _BEGINS, parse_ps),
    Parser("ps", re.compile(r".{0,400}\bps\s.{0,200}[-a-z]o[ =]?['\"]?[a-z%]"), parse_asked),
)
