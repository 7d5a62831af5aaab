"""YAML as rule files use it: plain data with a place for every value, and nothing that can hide or explode.

Aliases, anchors, tags and duplicate keys are refused, so that a file means what it shows and a walker cannot be led
round in circles. Scalars follow the YAML 1.2 core schema: ``no``, ``on``, ``12:30`` and dates stay text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

MAX_BYTES = 1024**2
MAX_DEPTH = 32
MAX_EVENTS = 50_000
MAX_DIGITS = 20
MAX_FAULTS = 50
"""After so many nobody reads on."""

Path = tuple[str | int, ...]

_NULL = re.compile(r"^(?:|~|null|Null|NULL)$")
_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_INT = re.compile(r"^[-+]?[0-9]+$")
_FLOAT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
_LEADING_ZERO = re.compile(r"^[-+]?0[0-9]")


@dataclass(frozen=True, order=True)
class Problem:
    """One fault of a rule file. `line` and `column` count from 1."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


@dataclass
class Document:
    """What a file says, and where: `values` maps a path to the value's place, `keys` to its key's."""

    file: str
    data: Any = None
    values: dict[Path, tuple[int, int]] = field(default_factory=dict)
    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def value(self, path: Path) -> Any:
        """What stands at a path."""
        value = self.data
        for part in path:
            value = value[part]
        return value

    def problem(self, path: Path, message: str, *, at_key: bool = False) -> Problem:
        """A problem at `path`, or at its nearest parent that has a place."""
        for length in range(len(path), -1, -1):
            place = (self.keys if at_key else self.values).get(path[:length]) or self.values.get(path[:length])
            if place:
                return Problem(self.file, *place, message)
        return Problem(self.file, 1, 1, message)


class YamlRefused(Exception):
    """The text is not YAML, or holds what a rule file may not: everything up to where reading on made no sense."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def read_document(text: str, file: str) -> Document:
    """Parse one document. Raises YamlRefused with the place of every fault."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise YamlRefused(Problem(file, 1, 1, "a rule file may have 1 MB at most"))
    builder = _Builder(Document(file), _events(text, file))
    try:
        builder.build()
    except yaml.YAMLError as error:
        builder.faults.append(_syntax_problem(error, text, file))
    except RecursionError:
        builder.faults.append(Problem(file, 1, 1, "nested too deeply"))
    except YamlRefused as refused:
        builder.faults += refused.problems
    if builder.faults:
        raise YamlRefused(*builder.faults)
    return builder.document


def _events(text: str, file: str) -> Iterator[yaml.Event]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for count, event in enumerate(yaml.parse(text, Loader=loader)):
        if count > MAX_EVENTS:
            raise YamlRefused(Problem(file, *_place(event), "more than 50,000 values"))
        yield event


def _place(event: yaml.Event) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return Problem(file, mark.line + 1, mark.column + 1, getattr(error, "problem", None) or str(error))
    line, column = place_of(text, getattr(error, "position", 0) or 0)
    return Problem(file, line, column, str(getattr(error, "reason", error)))


def place_of(text: str, position: int) -> tuple[int, int]:
    """Line and column, from 1, of the character at `position`, from 0."""
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


class _Builder:
    def __init__(self, document: Document, events: Iterator[yaml.Event]) -> None:
        self.document = document
        self.faults: list[Problem] = []
        """What was wrong, and did not keep the rest from being read."""
        self._events = events

    def build(self) -> None:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if self.document.values:
                    raise self._refused(event, "one document per file")
                self.document.data = self._node(next(self._events), ())

    def _refused(self, event: yaml.Event, message: str) -> YamlRefused:
        return YamlRefused(Problem(self.document.file, *_place(event), message))

    def _note(self, event: yaml.Event, message: str) -> None:
        self.faults.append(Problem(self.document.file, *_place(event), message))
        if len(self.faults) >= MAX_FAULTS:
            raise self._refused(event, f"more than {MAX_FAULTS} faults")

    def _node(self, event: yaml.Event, path: Path) -> Any:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            self._note(event, "anchors and aliases are not allowed in rule files")
        if isinstance(event, yaml.AliasEvent):
            return None
        if getattr(event, "tag", None):
            self._note(event, f"tag {event.tag} is not allowed in rule files")  # pyright: ignore
        if len(path) > MAX_DEPTH:
            raise self._refused(event, "nested too deeply")
        self.document.values[path] = _place(event)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            children = _until(self._events, yaml.SequenceEndEvent)
            return [self._node(child, (*path, number)) for number, child in enumerate(children)]
        return self._mapping(path)

    def _mapping(self, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for event in _until(self._events, yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._refused(event, "a key must be plain text")
            key = event.value
            if key in mapping:
                self._note(event, f"duplicate key {key!r}")
            self.document.keys[(*path, key)] = _place(event)
            mapping[key] = self._node(next(self._events), (*path, key))
        return mapping

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text = event.value
        if event.style:
            return text
        if _NULL.match(text):
            return None
        if _BOOL.match(text):
            return text.lower() == "true"
        if _LEADING_ZERO.match(text) and _INT.match(text):
            self._note(event, f"{text[:40]} has a leading zero: write the number without it, or quote the text")
            return text
        if _INT.match(text):
            if len(text) > MAX_DIGITS:
                self._note(event, "the number is too long")
                return text
            return int(text)
        return self._float(event, text) if _FLOAT.match(text) else text

    def _float(self, event: yaml.Event, text: str) -> float:
        number = float(text)
        if math.isinf(number):
            self._note(event, f"{text[:40]} is larger than any number here")
        return number


def _until(events: Iterator[yaml.Event], end: type[yaml.Event]) -> Iterator[yaml.Event]:
    for event in events:
        if isinstance(event, end):
            return
        yield event
