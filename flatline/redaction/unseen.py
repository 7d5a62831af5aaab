"""The view of a text without what nobody sees in it: codes that colour it, characters without a width.

Such a character in the middle of a token hides it from whoever searches, and from no one who reads or pastes it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

_CODE = r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"
_CHARACTERS = (
    "[\x01-\x08\x0e-\x1a\x1c\x1d\x1f\x7f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff9-\ufffb]"
)
_WITHOUT_WIDTH = re.compile(_CHARACTERS)
_UNSEEN = re.compile(f"(?:{_CODE}|{_CHARACTERS})+")


class View:
    """The text without them, and where each of its characters stands in the text."""

    def __init__(self, text: str) -> None:
        spans = [found.span() for found in _UNSEEN.finditer(text)]
        ends = [0, *(end for _, end in spans)]
        kept = list(zip(ends, [*(start for start, _ in spans), len(text)]))
        self.text = "".join([text[start:end] for start, end in kept])
        self._kept = ends
        self._starts = list(accumulate((end - start for start, end in kept[:-1]), initial=0))

    def place(self, at: int) -> int:
        """Where in the text the character stands that is at `at` here."""
        piece = bisect_right(self._starts, at) - 1
        return self._kept[piece] + at - self._starts[piece]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The part of the text that is ``[start, end)`` here, with what nobody sees inside it."""
        return self.place(start), self.place(end - 1) + 1 if end > start else self.place(start)


def view_of(text: str) -> View | None:
    """None when everything in the text is seen."""
    if "\x1b" not in text and (_is_plain(text) or not _WITHOUT_WIDTH.search(text)):
        return None
    view = View(text)
    return view if len(view.text) < len(text) else None


def seen(text: str) -> str:
    """What is seen of the text."""
    view = view_of(text)
    return view.text if view else text


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()
