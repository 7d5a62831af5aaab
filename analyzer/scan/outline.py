"""The outline of a pattern: a simpler one, of bytes, that is found in every line in which the pattern is.

An outline has no captures, no bounds of long repeats and nothing that may be missing at its ends, so that one automaton
of all outlines is small and reports each place once; whether the pattern itself is there is asked of the line alone.
No part of an outline reaches over the end of a line, and a letter that is not ASCII is up to four bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from .pieces import MOST_COPIES, telling_piece

ANYWHERE = r"^[^\n]"
"""The outline of what has none: every line that is not empty."""
MAX_OUTLINE = 20_000
BYTES_OF_A_LETTER = 4
_WIDE = r"\x80-\xff"
_READ_OTHERWISE = re.compile(r"\[:\^?[a-z]+:\]|\{,")
"""Classes as ``[[:alpha:]]`` and repeats as ``{,5}`` mean something else to Python's parser than to RE2."""
_CATEGORIES = {
    "CATEGORY_DIGIT": "0-9", "CATEGORY_WORD": "0-9A-Za-z_", "CATEGORY_SPACE": r"\x09\x0c\x0d\x20",
    "CATEGORY_NOT_DIGIT": r"\x00-\x09\x0b-/:-\xff", "CATEGORY_NOT_WORD": r"\x00-\x09\x0b-/:-@\x5b-^`\x7b-\xff",
    "CATEGORY_NOT_SPACE": r"\x00-\x08\x0b\x0e-\x1f!-\xff",
}  # fmt: skip
"""As RE2 has them (a vertical tab is no space to it), without the newline."""
_PLACES = {
    "AT_BEGINNING": "^", "AT_BEGINNING_STRING": "^", "AT_END": r"\r?$", "AT_BOUNDARY": r"\b", "AT_NON_BOUNDARY": r"\B",
}  # fmt: skip
"""A line may end in a carriage return."""


class _Unknown(Exception):
    """A part that has no outline."""


@lru_cache(maxsize=4096)
def outline(pattern: str, is_whole: bool = False) -> str:
    """Of a pattern in RE2 syntax, to be compiled so that ``^`` and ``$`` are the ends of lines.

    That of its `telling_piece` alone, but for one that is to be looked for whole.
    """
    tree = parsed(pattern)
    try:
        if tree is None or _fewest(tree) == 0:
            return ANYWHERE
        found = _trimmed(list(tree), bool(tree.state.flags & re.IGNORECASE), is_whole)
    except (_Unknown, RecursionError):
        return ANYWHERE
    return found if len(found) <= MAX_OUTLINE else ANYWHERE


def parsed(pattern: str) -> Any:
    """Python's parse tree of a pattern; None when it is no syntax of Python's, or may mean another thing there."""
    if _READ_OTHERWISE.search(pattern):
        return None
    try:
        return re._parser.parse(pattern)  # type: ignore[attr-defined]
    except (re.error, AttributeError, OverflowError, RecursionError):
        return None


# --- sequences ---


def _trimmed(items: list[Any], fold: bool, is_whole: bool) -> str:
    """A sequence of which both ends may be left out: RE2 cannot look around, so nothing depends on them."""
    while _is_needless(items[0]):
        items = items[1:]
    while _is_needless(items[-1]):
        items = items[:-1]
    name, argument = items[0]
    if len(items) == 1 and str(name) == "SUBPATTERN":
        _, add, remove, inner = argument
        return _trimmed(list(inner), _folds(fold, add, remove), is_whole)
    if len(items) == 1 and str(name) == "BRANCH":
        return _either(_trimmed(list(branch), fold, is_whole) for branch in argument[1])
    piece = items if is_whole else telling_piece(items)
    return _ended(items, fold) if piece is items else _trimmed(list(piece), fold, is_whole)


def _ended(items: Sequence[Any], fold: bool) -> str:
    """A sequence of which the end may be left out: as little of it as is enough is reported once."""
    while items and _is_needless(items[-1]):
        items = items[:-1]
    return _sequence(items[:-1], fold) + "".join(_last(item, fold) for item in items[-1:])


def _last(item: Any, fold: bool) -> str:
    name, argument = str(item[0]), item[1]
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        least, _, inner = argument
        atom = _atom(inner[0], fold) if len(inner) == 1 else ""
        return f"{atom}{{{min(least, MOST_COPIES)}}}" if atom else _repeated(inner, least, least, fold)
    if name == "SUBPATTERN":
        _, add, remove, inner = argument
        return f"(?:{_ended(list(inner), _folds(fold, add, remove))})"
    if name == "BRANCH":
        return _either(_ended(list(branch), fold) for branch in argument[1])
    return _atom(item, fold) or _item(item, fold)


def _sequence(items: Iterable[Any], fold: bool) -> str:
    return "".join(_item(item, fold) for item in items)


