"""What a `where` asks of one field, compiled. Every answer is True, False or None (unknown)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .fields import plain_node, value_of
from .language import Operators, Same
from .patterns import Compiled, compile_pattern

Truth = bool | None
Bindings = Mapping[str, Any]
Check = Callable[[Any, Bindings], Truth]
"""(value of the field, bound rows) -> truth. The value is None when it is unknown."""


@dataclass(frozen=True, eq=False)
class FieldTest:
    """One line of a `where`."""

    field: str
    check: Check
    references: tuple[str, ...] = ()
    """``var.field`` it compares with; empty: the answer depends on the value alone."""
    equals_reference: str | None = None
    """The one reference it must equal and nothing else: a join that an index can answer."""

    def truth(self, row: Any, bindings: Bindings) -> Truth:
        return self.check(value_of(row, self.field), bindings)


def both(first: Truth, second: Truth) -> Truth:
    """Kleene's and."""
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def opposite(truth: Truth) -> Truth:
    """Kleene's not."""
    return None if truth is None else not truth


def referred(reference: str, bindings: Bindings) -> Any:
    """The value behind ``var.field``; None when it is unknown."""
    name, _, field = reference.partition(".")
    row = bindings.get(name)
    return None if row is None else value_of(row, field)


def compile_test(field: str, predicate: Any, *, trusted: bool = False) -> FieldTest:
    """Compile one line of a `where`. Raises PatternRefused."""
    references: list[str] = []
    check = _compile(predicate, references, trusted)
    join = predicate.same if isinstance(predicate, Operators) and predicate.model_fields_set == {"same"} else None
    return FieldTest(field, check, tuple(references), join)


def _compile(predicate: Any, references: list[str], trusted: bool) -> Check:
    if isinstance(predicate, list):
        wanted = tuple(predicate)
        return _known(lambda value: value == wanted)
    if not isinstance(predicate, Operators):
        return _known(lambda value: value == predicate) if predicate != "unknown" else _is_unknown
    checks = [
        _operator(name, getattr(predicate, name), references, trusted)
        for name in sorted(predicate.model_fields_set)
        if getattr(predicate, name) is not None
    ]
    return lambda value, bindings: _all(check(value, bindings) for check in checks)


def _all(truths: Any) -> Truth:
    result: Truth = True
    for truth in truths:
        result = both(result, truth)
        if result is False:
            return False
    return result


def _is_unknown(value: Any, _: Bindings) -> Truth:
    return value is None


def _known(holds: Callable[[Any], bool]) -> Check:
    return lambda value, _: None if value is None else holds(value)


def _operator(name: str, operand: Any, references: list[str], trusted: bool) -> Check:
    if name == "exists":
        return lambda value, _: (value is not None) is operand
    if name == "not_":
        inner = _compile(operand, references, trusted)
        return lambda value, bindings: opposite(inner(value, bindings))
    if name == "re":
        return _matches(compile_pattern(operand, trusted=trusted))
    if name == "in_" and isinstance(operand, list) and "unknown" in operand:
        return lambda value, _: value is None or _is_in(value, operand)
    reference = _reference_in(name, operand)
    compare = _COMPARISONS[name]
    if reference is None:
        return lambda value, _: None if value is None else compare(value, operand)
    references.append(reference)
    return _against(reference, compare)


def _reference_in(name: str, operand: Any) -> str | None:
    """The ``var.field`` an operator compares with; None: a literal."""
    if isinstance(operand, Same):
        return operand.same
    return operand if isinstance(operand, str) and name not in ("contains", "starts", "ends") else None


def _against(reference: str, compare: Callable[[Any, Any], Truth]) -> Check:
    def check(value: Any, bindings: Bindings) -> Truth:
        other = referred(reference, bindings)
        return None if value is None or other is None else compare(value, other)

    return check


def _matches(pattern: Compiled) -> Check:
    return lambda value, _: None if value is None else pattern.search(as_text(value)) is not None


def as_text(value: Any) -> str:
    """A value as a pattern sees it: the words of an argv with a space between."""
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _contains(value: Any, wanted: Any) -> Truth:
    if isinstance(value, (tuple, list)):
        plain = plain_node(wanted)
        return any(plain_node(item) == plain for item in value)
    return str(wanted) in str(value)


def _is_in(value: Any, options: Any) -> Truth:
    return any(plain_node(value) == plain_node(option) for option in options)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Truth]:
    def ordered(value: Any, limit: Any) -> Truth:
        one, other = _number(value), _number(limit)
        return compare(one, other) if one is not None and other is not None else None

    return ordered


def _number(value: Any) -> float | None:
    """A number, also one that is written out: the value of a variable, ``WORLD_SIZE=8``."""
    if isinstance(value, (int, float)):
        return value
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19 else None


_COMPARISONS: Mapping[str, Callable[[Any, Any], Truth]] = {
    "same": lambda value, other: plain_node(value) == plain_node(other),
    "not_same": lambda value, other: plain_node(value) != plain_node(other),
    "in_": _is_in,
    "contains": _contains,
    "starts": lambda value, part: str(value).startswith(str(part)),
    "ends": lambda value, part: str(value).endswith(str(part)),
    "gt": _ordered(lambda value, limit: value > limit),
    "ge": _ordered(lambda value, limit: value >= limit),
    "lt": _ordered(lambda value, limit: value < limit),
    "le": _ordered(lambda value, limit: value <= limit),
}
