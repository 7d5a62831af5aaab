"""A known value is found in every encoding."""

from __future__ import annotations

import base64
import html
import json
import random
import shlex
import string
from urllib.parse import quote, quote_plus

import pytest

from flatline.redaction import Redactor

VALUES = ["x8Fk2mQ9zLw4", "p@ss w0rd/<&>'x9", 'q"uo\\te$7Zk_ü9', "abc+DEF/123456=="]
ENCODINGS = {
    "raw": str,
    "url": lambda value: quote(value, safe=""),
    "url path": quote,
    "form": quote_plus,
    "json": json.dumps,
    "json, readable": lambda value: json.dumps(value, ensure_ascii=False),
    "json in json": lambda value: json.dumps(json.dumps(value)),
    "html": html.escape,
    "python": repr,
    "shell": shlex.quote,
    "bytes": lambda value: repr(value.encode()),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 of user and password": lambda value: base64.b64encode(f"bob:{value}".encode()).decode(),
    "base64 shifted": lambda value: base64.b64encode(f"ab:{value}!".encode()).decode(),
    "url-safe base64": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
}


@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
@pytest.mark.parametrize("value", VALUES)
def test_a_known_value_is_hidden_in_every_encoding(value, encoding):
    redactor = Redactor()
    mark = redactor.learn("password", value)
    assert mark
    hidden = redactor.text(f"before {ENCODINGS[encoding](value)} after")
    assert mark in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")


def test_longer_values_win_over_those_they_contain():
    redactor = Redactor()
    short, long = redactor.learn("a", "x8Fk2mQ9zLw4"), redactor.learn("b", "x8Fk2mQ9zLw4-77aa")
    assert redactor.text("x8Fk2mQ9zLw4-77aa x8Fk2mQ9zLw4") == f"{long} {short}"


def test_a_short_value_is_not_cut_out_of_longer_words():
    redactor = Redactor()
    mark = redactor.learn("password", "ab3de6gh")
    assert redactor.text("ab3de6gh xab3de6ghx (ab3de6gh)") == f"{mark} xab3de6ghx ({mark})"


def test_what_is_common_is_not_learnt():
    redactor = Redactor()
    assert [redactor.learn("x", value) for value in ("true", "short", "localhost", "12345678", "/data/x")] == [None] * 5
    assert redactor.revision == 0


def test_lines_of_a_private_key_are_chased_alone():
    random.seed(4)
    lines = ["".join(random.choices(string.ascii_letters + string.digits, k=64)) for _ in range(3)]
    redactor = Redactor()
    redactor.text("-----BEGIN PRIVATE KEY-----\n" + "\n".join(lines) + "\n-----END PRIVATE KEY-----")
    assert lines[1] not in redactor.text(f"line: {lines[1]}")
