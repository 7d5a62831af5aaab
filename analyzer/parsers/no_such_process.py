"""Commands that look for a process and find none: that nothing is printed is the answer.

$ pgrep -af train.py
$ ps aux | grep 22133
ann      30111  0.0  0.0   6432   720 pts/0    S+   10:06   0:00 grep --color=auto 22133
$ ls /proc/811
ls: cannot access '/proc/811': No such file or directory
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatline.bundle.facts import ToolRun

from .interface import LOOKAHEAD, Lines, Parsed, Parser
from .prompts import BEGINS, command_in
from .spans import next_shown

_NAME = r"""(?:-\S{1,30}\s+){0,6}['"]?(?P<%s>[^'"|;&<>\s-][^'"|;&<>]{0,200}?)['"]?\s*"""
_WITHOUT = r"""(?:\|\s*e?grep\s+-v\s+['"]?[^|;'"]{1,60}['"]?\s*){0,3}"""
_ASKS = re.compile(
    rf"(?P<tool>pgrep|pidof)\s+{_NAME % 'name'}$|ps\s[^|;]{{0,100}}{_WITHOUT}\|\s*e?grep\s+{_NAME % 'part'}{_WITHOUT}$"
)
_BARE_PROMPT = re.compile(r"(?:\S{0,80}[@:~\])]\S{0,80} ?)?[$#%❯]$")
_OWN_ROW = re.compile(r".{0,200}\s\d{1,9}\s.{0,200}\b(?:e?grep)\s+\S")
"""What ps shows of the grep behind it."""
_REFUSED = re.compile(
    r"(?:ls: cannot access|cat:|tail:|head:) ?['‘\"]?/proc/(?P<pid>\d{1,9})(?:/\w{1,30})?['’\"]?:"
    r" No such file or directory"
    r"|.{0,40}\bkill: (?:\((?P<number>\d{1,9})\)|sending signal to (?P<target>\d{1,9}) failed:|(?P<alone>\d{1,9}):)"
    r" ?-? ?[Nn]o such process"
)


def parse_asked(lines: Lines, start: int) -> Parsed | None:
    """The prompt alone: what follows, if anything, has a parser of its own."""
    command = command_in(lines[start].bare)
    asked = _ASKS.match(command.text) if command else None
    if asked is None or not (_prints_nothing(lines, start) if asked["tool"] else _finds_itself(lines, start)):
        return None
    said = f"there is no process {asked['name'] or asked['part']}"
    run = ToolRun(asked["tool"] or "ps", "error", message=said, line=lines[start].number)
    return Parsed(start + 1, (run,), about=said)


def _prints_nothing(lines: Lines, start: int) -> bool:
    """Whether the next prompt follows. At the end of a paste the answer may have been left out."""
    below = next_shown(lines, start, within=3)
    return below is not None and bool(command_in(lines[below].bare) or _BARE_PROMPT.match(lines[below].bare))


def _finds_itself(lines: Lines, start: int) -> bool:
    """Whether there is the row of grep and no other."""
    own = 0
    for bare in _printed(lines, start):
        if not _OWN_ROW.match(bare):
            return False
        own += 1
    return own == 1 or (own == 0 and _prints_nothing(lines, start))


def _printed(lines: Lines, start: int) -> Iterator[str]:
    for index in range(start + 1, min(start + LOOKAHEAD, len(lines))):
        bare = lines[index].bare
        if not bare or command_in(bare) or _BARE_PROMPT.match(bare):
            return
        yield bare


def parse_refused(lines: Lines, start: int) -> Parsed | None:
    """The files of a process that is not there; a signal to it."""
    found = _REFUSED.match(lines[start].bare)
    if found is None:
        return None
    said = f"there is no process {found['pid'] or found['number'] or found['target'] or found['alone']}"
    return Parsed(start + 1, (ToolRun("kill", "error", message=said, line=lines[start].number),), about=said)


PARSERS = (
    Parser("no-such-process", re.compile(rf"(?={BEGINS.pattern}).{{0,400}}\b(?:pgrep|pidof|grep)\b"), parse_asked),
    Parser("no-such-process", _REFUSED, parse_refused, is_log=True),
)
