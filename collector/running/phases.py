"""How long a job may be silent in which phase: what is known to take its time gets a longer silence.

The names are those of `flatline.phase("...")` and of the phases that the recorder marks by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Allowance:
    """A kind of phase, and how many times --silence it may be silent."""

    kind: str
    factor: float
    names: re.Pattern[str]


def _allowance(kind: str, factor: float, names: str) -> Allowance:
    # A word of a name, also one that an underscore or a dot ends.
    return Allowance(kind, factor, re.compile(rf"(?<![a-z])(?:{names})(?![a-z])", re.IGNORECASE))


ALLOWANCES = (
    _allowance("first step", 2, r"first (?:step|batch|epoch)|warm[ _-]?up"),
    _allowance("checkpoint", 2, r"checkpoint\w*|torch\.save|torch\.load|save\w*|load (?:state|weights|model)\w*"),
    _allowance("evaluation", 3, r"eval\w*|validat\w*|test(?:ing)?"),
    _allowance("compile", 3, r"compil\w*|inductor|build (?:kernel|extension)s?"),
    _allowance("download", 3, r"download\w*|snapshot"),
)
"""docs/run.md shows it as a table; a test holds them together."""


def longest(names: Iterable[str]) -> tuple[float, str]:
    """The factor for these open phases and the name it comes from; 1 and "" where none of them takes its time."""
    found = [(one.factor, name) for name in names for one in ALLOWANCES if one.names.search(name)]
    return max(found, key=lambda pair: pair[0], default=(1.0, ""))
