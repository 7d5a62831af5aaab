"""The telling lines of one log in order, and whether it went on after one of them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from flatline.bundle.facts import LoggedError

from ...parsers.interface import Line
from .progress import Progress, progress_of
from .reading import LogText
from .sign_table import (
    GLOG,
    INTERRUPTS_ITSELF,
    KERNEL,
    OF_A_PART,
    OF_AN_ERROR,
    PROMPT,
    SIGNS,
    TELLING,
    WARNS,
    SignKind,
    SignPattern,
)

_CALL = re.compile(
    r'^\s*File "(?P<file>[^"]{1,1000})", line \d+, in (?P<function>\S+)|^(?P<cell>/\S{1,1000}) in (?P<called>\w+)\('
)
"""A frame of a traceback, of Python and of IPython."""
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: |:?$)")
"""What a traceback ends with."""
_OF_WHAT_RUNS = re.compile(
    r"#\d+ |.{0,80}\bpy-bt\b|(?:Current t|T)hread (?:0x|\d)|.{0,80}\(most recent call first\)"
    r"|<Task |.{0,20}\b[Ss]tack (?:for|of) (?:<|thread|task)"
)
"""A line of a debugger's, or of a program's that shows its stacks: the frames beside it are of what runs."""
_ARROW = re.compile(r"-+> ?\d+ (.*)")
_SHAPE = str.maketrans("123456789", "000000000")
_NUMBER_TELLS = re.compile(r"(?i)exit|return|status|signal")
"""Words beside which it is the number that tells."""
_TELLS_INDENTED = re.compile(r"Error|Reason: +OOM")
"""What tells even where a line is deep within another's."""
MAX_SHAPES = 20_000
MAX_TRACEBACK = 60
"""Lines of one that are looked at."""
FRAGMENT = 2
"""Lines of a frame and its code: alone, they may be of any stack."""
MAX_CALLS = 12
MAX_SEARCHED = 2000
"""Characters of a line that are searched."""
PROMPT_LINES = 3
"""Lines from the end among which a question may be the last: a shell or a redraw can follow it."""
LAST_WORDS = 3
"""Lines that may follow what a log says last, and say nothing."""
BEGUN_ANEW = 4
"""Where a bar or counter must have been at least, for half of it or less to be a new beginning."""
CAUGHT_AFTER = 20
"""Ordinary lines after an error from which on the log has gone on."""


@dataclass(frozen=True)
class Sign:
    """One telling line."""

    kind: SignKind
    what: str
    line: Line
    index: int
    """Among the log's lines."""


@dataclass(frozen=True)
class Read:
    """One log, read for signs."""

    text: LogText
    signs: tuple[Sign, ...]
    progress: tuple[tuple[int, Progress], ...] = ()
    """(index of the line, state of a bar) in order."""
    ordinary: tuple[int, ...] = ()
    """Indexes of lines that are no sign and no part of an error: the job's own output."""

    @property
    def size(self) -> int:
        return len(self.text.lines)

    def of(self, *kinds: SignKind) -> list[Sign]:
        """The signs of these kinds, in order."""
        return [sign for sign in self.signs if sign.kind in kinds]

    def plain_after(self, sign: Sign) -> int:
        """How many ordinary lines follow."""
        return len(self.ordinary) - bisect_right(self.ordinary, sign.index)

    @cached_property
    def last_advance(self) -> int:
        """Index of the last line at which a bar or counter was beyond where it had been; -1: none ever was.

        A step's line is written when it is done; a bar is also drawn again where it stands, when an error closes it.
        One that falls far back was begun anew; those of several ranks stand near each other.
        """
        furthest: dict[tuple[str, float | None], float] = {}
        last = -1
        for index, state in self.progress:
            key = state.label, state.total
            before = furthest.get(key, state.done if state.is_bar else 0)
            if state.done > before:
                last = index
            begun_anew = before >= BEGUN_ANEW and state.done < before / 2
            furthest[key] = state.done if begun_anew else max(state.done, before)
        return last

    def is_last_word(self, sign: Sign) -> bool:
        """Whether the log says nothing more after it that matters."""
        return sign is self.signs[-1] and self.plain_after(sign) <= LAST_WORDS

    def goes_on_after(self, sign: Sign) -> bool:
        """Whether the job got on after that line: a bar or counter beyond where it was, or many ordinary lines."""
        if self.last_advance > sign.index:
            return True
        last = next(s for s in reversed(self.signs) if s.kind == sign.kind)
        return self.plain_after(last) > CAUGHT_AFTER

    def goes_on_over(self, sign: Sign) -> bool:
        """Whether one counter stood before that line, and stands further after it."""
        before = {(state.label, state.total): state.done for index, state in self.progress if index < sign.index}
        after: dict[tuple[str, float | None], float] = {}
        for index, state in self.progress:
            if index > sign.index:
                after.setdefault((state.label, state.total), state.done)
        return any(done > before[key] for key, done in after.items() if key in before)

    def prompt(self) -> Line | None:
        """The question at the end of the log, if it ends with one."""
        last = self.text.lines[-PROMPT_LINES:]
        return next((line for line in reversed(last) if PROMPT.search(line.text[-300:])), None)


