"""Placeholders hide nothing; common values are never chased."""

from __future__ import annotations

import pytest

from flatline.redaction import redact_text
from flatline.redaction.values import is_chaseable, is_path, is_placeholder, is_plain_words, looks_secret


@pytest.mark.parametrize(
    "value", ["", "  ", "true", "None", "null", "***", "********", "xxxx", "${HF_TOKEN}", "$TOKEN", "<your token>", "[PAD]",
              "{{ token }}", "%(token)s", "⟪hf-token·1⟫", "⟨hf-token·1⟩", "hf_***"]
)  # fmt: skip
def test_placeholders(value):
    assert is_placeholder(value)


@pytest.mark.parametrize("value", ["hunter2", "$ecret123!", "a b1bGRo", "correcthorse", "hf_abc"])
def test_what_is_no_placeholder(value):
    assert not is_placeholder(value)


@pytest.mark.parametrize(
    "value",
    ["true", "localhost", "root", "python", "/home/bob/.ssh/id_ed25519", "12345678901", "train.py", "gpt2-medium", "cuda-12.4",
     "ModuleType", "team-vision", "127.0.0.1:8080", "0x7f11aa02b9d0", "2026-01-01 10:00:00",
     "71bab52f-47b7-4afb-8813-7dcb710c88fb", "short1", "https://api.example.org/v1", "a.example.org"],
)  # fmt: skip
def test_common_values_are_not_chased(value):
    assert not is_chaseable(value)


@pytest.mark.parametrize("value", ["x8Fk2mQ9zL", "hf_GouSHrcvmiJSyw", "3d4c5fe7c0647eb2", "p@ss w0rd!x", "kT9$vv-2"])
def test_secrets_are_chased(value):
    assert is_chaseable(value)


@pytest.mark.parametrize("value", ["Winterurlaub2024", "SuperGeheim2024", "zzTopGeheim99", "sonnenblume42"])
def test_passwords_that_people_choose_are_chased(value):
    """Nothing but a certain name makes such a word a secret; then it is one wherever it stands."""
    assert is_chaseable(value)
    assert value not in redact_text(f"PGPASSWORD={value}\nconnect failed with {value}\n")


def test_random_letters_are_no_words():
    assert not is_plain_words("GouSHrcvmiJSywzIDmjEUQtBalmMRbCJIA")
    assert is_plain_words("HiddenText")


def test_a_path_is_kept_although_it_is_long_and_mixed():
    assert is_path("/run/secrets/kubernetes.io/serviceaccount/token")
    assert not looks_secret("/run/secrets/kubernetes.io/serviceaccount/token9")


@pytest.mark.parametrize("value", ["hunter2pw", "dbpass77", "winter2024pass"])
def test_a_password_that_ends_like_the_name_of_one_is_hidden(value):
    assert value not in redact_text(f"DB_PASSWORD={value}\n")
    assert value not in redact_text(f"password: {value}\n")


@pytest.mark.parametrize("value", ["HF_TOKEN", "db_password", "API_KEY_2", "wandb_api_key"])
def test_the_name_of_a_secret_in_its_place_stays(value):
    assert value in redact_text(f"password={value}\n")
