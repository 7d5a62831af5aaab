"""Values that are known to be secret, found again wherever they stand and however they are encoded.

Ten thousand of them cost a text no more time than ten. A spelling has at least eight characters, so wherever it stands
it covers one of the text's blocks of four entirely (the blocks that begin at 0, 4, 8 …). Only these blocks are looked
up, and only around a block that some spelling holds is anything compared.
"""

from __future__ import annotations

import base64
import html
import json
import re
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator
from itertools import islice
from urllib.parse import quote, quote_plus

from .marks import MARK, OPEN
from .outlines import outline
from .unseen import view_of

BOUNDED_BELOW = 12
"""Shorter values are replaced only between boundaries, so that no longer word loses its middle."""

SHORTEST_LINE = 16
"""Lines of a multi-line value are chased on their own from this length on."""

COMM = 15
"""What the kernel keeps of a thread's name (TASK_COMM_LEN): one that was made of a secret is its beginning."""

LONGEST_RUN = 4000

MOST_ENCODED = 1000
"""Values that are found in base64 and hex as well; a text made of secrets would cost seconds a megabyte by these."""

_BLOCK = 4
"""`_enter` slices by it."""
_START = 2 * _BLOCK
"""Characters a spelling has at least; those it is indexed by."""


class KnownValues:
    """The values learnt so far; `replace` finds every encoding of each in a text."""

    def __init__(self) -> None:
        self._pending: list[str] = []
        self._owner: dict[str, str] = {}
        self._blocks: set[str] = set()
        self._by_start: dict[str, list[str]] = {}
        """The first characters -> the spellings that begin with them, sorted."""
        self._longest = 0
        self._values = 0
        self._cut: set[str] = set()
        """Those spellings that are a value's beginning only."""
        self._outlined: KnownValues | None = None
        self._taken_over = 0
        """Of the outlines of others: how many of those others' spellings are here."""

    def copy(self) -> KnownValues:
        """An independent copy, for a child process."""
        self.prepare()
        other = KnownValues()
        other._owner = dict(self._owner)
        other._blocks = set(self._blocks)
        other._longest = self._longest
        other._values = self._values
        other._cut = set(self._cut)
        other._by_start = {start: list(spellings) for start, spellings in self._by_start.items()}
        return other

    def add(self, value: str) -> None:
        """Chase this value from now on."""
        self._pending.append(value)

    def __bool__(self) -> bool:
        return bool(self._owner or self._pending)

    def prepare(self) -> None:
        """Work out the spellings of what was added; `replace` does it when nobody has."""
        for value in self._pending:
            self._values += 1
            for spelling in spellings(value) if self._values <= MOST_ENCODED else set(_escapes(value)) - {""}:
                if spelling not in self._owner and len(spelling) >= _START:
                    self._enter(spelling, value)
                self._cut.discard(spelling)
            cut = value[:COMM]
            if len(value) > COMM and cut not in self._owner:
                self._cut.add(cut)
                self._enter(cut, value)
        self._pending = []

    def _enter(self, spelling: str, value: str) -> None:
        self._owner[spelling] = value
        self._longest = max(self._longest, len(spelling))
        self._blocks.update((spelling[:4], spelling[1:5], spelling[2:6], spelling[3:7]))
        alike = self._by_start.get(spelling[:_START])
        if alike is None:
            self._by_start[spelling[:_START]] = [spelling]
        else:
            insort(alike, spelling)

    def replace(self, text: str, mark_of: Callable[[str], str]) -> str:
        """The text with `mark_of(value)` for every spelling of a known value, longest first; marks are left alone."""
        if self._pending:
            self.prepare()
        if not self._owner:
            return text
        if OPEN not in text:
            return self._replaced(text, mark_of)
        out, done = [], 0
        for mark in MARK.finditer(text):
            out += [self._replaced(text[done : mark.start()], mark_of), mark[0]]
            done = mark.end()
        out.append(self._replaced(text[done:], mark_of))
        return "".join(out)

    def places(self, outlines: str) -> Iterator[int]:
        """Where in a text of outlines a spelling may begin."""
        self.prepare()
        if self._outlined is None:
            self._outlined = KnownValues()
        known = self._outlined
        for shape in map(outline, islice(self._owner, known._taken_over, None)):
            if shape not in known._owner:
                known._enter(shape, "")
        known._taken_over = len(self._owner)
        return (start for start, *_ in known._places(outlines))

    def beginning_at_end(self, text: str) -> tuple[int, str] | None:
        """Where the text ends in the first eight characters or more of a known value, and which: it was cut there."""
        run = text[-LONGEST_RUN:].split()
        word = run[-1] if run and text[-1:] == run[-1][-1:] else ""
        for start in range(len(text) - len(word), len(text) - _START + 1):
            for spelling in self._by_start.get(text[start : start + _START], ()):
                if spelling.startswith(text[start:]) and not _is_alnum(text[start - 1 : start]):
                    return start, self._owner[spelling]
        return None

    def _replaced(self, text: str, mark_of: Callable[[str], str]) -> str:
        out, done = [], 0
        for start, end, spelling in self._places(text):
            out += [text[done:start], mark_of(self._owner[spelling])]
            done = end
        return "".join([*out, text[done:]]) if out else text

    def _places(self, text: str) -> Iterator[tuple[int, int, str]]:
        """(start, end, spelling) of those in the text, also with something unseen in their middle."""
        view = view_of(text)
        found = self._occurrences(view.text if view else text)
        if view is None:
            return ((start, start + len(spelling), spelling) for start, spelling in found)
        return ((*view.span(start, start + len(spelling)), spelling) for start, spelling in found)

    def _occurrences(self, text: str) -> Iterator[tuple[int, str]]:
        blocks, done = self._blocks, 0
        for block in [at for at in range(0, len(text), _BLOCK) if text[at : at + _BLOCK] in blocks]:
            for start in range(max(done, block - _BLOCK + 1), block + 1):
                spellings = self._by_start.get(text[start : start + _START])
                found = self._longest_at(spellings, text, start) if spellings else None
                if found:
                    yield start, found
                    done = start + len(found)
                    break

    def _longest_at(self, spellings: list[str], text: str, start: int) -> str | None:
        """The longest of the sorted `spellings` that what stands at `start` begins with.

        Between a string and what begins with it, everything sorted begins with it too: so it is the last one before
        `ahead`, or else before what these two have in common.
        """
        ahead = text[start : start + self._longest]
        while ahead:
            at = bisect_right(spellings, ahead)
            found = spellings[at - 1] if at else ""
            if not ahead.startswith(found):
                ahead = ahead[: _common(ahead, found)]
            elif found and not self._is_bounded(text, start, found):
                ahead = found[:-1]
            else:
                return found or None
        return None

    def _is_bounded(self, text: str, start: int, spelling: str) -> bool:
        """A short one may be the middle of a longer word, a beginning that of another secret."""
        if len(spelling) >= BOUNDED_BELOW and spelling not in self._cut:
            return True
        end = start + len(spelling)
        return not (_is_alnum(text[start - 1 : start]) or _is_alnum(text[end : end + 1]))


