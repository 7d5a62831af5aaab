"""Patterns that are made when a text first needs them: most texts need few, and making all takes a while."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property


class LazyPattern:
    """A regular expression, compiled at its first use."""

    def __init__(self, source: str, flags: int = 0) -> None:
        self._source = source
        self._flags = flags

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._source, self._flags)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self._pattern.finditer(text)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self._pattern.match(text, start)

    def search(self, text: str, start: int, end: int) -> re.Match[str] | None:
        return self._pattern.search(text, start, end)
