"""Secrets whose name is a value itself, and that stand beside it: in one object, in one element, in one row.

``- name: HF_TOKEN`` with ``value: …`` below; py-spy's ``{"name": "api_key", "addr": 1, "arg": true, "repr": "'…'"}``;
``<name>db.password</name><value>…</value>``; ``| api_key | str | … |``. What stands between the two is stepped over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from .assignments import judged_name, telling_names, values_of
from .blocks import shows_itself
from .grammar import OPENING, QUOTE, Name, end_of_string, indentation
from .names import words_of
from .spans import Span
from .values import has_letters_and_digits, looks_secret

_CALL_NAMES = frozenset(
    ["name", "key", "variable", "var", "env", "id", "identifier", "label", "field", "header", "option", "param",
     "parameter", "setting", "property", "attribute", "argument", "arg", "path", "title"]
)  # fmt: skip
_CALL_VALUES = frozenset(["value", "values", "val", "repr", "content", "contents"])
_MAY_CALL_VALUES = frozenset(["data", "default", "string", "str", "text", "raw", "plain", "plaintext", "current"])
"""They call other things too, so what they call must show what it is."""
_MOST_MEMBERS = 12
_LONGEST_BEFORE = 160
_LONGEST_OBJECT = 600
"""Characters of an object before its name."""
_MOST_BEGINNINGS = 6


@lru_cache(maxsize=4096)
def calls_a_name(key: str) -> bool:
    """``name``, ``envName``, ``Key``: what this calls may be a name."""
    words = words_of(key)
    return bool(words) and words[-1] in _CALL_NAMES


@lru_cache(maxsize=4096)
def calls_a_value(key: str) -> bool | None:
    """``value``, ``repr``, ``stringValue``: True; ``data``: None, it may; False: it does not."""
    words = [word for word in words_of(key) if not word.isdigit()]
    last = words[-1] if words else ""
    return True if last in _CALL_VALUES else None if last in _MAY_CALL_VALUES else False


_KEY = r"[A-Za-z_@$][\w.-]{0,60}"
_GAP = r"(?:[ \t\r\n]|\\{1,3}[nrt](?=[\s\\\"'\w])){0,160}"
_CALLED = re.compile(
    rf"(?<![\w.-])(?P<key>{_KEY}){QUOTE}?[ \t]{{0,30}}(?::=|=>|[:=|│])[ \t]{{0,9}}{QUOTE}?(?:[\w./-]{{0,60}}/)?"
    r"(?:\w{1,20}[ ])?\Z"
)
_NEXT = re.compile(
    rf"{_GAP}(?P<comma>[,;]?){_GAP}(?P<dash>-[ ]{{1,8}})?:?{QUOTE}?(?P<key>{_KEY})(?={QUOTE}?[ \t]{{0,30}}[:=|│])"
)
_TO_VALUE = re.compile(rf"{QUOTE}?[ \t]{{0,30}}(?:=>|:=|[:=|│])[ \t]{{0,30}}")
_CLOSE = re.compile(rf"{QUOTE}?")
_NESTED = re.compile(r"[\w.]{0,40}(?:\{[^{}\n]{0,400}\}|\[[^\[\]\n]{0,400}\]|\([^()\n]{0,400}\))")
_WORD = re.compile(r"""[^\s,;{}()\[\]"'\\]{1,200}(?=[ \t]{1,9}:?[\w.-]{1,60}[=:])""")
_REST = re.compile(r"""[^\n,;{}()\[\]"\\]{0,200}""")
_INSIDE = re.compile(rf"{_GAP}[\w.]{{0,40}}[{{(]")
_BELOW = re.compile(rf"{QUOTE}?(?:\][ \t\r]{{0,9}}(?=\n)|[ ]?(?::|=>?)?[ \t]{{0,9}}(?:\{{|(?=\r?\n[ \t]|\\n[ \t])))")
_A_VALUE = re.compile("|".join(sorted(_CALL_VALUES | _MAY_CALL_VALUES)), re.I)
_OBJECT = re.compile(r"[{(]|<[\w:.-]{1,60}[ ]|\n[ \t]{0,40}(?:-[ ]{1,8})?|\A[ \t]{0,40}(?:-[ ]{1,8})?")


