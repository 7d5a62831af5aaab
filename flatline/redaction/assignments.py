"""Secrets given away by the name before them: in shell, YAML, JSON, Python, XML, tables, headers, options.

The text is searched for the words that names of secrets hold; only there is the whole name read, judged, and what
follows it parsed. So ordinary text costs a few substring searches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from .grammar import NAME_CHARS, SEPARATOR, Name
from .names import LONGEST, SecretName, classify, classify_query
from .one_value import SCHEME, value_of
from .several_values import CONTAINER, LIST_BELOW, block_scalar, cookies, items_below, values_inside
from .spans import Span
from .values import has_letters_and_digits, looks_secret

REREAD = 4
"""How many times its own length a text may cost in values that turn out to be none."""
_ANCHORS = (
    "pass",
    "pwd",
    "token",
    "secret",
    "key",
    "cred",
    "auth",
    "cookie",
    "jwt",
    "sig",
    "sas",
    "session",
    "phrase",
    "mnemonic",
    "fernet",
    "psk",
    "otp",
    "_sk",
    "bearer",
    "pw",
)
"""In small letters."""
_LONE_PAT = re.compile(r"pat(?![a-z])(?<![a-z0-9]pat)")
"""``--gh-pat``; not each ``path``."""
_NAME_REST = re.compile(r"[A-Za-z0-9_.-]{0,100}")


def find_assignments(text: str) -> Iterator[Span]:
    """Every value that its name gives away.

    A value that is no secret is searched again for the names in it. What is read twice for that is bounded: text made
    to be slow (one line of ``token=token=…``) is then stepped over.
    """
    done, to_read_twice = 0, REREAD * len(text) + 100_000
    for at, start, end in telling_names(text):
        if at < done:
            continue
        done = end
        name = judged_name(text, start, done)
        if name is None:
            continue
        spans, read_to = values_of(text, name)
        yield from spans
        if spans:
            done = max(done, spans[-1].end)
        elif read_to > done:
            to_read_twice -= read_to - done
            done = read_to if to_read_twice < 0 else done


@lru_cache(maxsize=1)
def telling_names(text: str) -> list[tuple[int, int, int]]:
    """Where telling words stand, in order, and where the name begins and ends that each is in."""
    return [(at, *_name_around(text, at)) for at in _anchors(text)]


def _anchors(text: str) -> list[int]:
    lower = text.replace("\u0130", "i").lower()  # the only letter whose lower case is longer than itself
    positions = []
    for word in _ANCHORS:
        at = lower.find(word)
        while at >= 0:
            positions.append(at)
            at = lower.find(word, at + len(word))
    positions += [found.start() for found in _LONE_PAT.finditer(lower)]
    positions.sort()
    return positions


def _name_around(text: str, at: int) -> tuple[int, int]:
    """Where the name begins and ends that holds the telling word at `at`."""
    before = text[max(0, at - LONGEST) : at]
    start = at - (len(before) - len(before.rstrip(NAME_CHARS)))
    rest = _NAME_REST.match(text, at)
    end = rest.end() if rest else at
    if start > 0 and text[start - 1] == "\\" and text[start] in "nrtb":  # an escaped newline before the name
        start += 1
    if start > 1 and text[start - 2 : start] == "\x1b[":  # a colour code before the name
        start = min(text.find("m", start, at) + 1 or start, at)
    return start, end


def judged_name(text: str, start: int, end: int) -> Name | None:
    """The name, if it is one of a secret."""
    name = text[start:end].rstrip(".-")
    end = start + len(name)
    is_query = start > 0 and text[start - 1] in "?&"
    promise = classify_query(name) if is_query else classify(name)
    if promise is None and name.startswith(("-D", "-P", "-X")):  # java -Dname=value
        promise = classify(name[2:])
    if (promise is None or not promise.certain) and start > 1 and text[start - 1] in " -":
        promise = _of_two_words(text, start, name) or promise
    return None if promise is None else Name(start, end, name, promise)


def _of_two_words(text: str, start: int, name: str) -> SecretName | None:
    """``API key``, ``Secret Key``: what people write."""
    before = text[max(0, start - 25) : start - 1]
    word = before[len(before.rstrip(NAME_CHARS)) :]
    word = re.sub(r"^[0-9]{0,3}m", "", word) if "\x1b" in before else word
    together = classify(f"{word}_{name}") if word.isalpha() and len(word) < 20 else None
    return together if together and together.certain else None


def values_of(text: str, name: Name) -> tuple[list[Span], int]:
    """The secrets after the name, and how far the text was read for them."""
    separator = SEPARATOR.match(text, name.end)
    if not separator or not _fits(text, name, separator):
        return [], name.end
    must_stand_out = separator["space"] is not None and not name.is_option and not _is_set(text, name.start)
    if must_stand_out and name.promise.kind not in _SEVERAL_WORDS:
        word = _WITHOUT_DIGITS.match(text, separator.end())
        if word and not SCHEME.match(text, word.start()):
            return [], name.end
    if separator["op"] and text[separator.end() : separator.end() + 1] in ("|", ">"):
        return block_scalar(text, name, separator.end())
    if name.promise.kind == "cookie":
        return cookies(text, name, separator)
    items = LIST_BELOW.match(text, separator.end()) if separator["op"] else None
    if items:
        return items_below(text, name, separator, items)
    inner = CONTAINER.match(text, separator.end()) if separator["op"] else None
    if inner:
        return values_inside(text, name, separator, inner)
    spans, read_to = value_of(text, name, separator)
    if must_stand_out:
        spans = [span for span in spans if _stands_out(name, span.value)]
    return spans, read_to


_WITHOUT_DIGITS = re.compile(r"""[^\s0-9"'`<>;\\(\[{\x00\x1b]{1,60}(?=\s)""")
"""A word that cannot stand out; what may begin otherwise than with its first letter has a bracket or a quote in it."""
_SEVERAL_WORDS = ("authorization", "cookie", "seed-phrase")


