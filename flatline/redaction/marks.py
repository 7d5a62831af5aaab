"""The marks that stand where secrets stood: ``⟪hf-token·1⟫``, kind and ordinal.

A mark is ``⟪`` kind ``·`` ordinal ``⟫``; a child process adds its namespace, ``⟪hf-token·stacks.1⟫``, until its
parent has given the final ordinal. Input must not be able to forge one: see `escape_foreign`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

OPEN, DOT, CLOSE = "⟪", "·", "⟫"

BEYOND = f"{DOT}0{CLOSE}"
"""How the mark ends that all values of a kind share which are too many to be told apart."""

MARK = re.compile("⟪[a-z0-9-]{1,40}·(?:[a-z0-9-]{1,40}\\.)?[0-9]{1,9}⟫")
"""Any well-formed mark, whoever issued it."""

EARLIER = re.compile("⟨[a-z0-9-]{1,40}·(?:[a-z0-9-]{1,40}\\.)?[0-9]{1,9}⟩")
"""A mark found in the input: the shape of ours, in single brackets, so that nobody takes it for one."""

_BRACKETS = re.compile(f"{MARK.pattern}|[⟪⟫]")


def is_mark(text: str) -> bool:
    """Whether the whole text is one mark, ours or an earlier redaction's."""
    return bool(MARK.fullmatch(text) or EARLIER.fullmatch(text))


def has_mark(text: str) -> bool:
    """Whether a mark stands anywhere in the text."""
    return bool(("⟪" in text and MARK.search(text)) or ("⟨" in text and EARLIER.search(text)))


def marks_in(text: str) -> list[tuple[int, int]]:
    """Where marks stand, ours and earlier ones, in order."""
    found = [mark.span() for mark in MARK.finditer(text)] if OPEN in text else []
    if "⟨" in text:
        found = sorted([*found, *(mark.span() for mark in EARLIER.finditer(text))])
    return found


def escape_foreign(text: str, is_ours: Callable[[str], bool]) -> str:
    """Take the double brackets away from everything that `is_ours` does not know.

    A well-formed foreign mark becomes ``⟨hf-token·1⟩``: readable, and never one of ours. Lone brackets are doubled.
    """
    if OPEN not in text and CLOSE not in text:
        return text

    def escaped(match: re.Match[str]) -> str:
        found = match[0]
        if found == OPEN:
            return "⟨⟨"
        if found == CLOSE:
            return "⟩⟩"
        return found if is_ours(found) else f"⟨{found[1:-1]}⟩"

    return _BRACKETS.sub(escaped, text)


class Mint:
    """Gives ordinals, counted per kind."""

    def __init__(self, namespace: str) -> None:
        self._prefix = f"{_plain(namespace)}." if namespace else ""
        self._last: Counter[str] = Counter()

    def issue(self, kind: str) -> str:
        """The next mark of this kind."""
        kind = _plain(kind)
        self._last[kind] += 1
        return f"{OPEN}{kind}{DOT}{self._prefix}{self._last[kind]}{CLOSE}"

    def beyond(self, kind: str) -> str:
        """The mark of all that are too many to be told apart; the same in every process."""
        return f"{OPEN}{_plain(kind)}{BEYOND}"

    def reserve(self, mark: str) -> None:
        """Never issue this mark: text that is already redacted uses it."""
        kind, _, ordinal = mark[1:-1].partition(DOT)
        if ordinal.isdigit():
            self._last[kind] = max(self._last[kind], int(ordinal))


def _plain(word: str) -> str:
    """A kind or namespace as it may stand in a mark."""
    return re.sub("[^a-z0-9]+", "-", word.lower()).strip("-")[:40] or "secret"
