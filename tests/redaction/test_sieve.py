"""Long texts are redacted through the sieve: it must find what looking at everything finds."""

from __future__ import annotations

import random

import pytest
from redaction.test_evidence import EVIDENCE
from redaction.test_formats import EVIDENCE as LOOKALIKES
from redaction.test_formats import FORMATS
from redaction.test_shapes import ROWS, Maker, token

from flatline.redaction import Redactor, redactor
from flatline.redaction import sieve as sieves
from flatline.redaction.hints import Hint, hints
from flatline.redaction.outlines import outline


def both_ways(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Redacted as a whole, and through the sieve; names get the number of their key, in whatever order they are met."""
    monkeypatch.setattr(redactor, "LONG", 1 << 60)
    whole = Redactor(keep_marks=True, key=b"one").text(text)
    monkeypatch.setattr(redactor, "LONG", 0)
    return whole, Redactor(keep_marks=True, key=b"one").text(text)


def test_every_syntax_is_found(syntax, secrets, monkeypatch):
    for secret in secrets:
        whole, sieved = both_ways(
            f"step 1\n\n{syntax.format(name=secret.name, value=secret.value)}\n\nstep 2\n", monkeypatch
        )
        assert sieved == whole


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_is_found(name, monkeypatch):
    whole, sieved = both_ways(f"step 1\nstep 2\n\n{FORMATS[name][0]}\n\nstep 3\n", monkeypatch)
    assert sieved == whole


@pytest.mark.parametrize(("shape", "literal"), ROWS, ids=[literal for _, literal in ROWS])
def test_every_shape_is_found(shape, literal, monkeypatch):
    made = token(shape, literal, Maker(literal))[1]
    half = len(made) // 2
    for text in (
        f"see {made} end",
        f"{made[:half]}\n{made[half:]}",
        f"{made[:half]}\x1b[0m{made[half:]}",
        f'"{made[:half]}" "{made[half:]}"',
    ):
        whole, sieved = both_ways(f"step 1\n\n{text}\n\nstep 2\n", monkeypatch)
        assert sieved == whole


def test_evidence_has_hardly_a_hint():
    lines = outline("\n".join([*EVIDENCE, *LOOKALIKES]) + "\n")
    hinted = {lines.count("\n", 0, at) for at, _ in hints(lines)}
    assert len(hinted) < lines.count("\n") * 0.75


FILLER = [
    "step {n} loss 2.{n} tokens/s 9{n}",
    "",
    "  at {n}",
    "node-{n}:1:2 [0] NCCL INFO x",
    "Epoch {n}: 10%|███ | 1/2\r",
    "a: {n}",
    "saved x/{n}",
]


@pytest.mark.parametrize("seed", range(60))
def test_what_stands_in_a_long_log_is_found_and_nothing_else_changes(seed, monkeypatch, secrets):
    """Names, values, formats between thousands of lines, and their values once more without their names."""
    rng = random.Random(seed)
    parts = [f"{secret.name}={secret.value}" for secret in secrets] + [text for text, _ in FORMATS.values()] + EVIDENCE
    text = ""
    for n in range(400):
        text += rng.choice(FILLER).format(n=n) + "\n"
        if rng.random() < 0.05:
            text += "\n" + rng.choice(parts) + "\n\n"
        if rng.random() < 0.02:
            text += f"used {rng.choice(secrets).value} here\n"
    whole, sieved = both_ways(text, monkeypatch)
    assert sieved == whole
    monkeypatch.setattr(redactor, "LONG", 0)
    assert Redactor(keep_marks=True).text(sieved) == sieved


DENSE = {
    "a secret in each": "api_key={secret} in {word}\n",
    "a host in each, now and then a secret": "connect to {word}-7.corp:29500\n" * 9 + "{word}_password: {secret}\n",
    "a table among them": "user,api_key\n{word},{secret}\n\nopen /home/{word}/x\n",
}


@pytest.mark.parametrize("lines", DENSE.values(), ids=DENSE)
def test_a_text_full_of_hints_is_looked_at_as_a_whole_and_nothing_else_changes(lines, monkeypatch):
    monkeypatch.setattr(sieves, "DENSE", 50)
    rng = random.Random(lines)
    text = "".join(
        lines.format(secret=f"{rng.getrandbits(80):020x}a7", word="".join(rng.choices("bcdfgklmnprst", k=9)))
        for _ in range(300)
    )
    whole, sieved = both_ways(text, monkeypatch)
    assert sieved == whole


def test_the_head_of_a_table_is_seen_whichever_line_is_asked_last():
    """Which of a text's outlines comes last is chance; it was the one that could be no head of a table."""
    judged = sieves.Sieve()._judge([b"step 5", b"user,api_key,n"])
    assert judged == {b"step 5": Hint.NONE, b"user,api_key,n": Hint.TABLE}


def test_a_line_of_the_text_may_look_like_what_separates_pieces():
    text = "a\n\x1e\nHF_TOKEN=x8Fk2mQ9zL77aB\n\x1e\n" + "step 1\n" * 4000 + "\x1e\napi_key=y8Fk2mQ9zL77aB\n\x1e\n"
    hidden = Redactor().text(text)
    assert hidden.count("\x1e") == 4
    assert "Fk2mQ9" not in hidden
