"""What a value looks like: a placeholder that hides nothing, or something worth hiding, or worth chasing."""

from __future__ import annotations

import re
from functools import lru_cache

from .marks import has_mark, is_mark
from .pseudonyms import has_pseudonym
from .wordlists import NOTHING

SHORTEST_CHASED = 8
REMEMBERED = 1024
"""Values whose judgement is remembered: text made to be slow repeats itself."""

_PLACEHOLDER = re.compile(
    r"\$\{[^}]*\}|\$\{\{|\$[A-Z_][A-Z0-9_]*|\$\(.*|<[^<>]*>|\{\{.*\}\}|\{[^{}]*\}|%\(\w+\)s|%s|\[[A-Z_]+\]|\.\.\."
    r"|(\S)\1*|[*•.x_-]+|\*+.{0,4}|.{0,4}\*{3,}.{0,4}",
    re.S,
)
_REFERENCE = re.compile(r"arn:aws[\w-]*:.*|(?:file|https?|s3|gs|vault|secret|op)://[^@\s]*|projects/[\w-]+/secrets/.*")
_NUMBER = re.compile(r"[-+]?[0-9][0-9_,.]*(?:[eE][-+]?[0-9]+)?[a-zA-Z%]{0,2}|[0-9]{1,6}/[0-9]{1,6}")
_ROOTS = "app|bin|boot|cache|data|datasets|dev|etc|home|lib|lib64|lustre|media|mnt|nfs|opt|proc|root|run|sbin|scratch"
_PATH = re.compile(
    r"(?:file:/|~|\.{1,2})?/(?:" + _ROOTS + r"|secrets|shared|srv|sys|tmp|usr|users|Users|var|work|workspace)(?:/.*)?"
    r"|(?:~|\.{1,2})/[\w./+-]+|[A-Z]:\\.*|[\w.-]+(?:/[\w.-]+)*\.(?:pem|key|crt|json|ya?ml|txt|toml|env|py|sh|cfg|ini)"
)
_EXPRESSION = re.compile(
    r"[A-Za-z_][\w.]*(?:\(.*|\[.*)|(?:[a-z_]+\.)+[a-z_]+|(?:self|cls|args|cfg|config|os|settings|opts|options|env)\.[\w.]+",
    re.S,
)
_SEED_PHRASE = re.compile(r"[a-z]{3,8}(?:[ ,]{1,2}[a-z]{3,8}){11,23}")
_LETTERS = re.compile(r"_{0,2}[A-Za-z]+(?:[-_. ]{1,2}[A-Za-z]+){0,12}[._]{0,2}")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_TOKEN = re.compile(r"[\w+/=.~:%$!@*-]+", re.ASCII)
_ORDINARY = re.compile(
    r"(?:[A-Z]?[a-z]+|[A-Z]+)(?:[A-Z][a-z]{2,}){0,2}[-_. ]?v?[0-9]+(?:\.[0-9]+)*"  # node-17, cuda-12.4, ResNet50
    r"|[a-z]{2,15}[0-9]{0,4}(?:[-_.][a-z]{3,15}[0-9]{0,3}){0,6}"  # gpt2-medium
    r"|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"  # UUIDs name GPUs and runs
    r"|0x[0-9a-fA-F]+|[0-9:.T Z+-]+"  # addresses, dates, IP addresses
    r"|[\w.-]+:[0-9]{1,5}|https?://[^@\s]*|[\w.-]+\.(?:com|org|net|io|ai|local|internal)"
)

_LETTER, _DIGIT = re.compile("[A-Za-z]"), re.compile("[0-9]")
_MEMORABLE = re.compile(r"[A-Za-z]{5,}[0-9]{2,6}")
"""``Winterurlaub2024``: the commonest shape of a password that people choose."""
_SHORTEST_MEMORABLE = 10


def is_placeholder(value: str) -> bool:
    """Nothing is hidden here: empty, a flag, a reference to a variable, stars, a mark."""
    text = value.strip()
    if len(text) > 200:
        return False
    return not text or text.lower() in NOTHING or is_mark(text) or bool(_PLACEHOLDER.fullmatch(text))


@lru_cache(maxsize=REMEMBERED)
def hides_nothing(kind: str, value: str) -> bool:
    """A placeholder or a path; a password may look like one: ``<x8Fk2mQ9zL>``, ``/opt/x!77``, ``a8Fk2.key``.

    Nor is what holds a pseudonym a secret: before that was put there, the value had been looked at.
    """
    if has_pseudonym(value):
        return True
    if kind != "password":
        return is_placeholder(value) or is_path(value)
    if is_placeholder(value):
        return not (value[:1] in "<{[" and re.fullmatch(r"\w{8,}", value[1:-1]) and _is_mixed(value[1:-1]))
    return is_path(value) and not re.search(r"[!#$%^&*()=?;]", value) and not ("/" not in value and _is_mixed(value))


