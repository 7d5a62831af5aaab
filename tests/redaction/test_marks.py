"""Marks cannot be forged, and stay readable when redacted again."""

from __future__ import annotations

from flatline.redaction import Redactor, redact_text
from flatline.redaction.marks import Mint, escape_foreign, is_mark

HF = "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"
OTHER = "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"


def test_ordinals_count_per_kind_and_namespaces_keep_them_apart():
    mint, child = Mint(""), Mint("stacks/12")
    assert [mint.issue("hf-token"), mint.issue("password"), mint.issue("hf-token")] == [
        "⟪hf-token·1⟫", "⟪password·1⟫", "⟪hf-token·2⟫",
    ]  # fmt: skip
    assert child.issue("hf-token") == "⟪hf-token·stacks-12.1⟫"
    assert is_mark(child.issue("x"))


def test_a_mark_nobody_issued_loses_its_double_brackets():
    redactor = Redactor()
    assert redactor.text("see ⟪hf-token·1⟫ and ⟪x⟫") == "see ⟨hf-token·1⟩ and ⟨⟨x⟩⟩"
    assert redactor.text(f"HF_TOKEN={HF}") == "HF_TOKEN=⟪hf-token·1⟫"
    assert redactor.text("see ⟪hf-token·1⟫") == "see ⟪hf-token·1⟫"


def test_redacting_again_elsewhere_keeps_marks_and_never_reuses_them():
    once = redact_text(f"HF_TOKEN={HF}")
    assert redact_text(once) == once
    assert redact_text(f"{once}\nOTHER_TOKEN={OTHER}") == "HF_TOKEN=⟪hf-token·1⟫\nOTHER_TOKEN=⟪hf-token·2⟫"


def test_a_value_that_only_contains_a_mark_is_hidden_with_it():
    assert "hunter" not in redact_text("password=⟪x·1⟫hunter22")


def test_escaping_is_stable():
    once = escape_foreign("⟪⟪a·1⟫⟫ ⟪", lambda mark: False)
    assert escape_foreign(once, lambda mark: False) == once
    assert "⟪" not in once
    assert "⟫" not in once
