"""Facts rows, redacted and ready for JSON: what nobody knows and what is empty is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Protocol

from .known import COMM
from .marks import CLOSE, OPEN

_EMPTY = (None, "", (), [], {})
_NAMES = {"user": "user", "author_host": "host"}
"""Fields that hold nothing but a name."""
_VERSIONS = frozenset(["cuda", "driver", "kernel", "python", "soname", "version"])
"""Fields in which four numbers are no address."""
_VERSION = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6}){1,5}")


class Hides(Protocol):
    """The part of a redactor that rows need."""

    def text(self, text: str) -> str: ...
    def env_value(self, name: str, value: str) -> str: ...
    def cut_name(self, name: str) -> str: ...
    def argv(self, argv: Sequence[str]) -> tuple[str, ...]: ...
    def name(self, kind: str, value: str) -> str: ...


def redacted_row(row: Any, redactor: Hides, text: Callable[[str], str]) -> dict[str, Any]:
    """One row as a dict. An `EnvVar` has its value judged by its name, an `argv` as a command line.

    `text` is the caller's cached way to redact one string. What a field's metadata calls ``longest`` is its limit.
    """
    out: dict[str, Any] = {}
    named = getattr(row, "name", None)
    for name, default, longest in _fields_of(type(row)):
        value = getattr(row, name)
        if value is None or (value == default and value in _EMPTY):
            continue
        if name == "value" and isinstance(value, str) and isinstance(named, str):
            out[name] = redactor.env_value(named, value)
        elif name == "name" and type(value) is str and len(value) == COMM:
            out[name] = redactor.cut_name(value)
        elif type(value) is str and name in _NAMES:
            out[name] = redactor.name(_NAMES[name], value)
        elif type(value) is str:
            out[name] = value if name in _VERSIONS and _VERSION.fullmatch(value) else _cut(text(value), longest)
        elif type(value) in (int, bool, float):
            out[name] = value
        elif name == "argv":
            out[name] = list(redactor.argv(value))
        else:
            out[name] = _redacted_value(value, redactor, text)
    return out


def _cut(text: str, longest: int | None) -> str:
    """At most `longest` characters; a mark is not cut in two. Cut after redaction: half a secret shows nothing."""
    if longest is None or len(text) <= longest:
        return text
    mark = text.rfind(OPEN, 0, longest)
    return text[: mark if mark > text.rfind(CLOSE, 0, longest) else longest]


def _redacted_value(value: Any, redactor: Hides, text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return text(value)
    if is_dataclass(value):
        return redacted_row(value, redactor, text)
    if isinstance(value, Mapping):
        return {text(str(name)): _redacted_item(str(name), item, redactor, text) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_redacted_value(item, redactor, text) for item in value]
    return value


def _redacted_item(name: str, item: Any, redactor: Hides, text: Callable[[str], str]) -> Any:
    return redactor.env_value(name, item) if isinstance(item, str) else _redacted_value(item, redactor, text)


@lru_cache(maxsize=256)
def _fields_of(kind: type) -> tuple[tuple[str, Any, int | None], ...]:
    return tuple((field.name, field.default, field.metadata.get("longest")) for field in fields(kind))
