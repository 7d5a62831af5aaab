"""A name is judged by its words."""

from __future__ import annotations

import pytest

from flatline.redaction import Redactor, names, redact_text
from flatline.redaction.names import classify, classify_query


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "db_password", "dbPassword", "PGPASSWORD", "MYSQL_PWD", "Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "x-auth-token", "apiKey", "APIKEY", "accessToken", "client_secret", "--api-key", "--hub-token", "trainer.logger.api_key", "DJANGO_SECRET_KEY", "AccountKey", "GITHUB_PAT", "password2", "API_KEY_PROD", "OPENAI_KEY", "kaggle-key", "SMTP_PASS", "VAULT_SECRET_ID", "aws_access_key_id", "bot_token", "hub_token", "_authToken", "storePassword", "NCCL_SECRET", "SENTRY_AUTH_TOKEN", "ssh_passphrase", "refreshToken"],
)
def test_names_of_secrets(name):
    assert classify(name)


@pytest.mark.parametrize(
    "name",
    ["tokens", "max_tokens", "num_tokens", "pad_token", "eos_token", "bos_token_id", "pad_token_id", "tokenizer", "TOKENIZERS_PARALLELISM", "cache_key", "sort_key", "primary_key", "key", "KEY", "keys", "key_padding_mask", "key_dim", "past_key_values", "author", "authors", "AUTHOR_NAME", "HF_TOKEN_PATH", "TOKEN_FILE", "PASSWORD_FILE", "SSH_AUTH_SOCK", "KEYBOARD", "monkey", "turkey", "PWD", "OLDPWD", "passes", "forward_passes", "bypass", "compass", "secretary", "tokenization", "GPG_KEY", "secretName", "secretKeyRef", "image_token", "next_token", "tokens_per_second", "authentication_type", "key_value_proj_dim", "signal", "signature", "assign", "design"],
)
def test_names_that_only_sound_like_it(name):
    assert classify(name) is None


@pytest.mark.parametrize("name", ["token", "auth", "credentials", "session_id"])
def test_names_of_doubt_want_a_value_that_looks_secret(name):
    promise = classify(name)
    assert promise
    assert not promise.certain


def test_a_query_gives_short_names_more_weight():
    assert classify("sig") is None
    assert classify_query("sig")
    assert classify_query("token") != classify("token")


def test_a_very_long_name_is_no_name():
    assert classify("x" * 500 + "_token") is None


@pytest.mark.parametrize(
    "name",
    ["SSHPASS", "SECRET_KEY_BASE", "DB_PW", "OPENAI_API_KEYS", "GITHUB_TOKENS", "API_KEY_OPENAI", "DBPASS", "API_KEYS", "TOKEN_HF", "TOKEN_GITHUB", "PASSWORD_DB", "USERPASS", "STOREPASS", "keypass", "dbpwd", "ROOT_PW", "LDAP_BIND_PW", "SSH_KEY", "SSH_PRIVATE_KEY_PEM", "S3_KEY", "MINIO_KEY", "B2_KEY", "COSMOS_KEY", "client_key", "client-key-data", "GCP_SA_KEY", "UNSEAL_KEY", "RECOVERY_KEY", "PRESHARED_KEY", "WIFI_PSK", "FERNET", "TF_TOKEN_app_terraform_io", "LANGFUSE_SK", "csrftoken", "x-functions-key", "--pat", "--hf-pat", "--gh-pat", "--gitlab-pat"],
)
def test_names_with_their_owner_behind_glued_or_short(name):
    hidden = Redactor().env_value(name, "x8Fk2mQ9zL77a")
    assert "x8Fk2mQ9" not in hidden
    assert "x8Fk2mQ9" not in redact_text(f"{name}=x8Fk2mQ9zL77a")
    assert "x8Fk2mQ9" not in redact_text(f"{name}: x8Fk2mQ9zL77a")
    assert "x8Fk2mQ9" not in Redactor().argv(["t.py", f"--{name.lstrip('-')}", "x8Fk2mQ9zL77a"])[2]


@pytest.mark.parametrize(
    "line",
    ["s3_key: checkpoints/run12/step_3000.pt", "ssh_key=/root/.ssh/id_ed25519", "tokens=4096", "openai_tokens: 12345678",
     "num_keys=12", "missing_keys: ['a.weight', 'b.bias']", "shared_keys=['x1234567890ab']", "max_tokens_openai=81920", "token_linear: Linear4096",
     "password_auth: yes", "sshpass: command not found", "mnemonic: mov", "OTP: 26", "db_pwd=/srv/db", "--patch-size 14", "pat=4", "task_skip=12"],
)  # fmt: skip
def test_what_the_value_shows_to_be_no_secret(line):
    assert redact_text(line) == line


def test_seed_phrases_and_passcodes():
    words = "abandon ability able about above absent absorb abstract absurd abuse access accident"
    assert redact_text(f"SEED_PHRASE={words} end").startswith("SEED_PHRASE=⟪seed-phrase·1⟫")
    assert redact_text(f'"mnemonic": "{words}"') == '"mnemonic": "⟪seed-phrase·1⟫"'
    assert Redactor().env_value("MNEMONIC", words) == "⟪seed-phrase·1⟫"
    assert Redactor().env_value("OTP", "492817") == "⟪otp·1⟫"
    assert redact_text("otp=492817") == "otp=⟪otp·1⟫"


def test_each_of_several_keys_in_one_variable_is_known_afterwards():
    redactor = Redactor()
    assert redactor.env_value("API_KEYS", "x8Fk2mQ9zL77,y8Fk2mQ9zL77") == "⟪api-key·1⟫,⟪api-key·2⟫"
    assert redactor.text("used y8Fk2mQ9zL77") == "used ⟪api-key·2⟫"


def test_a_name_without_a_telling_word_would_promise_nothing(monkeypatch):
    """The words are looked for first, since most names have none; none that promises something may be lost by that."""
    endings = ["pass", "pw", "otp", "psk", "sas", "jwt", "pat", "bearer", "fernet", "mnemonic", "sk", "creds", "auth"]
    endings += ["cookie", "token", "tokens", "key", "keys", "secret", "id", "hash", "phrase", "signature", "credential", "access"]
    endings += [*names._PASSWORDS, *names._CREDENTIALS, *names._COMPOUNDS]
    befores = ["", "db", "openai", "api", "secret", "session", "shared", "password", "access", "seed", "recovery", "case", "amz", "goog"]
    every = [f"{before}_{end}".strip("_") for before in befores for end in endings]
    told = [name for name in every if classify.__wrapped__(name)]
    monkeypatch.setattr(names, "_TELLING", names.re.compile(""))
    assert told == [name for name in every if classify.__wrapped__(name)]
