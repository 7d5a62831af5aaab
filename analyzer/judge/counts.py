"""How many rows there are, held against a number or against what a bound row says of it.

What is not known makes the number a range, from the rows that surely fit to those that may: a comparison that holds
over the whole range is true, over none of it false, else unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .conditions import Bindings, Truth, both, opposite, referred
from .language import Counted

OPERATORS = ("gt", "ge", "lt", "le", "same", "not_same")


@dataclass(frozen=True, eq=False)
class CountTest:
    """Every comparison must hold."""

    limits: tuple[tuple[str, int | str], ...]
    """(operator, a number or ``var.field``)."""
    name: str | None = None

    @property
    def references(self) -> tuple[str, ...]:
        """The ``var.field`` among the limits."""
        return tuple(limit for _, limit in self.limits if isinstance(limit, str))

    def truth(self, least: int, most: float, bindings: Bindings) -> Truth:
        """Whether a number between `least` and `most` passes."""
        result: Truth = True
        for operator, limit in self.limits:
            number = _number(referred(limit, bindings)) if isinstance(limit, str) else limit
            result = both(result, None if number is None else _holds(operator, least, most, number))
        return result

    def unknown(self, bindings: Bindings) -> Iterable[str]:
        """The references whose value is not known."""
        return [reference for reference in self.references if _number(referred(reference, bindings)) is None]


def compile_count(model: Counted) -> CountTest:
    """Compile `count`."""
    limits = [(name, getattr(model, name)) for name in OPERATORS]
    return CountTest(tuple((name, limit) for name, limit in limits if limit is not None), model.as_)


def _number(value: Any) -> float | None:
    """A number, also one that is written as text, as variables of the environment are."""
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"[0-9]{1,18}", value, re.ASCII) else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _holds(operator: str, least: int, most: float, number: float) -> Truth:
    if operator == "same":
        return (least == most) or None if least <= number <= most else False
    if operator == "not_same":
        return opposite(_holds("same", least, most, number))
    if operator in ("gt", "ge"):
        above = number + 1 if operator == "gt" else number
        return True if least >= _whole(above, number) else False if most < _whole(above, number) else None
    return opposite(_holds("ge" if operator == "lt" else "gt", least, most, number))


def _whole(above: float, number: float) -> float:
    """The least whole number that is enough: what is counted has no parts."""
    return math.floor(number) + 1 if above > number else math.ceil(number)


def distinct_range(values: Iterable[tuple[Any, bool]], *, blind: bool) -> tuple[int, float]:
    """(least, most) different values, of (value, whether its row surely fits); None is one that nobody could read."""
    sure: set[Any] = set()
    unsure: set[Any] = set()
    unread = 0
    for value, fits in values:
        if value is None:
            unread += 1
        else:
            (sure if fits else unsure).add(value if isinstance(value, (str, int, float)) else repr(value))
    most = math.inf if blind else len(sure | unsure) + unread
    return len(sure), most


