"""Secrets in text, in the syntaxes of shells, configurations, logs and programs."""

from __future__ import annotations

from flatline.redaction import redact_text


def test_a_named_secret_is_hidden_in_every_syntax_and_its_neighbours_stay(syntax, secrets):
    for secret in secrets:
        text = syntax.format(name=secret.name, value=secret.value)
        hidden = redact_text(text)
        assert secret.value not in hidden, text
        assert "lr=1e-4" in hidden, text
        assert secret.name in hidden, text
        assert redact_text(hidden) == hidden
