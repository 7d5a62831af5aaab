"""Private keys in PEM, also those that a log begins or ends in the middle of, and those behind its prefixes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from .spans import Span

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(
    r"(?:[\s│|>]|\\{1,4}[nrt]|[A-Za-z0-9+/=]{16,}|(?:Proc-Type|DEK-Info|Version|Comment)[^\n\"']{0,200}"
    r"|[A-Za-z0-9+/=]{1,15}(?=[\s\\]|-----|$))*"
)
_PUTTY = re.compile(r"Private-Lines:[ ]?[0-9]{1,4}[^\n]{0,20}\n")
_KEY_PIECE = re.compile(r"[A-Za-z0-9+/=]{4,}")
LONGEST_KEY = 20_000


def find_private_keys(text: str) -> Iterator[Span]:
    """PEM blocks, also those that a truncated log begins or ends in the middle of."""
    for begin in _PUTTY.finditer(text) if "Private-Lines:" in text else ():
        yield from _lines_of_key(text, begin.end(), begin.end() + LONGEST_KEY)
    if "PRIVATE KEY" not in text:
        return
    for begin in _BEGIN.finditer(text):
        other = text.find("-----BEGIN", begin.end(), begin.end() + LONGEST_KEY)
        end = _END.search(text, begin.end(), other if other >= 0 else begin.end() + LONGEST_KEY)
        body = _KEY_BODY.match(text, begin.end(), end.start() if end else begin.end() + LONGEST_KEY)
        body_end = begin.end() + len(body[0].rstrip()) if body else begin.end()
        if not end:
            yield _key(text, begin.start(), body_end)
            yield from _lines_of_key(text, body_end, other if other >= 0 else body_end + LONGEST_KEY)
        elif body and body.end() == end.start():
            yield _key(text, begin.start(), end.end())
        else:  # quotes, a diff's signs or a log's prefix stand between the lines: hide what is key alone
            for piece in _KEY_PIECE.finditer(text, begin.end(), end.start()):
                yield Span(piece.start(), piece.end(), "private-key", piece[0])
    yield from _keys_without_begin(text)


def _keys_without_begin(text: str) -> Iterator[Span]:
    done, begins = 0, [begin.end() for begin in _BEGIN.finditer(text)]
    for end in _END.finditer(text):
        begin = bisect_right(begins, end.start())
        if not begin or begins[begin - 1] < done or end.start() - begins[begin - 1] > LONGEST_KEY:
            yield from _key_before(text, max(done, end.start() - LONGEST_KEY), end.start())
        done = end.end()


_LINE_OF_KEY = re.compile(r"(?:^|[^A-Za-z0-9+/=])([A-Za-z0-9+/]{40,}={0,2}|[A-Za-z0-9+/]{4,}={1,2})[\s\"',]*$")
_STRAY_LINES = 3
"""Lines of others that may stand between two of a key."""


def _lines_of_key(text: str, start: int, limit: int) -> Iterator[Span]:
    """The lines of a key without its end that stand behind a log's prefix, others' lines between them."""
    at, strays = start, 0
    while strays <= _STRAY_LINES and at < min(len(text), limit):
        line_end = text.find("\n", at, min(limit, at + 1000))
        line_end = min(len(text), limit, at + 1000) if line_end < 0 else line_end
        found = _LINE_OF_KEY.search(text[at:line_end])
        strays = 0 if found else strays + 1
        if found:
            yield Span(at + found.start(1), at + found.end(1), "private-key", found[1])
        at = line_end + 1


def _key_before(text: str, first: int, end: int) -> Iterator[Span]:
    """The lines of a key whose beginning was cut off."""
    strays = 0
    while end > first and strays <= _STRAY_LINES:
        line_start = text.rfind("\n", max(first, end - 1000), end) + 1 or max(first, end - 1000)
        found = _LINE_OF_KEY.search(text[line_start:end])
        strays = 0 if found else strays + 1
        if found:
            yield Span(line_start + found.start(1), line_start + found.end(1), "private-key", found[1])
        end = line_start - 1


def _key(text: str, start: int, end: int) -> Span:
    return Span(start, end, "private-key", text[start:end].replace("\\n", "\n"))
