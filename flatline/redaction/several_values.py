"""Values of several parts behind one telling name: lists, mappings, cookies, the lines of a YAML block."""

from __future__ import annotations

import re

from .grammar import OPENING, REST_OF_HEADER, SEPARATOR, Name, end_of_string, indentation
from .one_value import is_secret, plain, value_of
from .spans import Span
from .values import is_number, is_placeholder, is_plain_words, looks_secret

_COOKIE = re.compile(r"""(?<![^\s=;,"'\\])([^\s=;,"'\\]{1,120})=("?)([^;\s"'\\]+)""")
_COOKIE_ATTRIBUTES = frozenset(
    ["path", "domain", "expires", "max-age", "samesite", "lang", "language", "locale", "theme", "version"]
)
_OF_A_SESSION = re.compile(r"(?:sid|sess|sessid|session|session[-_]?id|token|jwt)$", re.I)
"""``PHPSESSID``, ``connect.sid``: whatever its value looks like."""
_BLOCK_SCALAR = re.compile(r"[|>][+-]?[ \t]*\n(?P<indent>[ \t]+)")
_INNER = r"""\\{0,15}["'](?:\$?value|secret|raw|plain|data)(?=\\{0,15}["'])"""
CONTAINER = re.compile(rf"""\s{{0,200}}(?:\[\s{{0,200}}(?=\\{{0,15}}["'])|\{{\s{{0,200}}(?={_INNER}))""")
_ITEM = re.compile(r"""\s{0,200},?\s{0,200}(?=\\{0,15}["'])""")
_INNER_NAME = re.compile(_INNER + r"""(?=\\{0,15}["']\s{0,20}:)""")
_MOST_ITEMS = 1000
LIST_BELOW = re.compile(r"\r?\n(?P<indent>[ \t]{0,80})-[ ]{1,8}(?=[^\s:]{8,400}[ \t]*(?:\r?\n|$))")
_LISTED = re.compile(r"""[ \t]*-[ ]{1,8}(?P<quote>["']?)(?P<value>[^\s"':]{1,400})(?P=quote)[ \t]*(?:\r?\n|$)""")


def items_below(text: str, name: Name, separator: re.Match[str], items: re.Match[str]) -> tuple[list[Span], int]:
    """YAML's list: ``api_keys:`` and below ``- …``, line by line."""
    spans: list[Span] = []
    at = items.start() + len(items[0]) - len(items[0].lstrip("\r\n"))
    for _ in range(_MOST_ITEMS):
        item = _LISTED.match(text, at)
        if not item:
            break
        if looks_secret(item["value"], shortest=8) and is_secret(name, separator, item["value"], quoted=True):
            spans.append(Span(item.start("value"), item.end("value"), name.promise.kind, item["value"]))
        at = item.end()
    return spans, at


def values_inside(text: str, name: Name, separator: re.Match[str], container: re.Match[str]) -> tuple[list[Span], int]:
    """``"api_keys": ["…", "…"]`` and ``"token": {"value": "…"}``."""
    at = container.end()
    inner = _INNER_NAME.match(text, at)
    if inner:
        follows = SEPARATOR.match(text, inner.end())
        return value_of(text, name, follows) if follows and follows["op"] else ([], at)
    spans: list[Span] = []
    for _ in range(_MOST_ITEMS):
        opening = OPENING.match(text, at)
        end = end_of_string(text, opening) if opening else None
        if opening is None or end is None:
            break
        value = text[opening.end() : end]
        if is_secret(name, separator, value, quoted=True):
            spans.append(Span(opening.end(), end, name.promise.kind, plain(text, name, value, quoted=True)))
        item = _ITEM.match(text, end + len(opening[1]))
        if not item or "," not in item[0]:
            break
        at = item.end()
    return spans, at


def cookies(text: str, name: Name, separator: re.Match[str]) -> tuple[list[Span], int]:
    """``Cookie: session=…; lang=en``: each cookie's value; ``{'cookie': 'abc'}`` as any other."""
    start = separator.end("op") if separator["op"] else separator.end()  # ``SID=`` behind it is no type's annotation
    opening = OPENING.match(text, separator.end())
    end = end_of_string(text, opening) if opening else None
    if end is None:
        header = REST_OF_HEADER.match(text, start)
        end = header.end() if header else start
    cookies = list(_COOKIE.finditer(text, start, end))
    if cookies:
        found = [Span(one.start(3), one.end(3), "cookie", one[3]) for one in cookies if _is_session(one[1], one[3])]
        return found, end
    found, read_to = value_of(text, name, separator)
    return [span for span in found if looks_secret(span.value)], max(end, read_to)


def _is_session(name: str, value: str) -> bool:
    if name.lower() in _COOKIE_ATTRIBUTES or len(value) < 8:
        return False
    if _OF_A_SESSION.search(name):
        return not is_placeholder(value)
    return not is_placeholder(value) and not is_plain_words(value) and not is_number(value)


def block_scalar(text: str, name: Name, at: int) -> tuple[list[Span], int]:
    """YAML's ``key: |``: the lines below that are indented alike."""
    block = _BLOCK_SCALAR.match(text, at)
    if not block or len(block["indent"]) <= indentation(text, name.start):
        return [], at
    found = []
    line_start = block.start("indent")
    while text.startswith(block["indent"], line_start):
        line_end = text.find("\n", line_start)
        line_end = len(text) if line_end < 0 else line_end
        value = text[line_start:line_end].strip()
        if looks_secret(value) or (name.promise.certain and not is_placeholder(value)):
            begin = text.index(value, line_start)
            found.append(Span(begin, begin + len(value), name.promise.kind, value))
        line_start = line_end + 1
    return found, min(line_start, len(text))