def _item(item: Any, fold: bool) -> str:
    name, argument = str(item[0]), item[1]
    if name == "LITERAL" and not _is_other_case(argument, fold):
        return _literal(argument, fold)
    if atom := _atom(item, fold):
        return f"{atom}{{1,{BYTES_OF_A_LETTER}}}" if _is_wide(atom) else atom
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, inner = argument
        return _repeated(inner, least, most, fold)
    if name == "SUBPATTERN":
        _, add, remove, inner = argument
        return f"(?:{_sequence(inner, _folds(fold, add, remove))})"
    if name == "BRANCH":
        return _either(_sequence(branch, fold) for branch in argument[1])
    if name == "AT" and str(argument) in _PLACES:
        return _PLACES[str(argument)]
    raise _Unknown


def _either(branches: Iterable[str]) -> str:
    return f"(?:{'|'.join(branches)})"


def _repeated(items: Sequence[Any], least: int, most: int, fold: bool) -> str:
    atom = _atom(items[0], fold) if len(items) == 1 else ""
    most = most if most <= MOST_COPIES else 0
    if atom and _is_wide(atom):
        return f"{atom}{{{min(least, MOST_COPIES)},{most * BYTES_OF_A_LETTER or ''}}}"
    return f"(?:{_sequence(items, fold)}){{{min(least, MOST_COPIES)},{most or ''}}}"


def _folds(fold: bool, add: int, remove: int) -> bool:
    return (fold or bool(add & re.IGNORECASE)) and not remove & re.IGNORECASE


# --- letters ---


def _is_other_case(code: int, fold: bool) -> bool:
    """Whether it may stand in another case that is other bytes: so may an umlaut, a Chinese sign may not."""
    letter = chr(code)
    return fold and not letter.isascii() and not letter.lower() == letter.upper() == letter.casefold()


def _literal(code: int, fold: bool) -> str:
    letter = chr(code)
    if code in (10, 0xFFFD):  # no line holds the one; the other stands for bytes that are no text
        raise _Unknown
    if fold and letter.isascii() and letter.isalpha():
        return f"[{letter.upper()}{letter.lower()}]"
    if letter.isascii() and letter.isalnum():
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "replace"))


def _atom(item: Any, fold: bool) -> str:
    """The class of bytes that one letter of it is made of; "" for what is no class of letters."""
    name, argument = str(item[0]), item[1]
    if name == "ANY" or (name == "LITERAL" and _is_other_case(argument, fold)):
        return r"[^\n]"
    if name == "NOT_LITERAL":
        return _class([("NEGATE", None), ("LITERAL", argument)], fold)
    return _class(argument, fold) if name == "IN" else ""


def _is_wide(atom: str) -> bool:
    """Whether a letter of the class can be more than a byte."""
    return atom.startswith("[^") or r"\xff" in atom


def _class(parts: Iterable[Any], fold: bool) -> str:
    inside, negated = "", False
    for name, argument in parts:
        if str(name) == "NEGATE":
            negated = True
        elif str(name) == "CATEGORY" and not (negated and "NOT" in str(argument)):
            inside += _CATEGORIES[str(argument)]
        elif str(name) in ("LITERAL", "RANGE"):
            low, high = argument if str(name) == "RANGE" else (argument, argument)
            inside += _range(low, min(high, 127), fold) + (_WIDE if high > 127 and not negated else "")
        elif str(name) != "CATEGORY":
            raise _Unknown
    if not inside and not negated:
        raise _Unknown
    return rf"[^\n{inside}]" if negated else f"[{inside}]"


def _range(low: int, high: int, fold: bool) -> str:
    """ASCII letters from one to another, with those of the other case when it does not matter, without the newline."""
    parts = [(low, 9), (11, high)] if low <= 10 <= high else [(low, high)]
    if fold:
        parts += [(max(low, 65) + 32, min(high, 90) + 32), (max(low, 97) - 32, min(high, 122) - 32)]
    return "".join(f"\\x{a:02x}-\\x{b:02x}" for a, b in parts if a <= b)


# --- lengths ---


def _is_needless(item: Any) -> bool:
    return _least(item) == 0 and not _holds_place(item)


def _least(item: Any) -> int:
    """0 for what may take no letter."""
    name, argument = str(item[0]), item[1]
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        return argument[0] and _fewest(argument[2])
    if name == "SUBPATTERN":
        return _fewest(argument[-1])
    if name == "BRANCH":
        return min(map(_fewest, argument[1]))
    return 0 if name == "AT" else 1


def _fewest(items: Iterable[Any]) -> int:
    return max(map(_least, items), default=0)


def _holds_place(item: Any) -> bool:
    """Whether it says where the rest must be, though it takes no letter."""
    name, argument = str(item[0]), item[1]
    if name == "SUBPATTERN":
        return any(map(_holds_place, argument[-1]))
    if name == "BRANCH":
        return all(any(map(_holds_place, branch)) for branch in argument[1])
    return name == "AT"
