"""JSON that others wrote: what is refused, and what is mended."""

from __future__ import annotations

import pytest

from flatline.bundle import strict_json
from flatline.bundle.strict_json import JsonError


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NaN", "NaN"),
        ('{"a": Infinity}', "Infinity"),
        ("-Infinity", "-Infinity"),
        ("1e999", "too large for a double"),
        ('{"a": 1, "a": 2}', "a duplicate key"),
        ("9" * 5000, "a number of 5000 digits"),
        ("[" * 65 + "]" * 65, "deeper than 64"),
        ("[" * 200_000 + "]" * 200_000, "deeper than 64"),
        ('{"a":' * 100_000, "deeper than 64"),
        ('{"a": 1', "broken in line 1"),
        ("\n\n[1,]", "broken in line 3"),
        ("", "broken"),
        ("1 2", "broken"),
        ('"a\tb"', "broken"),
    ],
)
def test_refused(text, reason):
    with pytest.raises(JsonError, match=reason):
        strict_json.loads(text)


def test_64_levels_are_taken():
    value = strict_json.loads("[" * 64 + "]" * 64)
    assert isinstance(value, list)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud800"', "\ufffd"),
        (r'"\udc80 a"', "\ufffd a"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (r'"\\ud800"', r"\ud800"),
        (r'"\\\ud800"', "\\\ufffd"),
    ],
)
def test_lone_surrogates_become_the_replacement_character(text, value):
    assert strict_json.loads(text) == value


def test_the_largest_kernel_value_is_a_number():
    assert strict_json.loads("[18446744073709551615, -1.5e3]") == [2**64 - 1, -1500.0]