def find_pairs(text: str) -> Iterator[Span]:
    """What is called ``value``, ``repr`` and the like beside a name that tells that it is a secret."""
    for _, start, end in telling_names(text):
        name = judged_name(text, start, end)
        if name is None:
            continue
        called = _called(text, start)
        if called:
            key = start - min(start, _LONGEST_BEFORE) + called.start("key")
            spans = list(_values_behind(text, name, called["key"], key)) or list(
                _values_before(text, name, called["key"], key)
            )
            yield from spans or _text_of_element(text, name)
            continue
        yield from _values_below(text, name)
        yield from _values_of_siblings(text, name)
        yield from _cells(text, name)


def may_stand_apart(text: str, start: int, end: int) -> bool:
    """Whether the value of this name may be beside it; for the sieve, at least as wide as `find_pairs`."""
    return (
        _called(text, start) is not None
        or _TAG_BEFORE.search(text, max(0, start - _LONGEST_BEFORE), start) is not None
        or _BELOW.match(text, end) is not None
        or _begins_a_row(text, start, end)
    )


def _called(text: str, start: int) -> re.Match[str] | None:
    called = _CALLED.search(text[max(0, start - _LONGEST_BEFORE) : start])
    return called if called and calls_a_name(called["key"]) else None


# --- members of one object ---


def _values_behind(text: str, name: Name, called: str, key_start: int) -> Iterator[Span]:
    close = _CLOSE.match(text, name.end)
    column = _column(text, key_start)
    for number, member in enumerate(_members(text, close.end() if close else name.end)):
        if member["key"] == called or (member["dash"] and (number or not calls_a_value(member["key"]))):
            return
        breaks = number and not member["comma"] and "\n" in text[member.start() : member.start("key")]
        if breaks and _column(text, member.start("key")) != column:
            return
        if calls_a_value(member["key"]) is not False:
            yield from _value_of_member(text, name, member)
            if calls_a_value(member["key"]):
                return


def _values_before(text: str, name: Name, called: str, key_start: int) -> Iterator[Span]:
    """``{"value": "…", "name": "api_key"}``: from where the object may begin, read as far as the name."""
    first = max(0, key_start - _LONGEST_OBJECT)
    if not _A_VALUE.search(text, first, key_start):
        return
    beginnings = list(_OBJECT.finditer(text, first, key_start))[-_MOST_BEGINNINGS:]
    for begin in reversed(beginnings):
        values: list[re.Match[str]] = []
        for member in _members(text, begin.end()):
            if member.start("key") >= key_start:
                break
            if member["key"] == called:  # another object's name
                return
            if calls_a_value(member["key"]) is not False:
                values.append(member)
        else:
            continue
        if member.start("key") != key_start or (values and any(one["dash"] for one in values[1:])):
            continue
        found = [span for value in values for span in _value_of_member(text, name, value) if span.end <= key_start]
        yield from (span for span in found if shows_itself(name.promise, span.value))
        if found or begin[0][:1] in "{(<" or begin[0].strip():
            return


def _values_below(text: str, name: Name) -> Iterator[Span]:
    """``"api_key": {"type": "string", "value": "…"}``, ``API_KEY:`` and below ``value: …``, ``[secrets.api_key]``."""
    below = _BELOW.match(text, name.end)
    if below is None:
        return
    for member in _members(text, below.end()):
        is_deeper = (
            "{" in below[0] or "]" in below[0] or _column(text, member.start("key")) > indentation(text, name.start)
        )
        if member["dash"] or not is_deeper:
            return
        if calls_a_value(member["key"]) is not False:
            yield from _value_of_member(text, name, member)


def _column(text: str, at: int) -> int:
    """Where in its line a key stands, its quote included."""
    line = text[max(text.rfind("\n", max(0, at - _LONGEST_BEFORE), at) + 1, at - _LONGEST_BEFORE, 0) : at]
    return len(line.rstrip("\"'`\\"))


def _members(text: str, at: int) -> Iterator[re.Match[str]]:
    """The keys of an object, one after the other, as long as what each calls can be stepped over."""
    for _ in range(_MOST_MEMBERS):
        member = _NEXT.match(text, at)
        if member is None:
            return
        yield member
        behind = _end_of_value(text, member.end("key"))
        if behind is None:
            return
        at = behind


def _end_of_value(text: str, at: int) -> int | None:
    to_value = _TO_VALUE.match(text, at)
    if to_value is None:
        return None
    at = to_value.end()
    opening = OPENING.match(text, at)
    if opening:
        end = end_of_string(text, opening)
        return None if end is None else end + len(opening[1])
    plain = _NESTED.match(text, at) or _WORD.match(text, at) or _REST.match(text, at)
    return plain.end() if plain else None


