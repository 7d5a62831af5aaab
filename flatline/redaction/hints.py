"""Which lines may hold something to hide, told from their outline: the line with every digit as a 5.

Thousands of lines of a log share an outline, so each is looked at once (see `sieve`). A hint may be wrong in one way
only: a line without a hint is never looked at again, so every detector needs one here that is at least as wide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache

from . import endpoints, person_keys, person_messages, person_places
from .assignments import judged_name, telling_names
from .blocks import HEX_WORDS, KUBE_SECRET, VARIABLE, heads_of_tables
from .colours import without_colours
from .grammar import SEPARATOR
from .lazy import LazyPattern
from .names import classify
from .outlines import outline
from .pairs import may_stand_apart
from .places import OPTIONS, command_of, stands_alone
from .presence import literals_of
from .shape_table import SHAPES
from .spoken import KAGGLE_KEY, SPOKEN
from .unseen import view_of


class Hint(IntEnum):
    """How much around a line must be looked at together with it."""

    NONE = 0
    LINE = 1
    """A name or an address: nothing but the line."""
    SECRET = 2
    """Some lines: its value may stand below."""
    TABLE = 3
    """The head of a table: all rows."""
    KEY = 4
    """A private key."""


def hints(text: str) -> Iterator[tuple[int, Hint]]:
    """(where, what) for each place in a text of outlines that needs a closer look."""
    for view in dict.fromkeys((text, without_colours(text))):
        yield from _hints(view)
    unseen = view_of(text)
    if unseen:
        for at, hint in _hints(unseen.text):
            yield unseen.place(at), hint


def _hints(text: str) -> Iterator[tuple[int, Hint]]:
    for at in _names(text):
        yield at, Hint.SECRET
    for at in _places(text):
        yield at, Hint.SECRET
    for literal in ("PRIVATE KEY", "Private-Lines:"):
        for at in _all(text, literal):
            yield at, Hint.KEY
    for found in KUBE_SECRET.finditer(text) if "Secret" in text else ():
        yield found.start(), Hint.KEY
    for at in heads_of_tables(text):
        yield at, Hint.TABLE
    yield from _personal(text)


# --- names of secrets ---

_END_OF_LINE = re.compile(r"\\{0,15}[\"']\s{0,9}[}\]]|[ \t\r\"'`\\,;)\]}|│]{0,20}(?:\n|\Z)")
_ESCAPED = re.compile(r"%5[5ADad]|%5555|&(?:amp;)?(?:quot|apos|#)|\\{1,3}[nr]|\\{1,8}(?:u5555|x55)")
_NUMBERED = re.compile(r"(?<![A-Za-z])([sb])5|(base|b)55|(ed)55555", re.I)
_NUMBERS = {"s": "3", "b": "2", "base": "64", "ed": "25519"}
_ESCAPED_NAME = re.compile(r"""[\w.-]{0,60}\\{1,15}u55[0-9a-fA-F]{2}[\w.\\-]{0,80}\\{0,15}["']\s{0,9}:""", re.ASCII)


def _names(text: str) -> Iterator[int]:
    for at, start, end in telling_names(text):
        name = judged_name(text, start, end)
        if name is not None:
            found = name.end
        elif _is_a_name(text[start:end]):
            found = end
        else:
            continue
        if (
            SEPARATOR.match(text, found)
            or _ESCAPED.match(text, found)
            or _END_OF_LINE.match(text, found)
            or may_stand_apart(text, start, found)
        ):
            yield at
    if "\\u55" in text:
        for escaped in _ESCAPED_NAME.finditer(text):
            yield escaped.start()


def _is_a_name(name: str) -> bool:
    """Whether it is the name of a secret with other digits than these: ``s3_key``, ``token_b64``, ``password2``."""
    if "5" not in name:
        return False
    numbered = _NUMBERED.sub(_with_number, name)
    return classify(numbered.rstrip(".-")) is not None or classify(name.replace("5", "").strip(".-")) is not None


def _with_number(found: re.Match[str]) -> str:
    word = found[found.lastindex or 0]
    return word + _NUMBERS[word.lower()]


# --- places ---

_NETRC = re.compile(
    r"\b(?:machine[ \t]+\S{1,200}|default)\s{1,20}(?:login|account|password)\b|\bmachine[ \t]+\S{1,200}[ \t]*(?:\n|\Z)"
)
_BASIC = re.compile(r"\b(?:[Bb]asic|BASIC)[ \t]{1,4}[A-Za-z0-9+/_-]{8}")
_BEARER = re.compile(r"\b(?:[Bb]earer|BEARER)(?:[ \t]|%55|%[0-9]5|\+){1,4}[A-Za-z0-9._~+/%=-]{8}")
_QUOTED = re.compile(r"(?i:\bpassword|\bby)[ \t]{1,9}'")
_USERINFO = re.compile(r"""://[^\s\x00"'`<>\\|]{0,700}?@""")
_JWK = re.compile(r"""\\{0,8}"kty\\{0,8}"\s{0,9}:""")


