"""JSON that others wrote: no NaN, no duplicate keys, no abyss, no number that takes minutes to parse."""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_DEPTH = 64
MAX_DIGITS = 40
"""An unsigned 64-bit value has 20 digits; CPython before 3.11 takes quadratic time for millions of them."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u[dD][89a-fA-F]\w\w|\\.")


class JsonError(ValueError):
    """Not the JSON we accept; the message is half a sentence."""


def loads(text: str) -> Any:
    """The value. JsonError says what is wrong. Lone surrogates, which no terminal or file takes, become U+FFFD."""
    if _SURROGATE.search(text):
        text = _ESCAPE.sub(_without_lone_surrogate, text)
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise JsonError(f"is nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"is broken in line {error.lineno}: {error.msg}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    return value


def _without_lone_surrogate(escape: re.Match[str]) -> str:
    found = escape[0]
    return r"\ufffd" if len(found) == 6 else found


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            if isinstance(parent, (dict, list))
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise JsonError(f"is nested deeper than {MAX_DEPTH} levels")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise JsonError("has a duplicate key")
    return value


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise JsonError(f"has a number of {len(digits)} digits")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise JsonError("has a number too large for a double")
    return value


def _constant(name: str) -> Any:
    raise JsonError(f"has {name}, which is no JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
)