def _value_of_member(text: str, name: Name, member: re.Match[str]) -> Iterator[Span]:
    to_value = _TO_VALUE.match(text, member.end("key"))
    inside = _INSIDE.match(text, to_value.end()) if to_value else None
    deeper = _NEXT.match(text, inside.end()) if inside else None
    if deeper and calls_a_value(deeper["key"]) is not False:
        member = deeper
    spans = values_of(text, Name(member.start("key"), member.end("key"), name.text, name.promise))[0]
    sure = calls_a_value(member["key"])
    yield from (span for span in spans if sure or shows_itself(name.promise, span.value))


# --- elements ---

_TAG_BEFORE = re.compile(
    r"<(?P<tag>[A-Za-z][\w:.-]{0,40})(?:[ ][^<>\n]{0,80})?>\s{0,40}(?:<(?:b|i|em|strong|code|tt|pre|p|span)>)?\Z"
)
_TAG_AFTER = re.compile(r"(?:</\w{1,9}>)?\s{0,40}</(?P<tag>[\w:.-]{1,41})>")
_SIBLING = re.compile(
    r"\s{0,80}<(?P<tag>[A-Za-z][\w:.-]{0,40})(?:[ ][^<>\n]{0,80})?>\s{0,40}(?:<\w{1,9}>)?"
    r"(?P<value>[^<>\s][^<>]{0,399}?)\s{0,40}(?:</\w{1,9}>)?</(?P=tag)>"
)
_HOLD_VALUES = frozenset(["td", "dd", "string"])
_MOST_SIBLINGS = 4
_ELEMENT = re.compile(rf"{QUOTE}[^<>\n]{{0,80}}>\s{{0,40}}(?P<value>[^<>\s]{{6,400}})\s{{0,40}}</")


def _text_of_element(text: str, name: Name) -> Iterator[Span]:
    """``<entry key="api_key">…</entry>``."""
    element = _ELEMENT.match(text, name.end)
    if element and shows_itself(name.promise, element["value"]):
        yield Span(*element.span("value"), name.promise.kind, element["value"])


def _values_of_siblings(text: str, name: Name) -> Iterator[Span]:
    """``<name>db.password</name><value>…</value>``, ``<td>api_key</td><td>…</td>``."""
    after = _TAG_AFTER.match(text, name.end)
    before = _TAG_BEFORE.search(text[max(0, name.start - _LONGEST_BEFORE) : name.start]) if after else None
    if not after or not before or before["tag"] != after["tag"]:
        return
    at = after.end()
    for _ in range(_MOST_SIBLINGS):
        sibling = _SIBLING.match(text, at)
        if sibling is None:
            return
        holds = sibling["tag"].lower() in _HOLD_VALUES or calls_a_value(sibling["tag"]) is not False
        if holds and shows_itself(name.promise, sibling["value"]):
            yield Span(*sibling.span("value"), name.promise.kind, sibling["value"])
        at = sibling.end()


# --- rows of tables ---

_BARS = "|│┃"
_CELL = re.compile(
    r"""(?P<between>[ \t]{0,60}[|│┃,;\t][ \t]{0,60}|[ ]{2,60})["'`]?(?P<value>[^\s|│┃,;"'`]{1,400})["'`]?"""
    r"""(?=[ \t]*(?:[|│┃,;\t\r\n\]]|\Z)|[ ]{2})"""
)
_MOST_CELLS = 8


def _cells(text: str, name: Name) -> Iterator[Span]:
    """``| api_key | str | … |``, ``api_key,str,…``: nothing but the row ties them, so the name is certain and the value
    looks like nothing else."""
    if not name.promise.certain or not _begins_a_row(text, name.start, name.end):
        return
    close = _CLOSE.match(text, name.end)
    at = close.end() if close else name.end
    between = ""
    for _ in range(_MOST_CELLS):
        cell = _CELL.match(text, at)
        if cell is None or (between and cell["between"].strip() != between):
            return
        between = cell["between"].strip()
        value = cell["value"]
        if shows_itself(name.promise, value) and looks_secret(value, shortest=12) and has_letters_and_digits(value):
            yield Span(*cell.span("value"), name.promise.kind, value)
        at = cell.end()


def _begins_a_row(text: str, start: int, end: int) -> bool:
    """Whether the name is a cell: between bars, or first in its line or list."""
    before = text[max(0, start - 60) : start].rstrip(" \t\"'`")
    if before and before[-1] in _BARS:
        return True
    return (not before or before[-1] in "\n[") and _CELL.match(
        text, end + (text[end : end + 1] in tuple("\"'`"))
    ) is not None
