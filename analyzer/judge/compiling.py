"""A rule's patterns and conditions, compiled; everything that is wrong with them, each at its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import language
from .evaluate import Condition, Search, compile_condition
from .language import Rule, Weight
from .logs import LogPattern
from .patterns import PatternRefused, compile_pattern
from .yaml_source import Document, Path, Problem

PARTS = ("requires", "supports", "contradicts")


@dataclass(frozen=True, eq=False)
class Weighed:
    """A compiled condition of the first level."""

    condition: Condition
    group: str
    weight: Weight | None
    model: Any


def compile_patterns(
    texts: Mapping[str, str], document: Document, problems: list[Problem], *, trusted: bool
) -> dict[str, LogPattern]:
    """The patterns that can be used, by name."""
    patterns: dict[str, LogPattern] = {}
    for name, pattern in texts.items():
        try:
            patterns[name] = LogPattern(name, pattern, compile_pattern(pattern, trusted=trusted))
        except PatternRefused as refused:
            problems.append(document.problem(("patterns", name), f"pattern {name}: {refused}"))
    return patterns


def compile_parts(
    rule: Rule, document: Document, patterns: Mapping[str, LogPattern], problems: list[Problem], *, trusted: bool
) -> list[tuple[Weighed, ...]]:
    """What it requires, what supports it and what contradicts it."""
    parts: list[tuple[Weighed, ...]] = []
    for part in PARTS:
        compiled: list[Weighed] = []
        for number, model in enumerate(getattr(rule, part)):
            try:
                condition = compile_condition(model, patterns, trusted=trusted)
                compiled.append(Weighed(condition, model.group or _table(condition), model.weight, model))
            except (PatternRefused, KeyError):
                faults = _faults(model, (part, number), patterns, trusted=trusted)
                problems += [document.problem(*fault) for fault in faults if fault[1] not in _said(document)]
        parts.append(tuple(compiled))
    return parts


def _faults(model: Any, path: Path, patterns: Mapping[str, LogPattern], *, trusted: bool) -> Iterator[tuple[Path, str]]:
    """What keeps a condition from being compiled, wherever in it: one fault must not hide the next."""
    for key in ("any", "all", "with"):
        for number, inner in enumerate(getattr(model, "with_" if key == "with" else key, ())):
            yield from _faults(inner, (*path, key, number), patterns, trusted=trusted)
    if isinstance(model, (language.AnyOf, language.AllOf)):
        return
    nothing: dict[str, Any] = {"with_": [], "where": {}, **({"of": {}} if hasattr(model, "of") else {})}
    for key in ("where", "of"):
        for field, predicate in getattr(model, key, {}).items():
            alone = model.model_copy(update={**nothing, key: {field: predicate}})
            try:
                compile_condition(alone, patterns, trusted=trusted)
            except PatternRefused as refused:
                yield (*path, key, field), f"pattern: {refused}"
            except KeyError:
                yield (*path, key, field), _unknown(predicate)


def _unknown(pattern: Any) -> str:
    return f"pattern {str(pattern)!r} is not among those of the rule or its pack"


def _said(document: Document) -> set[str]:
    """That a pattern of the rule's own is not known: it is there, and what is wrong with it is said where it stands."""
    own = document.data.get("patterns")
    return set(map(_unknown, own)) if isinstance(own, dict) else set()


def _table(condition: Condition) -> str:
    """The table that names a condition's group."""
    return condition.table if isinstance(condition, Search) else _table(condition.branches[0])
