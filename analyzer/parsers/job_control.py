"""What a shell says of its jobs: started in the background, stopped, ended. bash, zsh, dash and csh.

[1]+  Stopped                 python train.py
[1]  + 4242 suspended (tty output)  python train.py
Suspended (tty input)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from flatline.bundle.facts import Process, Thread, process_id, thread_id
from flatline.texts.command_lines import rank_flags, role_of

from .interface import HOST, LOOKAHEAD, NO_PID, Line, Lines, Parsed, Parser
from .process_rows import named

_STOPPED = (
    r"[Ss]topped \(tty (?:output|input)\)|[Ss]uspended \(tty (?:output|input)\)|Stopped\(SIG(?:STOP|TSTP|TTIN|TTOU)\)|"
    r"[Ss]topped \((?:signal|SIG(?:STOP|TSTP|TTIN|TTOU))\)|[Ss]uspended \(signal\)|[Ss]topped|[Ss]uspended"
)
_ENDED = (
    r"Killed|killed|Terminated|terminated|Aborted|[Aa]bort|Segmentation fault|segmentation fault|Bus error|bus error|"
    r"Hangup|hangup|Exit -?\d{1,3}|exit -?\d{1,3}|Done(?:\(\d{1,3}\))?|done"
)
_JOB = re.compile(
    rf"\[(?P<job>\d{{1,4}})\] {{0,3}}[+-]? {{0,3}}(?:(?P<pid>\d{{2,9}}) {{1,3}})?"
    rf"(?P<what>{_STOPPED}|{_ENDED}|Running|running)"
    r"(?: \(core dumped\))?(?: {2,}(?P<command>\S.{0,2000})| *)$"
)
_ALONE = re.compile(
    r"(?:zsh: )?(?P<what>[Ss]uspended \((?:tty (?:output|input)|signal)\))(?: {1,3}(?P<command>\S.{0,2000}))?$"
)
_BEGUN = re.compile(r"\[(?P<job>\d{1,4})\] (?P<pid>[1-9]\d{1,6})$")
"""What a shell prints when a job goes to the background."""
STOP_NUMBERS = {"STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22}
_BY_WORD = {"tty input": 21, "tty output": 22, "signal": 19}
_DEATHS = {"killed": 9, "terminated": 15, "abort": 6, "segmentation fault": 11, "bus error": 7, "hangup": 1}


def parse(lines: Lines, start: int) -> Parsed | None:
    """One line: a shell prints them one at a time, between the output of what runs."""
    line = lines[start]
    begun = _BEGUN.match(line.bare)
    if begun is not None:
        pid = int(begun["pid"])
        return Parsed(start + 1, (Process(process_id(pid, HOST), HOST, pid, line=line.number),), about=f"job {pid}")
    found = _JOB.match(line.bare) or _ALONE.match(line.bare)
    if found is None:
        return None
    pid = _pid_of(found, lines, start) if found.re is _JOB else NO_PID
    return Parsed(start + 1, tuple(_rows(line, pid, found["what"], found["command"] or "")), about=found["what"])


def _pid_of(found: re.Match[str], lines: Lines, start: int) -> int:
    """As the line says, or as the shell said when it put the job of that number into the background."""
    if found["pid"]:
        return int(found["pid"])
    for line in reversed(lines[max(0, start - LOOKAHEAD) : start]):
        begun = _BEGUN.match(line.bare)
        if begun is not None and begun["job"] == found["job"]:
            return int(begun["pid"])
    return NO_PID


def _rows(line: Line, pid: int, what: str, command: str) -> Iterator[Any]:
    command = re.sub(r"\s*(?:&|\(wd: .{0,400}\))*\s*$", "", command)
    name, argv = named(command)
    argv = argv or ((command,) if command else None)
    state, signal, status = _outcome(what)
    words = argv or ()
    process, thread = process_id(pid, HOST), thread_id(pid, pid, HOST)
    yield Process(process, HOST, pid, name=name, argv=argv, role=role_of(words, name or "") or "unknown",
                  rank=rank_flags(words).get("rank"), is_python=name.startswith("python") if name else None,
                  state=state, stop_signal=signal, exit_status=status, line=line.number)  # fmt: skip
    if state == "T":
        yield Thread(thread, process, pid, pid, is_main=True, state=state, line=line.number)


def _outcome(what: str) -> tuple[Any, int | None, int | None]:
    """State, the signal that stopped it, how it ended."""
    low = what.lower()
    if low.startswith(("stopped", "suspended")):
        named_signal = re.search(r"SIG(\w{4})", what)
        word = re.search(r"\(([a-z ]+)\)", low)
        signal = STOP_NUMBERS[named_signal[1]] if named_signal else _BY_WORD.get(word[1]) if word else None
        return "T", signal, None
    if low == "running":
        return "unknown", None, None
    number = re.search(r"-?\d{1,3}", low)
    death = next((signal for word, signal in _DEATHS.items() if low.startswith(word)), None)
    return "X", None, -death if death else int(number[0]) if number else 0


_BEGINS = re.compile(
    rf"\[\d{{1,4}}\] {{0,3}}[+-]? {{0,3}}(?:\d{{2,9}} {{1,3}})?(?:{_STOPPED}|{_ENDED}|Running|running)"
    rf"|(?:zsh: )?[Ss]uspended \(|{re.sub('P<[a-z]+>', ':', _BEGUN.pattern)}"
)
PARSERS = (Parser("shell-job", _BEGINS, parse, is_log=True),)
