"""``py-spy top``: how much time the program spends where. It names no thread, so it says what is busy, not who waits.

Collecting samples from 'python train.py' (python v3.11.7)
Total Samples 300
GIL: 0.00%, Active: 81.00%, Threads: 3

  %Own   %Total  OwnTime  TotalTime  Function (filename)
 27.00%  27.00%   0.810s    0.810s   Condition.wait (threading.py)
"""

from __future__ import annotations

import re
import shlex

from flatline.bundle.facts import Process, process_id

from .interface import HOST, NO_PID, Lines, Parsed, Parser, any_of
from .spans import span

_FROM = re.compile(r"Collecting samples from '(?P<command>.{0,4000})' \(python v(?P<version>\d[\w.+]{0,20})\)$")
_SHARES = re.compile(
    r"GIL: (?P<gil>\d{1,3}\.\d\d)%, Active: (?P<active>\d{1,6}\.\d\d)%(?:, Threads: (?P<threads>\d{1,6}))?"
)
_HEAD = re.compile(r"%Own\s+%Total\s+OwnTime\s+TotalTime\s+Function")
_ROW = re.compile(r"(?P<own>\d{1,6}\.\d\d)%\s+\d{1,6}\.\d\d%\s+\S{1,12}s\s+\S{1,12}s\s+(?P<function>\S.{0,1000})$")
_OWN = any_of(_FROM, _SHARES, _HEAD, _ROW, re.compile(r"Total Samples \d|Press Control-C to quit"))
MAX_BLANKS = 200
"""The rest of the screen."""


def parse(lines: Lines, start: int) -> Parsed | None:
    """One screen, or what is left of it; of several the last one counts."""
    found = span(lines, start, _OWN.match, blanks=MAX_BLANKS)
    texts = [line.bare for line in found.lines]
    if not any(_HEAD.match(text) or _SHARES.match(text) for text in texts):
        return None
    program = next((told for text in texts if (told := _FROM.match(text))), None)
    shares = next((told for text in reversed(texts) if (told := _SHARES.match(text))), None)
    head = max((index for index, text in enumerate(texts) if _HEAD.match(text)), default=len(texts))
    rows = [told for text in texts[head:] if (told := _ROW.match(text))]
    busiest = max(rows, key=lambda row: float(row["own"]), default=None)
    about = [f"GIL {shares['gil']} %, active {shares['active']} %"] if shares else []
    about += [f"{busiest['own']} % in {busiest['function']}"] if busiest else []
    threads = int(shares["threads"]) if shares and shares["threads"] else None
    process = Process(process_id(NO_PID, HOST), HOST, NO_PID, argv=_words(program["command"]) if program else None,
                      python=program["version"] if program else None, is_python=True, threads_total=threads,
                      line=lines[start].number)  # fmt: skip
    return Parsed(found.end, (process,), about=", ".join(about))


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return tuple(command.split())


_BEGINS = re.compile(rf"Collecting samples from '|{_HEAD.pattern}|GIL: \d{{1,3}}\.\d\d%, Active: ")
PARSERS = (Parser("py-spy-top", _BEGINS, parse, is_log=True),)
