"""Logs that grow and tell nothing new: the same complaint again and again is no progress."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .reading import LogText

TIMES = 3
"""So often must the same lines have come, one after the other, at the end of a log."""
LONGEST = 4
"""Lines that are said together, at most."""
_NUMBER = re.compile(r"\d+")
_COMPLAINT = re.compile(
    r"\b(?:re-?try(?:ing)?|re-?connect(?:ing)?|tr(?:y|ying) again|will try|attempt|wait(?:ing|s)? (?:for|on|until|to)|"
    r"still waiting|not (?:yet )?(?:ready|available|found|reachable|there|writable)|fail(?:ed|ure|s)?|errors?|errno|"
    r"unable|cannot|can.t|could not|refused|time[ds]?[ -]?out|denied|no space left|unavailable|unreachable|locked|"
    r"busy)\b",
    re.IGNORECASE,
)


def repeating(texts: Iterable[LogText]) -> dict[str, str]:
    """Of the logs that end with the same complaint at least three times over, whatever its numbers are: path -> it."""
    return {text.log.path: complaint for text in texts if text.log.path and (complaint := _complaint(text))}


def _complaint(text: LogText) -> str:
    last = [line.text for line in text.lines[-LONGEST * TIMES :]]
    shapes = [_NUMBER.sub("0", line).strip() for line in last]
    together = (last[-size:] for size in range(1, LONGEST + 1) if _repeats(shapes, size))
    return next((line.strip() for lines in together for line in lines if _COMPLAINT.search(line)), "")


def _repeats(shapes: list[str], size: int) -> bool:
    end = shapes[-size * TIMES :]
    return len(end) == size * TIMES and end[:size] * TIMES == end
