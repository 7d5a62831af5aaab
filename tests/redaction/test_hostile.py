"""Text made to be slow, broken or deceptive."""

from __future__ import annotations

import json
import random
import time

import pytest

from flatline.redaction import Redactor, redact_text

SIZE = 300_000
UNITS = [
    "token", "token=", "token='", 'token="', "password: ", "password ", "key", "eyJ", "eyJ-", "eyJaaaaaaaaaa.", "hf_", "sk-",
    "sk-ant-", "://", "://a:", "https://a:b@", "-----BEGIN PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\n", "AKIA",
    "AKIAABCDEFGHIJKLMNOP ", "curl -u ", "mysql -p", "machine a login b ", "Bearer ", "Basic a", "name: ", "name: a\nvalue: ",
    "cookie: a=b;", "cookie:", "cookie: ", '\\"token\\":', '\\\\\\"token\\\\\\":', "'", '"', "\\", "a", " ", "=", "\n",
    "token: |\n  a", "⟪", "⟪a·1⟫", "⟫", "\x1b[1m", "\x1b[1mtoken", "token\0", "--token ", "--token\0", "docker login ",
    "git config token ", "aws set key ", "?sig=", "?token=", "<token>", "|token|", "token is ", "api key ",
    "token=((((", "Authorization: Digest ", "Authorization: Digest response=", "é", "İ", '{"', "dp.pt.", "12345678:AA",
    "password:\n  ", "password = \"\"\"", "<password><![CDATA[", '"api_keys": ["', '"api_keys": ["a", ', '{"token":{"value":', "ghp_aaaaaaaaaaaaaaaaaaaa\n",
    "sk-\x1b[0m", '"sk-" "', "-----END PRIVATE KEY-----", "-----END PRIVATE KEY-----\n", "MIIE" * 12 + "\n", "login(", "--from-literal=a=", "PASSWORD '",
    "setenv ", "ENV HF_TOKEN ", "set -x token ", "token%3D", "token\u200b", '"api\\u005f', "vault login -a ", "zip -P", "curl -u", "$6$a", "://a:b/", "mnemonic abandon ",
    "LS0tLS1CRUdJTi", "token:\n- aaaaaaaa1\n", "pat ", "api key provided: ",
    "kind: Secret\n", '"kind":"Secret","data":{"a":"b",', "a,api_key,b\n", "api_key,", 'variable "db_password" {', ">>> hf_token\n",
    "Private-Lines: 3\n", "proctitle=2d2d746f6b656e2078 ", "a\u200b", "token='abcdefgh\n", "AUTH abcdefgh ",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_one_endless_line_takes_linear_time(unit):
    text = (unit * (SIZE // len(unit) + 1))[:SIZE]
    begin = time.process_time()
    Redactor().text(text)
    assert time.process_time() - begin < 8, "about 0.3 s where nothing else runs; quadratic would be minutes"


def _document(rng: random.Random, depth: int = 0) -> object:
    words = ["token", "abc'", 'q"uote', "password=", "it's", "HF_TOKEN=hf_" + "a" * 34, "\n", "é", "\\", "x9y8z7w6v5u4", "://a:b1c2@h",
             "Bearer x9y8z7w6v5u4t3", "--api-key", "\0", "\x1b[1m", "Cookie: s=x9y8z7w6v5u4;", "-----BEGIN PRIVATE KEY-----", "MIIE" * 8,
             "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.sig", "curl -u a:", "'password': 'x", "{", "}", ",", ":", " ", " is "]  # fmt: skip
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind < 3:
        return "".join(rng.choices(words, k=rng.randrange(6)))
    if kind == 3:
        return rng.choice([1, -2.5, 12345678, None, True])
    if kind == 4:
        return json.dumps({rng.choice(words): rng.choice(words)})
    if kind == 5:
        return [_document(rng, depth + 1) for _ in range(rng.randrange(4))]
    names = ["token", "password", "api_key", "cmd", "Authorization", "cookie", "name", "value", "lr", "client_secret"]
    return {rng.choice(names): _document(rng, depth + 1) for _ in range(rng.randrange(5))}


@pytest.mark.parametrize("seed", range(300))
def test_redacted_json_is_still_json_and_redacting_again_changes_nothing(seed):
    rng = random.Random(seed)
    text = json.dumps([_document(rng) for _ in range(6)], indent=rng.choice([None, 2]), ensure_ascii=rng.random() < 0.5)
    hidden = redact_text(text)
    json.loads(hidden)
    assert redact_text(hidden) == hidden


@pytest.mark.parametrize("seed", range(300))
def test_any_text_is_stable_under_a_second_pass(seed):
    rng = random.Random(seed)
    pieces = ["token", "password", "=", ": ", "'", '"', "\n", " ", "x9y8z7w6v5u4", "hf_" + "b" * 34, "://u:pw12345x@h", "⟪", "⟫",
              "⟪jwt·1⟫", "--", "Authorization: Bearer ", "\0", ";", ",", "&sig=", "?", "\\", "|", "<", ">", "cookie: a=", "is "]  # fmt: skip
    text = "".join(rng.choices(pieces, k=30))
    redactor = Redactor()
    once = redactor.text(text)
    assert redactor.text(once) == once
    assert redact_text(redact_text(text)) == redact_text(text)


def test_odd_text_passes():
    for text in ("", "\0", "\ud800", "İ" * 50 + "token=x9y8z7w6v5u4", "\r\n\r\n"):
        Redactor().text(text)


def test_a_letter_whose_lower_case_is_longer_does_not_shift_the_value():
    assert redact_text("İİİ api_key=x9y8z7w6v5u4 end") == "İİİ api_key=⟪api-key·1⟫ end"


def test_a_truncated_private_key_is_hidden_to_its_end():
    key = "\n".join("MIIEvgIBADANBgkqhkiG9w0BAQEFAASC" + str(n) * 32 for n in range(9))
    hidden = redact_text(f"cat key\n-----BEGIN RSA PRIVATE KEY-----\n{key}")
    assert hidden == "cat key\n⟪private-key·1⟫"


@pytest.mark.parametrize("prefix", ["+", "| ", "2026-01-01 10:00:00 INFO ", "'"])
def test_a_private_key_behind_prefixes_is_hidden_line_by_line(prefix):
    lines = ["-----BEGIN PRIVATE KEY-----", *("MIIEvgIBADANBgkqhkiG9w0BAQEFAASC" + str(n) * 32 for n in range(9)), "-----END PRIVATE KEY-----"]
    hidden = redact_text("".join(f"{prefix}{line}\n" for line in lines))
    assert "MIIEvgIBADAN" not in hidden