def _common(one: str, other: str) -> int:
    """How many characters at the beginning are the same."""
    same, differs = 0, min(len(one), len(other)) + 1
    while differs - same > 1:
        middle = (same + differs) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            differs = middle
    return same


def _is_alnum(character: str) -> bool:
    return character.isascii() and character.isalnum()


def spellings(value: str) -> set[str]:
    """The value as it may stand in logs, JSON, URLs, HTML, shell scripts and base64."""
    plain = [value]
    if "\n" in value:
        plain += [line for line in map(str.strip, value.splitlines()) if len(line) >= SHORTEST_LINE and " " not in line]
    found: set[str] = set()
    for text in plain:
        found.update(_escapes(text))
        found.update(_encodings(text))
    return {spelling for spelling in found if spelling}


def _escapes(text: str) -> Iterator[str]:
    yield text
    if text.isalnum() and text.isascii():
        return
    yield from (quote(text, safe=""), quote(text), quote_plus(text), quote(text, safe="").lower())
    once = json.dumps(text)[1:-1]
    yield from (once, json.dumps(once)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], once.replace("/", "\\/"))
    yield from (html.escape(text), html.escape(text, quote=False))
    yield from (repr(text)[1:-1], repr(text.encode("utf-8", "surrogateescape"))[2:-1])
    yield text.replace("'", "'\"'\"'")
    yield text.replace("'", "'\\''")
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", text)


def _encodings(text: str) -> Iterator[str]:
    """Hex, and what base64 shows of the value at each of the three alignments (``user:password`` shifts it)."""
    raw = text.encode("utf-8", "surrogateescape")
    yield from (raw.hex(), raw.hex().upper())  # as the kernel's audit writes words
    yield base64.b64encode(raw).decode("ascii")
    for shift in range(3):
        first = -(-shift * 4 // 3)
        encoded = base64.b64encode(b"\0" * shift + raw).decode("ascii")
        core = encoded[first:] if (shift + len(raw)) % 3 == 0 else encoded.rstrip("=")[first:-1]
        if len(core) >= 10:
            yield core
            yield core.replace("+", "-").replace("/", "_")
