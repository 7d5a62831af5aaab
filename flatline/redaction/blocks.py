"""Secrets whose name stands apart from them: in a manifest, a table's head, before a prompt's answer, or in hex."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Callable

from .assignments import judged_name, telling_names
from .marks import has_mark
from .names import SecretName, classify
from .spans import Span
from .values import hides_nothing, is_number, is_plain_words, looks_secret

Detector = Callable[[str], Iterator[Span]]

# --- Kubernetes ---

KUBE_SECRET = re.compile(r"""\bkind\\{0,8}["']?:[ ]{0,4}\\{0,8}["']?Secret(?![\w])""")
WINDOW = 20_000
"""Characters before and behind ``kind: Secret`` that may be of the same manifest."""
_DATA = re.compile(
    r"""(?:^|\n)(?P<indent>[ \t]{0,40})(?:data|stringData):[ \t]{0,9}\r?\n"""
    r"""|(?:data|stringData)(?P<quote>\\{0,8}")[ ]?:\s{0,40}\{"""
)
_LINE = re.compile(
    r"""(?P<indent>[ \t]{1,80})["']?[\w.-]{1,253}["']?:[ ]{1,4}"""
    r"""["']?(?P<value>[^\s"'|>][^\s"']{0,20000})["']?[ \t\r]{0,9}(?:\n|$)"""
)
_ITEM = re.compile(
    r"""\s{0,200},?\s{0,200}\\{0,8}"[\w.-]{1,253}\\{0,8}"\s{0,9}:\s{0,9}\\{0,8}"(?P<value>[^"\\\n]{0,20000})\\{0,8}\""""
)
_MOST_ITEMS = 1000


def find_kube_secrets(text: str) -> Iterator[Span]:
    """All that a manifest of ``kind: Secret`` holds under ``data`` and ``stringData``, in YAML and in JSON."""
    done = 0
    for kind in KUBE_SECRET.finditer(text) if "Secret" in text else ():
        if kind.start() < done:
            continue
        start = max(done, kind.start() - WINDOW, text.rfind("\n---", max(0, kind.start() - WINDOW), kind.start()))
        done = text.find("\n---", kind.end(), kind.end() + WINDOW)
        done = min(len(text), kind.end() + WINDOW) if done < 0 else done
        for data in _DATA.finditer(text, start, done):
            yield from _items(text, data)


def _items(text: str, data: re.Match[str]) -> Iterator[Span]:
    pattern = _ITEM if data["quote"] else _LINE
    at = data.end()
    for _ in range(_MOST_ITEMS):
        item = pattern.match(text, at)
        if not item or (not data["quote"] and len(item["indent"]) <= len(data["indent"])):
            return
        value = item["value"]
        if value and not hides_nothing("secret", value) and not has_mark(value):
            yield Span(*item.span("value"), "secret", value)
        at = item.end()


# --- Terraform ---

VARIABLE = re.compile(r"""\bvariable[ ]\\{0,3}"(?P<name>[\w-]{1,80})\\{0,3}"[ ]?\{""")
_DEFAULT = re.compile(r"""[^{}]{0,400}?\bdefault[ ]{0,40}=[ ]{0,9}\\{0,3}"(?P<secret>[^"\\\n]{4,400})\\{0,3}\"""")


def find_defaults(text: str) -> Iterator[Span]:
    """``variable "db_password" { default = "…" }``."""
    for variable in VARIABLE.finditer(text) if "variable " in text else ():
        promise = classify(variable["name"])
        default = _DEFAULT.match(text, variable.end()) if promise else None
        if promise and default and shows_itself(promise, default["secret"]):
            yield Span(*default.span("secret"), promise.kind, default["secret"])


# --- prompts and their answers ---

_ASKED = re.compile(
    r"""(?:>>>[ ]|db(?:\+\+)?\)[ ](?:(?:pp?|print|po)[ ])?|db>[ ](?:pp?[ ])?|In[ ]\[[0-9]{1,5}\]:[ ])"""
    r"""(?:print\()?(?:(?:os\.)?(?:environ(?:\.get)?|getenv)[\[(]["'])?"""
    r"""(?P<name>[A-Za-z_][\w.]{1,80})(?:["'][\])])?\)?[ ]?\r?\n"""
    r"""(?:Out\[[0-9]{1,5}\]:[ ]|\$[0-9]{1,6}[ ]=[ ](?:\([\w: *]{1,40}\)[ ])?(?:0x[0-9a-f]{1,16}[ ])?"""
    r"""(?:<[^>\n]{1,80}>[ ])?)?["']?(?P<secret>[^\s"'\x00]{8,4000})["']?[ ]?\r?(?=\n|$)"""
    r"""|\b(?:echo[ ]["']?\$\{?|printenv[ ])(?P<variable>\w{2,80})\}?["']?[ ]?\r?\n"""
    r"""(?P<value>[^\s"'\x00]{8,4000})[ ]?\r?(?=\n|$)"""
    r"""|[$#%>][ ]cat[ ](?:[^\s"'|;&]{0,200}/)?(?P<file>[\w.-]{2,80})[ ]?\r?\n"""
    r"""(?P<content>[^\s"'\x00]{8,4000})[ ]?\r?(?=\n|$)"""
)


def find_answers(text: str) -> Iterator[Span]:
    """``>>> hf_token`` and below its value; ``echo $HF_TOKEN``; ``cat /run/secrets/db_password``."""
    if not any(map(text.__contains__, (">>> ", "db) ", "db> ", "db++) ", "In [", "echo ", "printenv ", " cat "))):
        return
    for asked in _ASKED.finditer(text):
        promise = classify((asked["name"] or asked["variable"] or asked["file"]).rpartition(".")[2])
        group = "secret" if asked["name"] else "value" if asked["variable"] else "content"
        if promise and looks_secret(asked[group]) and not has_mark(asked[group]):
            yield Span(*asked.span(group), promise.kind, asked[group])


# --- tables of commas ---

_HEAD = re.compile(
    r"""["']?[A-Za-z][\w ./-]{0,60}["']?(?P<comma>[,;\t])["']?[\w ./-]{0,60}["']?"""
    r"""(?:(?P=comma)["']?[\w ./-]{0,60}["']?){0,60}[ ]?\r?"""
)
_BEFORE_CELL, _AFTER_CELL = frozenset(",;\t\n\"'"), frozenset(",;\t\r\n\"'")
_LONGEST_HEAD = 2000
_MOST_ROWS = 3000


def heads_of_tables(text: str) -> Iterator[int]:
    """Where the name of a secret stands in the head of a table."""
    for at, *_ in _heads(text):
        yield at


def find_cells(text: str) -> Iterator[Span]:
    """``name,api_key,n`` and below the rows."""
    seen: dict[tuple[str, int, str], int] = {}
    for _, promise, column, comma, first_row in _heads(text):
        kind, at = (promise.kind, column, comma), first_row
        if at < seen.get(kind, 0):  # a head among the rows of another: they have been looked at
            continue
        for _ in range(_MOST_ROWS):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            cells = text[at:end].split(comma)
            if len(cells) <= column or not text[at:end].strip():
                break
            cell = cells[column].strip(" \r\"'")
            start = at + sum(map(len, cells[:column])) + column + cells[column].find(cell)
            if cell and shows_itself(promise, cell):
                yield Span(start, start + len(cell), promise.kind, cell)
            at = end + 1
        seen[kind] = at


def _heads(text: str) -> Iterator[tuple[int, SecretName, int, str, int]]:
    """(where, what it promises, its column, what separates cells, where the first row begins)."""
    if "\n" not in text or not any(map(text.__contains__, ",;\t")):
        return
    for at, start, end in telling_names(text):
        if (start and text[start - 1] not in _BEFORE_CELL) or text[end : end + 1] not in _AFTER_CELL:
            continue
        line = text.rfind("\n", max(0, start - _LONGEST_HEAD), start) + 1
        stop = text.find("\n", end, end + _LONGEST_HEAD)
        if stop < 0 or (not line and start > _LONGEST_HEAD):
            continue
        name = judged_name(text, start, end)
        head = _HEAD.fullmatch(text, line, stop) if name and name.promise.certain else None
        if name and head:
            yield at, name.promise, text.count(head["comma"], line, start), head["comma"], stop + 1


def shows_itself(promise: SecretName, value: str) -> bool:
    """Whether a value that stands apart from its name is no word or number that happens to stand there."""
    if hides_nothing(promise.kind, value) or has_mark(value) or is_number(value) or is_plain_words(value):
        return False
    return looks_secret(value, shortest=8) or (promise.kind == "password" and len(value) >= 6)


# --- words that the kernel's audit writes as hex ---

HEX_WORDS = re.compile(r"\b(?:proctitle|cmd|a[0-9]{1,2})=(?P<hex>(?:[0-9A-Fa-f]{2}){8,8000})(?![0-9A-Za-z])")


def find_hex_words(text: str, detectors: tuple[Detector, ...]) -> Iterator[Span]:
    """``proctitle=707974686F6E…``: a command line, its secrets hidden letter by letter."""
    if not any(map(text.__contains__, ("proctitle=", "cmd=", " a0=", " a1=", " a2=", " a3="))):
        return
    for found in HEX_WORDS.finditer(text):
        words = bytes.fromhex(found["hex"]).decode("latin-1")
        if not all(32 <= ord(one) < 127 or one == "\0" for one in words):
            continue
        for detect in detectors:
            for span in detect(words):
                start, end = found.start("hex") + 2 * span.start, found.start("hex") + 2 * span.end
                yield Span(start, end, span.kind, text[start:end])
