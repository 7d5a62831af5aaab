"""The texts of rules: ``{t.pid}`` shows a field of a bound row, ``{l.path|the log}`` also what to write without it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .conditions import as_text
from .evidence import clean, duration
from .fields import Absent, table_of, value_of
from .index import FactIndex
from .phrases import PHRASES

_SLOT = re.compile(r"\{([a-z][a-z0-9_]*)\.([a-z][a-z0-9_.]*)(?:\|([^{}]*))?\}")
_PROCESS_ID = re.compile(r"^h[0-9]+/(?=[0-9]+$)")
_NAMELESS = re.compile(r"\b(?:[Pp]rocess|pid|PID) \?(?!\w)")
_OPTION = re.compile(r"(?<=-p )\?|(?<=--pid )\?|(?<=/proc/)\?(?=/)")
_OF_PROCESS = re.compile(r" \| grep (?P<quote>'?)pid=\?(?P=quote)(?= |$)")
MAX_VALUE = 160


def slots(text: str) -> Iterator[tuple[str, str, bool]]:
    """(variable, field, whether the text says what to write when it is unknown) of every slot."""
    for match in _SLOT.finditer(text):
        yield match[1], match[2], match[3] is not None


def broken_braces(text: str) -> bool:
    """Whether braces are left that are no slot: ``{pid}``, ``{t.pid``."""
    return bool(re.search(r"[{}]", _SLOT.sub("", text)))


def render(text: str, bindings: Mapping[str, Any], index: FactIndex) -> str:
    """Fill in the slots. Folded YAML becomes one line; values are made printable."""

    def fill(match: re.Match[str]) -> str:
        value = _shown(bindings.get(match[1]), match[2], index)
        return value if value is not None else match[3] if match[3] is not None else "?"

    return _without_pid(" ".join(_SLOT.sub(fill, text).split()))


def _without_pid(text: str) -> str:
    """What the rules say of "pid ?" in words: a process that no text names has none, and a command leaves a gap."""
    text = _OPTION.sub("PID", _OF_PROCESS.sub("", text))
    return _NAMELESS.sub(lambda found: "The process" if found[0][0] == "P" else "the process", text)


def _is_nobody(value: Any, field: str) -> bool:
    """Whether it is a pid of no process (0), or of one that no text names."""
    return field.endswith("pid") and isinstance(value, int) and value <= 0


def _shown(row: Any, field: str, index: FactIndex) -> str | None:
    if row is None or isinstance(row, Absent):
        return None
    phrase = PHRASES.get(table_of(row), {}).get(field)
    value = phrase(row, index) if phrase else value_of(row, field)
    if value is None or value in ("", ()) or _is_nobody(value, field):
        return None
    if field.endswith("_s") and isinstance(value, (int, float)):
        return duration(value)
    if isinstance(value, tuple):
        return clean(", ".join(_PROCESS_ID.sub("pid ", str(item)) for item in value), MAX_VALUE)
    return clean(_PROCESS_ID.sub("pid ", as_text(value)), MAX_VALUE)
