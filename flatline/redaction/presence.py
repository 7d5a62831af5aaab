"""Which literals a text holds at all, told without searching the whole of it for each.

The lines of a log differ in their numbers above all. Without digits a few lines are left of thousands; a literal
without digits that is in the text is in one of these.
"""

from __future__ import annotations

from typing import Callable

Has = Callable[[str], bool]
"""Whether the text may hold this literal; it has no digit and no line break."""

SHORT = 2000
_DIGITS = b"0123456789"


def literals_of(text: str) -> Has:
    """`Has` for this text."""
    if len(text) < SHORT:
        return text.__contains__
    lines = text.encode("utf-8", "surrogatepass").translate(None, _DIGITS).split(b"\n")
    different = b"\n".join(set(lines))
    answers: dict[str, bool] = {}

    def has(literal: str) -> bool:
        answer = answers.get(literal)
        if answer is None:
            answer = answers[literal] = literal.encode() in different
        return answer

    return has
