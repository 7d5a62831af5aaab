"""Strict decoding of parsed JSON into the frozen dataclasses of facts.py and format.py, with the standard library.

The types are compiled from the annotations' text: evaluating ``str | None`` needs Python 3.10, and this runs on 3.9.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Callable, TypeVar, get_args

Check = Callable[[Any], Any]
"""Takes a JSON value, returns the field's value; DecodeError when the value is none."""
T = TypeVar("T")


class DecodeError(ValueError):
    """A value that does not fit its field; the message is half a sentence."""


def decode(kind: type[T], data: Mapping[str, Any]) -> T:
    """One instance of `kind` out of a JSON object.

    Nothing is coerced, except a whole number where a float is wanted and an array where a tuple is; a text that is
    longer than its field may be is cut there, as the writer does: patterns are searched in it. Unknown fields
    are ignored, unknown words of an enumeration become ``unknown`` or ``other`` where it has them: a newer
    collector must stay readable. DecodeError names the field.
    """
    checks = checks_of(kind)
    values = {}
    for name, value in data.items():
        check = checks.get(name)
        if check is None:
            continue
        try:
            values[name] = check(value)
        except DecodeError as error:
            raise DecodeError(f"{name} {error}") from None
    missing = _required(kind) - values.keys()
    if missing:
        raise DecodeError(f"{', '.join(sorted(missing))} is missing")
    return kind(**values)


@cache
def checks_of(kind: type) -> Mapping[str, Check]:
    """field name -> its check."""
    names = vars(sys.modules[kind.__module__])
    return {
        f.name: _at_most(f.metadata.get("longest"), _compile(ast.parse(str(f.type), mode="eval").body, names))
        for f in fields(kind)
    }


def _at_most(longest: Any, check: Check) -> Check:
    """The check, of a field of which the bundle holds at most so many characters."""
    if longest is None:
        return check

    def cut(value: Any) -> Any:
        text = check(value)
        return text[:longest] if isinstance(text, str) else text

    return cut


@cache
def _required(kind: type) -> frozenset[str]:
    return frozenset(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)


def _compile(node: ast.expr, names: Mapping[str, Any]) -> Check:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _either(_compile(node.left, names), _compile(node.right, names))
    if isinstance(node, ast.Constant) and node.value is None:
        return _none
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return _compile_generic(node.value.id, node.slice, names)
    if isinstance(node, ast.Name):
        return _PLAIN.get(node.id) or _named(names[node.id])
    raise TypeError(f"no decoder for the annotation {ast.dump(node)}")


def _compile_generic(name: str, inner: ast.expr, names: Mapping[str, Any]) -> Check:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name == "Literal":
        return _word(tuple(ast.literal_eval(part) for part in parts))
    if name == "Mapping":
        return _mapping(_compile(parts[1], names))
    if name == "tuple" and isinstance(parts[-1], ast.Constant) and parts[-1].value is Ellipsis:
        return _array(_compile(parts[0], names))
    if name == "tuple":
        return _record([_compile(part, names) for part in parts])
    raise TypeError(f"no decoder for {name}[…]")


def _named(value: Any) -> Check:
    if is_dataclass(value):
        return _nested(value)  # type: ignore[arg-type]
    return _word(get_args(value))


def _wants(what: str, value: Any) -> DecodeError:
    return DecodeError(f"wants {what}, is {type(value).__name__}")


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    raise _wants("text", value)


def _integer(value: Any) -> int:
    if type(value) is int:
        return value
    raise _wants("an integer", value)


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise _wants("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise DecodeError("is too large for a double") from None


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise _wants("true or false", value)


def _none(value: Any) -> None:
    if value is not None:
        raise _wants("null", value)


_PLAIN: Mapping[str, Check] = {"str": _text, "int": _integer, "float": _number, "bool": _boolean}


def _either(first: Check, second: Check) -> Check:
    if second is _none:
        return lambda value: None if value is None else first(value)

    def check(value: Any) -> Any:
        try:
            return first(value)
        except DecodeError:
            return second(value)

    return check


def _word(words: tuple[Any, ...]) -> Check:
    allowed = frozenset(words)
    fallback = next((word for word in ("unknown", "other") if word in allowed), None)

    def check(value: Any) -> str:
        if type(value) is not str:
            raise _wants("a word", value)
        if value in allowed:
            return value
        if fallback is None:
            raise DecodeError(f"is none of {', '.join(sorted(allowed))}")
        return fallback

    return check


def _array(item: Check) -> Check:
    def check(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise _wants("an array", value)
        return tuple([item(each) for each in value])

    return check


def _record(items: list[Check]) -> Check:
    def check(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(items):
            raise _wants(f"an array of {len(items)}", value)
        return tuple([item(each) for item, each in zip(items, value)])

    return check


def _mapping(item: Check) -> Check:
    def check(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _wants("an object", value)
        return {key: item(each) for key, each in value.items()}

    return check


def _nested(kind: type) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise _wants("an object", value)
        return decode(kind, value)

    return check
