"""JSON of any depth in a bundle is redacted: as data, or as text where nobody nests data so deep."""

from __future__ import annotations

import pytest

from flatline.redaction import Redactor
from flatline.redaction.documents import redact_document, survivors

SECRET = "hf_" + "Ab1" * 11 + "x"


@pytest.mark.parametrize("depth", [1, 90, 400, 900, 5000])
@pytest.mark.parametrize("name", ["report.json", "rows.jsonl"])
def test_a_secret_is_hidden_however_deep_it_lies(depth: int, name: str):
    text = '{"a":' * depth + f'"{SECRET}"' + "}" * depth
    redactor = Redactor()
    assert SECRET not in redact_document(name, text, redactor)
    assert [one.kind for one in survivors(name, text, Redactor())] == ["hf-token"]


@pytest.mark.parametrize("words", [("--case-key", "blue-Whale77"), ("--case-key=blue-Whale77",)])
def test_the_key_of_the_pseudonyms_is_hidden_in_a_command_line(words: tuple[str, ...]):
    assert not any("blue-Whale77" in word for word in Redactor().argv(("flatline", "collect", *words)))
    assert "blue-Whale77" not in Redactor().text(f"$ flatline collect {' '.join(words)} --pid 4\n")
