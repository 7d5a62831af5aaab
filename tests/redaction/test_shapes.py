"""Each row of the table of token shapes finds what it describes, and nothing that only begins like it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import Any

import pytest

from flatline.redaction import redact_text
from flatline.redaction.shape_table import ANYWHERE, SHAPES, Shape
from flatline.redaction.shapes import find_shapes

parse = (re._parser if hasattr(re, "_parser") else re.sre_parse).parse  # type: ignore[attr-defined]
REPEATS = 40
"""At most this many of what may repeat for long."""


class Maker:
    """Makes texts that a regular expression describes."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(str(seed))

    def text(self, pattern: str) -> str:
        return self._sequence(parse(pattern, re.ASCII))

    def _sequence(self, items: Iterable[tuple[Any, Any]]) -> str:
        return "".join(self._item(str(op), value) for op, value in items)

    def _item(self, op: str, value: Any) -> str:
        if op == "LITERAL":
            return chr(value)
        if op == "IN":
            return self.random.choice(self._class(value))
        if op in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = value
            return "".join(
                self._sequence(inner) for _ in range(self.random.randint(least, min(most, max(least, REPEATS))))
            )
        if op == "SUBPATTERN":
            return self._sequence(value[-1])
        if op == "BRANCH":
            return self._sequence(self.random.choice(value[1]))
        if op in ("ASSERT", "ASSERT_NOT"):  # a made text is tried until it fits
            return ""
        raise NotImplementedError(op)

    def _class(self, parts: Iterable[tuple[Any, Any]]) -> str:
        chars = ""
        for op, value in parts:
            if str(op) == "LITERAL":
                chars += chr(value)
            elif str(op) == "RANGE":
                chars += "".join(map(chr, range(value[0], value[1] + 1)))
            else:
                chars += "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
        return chars


def token(shape: Shape, literal: str, maker: Maker) -> tuple[str, str]:
    """What stands before the literal, and the whole token from there on."""
    behind = re.fullmatch(r"\(\?<=(.*)\)", shape.before)
    before = maker.text(behind[1]) if behind else ""
    for _ in range(500):
        made = before + literal + maker.text(shape.body)
        if made[-1] not in "-._~" and shape.pattern.match(made, len(before)):
            return before, made
    raise AssertionError(f"no text fits {shape}")


ROWS = [(shape, literal) for shape in SHAPES for literal in shape.literals]


@pytest.fixture(params=ROWS, ids=[f"{shape.kind} {literal}" for shape, literal in ROWS])
def row(request: pytest.FixtureRequest) -> tuple[Shape, str]:
    return request.param


def secret_part(shape: Shape, made: str, before: str) -> str:
    match = shape.pattern.match(made, len(before))
    assert match
    return match[1] if match.re.groups else made[len(before) - shape.back :]


@pytest.mark.parametrize("around", ["see {} end", '"{}",', "x={}&", "{}\n", "\x1b[31m{}\x1b[0m", "\\n{}\\n"])
def test_a_made_up_token_of_each_row_is_hidden(row, around):
    shape, literal = row
    if literal.startswith(":"):
        around = "see {} end"
    before, made = token(shape, literal, Maker((literal, around)))
    hidden = redact_text(around.format(made))
    secret = secret_part(shape, made, before)
    assert secret not in hidden
    assert all(part not in hidden for part in re.findall(r"[\w-]{16,}", secret)), hidden
    assert redact_text(hidden) == hidden


def of_this_row(shape: Shape, text: str) -> list[str]:
    return [span.value for span in find_shapes(text) if span.kind == shape.kind]


def test_a_shorter_one_is_none(row):
    shape, literal = row
    before, _ = token(shape, literal, Maker(literal))
    assert of_this_row(shape, f"see {before}{literal} and {before}{literal}ab end") == []


def test_another_alphabet_is_none(row):
    shape, literal = row
    before, _ = token(shape, literal, Maker(literal))
    assert of_this_row(shape, f"see {before}{literal}{'§' * 80} end") == []


def test_inside_a_word_it_is_none_unless_the_prefix_is_unmistakable(row):
    shape, literal = row
    if not literal[0].isalnum() or shape.before.startswith("(?<="):
        return
    _, made = token(shape, literal, Maker(literal))
    found = f"see qq{made} end" != redact_text(f"see qq{made} end")
    assert found == any(literal in other.literals and other.before == ANYWHERE for other in SHAPES)


def test_the_table_is_sorted_and_covers_many_services():
    kinds = [shape.kind for shape in SHAPES]
    services = kinds[: kinds.index("jwt")]
    assert services == sorted(services)
    assert len(set(kinds)) >= 115