def read(text: LogText, errors: Iterable[LoggedError] = ()) -> Read:
    """All signs of one log. `errors` are those that a parser of tracebacks found: it knows which were handled."""
    known = {error.line: error for error in errors if error.line is not None}
    signs, progress, ordinary = [], [], []
    silent: set[str] = set()
    parts, by_itself = _Parts(), False
    for index, line in enumerate(text.lines):
        found = _sign_of(line.text[-MAX_SEARCHED:], silent)
        found = _as_parsed(found, line.text, known.get(line.number))
        if parts.owns(line.text, found) or (found is not None and found.kind == "interrupted" and by_itself):
            continue
        by_itself = by_itself or (found is not None and found.what == INTERRUPTS_ITSELF)
        progress += [(index, state) for state in progress_of(line) if state.is_bar or _may_count(line, found)]
        if found is not None:
            signs.append(Sign(found.kind, found.what, line, index))
        elif not OF_AN_ERROR.match(line.text):
            ordinary.append(index)
    return Read(text, tuple(signs), tuple(progress), tuple(ordinary))


class _Parts:
    """Follows the errors that end a part of a process only, each from the line that says so to its last word."""

    def __init__(self) -> None:
        self._tracebacks: int | None = None
        """Since that line; None: the error at hand is the process's own."""

    def owns(self, text: str, found: SignPattern | None) -> bool:
        """Whether this line is the word that such an error ends with."""
        if OF_A_PART.match(text):
            self._tracebacks = 0
        elif self._tracebacks is not None and text.startswith("Traceback ("):
            self._tracebacks = self._tracebacks + 1 if self._tracebacks == 0 else None
        elif self._tracebacks and found is not None and found.kind == "ended" and _EXCEPTION.match(text):
            self._tracebacks = None
            return True
        return False


def _sign_of(text: str, silent: set[str]) -> SignPattern | None:
    """What a line says; the frames and code lines of a traceback, and the kernel's lines, say nothing.

    `silent` are the shapes of lines that said nothing: a step's line is looked at once, not for every step.
    """
    indented = text.startswith(("  File ", "    ")) and not _TELLS_INDENTED.search(text)
    if indented or not may_tell(text):
        return None
    shape = text.translate(_SHAPE)
    if shape in silent:
        return None
    found = next((sign for sign in SIGNS if sign.pattern.search(text)), None)
    if found is None and not _NUMBER_TELLS.search(text) and len(silent) < MAX_SHAPES:
        silent.add(shape)
    return found if found is None or not KERNEL.match(text) else None


def may_tell(text: str) -> bool:
    """Whether a line can be a sign at all."""
    lower = text.lower()
    return any(word in lower for word in TELLING) or GLOG.match(text) is not None


def _may_count(line: Line, found: SignPattern | None) -> bool:
    """Whether a step number in it is one that the job has reached: not in an error's message, nor in code."""
    return found is None and not line.text.startswith(("  ", "\t"))


def _as_parsed(found: SignPattern | None, text: str, error: LoggedError | None) -> SignPattern | None:
    """A handled exception is no end, nor is what a warning quotes; where the parser of tracebacks knows nothing, the
    line speaks."""
    if found is None or found.kind != "ended":
        return found
    return None if (error is not None and error.handled) or WARNS.match(text) else found


def calls_of(one: Read, sign: Sign) -> list[tuple[str, str]]:
    """(file, function) of the traceback of this error, innermost first; [] when there is none.

    Python prints the error below the frames, IPython a head of it above them.
    """
    lines = one.text.lines
    if "Traceback (most recent call last)" in sign.line.text:
        return _calls(reversed(lines[sign.index + 1 : sign.index + 1 + MAX_TRACEBACK]))
    return _calls(reversed(lines[max(0, sign.index - MAX_TRACEBACK) : sign.index]))


def _calls(innermost_first: Iterable[Line]) -> list[tuple[str, str]]:
    calls: list[tuple[str, str]] = []
    for line in innermost_first:
        found = _CALL.search(line.text)
        if found:
            calls.append((found["file"] or found["cell"] or "", found["function"] or found["called"] or ""))
        if len(calls) == MAX_CALLS or line.bare.startswith("Traceback ("):
            break
    return calls


def cut_stack(one: Read) -> str | None:
    """The last line of code when the log ends within a traceback, whose error is not there; None when it does not."""
    code, last = None, one.text.lines[-MAX_TRACEBACK:]
    if len(last) <= FRAGMENT and last[0].bare.startswith("File "):
        return None
    if any(_OF_WHAT_RUNS.match(line.text) for line in last):
        return None
    for line in reversed(last):
        if _CALL.search(line.text):
            return code or ""
        arrow = _ARROW.match(line.text)
        if arrow or code is None:
            code = arrow[1] if arrow else line.bare
        if not (arrow or line.text.startswith((" ", "\t", "~", "^"))):
            return None
    return None
