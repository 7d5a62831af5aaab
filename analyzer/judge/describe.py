"""A condition in the words of its author, on lines that are never cut in the middle of a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .counts import OPERATORS
from .language import AllOf, AnyOf, Find, Nothing, Operators, Same


def head(model: Any) -> str:
    """``find threads as t: state = D; syscall.fd in 1, 2``; of `any` and `all` only the word."""
    if isinstance(model, (AnyOf, AllOf)):
        return "any of" if isinstance(model, AnyOf) else "all of"
    return _search(model)


def branches(model: Any) -> list[Any]:
    """The conditions below this one: of `any` and `all` their branches, of a search what goes `with` it."""
    if isinstance(model, AnyOf):
        return model.any
    return model.all if isinstance(model, AllOf) else model.with_


def _search(model: Find | Nothing) -> str:
    tests = [f"{field} {_predicate(value)}" for field, value in model.where.items()]
    tests += [f"stack has {' > '.join(frames)}" for frames in (model.stack,) if frames]
    tests += [f"stack ends in {' > '.join(frames)}" for frames in (model.innermost,) if frames]
    tests += [f"{word} {name}" for word, name in (("after", model.after), ("before", model.before)) if name]
    tests += [f"in the {model.scope.replace('-', ' ')}"] if model.scope != "all" else []
    return f"{_table(model)}{': ' if tests else ''}{'; '.join(tests)}"


def _table(model: Find | Nothing) -> str:
    if isinstance(model, Nothing):
        return f"no {model.none}"
    least = f" at least {model.at_least}" if model.at_least is not None else _count(model)
    of = "; ".join(f"{field} {_predicate(value)}" for field, value in model.of.items())
    name = f" as {model.as_}" if model.as_ else ""
    return f"find{least} {model.find}{name}{f' (of those with {of})' if of else ''}"


def _count(model: Find) -> str:
    """`` a number (n) < e.world_size of different rank of``."""
    if model.count is None:
        return ""
    limits = ((name, getattr(model.count, name)) for name in OPERATORS)
    compared = " and ".join(f"{_SIGNS[name]} {limit}" for name, limit in limits if limit is not None)
    what = f"different {model.distinct} of" if model.distinct else "rows of"
    name = f" ({model.count.as_})" if model.count.as_ else ""
    return f" a number{name} {compared} of {what}"


def _predicate(predicate: Any) -> str:
    if not isinstance(predicate, Operators):
        return f"= {_value(predicate)}"
    return " and ".join(_operators(predicate))


def _operators(operators: Operators) -> Iterator[str]:
    for name in sorted(operators.model_fields_set):
        operand = getattr(operators, name)
        if operand is None:
            continue
        if name == "exists":
            yield "is known" if operand else "is not known"
        elif name == "not_":
            yield f"not ({_predicate(operand)})"
        else:
            yield f"{_SIGNS[name]} {_value(operand)}"


_SIGNS = {
    "re": "matches", "in_": "in", "contains": "contains", "starts": "starts with", "ends": "ends in", "same": "=",
    "not_same": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<=",
}  # fmt: skip


def _value(value: Any) -> str:
    if isinstance(value, Same):
        return value.same
    if isinstance(value, list):
        return ", ".join(map(_value, value)) or "()"
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)
