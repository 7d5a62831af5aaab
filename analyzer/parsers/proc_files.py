"""Files below /proc/PID that were shown with cat: status, limits, syscall, wchan, cgroup; /proc/meminfo.

status names its process itself; of the others the prompt above does, or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flatline.bundle.facts import Cgroup, Host, Limit, Process, Thread, process_id, thread_id
from flatline.texts.proc_files import limit_of, parse_kilobytes, parse_last_pid, parse_signals
from flatline.texts.syscalls import decode

from .interface import HOST, NO_PID, Line, Lines, Parsed, Parser
from .process_rows import state_of
from .prompts import command_before, command_in
from .spans import next_shown

_STATUS_NAMES = (
    "Name|Umask|State|Tgid|Ngid|Pid|PPid|TracerPid|Uid|Gid|FDSize|Groups|NStgid|NSpid|NSpgid|NSsid|Kthread|Vm[A-Za-z]{2,4}|"
    "Rss[A-Z][a-z]{2,4}|HugetlbPages|CoreDumping|THP_enabled|untag_mask|Threads|SigQ|SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt|"
    "Cap[A-Z][a-z]{2}|NoNewPrivs|Seccomp(?:_filters)?|Speculation[A-Za-z_]{1,40}|Cpus_allowed(?:_list)?|"
    "Mems_allowed(?:_list)?|voluntary_ctxt_switches|nonvoluntary_ctxt_switches|x86_Thread_features(?:_locked)?"
)
_OF_FILE = r"/proc/(?P<pid>\d{1,9})(?:/task/(?P<tid>\d{1,9}))?/status:"
"""What grep puts before the lines of several files."""
_STATUS = re.compile(rf"(?:{_OF_FILE})?(?P<name>{_STATUS_NAMES}):[\t ]*(?P<value>.{{0,4000}})$")
_STATE = r"State:\s+[RSDTtZXI] \([a-z -]{2,20}\)$"
_STATUS_BEGINS = re.compile(rf"{_OF_FILE}(?:{_STATE}|[A-Z]\w{{2,30}}:\s)|Name:\s+\S|{_STATE}|Tgid:\s+\d+$")
_LIMITS_HEAD = re.compile(r"Limit\s+Soft Limit\s+Hard Limit\s+Units$")
_LIMIT_ROW = re.compile(r"Max [a-z][a-z ]{3,22}?\s+(?:unlimited|\d{1,20})\s+(?:unlimited|\d{1,20})(?:\s+[a-z]{2,12})?$")
_SYSCALL = re.compile(r"(?:\d{1,4} (?:0x[0-9a-f]{1,16} ){7}0x[0-9a-f]{1,16}|-1 0x[0-9a-f]{1,16} 0x[0-9a-f]{1,16})$")
_MEMINFO = re.compile(r"(?P<name>[A-Z][A-Za-z_()0-9]{2,24}): {1,20}(?P<value>\d{1,15})(?: kB)?$")
_EVENTS = re.compile(
    r"(?P<name>low|high|max|oom|oom_kill|oom_group_kill|usage_usec|user_usec|system_usec|nr_periods|nr_throttled|nr_bursts|"
    r"burst_usec|throttled_usec|throttled_time) (?P<value>\d{1,20})$"
)
_AARCH64 = 0x8000_0000_0000
"""A program of x86_64 has no addresses from here on; one of aarch64 has its stack above."""


def parse_status(lines: Lines, start: int) -> Parsed | None:
    """/proc/PID/status or that of one thread; of several files one after the other, as grep shows them."""
    begins = _STATUS_BEGINS.match(lines[start].bare)
    if not begins:
        return None
    fields, end = _fields(lines, start, _STATUS)
    shown = command_before(lines, start)
    pid = _number(fields.get("Tgid") or fields.get("Pid") or begins["pid"]) or (shown.pid if shown else None) or NO_PID
    if not fields or (not begins["pid"] and ("State" not in fields or len(fields) < 2)):
        return None
    tid = _number(fields.get("Pid") or begins["tid"]) or pid
    return Parsed(end, tuple(_of_status(fields, pid, tid, lines[start])), about=f"status of pid {pid}" if pid else "")


def _of_status(fields: dict[str, str], pid: int, tid: int, line: Line) -> list[Any]:
    state = state_of(fields.get("State", ""))
    uid = fields.get("Uid", "").split()
    parent, tracer = _number(fields.get("PPid")), _number(fields.get("TracerPid"))
    pending = _signals(fields.get("ShdPnd"), fields.get("SigPnd"))
    name = fields.get("Name") or None
    thread = Thread(
        thread_id(pid, tid, HOST), process_id(pid, HOST), pid, tid, ns_tid=parse_last_pid(fields.get("NSpid")),
        name=name if tid != pid else None, is_main=tid == pid, state=state, line=line.number,
    )  # fmt: skip
    process = Process(
        process_id(pid, HOST), HOST, pid, ns_pid=parse_last_pid(fields.get("NStgid")), ppid=parent,
        uid=int(uid[0]) if uid and uid[0].isdecimal() else None, name=name if tid == pid else None,
        state=state if tid == pid else "unknown", tracer_pid=tracer, sig_pending=pending,
        sig_caught=_signals(fields.get("SigCgt")), sig_ignored=_signals(fields.get("SigIgn")),
        rss=parse_kilobytes(fields.get("VmRSS")), swap=parse_kilobytes(fields.get("VmSwap")),
        threads_total=_number(fields.get("Threads")),
        is_python=name.startswith("python") if name and tid == pid else None, line=line.number,
    )  # fmt: skip
    return [process, thread]


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 19 else None


def _signals(*masks: str | None) -> tuple[int, ...] | None:
    known = [mask for mask in masks if mask and re.fullmatch(r"[0-9a-f]{1,32}", mask)]
    return tuple(sorted({signal for mask in known for signal in parse_signals(mask)})) if known else None


def parse_limits(lines: Lines, start: int) -> Parsed | None:
    """/proc/PID/limits, with or without its headline."""
    whose = process_id(_shown_pid(lines, start), HOST)
    rows: list[Limit] = []
    end = start
    for index in range(start, len(lines)):
        bare = lines[index].bare
        limit = limit_of(bare) if _LIMIT_ROW.match(bare) else None
        if limit is not None:
            rows.append(Limit(whose, limit.name.lower(), limit.soft, limit.hard, unlimited=limit.soft is None,
                              line=lines[index].number))  # fmt: skip
        elif bare and not (index == start and _LIMITS_HEAD.match(bare)):
            break
        if bare:
            end = index + 1
    return Parsed(end, tuple(rows), about=f"{len(rows)} limits") if rows else None


def parse_syscall(lines: Lines, start: int) -> Parsed | None:
    """/proc/PID/syscall: one line of numbers."""
    text = lines[start].bare
    machine = "aarch64" if int(text.split()[-1], 16) >= _AARCH64 else "x86_64"
    call = decode(text, machine)
    if call is None:
        return None
    thread = _shown_thread(lines, start, state="S", syscall=call)
    return Parsed(start + 1, (thread,), about=call.name)


def parse_wchan(lines: Lines, start: int) -> Parsed | None:
    """The prompt with ``cat /proc/PID/wchan``, and the one word below it."""
    command = command_in(lines[start].bare)
    at = next_shown(lines, start)
    if command is None or command.file != "wchan" or at is None or command.pid is None:
        return None
    # The file ends without a newline: the next prompt follows in the same line.
    prompt = lines[start].bare.partition("cat /proc/")[0].removesuffix("sudo ").strip()
    word = re.fullmatch(r"([A-Za-z_][\w.]{1,63}|0)", lines[at].bare.removesuffix(prompt))
    if word is None:
        return None
    thread = _shown_thread(lines, at, wchan=word[1])
    return Parsed(at + 1, (thread,), about=f"wchan of pid {command.pid}: {word[1]}")


def _shown_pid(lines: Lines, start: int) -> int:
    shown = command_before(lines, start)
    return (shown.pid if shown else None) or NO_PID


def _shown_thread(lines: Lines, start: int, **fields: Any) -> Thread:
    """The thread whose file it is, as the prompt above says."""
    shown = command_before(lines, start)
    pid = (shown.pid if shown else None) or NO_PID
    tid = (shown.tid if shown else None) or pid
    return Thread(thread_id(pid, tid, HOST), process_id(pid, HOST), pid, tid, is_main=pid == tid,
                  line=lines[start].number, **fields)  # fmt: skip


def parse_meminfo(lines: Lines, start: int) -> Parsed | None:
    """/proc/meminfo."""
    fields, end = _fields(lines, start, _MEMINFO)
    if len(fields) < 2 or "MemFree" not in fields:
        return None
    names = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")
    total, free, swap, unused = (int(fields[name]) * 1024 if name in fields else None for name in names)
    host = Host(HOST, memory_total=total, memory_available=free, swap_total=swap, swap_free=unused,
                line=lines[start].number)  # fmt: skip
    return Parsed(end, (host,))


def parse_events(lines: Lines, start: int) -> Parsed | None:
    """memory.events or cpu.stat of a control group."""
    fields, end = _fields(lines, start, _EVENTS)
    if not {"oom_kill", "nr_throttled"} & fields.keys() or len(fields) < 2:
        return None
    periods, held = int(fields.get("nr_periods", 0)), _number(fields.get("nr_throttled"))
    micro, nano = _number(fields.get("throttled_usec")), _number(fields.get("throttled_time"))
    shown = command_before(lines, start)
    path = shown.paths[0].rpartition("/")[0] if shown and shown.paths else ""
    row = Cgroup(
        process_id(NO_PID, HOST), path, "2" if nano is None else "1",
        memory_at_max=_number(fields.get("max")), memory_oom_kills=_number(fields.get("oom_kill")),
        cpu_throttled_s=micro / 1e6 if micro is not None else nano / 1e9 if nano is not None else None,
        cpu_throttled_share=round(held / periods, 4) if periods and held is not None else None,
        line=lines[start].number,
    )  # fmt: skip
    return Parsed(end, (row,))


def _fields(lines: Lines, start: int, pattern: re.Pattern[str]) -> tuple[dict[str, str], int]:
    """``Name: value`` lines from `start`, and where they end."""
    fields: dict[str, str] = {}
    end = start
    for index in range(start, len(lines)):
        bare = lines[index].bare
        found = pattern.match(bare)
        if found is None:
            if bare or index - end > 1:
                break
            continue
        if found["name"] in fields:
            break  # of another one
        fields[found["name"]] = found["value"].strip()
        end = index + 1
    return fields, end


_TABLE: tuple[tuple[str, re.Pattern[str], Callable[[Lines, int], Parsed | None]], ...] = (
    ("proc-wchan", re.compile(r".{0,400}\bcat /proc/\d{1,9}/(?:task/\d{1,9}/)?wchan"), parse_wchan),
    ("proc-status", _STATUS_BEGINS, parse_status),
    ("proc-limits", re.compile(f"{_LIMITS_HEAD.pattern}|{_LIMIT_ROW.pattern}"), parse_limits),
    ("proc-syscall", _SYSCALL, parse_syscall),
    ("proc-meminfo", re.compile(r"MemTotal: {1,20}\d{3,15} kB$"), parse_meminfo),
    ("cgroup-counters", re.compile(r"(?:low|nr_periods|high|max|usage_usec) \d{1,20}$"), parse_events),
)  # fmt: skip
PARSERS = tuple(Parser(kind, begins, parse) for kind, begins, parse in _TABLE)