def _stands_out(name: Name, value: str) -> bool:
    """A value after nothing but blanks must show what it is: ``requirepass x8Fk2mQ9``, not ``password prompt``."""
    shortest = 8 if name.promise.certain else 16
    return _tells(name) and looks_secret(value, shortest=shortest) and has_letters_and_digits(value)


def _tells(name: Name) -> bool:
    """Whether the name alone says enough: it is certain, or a variable of the environment (``SLURM_JWT``)."""
    return name.promise.certain or ("_" in name.text and name.text.isupper())


def _fits(text: str, name: Name, separator: re.Match[str]) -> bool:
    """Whether this separator makes an assignment after this name."""
    before = text[name.start - 1] if name.start else "\n"
    if separator["space"] is not None or separator["nul"]:
        if name.is_option or separator["space"] is None:
            return name.is_option
        return _tells(name) or _is_set(text, name.start)
    if separator["tag"]:
        return before == "<"
    if separator["comma"]:
        return name.is_option or _opens_a_tuple(text, name.start)
    if separator["call"]:
        return _SETTER.search(name.text) is not None
    if separator["table"]:
        return "|" in text[max(0, name.start - 80) : name.start] or "│" in text[max(0, name.start - 80) : name.start]
    if separator["op"] == ":" and before == ":":  # arn:aws:secretsmanager:eu:1:secret:name
        return text[separator.end() - 1] != ":"
    return before != "/" or separator["op"] != ":"  # /etc/passwd: No such file


_SETS = re.compile(
    r"(?:(?:\b|(?<=[0-9;\[]m))setenv|^[ \t]*ENV|^#\d+ .{0,60}ENV|\bset(?:[ ]-[a-zA-Z-]{1,10}){0,3})[ \t]+$", re.M
)


def _is_set(text: str, name_start: int) -> bool:
    """csh's ``setenv NAME VALUE``, a Dockerfile's ``ENV NAME VALUE``, fish's ``set -x NAME VALUE``."""
    before = text[max(0, text.rfind("\n", max(0, name_start - 80), name_start) + 1, name_start - 80) : name_start]
    return ("set" in before or "ENV" in before) and _ends_in_set(before)


@lru_cache(maxsize=4096)
def _ends_in_set(before: str) -> bool:
    return _SETS.search(before) is not None


_SETTER = re.compile(
    r"(?:^|[._])(?:set|with|use|update)(?=[A-Z_])\w*$"
    r"|\.(?i:password|passwd|passphrase|secret|token|(?:api|access|auth|bearer|client|private|secret)_?(?:key|token|secret))$"
)
"""``client.set_api_key("…")``, ``setPassword("…")``, ``.password("…")``; not ``get_password("…")``."""
_OF_AN_OBJECT = re.compile(r"\bsetattr\([ ]?[\w.\[\]]{1,60},[ ]?\Z")


def _opens_a_tuple(text: str, name_start: int) -> bool:
    """``("authorization", "Bearer …")``, also with ``b`` before the quotes; a mere list of words does not."""
    before = text[max(0, name_start - 80) : name_start].rstrip("\\\"'`bru")
    return before[-1:] in ("(", "[") or ("setattr" in before and _OF_AN_OBJECT.search(before) is not None)


_ESCAPED_NAME = re.compile(
    r"""\\{0,15}["'](?P<name>(?:[\w.-]|\\{1,15}u00[0-9a-fA-F]{2}){2,80})(?=\\{0,15}["']\s{0,9}:)""", re.ASCII
)


def find_escaped_names(text: str) -> Iterator[Span]:
    """``"api\\u005fkey": "…"``: JSON may spell any letter like that."""
    if "\\u00" not in text:
        return
    for found in _ESCAPED_NAME.finditer(text):
        plain = re.sub(r"\\{1,15}u00([0-9a-fA-F]{2})", lambda code: chr(int(code[1], 16)), found["name"])
        promise = classify(plain) if plain != found["name"] else None
        if promise:
            yield from values_of(text, Name(found.start("name"), found.end("name"), plain, promise))[0]
