"""What a person wants hidden or kept beside the rules: on the command line, or in a file of their site.

    keep CACHE_AUTH_*            # its value is no secret, whatever the name sounds like
    hide Projekt Nordwind        # these words, wherever they stand and however they are encoded
    hide /case-[0-9]{5}/         # what this regular expression matches; of one with a group, the group
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..errors import UsageError
from .marks import marks_in
from .spans import Hide, Span, outside_marks, replace_spans

KIND = "hidden"
SHORTEST_VALUE = 8
"""Shorter ones are found as whole words only, as they stand."""


@dataclass(frozen=True)
class Wishes:
    """Names whose values are kept; values and patterns that are hidden."""

    keep: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()

    def __add__(self, other: Wishes) -> Wishes:
        return Wishes(self.keep + other.keep, self.values + other.values, self.patterns + other.patterns)

    def keeps(self, name: str) -> bool:
        """Whether the value of this name is none of the secrets."""
        return any(fnmatchcase(_plain(name), _plain(one)) for one in self.keep)


NOTHING = Wishes()


def wishes_of(keep: Iterable[str] = (), hide: Iterable[str] = ()) -> Wishes:
    """From ``--keep`` and ``--hide``. UsageError for a regular expression that is none."""
    values, patterns = [], []
    for text in hide:
        if len(text) > 2 and text.startswith("/") and text.endswith("/"):
            patterns.append(_pattern(text[1:-1]))
        elif len(text.strip()) >= SHORTEST_VALUE:
            values.append(text.strip())
        elif text.strip():
            patterns.append(re.compile(rf"(?<!\w){re.escape(text.strip())}(?!\w)"))
    return Wishes(tuple(keep), tuple(values), tuple(patterns))


def wishes_in(text: str, name: str) -> Wishes:
    """From a file, one wish a line. UsageError names the line that is not understood."""
    found = NOTHING
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#"):
            continue
        if word not in ("keep", "hide") or not rest.strip():
            raise UsageError(
                f"{name}, line {number}: a line is `keep NAME` or `hide VALUE`",
                next_step="write `hide /…/` for a regular expression, and # before a comment",
            )
        found += wishes_of(**{word: [rest.strip()]})
    return found


def hide_wished(text: str, patterns: Iterable[re.Pattern[str]], hide: Hide) -> str:
    """The text without what the patterns match; marks are left alone."""
    spans = []
    for pattern in patterns:
        group = 1 if pattern.groups else 0
        spans += [Span(*found.span(group), KIND, found[group]) for found in pattern.finditer(text) if found[group]]
    if not spans:
        return text
    held = marks_in(text)
    free = [span for span in outside_marks(text, spans) if not any(a < span.end and span.start < b for a, b in held)]
    return replace_spans(text, free, hide)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"/{text}/ is no regular expression: {error}") from None


def _plain(name: str) -> str:
    return name.lower().lstrip("-").replace("-", "_")