def _is_mixed(value: str) -> bool:
    return has_letters_and_digits(value) and is_mixed_case(value)


def is_call(value: str) -> bool:
    """``getpass.getpass(``, ``SecretStr(``; not ``Qx8(Fk2mQ9``."""
    head = re.split(r"[(\[]", value, maxsplit=1)[0]
    return all(re.fullmatch(r"_*[a-z][a-z0-9_]*|(?:[A-Z]+[a-z]+)+|[A-Z_]+", part) for part in head.split("."))


def is_number(value: str) -> bool:
    """A count, a size, a rate, so many of so many."""
    return len(value) < 40 and bool(_NUMBER.fullmatch(value))


def is_path(value: str) -> bool:
    """The place of a secret, not the secret: a file, a URL without a user, the name of a cloud's resource."""
    return not value.isalnum() and len(value) < 4096 and bool(_PATH.fullmatch(value) or _REFERENCE.fullmatch(value))


@lru_cache(maxsize=REMEMBERED)
def is_expression(value: str) -> bool:
    """Code that fetches a secret: ``os.environ["HF_TOKEN"]``, ``args.token``."""
    return not value.isalnum() and len(value) < 400 and bool(_EXPRESSION.fullmatch(value))


@lru_cache(maxsize=REMEMBERED)
def is_plain_words(value: str) -> bool:
    """``disabled``, ``team-vision``, ``ModuleType``: words, not a credential. Random letters change case too often."""
    if len(value) > 80 or not _LETTERS.fullmatch(value):
        return False
    words = _WORD.findall(value)
    return max(map(len, words)) <= 20 and sum(map(len, words)) >= 3.3 * len(words)


def is_seed_phrase(value: str) -> bool:
    """Twelve words or more, of three to eight small letters (BIP-39)."""
    return bool(_SEED_PHRASE.fullmatch(value.strip()))


def is_passcode(value: str) -> bool:
    """What is typed once: six to eight digits (RFC 6238)."""
    return 6 <= len(value) <= 8 and value.isascii() and value.isdigit()


def is_token_like(value: str) -> bool:
    """Made only of what services make tokens of: no spaces, brackets, quotes."""
    return bool(_TOKEN.fullmatch(value))


@lru_cache(maxsize=REMEMBERED)
def looks_secret(value: str, *, shortest: int = 12) -> bool:
    """Whether a value under a name of doubt (``token``, ``auth``) is one: long, one word, letters and digits."""
    if len(value) < shortest or not is_token_like(value) or is_path(value) or is_expression(value):
        return False
    if len(value) < 200 and _ORDINARY.fullmatch(value):
        return False
    if "/" in value and len(value) < 200 and all(map(_is_ordinary_part, value.split("/"))):
        return False
    return has_letters_and_digits(value) or (len(value) >= 20 and value.isalpha() and is_mixed_case(value))


def _is_ordinary_part(part: str) -> bool:
    """A piece of the name of an object in a bucket: ``checkpoints``, ``step_3000``, ``model.pt``."""
    stem = re.sub(r"\.[a-z]\w{0,11}$", "", part)
    return not stem or bool(_ORDINARY.fullmatch(stem)) or is_plain_words(stem)


def is_chaseable(value: str) -> bool:
    """Whether the value can be replaced wherever it stands without hurting ordinary text."""
    text = value.strip()
    if has_mark(text) or len(text) < SHORTEST_CHASED or is_placeholder(text) or is_number(text) or is_path(text):
        return False
    if len(text) >= _SHORTEST_MEMORABLE and _MEMORABLE.fullmatch(text):  # only a certain name gives one
        return True
    if len(text) < 200 and (_ORDINARY.fullmatch(text) or is_plain_words(text)):
        return False
    return has_letters_and_digits(text) or is_mixed_case(text) or len(text) >= 16


def has_letters_and_digits(value: str) -> bool:
    """Both, somewhere."""
    return bool(_LETTER.search(value) and _DIGIT.search(value))


def is_mixed_case(value: str) -> bool:
    """Upper and lower case, beyond a capital at the start."""
    return value != value.lower() and value[1:] != value[1:].lower() and value != value.upper()
