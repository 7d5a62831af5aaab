"""Members of a bundle, redacted once more: JSON as data, everything else as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .marks import MARK
from .names import classify
from .pairs import calls_a_name, calls_a_value
from .redactor import Redactor

JSON, JSON_LINES = (".json",), (".jsonl",)
MAX_DEPTH = 100
"""Of JSON that is rewritten as data; deeper it is redacted as text."""


@dataclass(frozen=True)
class Survivor:
    """Something in redacted text that should not be there; never what it is."""

    artefact: str
    place: str
    """``line 12``, or where in a JSON document: ``tables.env[3].value``."""
    kind: str


def redact_document(name: str, text: str, redactor: Redactor) -> str:
    """The member's text without what this redactor would hide; JSON stays JSON."""
    if name.endswith(JSON_LINES):
        return "".join(_line(line, redactor) for line in text.splitlines(keepends=True))
    parsed = _parsed(text) if name.endswith(JSON) else None
    return redactor.text(text) if parsed is None else _rewritten(text, parsed, redactor)


def survivors(name: str, text: str, redactor: Redactor) -> Iterator[Survivor]:
    """What `redact_document` would hide, without hiding it."""
    if name.endswith(JSON_LINES):
        for number, line in enumerate(text.splitlines(), 1):
            for one in survivors(f"{name}{JSON[0]}", line, redactor):
                yield Survivor(name, f"line {number}, {one.place}", one.kind)
        return
    parsed = _parsed(text) if name.endswith(JSON) else None
    if parsed is None:
        for number, kind in _changed_lines(text, redactor.text(text)):
            yield Survivor(name, f"line {number}", kind)
        return
    for place, before, after in _strings(parsed, _value(parsed, redactor), ""):
        for kind in dict.fromkeys(kind for _, kind in _changed_lines(before, after)):
            yield Survivor(name, place or "the document", kind)


def _line(line: str, redactor: Redactor) -> str:
    body = line.rstrip("\r\n")
    parsed = _parsed(body)
    return redactor.text(line) if parsed is None else _rewritten(body, parsed, redactor) + line[len(body) :]


def _parsed(text: str) -> Any:
    """None for what is no JSON, or is nested deeper than anything that is looked into as data."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if _is_shallow(parsed) else None


def _is_shallow(parsed: Any) -> bool:
    level = [parsed]
    for _ in range(MAX_DEPTH):
        nested = [value for value in level if isinstance(value, (Mapping, list))]
        level = [inner for value in nested for inner in (value.values() if isinstance(value, Mapping) else value)]
        if not level:
            return True
    return False


def _rewritten(text: str, parsed: Any, redactor: Redactor) -> str:
    """The document as it is where nothing changes, so that its checksum stays."""
    hidden = _value(parsed, redactor)
    if hidden == parsed:
        return text
    lines = "\n" in text.strip()
    body = json.dumps(hidden, ensure_ascii=False, indent=1 if lines else None, separators=(",", ": " if lines else ":"))
    return body + text[len(text.rstrip()) :]


def _value(value: Any, redactor: Redactor, name: str = "") -> Any:
    if isinstance(value, str):
        return redactor.env_value(name, value) if name else redactor.text(value)
    if isinstance(value, list):
        if name == "argv" and all(isinstance(word, str) for word in value):
            return list(redactor.argv(value))
        return [_value(item, redactor) for item in value]
    if isinstance(value, Mapping):
        return {redactor.text(key): _value(item, redactor, _name_of(value, key, name)) for key, item in value.items()}
    return value


def _name_of(row: Mapping[str, Any], key: str, of_row: str) -> str:
    """What the value is called: its key, or what the row calls it, or what the row itself is called."""
    if calls_a_value(key) is False:
        return key
    names = (item for other, item in row.items() if isinstance(item, str) and calls_a_name(other))
    return next((name for name in (*names, of_row) if classify(name)), key)


def _strings(before: Any, after: Any, place: str) -> Iterator[tuple[str, str, str]]:
    """(place, before, after) of all strings that differ."""
    if isinstance(before, str) and isinstance(after, str):
        if before != after:
            yield place, before, after
    elif isinstance(before, list) and isinstance(after, list):
        for number, (one, other) in enumerate(zip(before, after)):
            yield from _strings(one, other, f"{place}[{number}]")
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        for (key, one), (new, other) in zip(before.items(), after.items()):
            below = f"{place}.{new}" if place else str(new)
            if key != new:
                yield below, key, new
            yield from _strings(one, other, below)


def _changed_lines(before: str, after: str) -> Iterator[tuple[int, str]]:
    """(line of `before`, kind) for each mark that stands in `after` alone."""
    if before == after:
        return
    at, done, found = 0, 0, False
    for mark in MARK.finditer(after):
        between = after[done : mark.start()]
        start = before.find(between, at) if between else at
        at = (start if start >= 0 else at) + len(between)
        done = mark.end()
        if before.startswith(mark[0], at):
            at += len(mark[0])
        else:
            found = True
            yield before.count("\n", 0, at) + 1, re.split("·", mark[0][1:])[0]
    if not found:
        yield 1, "mark"
