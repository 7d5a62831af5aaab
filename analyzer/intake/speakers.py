"""Whose stacks a text holds, as the name of its file or a heading above them tells: ``rank3.txt``, ``== rank 2 ==``.

Texts of two ranks are of two processes, whatever numbers their threads have: in containers every main thread is 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..parsers.interface import Line

_RANKS = r"rank|rk|r|p|proc|process|tp|tprank|gpu|cuda|device|task|replica|trainer"
_PLACES = r"host|node|machine|pod|worker|w|server|instance|vm|n"
_NUMBERED = re.compile(
    rf"(?i)(?:^|[^a-z0-9])(?P<word>(?:global|local)?[-_]?(?:{_RANKS}|{_PLACES}))[-_ :#=]{{0,3}}"
    r"(?P<number>\d{1,5})(?![\d.]*\d)"
)
_ROLE = re.compile(
    r"(?i)(?:^|[^a-z])(?P<word>others?|peers?|rest|main|master|chief|leader|remaining|evaluator)(?:[-_ ]?ranks?)?"
    r"(?:$|[^a-z])"
)
_RANK_WORD = re.compile(rf"(?i)(?:global|local)?[-_]?(?:{_RANKS})$")
MAX_HEADING = 100


@dataclass(frozen=True)
class Speaker:
    """Whose a text is."""

    name: str
    """What tells it from the others: ``rank 3``, ``node 2``, ``others``."""
    rank: int | None = None


def speaker_of_name(name: str) -> Speaker | None:
    """Of a file's name; a folder named after a rank holds what is its."""
    stem = re.sub(r"(?:\.(?:txt|log|out|err|dump|md|stack|stacks|pyspy|gz))+$", "", name)
    return next((found for part in reversed(stem.split("/")) if (found := _speaker(part)) is not None), None)


def speaker_of_heading(lines: Sequence[Line]) -> Speaker | None:
    """Of the line right above a block of stacks: ``== rank 2 ==``, ``$ py-spy dump -p 12  # rank 3``."""
    text = lines[-1].shown.strip() if lines else ""
    if not text or len(text) > MAX_HEADING:
        return None
    found = {(match["word"].lower(), match["number"]) for match in _NUMBERED.finditer(text)}
    ranks = {pair for pair in found if "rank" in pair[0]} or found
    return _numbered(*ranks.pop()) if len(ranks) == 1 else None


def _speaker(part: str) -> Speaker | None:
    matches = [(match["word"].lower(), match["number"]) for match in _NUMBERED.finditer(part)]
    ranks = [pair for pair in matches if "rank" in pair[0]] or matches
    if ranks:
        return _numbered(*ranks[-1])
    role = _ROLE.search(part)
    return Speaker(role["word"].lower()) if role else None


def _numbered(word: str, number: str) -> Speaker:
    if _RANK_WORD.fullmatch(word):
        return Speaker(f"rank {int(number)}", int(number))
    return Speaker(f"{word} {int(number)}")
