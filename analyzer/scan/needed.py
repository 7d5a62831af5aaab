"""Texts of which every match of a pattern contains at least one."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .outline import parsed


@lru_cache(maxsize=4096)
def needed_texts(pattern: str) -> tuple[str, ...]:
    """Lower case; () when the pattern shows none."""
    tree = parsed(pattern)
    if tree is None:
        return ()
    try:
        texts = _needed(tree)
    except RecursionError:
        return ()
    return tuple(text.lower() for text in texts) if _shortest(texts) else ()


def shortest_needed(pattern: str) -> int:
    """Bytes of the shortest text in `needed_texts`; 0 when there is none."""
    return min((len(text.encode()) for text in needed_texts(pattern)), default=0)


def _needed(tree: Any) -> list[str]:
    """The best set of alternatives a parsed pattern offers: the one whose shortest text is longest."""
    offers: list[list[str]] = []
    run = ""
    for operation, argument in tree:
        name = str(operation)
        if name == "LITERAL":
            run += chr(argument)
        elif name != "AT":
            offers += [[run], _needed_inside(name, argument)]
            run = ""
    return max([*offers, [run]], key=_shortest)


def _needed_inside(name: str, argument: Any) -> list[str]:
    if name == "SUBPATTERN":
        return _needed(argument[-1])
    if name == "BRANCH":
        branches = [_needed(branch) for branch in argument[1]]
        return [text for branch in branches for text in branch] if all(map(_shortest, branches)) else []
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[0] >= 1:
        return _needed(argument[2])
    return []


def _shortest(texts: list[str]) -> int:
    return min(map(len, texts), default=0)
