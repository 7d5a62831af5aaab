"""The seam between texts, engines that find lines in them, and who asks for those lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from .near import Near

MAX_LINE = 64 * 1024
"""Bytes. A longer line is several, as `BundleReader.lines` has it: a progress bar without newlines is megabytes."""


class Matched(Protocol):
    """One match."""

    def groupdict(self) -> dict[str, Any]: ...


class Compiled(Protocol):
    """A pattern that can be searched for in the text of one line: the truth."""

    def search(self, text: str, /) -> Matched | None: ...


@dataclass(frozen=True)
class Text:
    """A text that is read once, from its beginning to its end."""

    pieces: Iterable[bytes]
    size: int = 0
    """Bytes, as far as it is known beforehand."""


def text_of(text: str) -> Text:
    """A text that is in memory."""
    data = text.encode("utf-8", "replace")
    return Text((data,), len(data))


class Sought(NamedTuple):
    """A pattern that a finder looks for."""

    pattern: str
    is_whole: bool = False
    """Whether all of it is, and not only the piece of it that says most: that one is in too many lines."""


class Finder(Protocol):
    """Finds where patterns may be; what it names is asked of the pattern itself."""

    is_quick: bool
    """Whether there is no quicker one for long texts."""
    wasteful_from: int
    """So many places that nobody asks for any more cost as much as building it anew without their patterns."""

    def places(self, block: bytes, /) -> Iterable[tuple[int, Sequence[int]]]:
        """Every line of the block in which a pattern may be found, by one of its bytes, with the patterns' indices;
        ascending, and a line may come several times. No line is longer than `MAX_LINE`."""
        ...


@dataclass(frozen=True)
class Line:
    """A line in which something was found."""

    number: int
    """1-based."""
    text: str
    """Without its end; bytes that are no UTF-8 are U+FFFD."""
    near: Near = field(default_factory=Near)


@dataclass(frozen=True)
class Found:
    """One pattern in one line. `groups` are those that are named in the pattern."""

    index: int
    line: Line
    groups: Mapping[str, str | None] = field(default_factory=dict)