def _places(text: str) -> Iterator[int]:
    at = text.find("://")
    while at >= 0:
        found = _USERINFO.match(text, at)
        if found:
            yield at
        at = text.find("://", found.end() if found else at + 3)
    for words, pattern in (
        (("earer", "BEARER"), _BEARER),
        (("asic", "BASIC"), _BASIC),
        (("machine", "default"), _NETRC),
        (("PASSWORD '", "Password '", "password '", "BY '", "By '", "by '"), _QUOTED),
        (('"kty',), _JWK),
        (('kty\\"',), _JWK),
        (('"key',), KAGGLE_KEY),
        (('key\\"',), KAGGLE_KEY),
    ):
        if any(word in text for word in words):
            for hit in pattern.finditer(text):
                yield hit.start()
    for literals, pattern in ((("proctitle=", "cmd=", " a5="), HEX_WORDS), (("variable ",), VARIABLE)):
        for hit in pattern.finditer(text) if any(map(text.__contains__, literals)) else ():
            yield hit.start()
    for literal in ("--from-literal", "login(", "fs.azure.", outline("fs.s3a.")):
        yield from _all(text, literal)
    for literals, pattern in SPOKEN:
        if any(outline(literal) in text for literal in literals):
            for hit in pattern.finditer(text):
                yield hit.start()
    for tool, option in OPTIONS:
        at = text.find(outline(tool))
        while at >= 0:
            end = command_of(text, at + len(tool))
            if stands_alone(text, at) and option.search(text, at + len(tool), end):
                yield at
            at = text.find(outline(tool), end)


def _all(text: str, literal: str) -> Iterator[int]:
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + len(literal))


# --- tokens of known shape, word by word ---

_RUN = re.compile(r"[\w.+/=%~-]*", re.ASCII)
_JOINT_AFTER = re.compile(r"""[\x00\x1b]|\\?["'](?:\Z|\n|[rbuf]?["'])|["']\+|\\(?:\Z|\n|r)""")


@lru_cache(maxsize=1)
def shape_hints() -> ShapeHints:
    """The one for all: it takes a moment to make."""
    return ShapeHints()


class ShapeHints:
    """Finds the words that may be a token, or the first piece of one."""

    def __init__(self) -> None:
        self._by_literal: dict[str, list[LazyPattern]] = {}
        for shape in SHAPES:
            for literal in map(outline, shape.literals):
                pattern = LazyPattern(f"{shape.before}{re.escape(literal)}{shape.body}", re.ASCII)
                self._by_literal.setdefault(literal, []).append(pattern)

    def words(self, text: str) -> tuple[set[str], set[str]]:
        """Of the words of a text, one a line: those that may be tokens, and those that may be once they go on below."""
        tokens, beginnings = set(), set()
        for literal, patterns in self._by_literal.items():
            at = text.find(literal)
            while at >= 0:
                start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
                end = len(text) if end < 0 else end
                if any(pattern.match(text, at) for pattern in patterns):
                    tokens.add(text[start:end])
                    at = text.find(literal, end)
                    continue
                run = _RUN.match(text, at)
                stop = run.end() if run else at
                rest = text[at + len(literal) : stop]
                if _JOINT_AFTER.match(text, stop) and (len(literal) >= 4 or not literal.isalpha()):
                    tokens.add(text[start:end])
                elif stop == end and stop - at >= 16 and _is_mixed(rest):
                    beginnings.add(text[start:end])
                at = text.find(literal, max(at + len(literal), stop))
        return tokens, beginnings


def _is_mixed(rest: str) -> bool:
    return "5" in rest or (rest != rest.lower() and rest != rest.upper())


# --- personal data ---

_IP4 = re.compile(r"\.5{1,3}\.5{1,3}\.5{1,3}(?!5)")
_GROUPS = re.compile(r":[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}:")
_DASHED = re.compile(r"-[0-9a-fA-F]{2}-[0-9a-fA-F]{2}-[0-9a-fA-F]{2}-[0-9a-fA-F]{2}")
_NODES = re.compile(r"\[5{2,6}[,-]5")
_LISTING = re.compile(r"rw[x-][r-][w-][xsStT-][r-]")
_ESCAPED_HOME = re.compile(r"%5[Ff](?:home|[uU]sers|user|mail)", re.I)
_DOTTED = re.compile(r"\.[5a-f]{4}\.[5a-f]{4}(?![\w.])")
_ANYWHERE = (_IP4, _GROUPS, _DASHED, _DOTTED, _NODES, _LISTING)
"""Each begins with a literal, which is fast."""
_HEADS = ("USER", "UID", "OWNER", "NODE", "HOST", "User", "Owner", "Node", "Host")
_HEAD = re.compile(
    r"(?<![^\s|])(?:USER|UID|OWNER|NODELIST\S*|NODES?|HOSTS?|HOSTNAMES?|User|NodeList|Owner|Node|Host)(?=[\s|]|$)", re.M
)


def _personal(text: str) -> Iterator[tuple[int, Hint]]:
    for pattern in _ANYWHERE:
        for found in pattern.finditer(text):
            yield found.start(), Hint.LINE
    for at in _all(text, "::"):
        yield at, Hint.LINE
    for escaped in _ESCAPED_HOME.finditer(text) if "%5F" in text or "%5f" in text else ():
        yield escaped.start(), Hint.LINE
    has = literals_of(text)
    for find in (
        person_places.find_at_signs,
        endpoints.find_endpoints,
        person_places.find_homes,
        person_keys.find_keyed_names,
        person_places.find_log_prefixes,
        person_messages.find_messages,
        person_messages.find_user_options,
    ):
        for span in find(text, has):
            yield span.start, Hint.LINE
    for head in _HEAD.finditer(text) if any(map(text.__contains__, _HEADS)) else ():
        yield head.start(), Hint.TABLE
