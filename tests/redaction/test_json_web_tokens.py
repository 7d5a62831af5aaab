"""A JSON Web Token at the end of a line: it takes nothing of the next line with it, and one that is wrapped goes whole."""

from __future__ import annotations

import base64
import json
import random
import string

import pytest

from flatline.redaction import redact_text

SIGNED = [
    ("HS256", 43), ("HS384", 64), ("HS512", 86), ("ES256", 86), ("ES384", 128), ("ES512", 176), ("EdDSA", 86),
    ("RS256", 171), ("RS256", 342), ("PS384", 512), ("RS512", 683),
]  # fmt: skip
BEHIND = ["step10000checkpoint1saved ok\n", "step_10000_checkpoint_1_saved_0123456789\n", "a1b2c3d4e5f6a7b8c9d0e1f2\n"]


def part(fields: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def token(algorithm: str, length: int) -> str:
    rng = random.Random(algorithm)
    signature = "".join(rng.choices(string.ascii_letters + string.digits, k=length))
    return f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part({'sub': 'a-user-of-it', 'iat': '1512'})}.{signature}"


@pytest.mark.parametrize(("algorithm", "length"), SIGNED)
@pytest.mark.parametrize("before", ["", "Bearer ", "Authorization: Bearer ", "hub_token=", "2026-03-01 10:00:00 got "])
def test_the_line_behind_a_complete_token_stays(before, algorithm, length):
    made = token(algorithm, length)
    for behind in BEHIND:
        hidden = redact_text(f"{before}{made}\n{behind}")
        assert hidden.endswith(f"⟫\n{behind}")
        assert made[-16:] not in hidden


def test_what_is_behind_a_token_of_an_unknown_algorithm_stays_when_its_signature_has_a_known_length():
    assert redact_text(f"{token('XX1', 86)}\n{BEHIND[0]}") == f"⟪jwt·1⟫\n{BEHIND[0]}"


def test_what_is_behind_a_token_without_signature_stays():
    unsigned = token("none", 0)
    for made in (unsigned, unsigned.rstrip(".")):
        assert redact_text(f"{made}\n{BEHIND[0]}") == f"⟪jwt·1⟫\n{BEHIND[0]}"


@pytest.mark.parametrize(("algorithm", "length"), SIGNED)
@pytest.mark.parametrize("width", [64, 76, 80, 100])
def test_a_wrapped_token_is_hidden_line_by_line(width, algorithm, length):
    made = token(algorithm, length)
    lines = [made[at : at + width] for at in range(0, len(made), width)]
    wrapped = "\n".join(lines)
    hidden = redact_text(f"{wrapped}\nstep10000checkpoint1saved ok\n").splitlines()
    assert hidden == ["⟪jwt·1⟫"] * len(lines) + ["step10000checkpoint1saved ok"]


def test_a_wrapped_token_of_an_unknown_algorithm_keeps_its_lines():
    made = token("XX1", 90)
    assert redact_text(f"{made[:-40]}\n{made[-40:]}\nstep 3\n") == "⟪jwt·1⟫\n⟪jwt·1⟫\nstep 3\n"
