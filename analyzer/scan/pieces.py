"""A pattern with gaps, as ``rank \\d+.{0,160}exhausted``, is looked for by that piece of it which says most.

An automaton keeps count of each gap that a line has begun, together with all others: what has none is quicker to find,
and a line with "exhausted" and no rank is soon known not to hold the pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

MOST_COPIES = 4
"""A class that may stand more often than this is a gap."""
ENOUGH = 2.0
"""Letters that a piece has to say; with fewer too many lines have it."""
_ASCII = 128
_FEW = 8
"""A class of so many letters says something: ``[Ee]``, ``[:=]``."""
_CATEGORIES = {"CATEGORY_DIGIT": 10, "CATEGORY_SPACE": 6, "CATEGORY_WORD": 63}
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")
_IN_EVERY_LOG = {
    "batch", "cuda", "data", "device", "done", "epoch", "error", "file", "from", "gpu", "gpus", "host", "info", "iter",
    "iteration", "layer", "line", "load", "local", "loss", "model", "node", "pid", "proc", "process", "python", "rank",
    "read", "size", "state", "step", "steps", "the", "time", "torch", "train", "training", "wait", "warning", "worker",
    "world",
}  # fmt: skip


def telling_piece(items: Sequence[Any]) -> Sequence[Any]:
    """The items between two gaps that say most; all of them when there is no gap or no piece says enough."""
    pieces: list[list[Any]] = [[]]
    for item in items:
        if _is_gap(item):
            pieces.append([])
        elif _holds_gap(item):
            pieces += [[item], []]
        else:
            pieces[-1].append(item)
    best = max(pieces, key=_says)
    return best if len(pieces) > 1 and _says(best) >= ENOUGH else items


def _is_gap(item: Any) -> bool:
    """Whether it is much of anything, or something with a gap that may be missing."""
    name, argument = str(item[0]), item[1]
    if name not in _REPEATS:
        return False
    least, most, inner = argument
    is_wide = len(inner) == 1 and _letters(inner[0]) > _FEW
    return (is_wide and most > MOST_COPIES) or (least == 0 and any(map(_holds_gap, inner)))


def _holds_gap(item: Any) -> bool:
    return _is_gap(item) or any(any(map(_holds_gap, inner)) for inner in _inside(item))


def _inside(item: Any) -> Iterable[Sequence[Any]]:
    name, argument = str(item[0]), item[1]
    if name in _REPEATS:
        return [argument[2]]
    if name == "SUBPATTERN":
        return [argument[-1]]
    return argument[1] if name == "BRANCH" else []


def _says(items: Sequence[Any]) -> float:
    """Letters that it says at least, in any alternative; a word that is in every log is worth one, a mark less."""
    found, word = 0.0, ""
    for item in [*items, None]:
        if item is not None and str(item[0]) == "LITERAL":
            word += chr(item[1])
            continue
        found += 1.0 if word.strip(" :=[]").lower() in _IN_EVERY_LOG else sum(1 if c.isalpha() else 0.25 for c in word)
        word = ""
        found += _one_says(item) if item is not None else 0.0
    return found


def _one_says(item: Any) -> float:
    name, argument = str(item[0]), item[1]
    if name in _REPEATS:
        return min(argument[0], MOST_COPIES) * _says(argument[2])
    if name == "SUBPATTERN":
        return _says(telling_piece(argument[-1]))
    if name == "BRANCH":
        return min(_says(telling_piece(branch)) for branch in argument[1])
    return 0.5 if 0 < _letters(item) <= _FEW else 0.0


def _letters(item: Any) -> int:
    """How many ASCII letters it may be, about; 0: it is no letter."""
    name, argument = str(item[0]), item[1]
    if name == "LITERAL":
        return 1
    if name in ("ANY", "NOT_LITERAL"):
        return _ASCII
    if name != "IN":
        return 0
    return sum(_members(str(kind), value) for kind, value in argument)


def _members(kind: str, value: Any) -> int:
    if kind == "RANGE":
        return value[1] - value[0] + 1
    if kind == "CATEGORY":
        return _CATEGORIES.get(str(value), _ASCII)
    return _ASCII if kind == "NEGATE" else 1
