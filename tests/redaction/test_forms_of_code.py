"""Secrets over two lines, escaped, in code, in answers: alone, in one text, through the sieve; and what looks alike."""

from __future__ import annotations

import pytest
from redaction.forms_of_code import LOOK_ALIKES, SECRETS

from flatline.redaction import Redactor, redact_text, redactor

FILLER = "step {} loss 2.5\n" * 20


@pytest.mark.parametrize("what", SECRETS)
def test_no_secret_is_left_and_the_rest_stays(what):
    text, secret, stays = SECRETS[what]
    hidden = redact_text(text)
    assert secret not in hidden
    assert [one for one in stays if one not in hidden] == []
    assert hidden.count("\n") == text.count("\n")
    assert redact_text(hidden) == hidden


@pytest.mark.parametrize("what", SECRETS)
def test_the_sieve_finds_it_in_a_long_text(what, monkeypatch):
    text, secret, _ = SECRETS[what]
    monkeypatch.setattr(redactor, "LONG", 0)
    assert secret not in Redactor().text(f"{FILLER}\n{text}\n\n{FILLER}")


@pytest.mark.parametrize("text", LOOK_ALIKES, ids=range(len(LOOK_ALIKES)))
def test_what_only_looks_like_one_stays(text):
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "argument",
    [
        "python t.py --api-key \\\n  {} \\\n  --lr 1",
        "--api-key\n{}\n--lr\n1",
        "export WANDB_API_KEY={}\\\npython t.py",
        "- --api-key\n- {}\n- --lr\n",
        "cfg={{&quot;api_key&quot;: &quot;{}&quot;}}",
        "cfg=%7B%22api_key%22%3A%22{}%22%7D",
    ],
)
def test_an_argument_of_several_lines_or_an_escaped_one_is_redacted_as_text(argument):
    secret = "Kx83hsnTqw61bdVmZp0q7"
    hidden = Redactor().argv(["bash", "-c", argument.format(secret), "x"])
    assert hidden[0::3] == ("bash", "x")
    assert hidden[2] == argument.format("⟪api-key·1⟫")
