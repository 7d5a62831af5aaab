"""Is a NAME (of a variable, a key, an option, a header) the name of a secret? Judged by its words, never by substrings.

``HF_TOKEN``, ``aws_secret_access_key``, ``dbPassword`` are; ``max_tokens``, ``pad_token_id``, ``cache_key``,
``author``, ``TOKEN_FILE`` are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from .wordlists import KEY_OWNERS, KEY_OWNERS_OF_DOUBT, PASS_OWNERS, PIECES_OF_TEXT, QUALIFIERS, SERVICES, TURNS

LONGEST = 120


@dataclass(frozen=True)
class SecretName:
    """What a name promises."""

    kind: str
    """The kind for the mark: ``password``, ``api-key``, ``token`` …"""
    certain: bool = True
    """False: the word has harmless uses too (``token: <pad>``), so the value must look like a secret."""


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_COMPOUNDS = {
    "apikey": ("api", "key"), "apikeys": ("api", "key"), "secretkey": ("secret", "key"),
    "accesskey": ("access", "key"), "privatekey": ("private", "key"), "authkey": ("auth", "key"),
    "accountkey": ("account", "key"), "signingkey": ("signing", "key"), "authtoken": ("auth", "token"),
    "accesstoken": ("access", "token"), "refreshtoken": ("refresh", "token"), "apitoken": ("api", "token"),
    "apisecret": ("api", "secret"), "clientsecret": ("client", "secret"), "bearertoken": ("bearer", "token"),
    "authorisation": ("authorization",), "keyid": ("key", "id"), "accesskeyid": ("access", "key", "id"),
    "sharedaccesskey": ("access", "key"), "secretaccesskey": ("secret", "access", "key"),
    "sessionid": ("session", "id"), "awsaccesskeyid": ("access", "key", "id"),
    "sharedaccesssignature": ("shared", "access", "signature"), "csrftoken": ("csrf", "token"),
    "xsrftoken": ("xsrf", "token"), "presharedkey": ("preshared", "key"), "seedphrase": ("seed", "phrase"),
    "masterauth": ("auth", "password"),
}  # fmt: skip
_GLUED = re.compile(r"(.*?)(password|passwd|passphrase|apikey|secretkey|authtoken|accesstoken)")
_GLUED_TO_OWNER = re.compile(r"(\w+?)(pass|pwd|pw|token|key)")
"""``SSHPASS``, ``dbpwd``, ``hftoken``; but ``bypass`` and ``monkey`` have no owner before them."""
_PASSWORDS = {"password", "passwd", "passphrase", "passcode", "passwort", "pwd", "passwords"}
_CREDENTIALS = {"credential", "credentials", "creds"}


_PAIRS = {
    ("secret", "id"): SecretName("secret"),
    ("session", "id"): SecretName("session", certain=False),
    ("shared", "access"): SecretName("signature", certain=False),
    ("password", "hash"): SecretName("password-hash", certain=False),
    ("access", "signature"): SecretName("signature"),
    ("seed", "phrase"): SecretName("seed-phrase"),
    ("recovery", "phrase"): SecretName("seed-phrase"),
    ("case", "key"): SecretName("case-key"),
    ("amz", "signature"): SecretName("signature"),
    ("amz", "credential"): SecretName("credential"),
    ("goog", "signature"): SecretName("signature"),
    ("goog", "credential"): SecretName("credential"),
}
_QUERY = {
    "sig": SecretName("signature", certain=False),
    "signature": SecretName("signature", certain=False),
    "key": SecretName("api-key", certain=False),
    "code": SecretName("code", certain=False),
    "token": SecretName("token"),
    "auth": SecretName("token"),
    "pass": SecretName("password"),
    "st": SecretName("token", certain=False),
}
"""Names that mean more in the query of a URL."""


_TELLING = re.compile(
    "pass|pwd|pw|token|secret|key|cred|auth|cookie|jwt|sig|sas|session|phrase|mnemonic|fernet|psk|otp|sk|pat|bearer|access",
    re.I,
)
"""What each name that promises something has in it."""

_is_kept: Callable[[str], bool] = lambda name: False  # noqa: E731


def keep_names(is_kept: Callable[[str], bool]) -> None:
    """From now on, in this process and its children, these names promise nothing: somebody has said so."""
    global _is_kept
    _is_kept = is_kept
    classify.cache_clear()


@lru_cache(maxsize=8192)
def classify(name: str) -> SecretName | None:
    """What this name promises; None: no secret."""
    if len(name) > LONGEST or _is_kept(name) or name in ("PWD", "OLDPWD", "GPG_KEY", "PGPASSFILE", "sshpass"):
        return None
    if not _TELLING.search(name):
        return None
    words = words_of(name)
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in QUALIFIERS):
        words = words[:-1]
    if len(words) > 2 and words[-2] == "key" and words[-1] in ("base", "data", "json", "pem"):
        words = words[:-1]
    promise = (_by_last_words(words) or _by_first_words(words)) if words else None
    if promise and not promise.certain and _is_password_of_something(name, words):
        return SecretName("password")
    return promise


def _is_password_of_something(name: str, words: tuple[str, ...]) -> bool:
    """``MYAPP_PASS``; not ``FIRST_PASS``, nor what a log counts in small letters."""
    is_variable = name.isupper() and "_" in name
    return is_variable and words[-1] in ("pass", "pw") and len(words) > 1 and words[-2] not in TURNS


def classify_query(name: str) -> SecretName | None:
    """The same for a parameter of a URL: ``?sig=``, ``&key=``."""
    return _QUERY.get(name.lower()) or classify(name)


def words_of(name: str) -> tuple[str, ...]:
    """``AWS_SECRET_ACCESS_KEY`` and ``awsSecretAccessKey`` -> aws secret access key."""
    words: list[str] = []
    for piece in re.split(r"[^A-Za-z0-9]+", name):
        words += _words_of_piece(piece)
    return tuple(words)


def _words_of_piece(piece: str) -> list[str]:
    whole = _COMPOUNDS.get(piece.lower())
    if whole:
        return list(whole)
    words: list[str] = []
    for word in map(str.lower, _WORD.findall(piece)):
        glued = _GLUED.fullmatch(word)
        if glued and glued[1]:
            words.append(glued[1])
            word = glued[2]
        words += _COMPOUNDS.get(word) or _split_from_owner(word)
    return words


def _split_from_owner(word: str) -> tuple[str, ...]:
    glued = _GLUED_TO_OWNER.fullmatch(word)
    if not glued:
        return (word,)
    owners = PASS_OWNERS if glued[2].startswith("p") else KEY_OWNERS
    return glued.groups() if glued[1] in owners else (word,)


def is_plural(name: str) -> bool:
    """``OPENAI_API_KEYS``: one value may hold several secrets."""
    return name.rstrip("_").lower().endswith(("keys", "tokens", "secrets", "passwords"))


def _by_last_words(words: tuple[str, ...]) -> SecretName | None:
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if words[-3:] == ("access", "key", "id"):
        return SecretName("access-key-id", certain=False)
    if (before, last) in _PAIRS:
        return _PAIRS[before, last]
    if last in _PASSWORDS:
        return SecretName("password")
    if last in ("pass", "pw"):
        return SecretName("password", certain=before in PASS_OWNERS or before in SERVICES)
    if last in ("secret", "secrets"):
        return SecretName("secret", certain=last == "secret")
    if last == "token":
        return _token(before)
    if last == "tokens" and before in SERVICES | {"access", "api", "auth", "bearer", "refresh"}:
        return SecretName("token", certain=False)
    if last == "key" or (last == "keys" and before not in KEY_OWNERS_OF_DOUBT):
        return _key(words[:-1])
    if last in _CREDENTIALS:
        return SecretName("credential", certain=False)
    if last in ("authorization", "cookie"):
        return SecretName(last)
    if last in ("auth", "jwt", "bearer", "sas", "pat", "apitokens", "fernet") or (last == "sk" and before in SERVICES):
        return SecretName("token", certain=False)
    if last == "psk":
        return SecretName("password", certain=bool(before))
    if last == "otp":
        return SecretName("otp", certain=False)
    if last == "mnemonic":
        return SecretName("seed-phrase")
    return None


def _by_first_words(words: tuple[str, ...]) -> SecretName | None:
    """The owner behind: ``API_KEY_OPENAI``, ``TOKEN_HF``, ``PASSWORD_DB``; terraform's ``TF_TOKEN_app_example_org``."""
    if len(words) > 2 and words[:2] == ("tf", "token"):
        return SecretName("token")
    if len(words) < 2 or words[-1] not in SERVICES | PASS_OWNERS:
        return None
    promise = _by_last_words(words[:-1])
    if promise is None or promise.kind == "password":
        return promise
    return SecretName(promise.kind, certain=promise.certain and words[-2] == "key") if words[-1] in SERVICES else None


def _token(before: str) -> SecretName | None:
    if before in PIECES_OF_TEXT:
        return None
    return SecretName("token", certain=bool(before))


def _key(owners: tuple[str, ...]) -> SecretName | None:
    before = owners[-1] if owners else ""
    if before.isdigit() and len(owners) > 1:  # S3, B2
        before = owners[-2] + before
    if before not in KEY_OWNERS:
        return None
    return SecretName("private-key" if before == "private" else "api-key", certain=before not in KEY_OWNERS_OF_DOUBT)
