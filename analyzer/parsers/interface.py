"""The seam of all parsers: cleaned lines in, facts out.

A parser never raises on any input and never looks at a line twice as often as a constant: it reads on from the line at
which it was asked, stops at the first line that is not its own, and gives up (None) within `LOOKAHEAD` lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

LOOKAHEAD = 50
"""Lines after which a parser that has found nothing of its own gives up."""
NO_PID = 0
"""The pid in the ids of rows whose process the text does not name: the intake gives each block a process of its own.
Where a block shows several such processes they are -1, -2 … of that block."""
HOST = "h1"


@dataclass(frozen=True)
class Line:
    """One line of an input, without what the paste and the log drivers put around it."""

    number: int
    """1-based, in the input as it was given."""
    text: str
    """Without colours, quote marks and the prefixes of ranks, pods and prompts; its indentation is kept."""
    shown: str
    """Without colours and quote marks only: what a log says, prefixes included."""
    rank: int | None = None
    """Of the prefix: ``[rank3]:``, ``[default3]:``, ``3: ``, ``[1,3]<stderr>:``."""
    time: str | None = None
    """Of the prefix, as it stands there."""
    pid: int | None = None
    """Of the prefix ``(Worker pid=12)``."""

    @property
    def bare(self) -> str:
        """The text without indentation and trailing space."""
        return self.text.strip()


Lines = Sequence[Line]


@dataclass(frozen=True)
class Parsed:
    """What a parser made of the lines from the one at which it was asked to before `end`."""

    end: int
    """Index after the last line that belongs to it."""
    rows: tuple[Any, ...] = ()
    """Facts (flatline.bundle.facts), each with `line` (1-based, of the input); the intake fills `artefact` in."""
    collected: frozenset[str] = frozenset()
    """Tables of which the text is a whole listing: "no such row" then means that there was none."""
    about: str = ""
    """What it is, for a person, where the kind says too little: ``py-spy dump of pid 12, 3 threads``."""


def any_of(*patterns: re.Pattern[str]) -> re.Pattern[str]:
    """Where any of the patterns matches. Their groups have no names any more: two may have had the same."""
    nameless = (re.sub(r"\?P<\w+>", "?:", pattern.pattern) for pattern in patterns)
    return re.compile("|".join(f"(?:{pattern})" for pattern in nameless) or "(?!)")


@dataclass(frozen=True)
class Parser:
    """One kind of text."""

    kind: str
    """Kebab-case, as ``--explain-input`` prints it: ``py-spy-dump``."""
    begins: re.Pattern[str]
    """Matched (``re.match``) with the bare text of a line at which a block of this kind can begin."""
    parse: Callable[[Lines, int], Parsed | None]
    """Asked with all lines of the input and the index of one where `begins` matched; None: it is something else."""
    is_log: bool = False
    """Whether the lines also stay in the log that rules search: a traceback is part of a log, a py-spy dump is not."""
