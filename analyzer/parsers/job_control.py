"""What a shell says of its jobs: started in the background, stopped, ended. bash, zsh, dash, fish and csh.

^Z
[1]+  Stopped                 python train.py
[1]  + 4242 suspended (tty output)  python train.py
zsh: suspended  python train.py
fish: Job 1, 'python train.py' has stopped
Suspended (tty input)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from flatline.bundle.facts import Process, Thread, process_id, thread_id
from flatline.texts.command_lines import rank_flags, role_of

from .interface import HOST, LOOKAHEAD, NO_PID, Line, Lines, Parsed, Parser, any_of
from .process_rows import named
from .prompts import command_in

_STOPPED = (
    r"[Ss]topped \(tty (?:output|input)\)|[Ss]uspended \(tty (?:output|input)\)|Stopped\(SIG(?:STOP|TSTP|TTIN|TTOU)\)|"
    r"[Ss]topped \((?:signal|SIG(?:STOP|TSTP|TTIN|TTOU))\)|[Ss]uspended \(signal\)|[Ss]topped|[Ss]uspended"
)
_ENDED = (
    r"Killed|killed|Terminated|terminated|Aborted|[Aa]bort|Segmentation fault|segmentation fault|Bus error|bus error|"
    r"Hangup|hangup|Exit -?\d{1,3}|exit -?\d{1,3}|Done(?:\(\d{1,3}\))?|done"
)
_ECHO = r"(?:\^Z)?"
"""What a terminal shows of Ctrl-Z: above what the shell says then, or in front of it."""
_JOB = re.compile(
    rf"{_ECHO}\[(?P<job>\d{{1,4}})\] {{0,3}}[+-]? {{0,3}}(?:(?P<pid>\d{{2,9}}) {{1,3}})?"
    rf"(?P<what>{_STOPPED}|{_ENDED}|Running|running)"
    r"(?: \(core dumped\))?(?: {2,}(?P<command>\S.{0,2000})| *)$"
)
_ALONE = re.compile(
    rf"{_ECHO}(?:zsh: )?(?P<what>[Ss]uspended \((?:tty (?:output|input)|signal)\))"
    r"(?: {1,3}(?P<command>\S.{0,2000}))?$"
)
_ZSH = re.compile(rf"{_ECHO}zsh: (?P<what>suspended) {{1,3}}(?P<command>\S.{{0,2000}})$")
_FISH = re.compile(rf"{_ECHO}fish: Job (?P<job>\d{{1,4}}), '(?P<command>\S.{{0,2000}})' has (?P<what>stopped)$")
_CSH = re.compile(r"(?P<what>Suspended)$")
"""A word like any other, unless Ctrl-Z stands above it."""
_FORMS = (_JOB, _ALONE, _ZSH, _FISH, _CSH)
_NO_MORE = re.compile(
    r"\[(?P<job>\d{1,4})\] {0,3}[+-]? {0,3}(?:\d{2,9} {1,3})?"
    rf"(?:\S.{{0,2000}} &|[Cc]ontinued(?: .{{0,2000}})?|(?:{_ENDED})(?: .{{0,2000}})?)$"
    r"|Send job (?P<of_fish>\d{1,4}) '.{1,2000}' to (?:back|fore)ground$"
)
"""What a shell prints when a stopped job is sent on, as bash's bg, zsh's and fish's do, or ends."""
_SENT_ON = re.compile(r"(?:fg|bg)(?: %?(?P<job>\d{1,4}))?$|(?:p?kill|killall)\b(?! .{0,10}(?:STOP|TSTP))")
_BEGUN = re.compile(r"\[(?P<job>\d{1,4})\] (?P<pid>[1-9]\d{1,6})$")
"""What a shell prints when a job goes to the background."""
MOST_BEGUN = 1000
"""Of one run of lines."""
STOP_NUMBERS = {"STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22}
_BY_WORD = {"tty input": 21, "tty output": 22, "signal": 19}
_OF_A_PERSON = re.compile(
    r"(?:sudo )?(?:\S*/)?(?:vi|n?vim|vimdiff|view|nano|pico|emacs|micro|hx|helix|joe|mcedit|visudo|crontab|less|more"
    r"|most|man|info|tail|head|cat|bat|watch|[bh]?top|atop|iotop|nvtop|nvitop|gpustat|nvidia-smi|rocm-smi|journalctl|dmesg"
    r"|[ef]?grep|rg|find|fzf|git|tig|lazygit|ranger|mc|nnn|ncdu|screen|tmux|ssh-keygen|ping)(?: |$)"
)
"""What somebody edits or looks at things with, beside the job: that it is stopped is no matter of the job's."""
_DEATHS = {"killed": 9, "terminated": 15, "abort": 6, "segmentation fault": 11, "bus error": 7, "hangup": 1}


def parse(lines: Lines, start: int) -> Parsed | None:
    """One line: a shell prints them one at a time, between the output of what runs. Jobs that a loop starts are told
    one below the other."""
    line = lines[start]
    if _BEGUN.match(line.bare):
        return _begun(lines, start)
    found = next((match for form in _FORMS if (match := form.match(line.bare))), None)
    if found is None or (found.re is _CSH and not _is_below_ctrl_z(lines, start)):
        return None
    told = {name: text or "" for name, text in found.groupdict().items()}
    what, job, pid = told["what"], told.get("job", ""), told.get("pid", "")
    state, signal, status = _outcome(what)
    if state == "T" and _is_no_more(job, lines, start + 1):
        state, signal = "unknown", None
    elif state == "T" and signal is None and (_is_told_of(what, pid) or _is_below_ctrl_z(lines, start)):
        signal = STOP_NUMBERS["TSTP"]
    rows = _rows(
        line, _pid_of(job, pid, lines, start), told.get("command", ""), state=state, signal=signal, status=status
    )
    return Parsed(start + 1, tuple(rows), about=what)


def _begun(lines: Lines, start: int) -> Parsed:
    """The jobs of consecutive lines."""
    rows: list[Process] = []
    end = start
    while end < len(lines) and (found := _BEGUN.match(lines[end].bare)):
        if len(rows) < MOST_BEGUN:
            pid = int(found["pid"])
            rows.append(Process(process_id(pid, HOST), HOST, pid, line=lines[end].number))
        end += 1
    count = end - start
    about = f"job {rows[0].pid}" if count == 1 else f"{count} jobs"
    if count > MOST_BEGUN:
        about += f": the first {MOST_BEGUN} are read, the rest is cut off"
    return Parsed(end, tuple(rows), about=about)


def _is_told_of(what: str, pid: str) -> bool:
    """Whether this shell would have named any other signal: zsh and csh do, and `jobs -l`, which shows pids. bash says
    "Stopped" of all."""
    return what.lower() == "suspended" or bool(pid)


def _is_below_ctrl_z(lines: Lines, start: int) -> bool:
    """The echo of Ctrl-Z ends the line above, in front of which a bar may stand, or begins this one."""
    if lines[start].bare.startswith("^Z"):
        return True
    above = next((line.bare for line in reversed(lines[max(0, start - 2) : start]) if line.bare), "")
    return above.endswith("^Z")


def _is_no_more(job: str, lines: Lines, start: int) -> bool:
    """Whether somebody has sent it on since, or has ended it."""
    for line in lines[start : start + LOOKAHEAD]:
        typed = command_in(line.bare)
        sent = _SENT_ON.match(typed.text) if typed else _NO_MORE.match(line.bare)
        if sent is None:
            continue
        number = next((text for text in sent.groupdict().values() if text), "")
        if number == job or not (number and job):
            return True
    return False


def _pid_of(job: str, pid: str, lines: Lines, start: int) -> int:
    """As the line says, or as the shell said when it put the job of that number into the background."""
    if pid:
        return int(pid)
    for line in reversed(lines[max(0, start - LOOKAHEAD) : start]):
        begun = _BEGUN.match(line.bare)
        if begun is not None and begun["job"] == job:
            return int(begun["pid"])
    return NO_PID


def _rows(
    line: Line, pid: int, command: str, *, state: Any, signal: int | None, status: int | None
) -> Iterator[Process | Thread]:
    command = re.sub(r"\s*(?:&|\(wd: .{0,400}\))*\s*$", "", command)
    if _OF_A_PERSON.match(command):
        return
    name, argv = named(command)
    argv = argv or ((command,) if command else None)
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


PARSERS = (Parser("shell-job", any_of(*_FORMS, _BEGUN), parse, is_log=True),)
