"""Cuts the lines of one input into blocks: each what one parser recognised, and the log lines between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..parsers.interface import Lines, Parsed, Parser, any_of

LOG = "log"
PROSE = "prose"


@dataclass(frozen=True)
class Block:
    """Consecutive lines that are one thing."""

    kind: str
    first: int
    """Index of its first line among the lines of the input."""
    end: int
    rows: tuple[Any, ...] = ()
    collected: frozenset[str] = frozenset()
    about: str = ""
    is_log: bool = False


def cut(lines: Lines, parsers: Sequence[Parser] | None = None, *, rest: str = LOG) -> list[Block]:
    """All blocks, in order and without holes; what no parser (of these, else of all) takes is of the kind `rest`."""
    blocks: list[Block] = []
    at = begun = 0
    parsers, begins = _all() if parsers is None else (parsers, _begins(parsers))
    while at < len(lines):
        found = _block_at(lines, at, parsers) if begins.match(lines[at].bare) else None
        if found is None:
            at += 1
            continue
        blocks += _between(lines, begun, at, rest)
        blocks.append(found)
        at = begun = found.end
    return [*blocks, *_between(lines, begun, at, rest)]


@cache
def _all() -> tuple[Sequence[Parser], re.Pattern[str]]:
    """Every parser, and what any of them begins with. Made once, since a ticket may have a hundred thousand parts, and
    only for texts: a third of what it takes to start is theirs."""
    from ..parsers.registry import PARSERS

    return PARSERS, _begins(PARSERS)


def _begins(parsers: Sequence[Parser]) -> re.Pattern[str]:
    """One pattern that tells whether any parser need be asked."""
    return any_of(*(parser.begins for parser in parsers))


def _block_at(lines: Lines, at: int, parsers: Sequence[Parser]) -> Block | None:
    for parser in parsers:
        if parser.begins.match(lines[at].bare):
            parsed = parser.parse(lines, at)
            if parsed is not None and parsed.end > at:
                return _block(parser, at, parsed)
    return None


def _block(parser: Parser, at: int, parsed: Parsed) -> Block:
    return Block(parser.kind, at, parsed.end, parsed.rows, parsed.collected, parsed.about, parser.is_log)


def _between(lines: Lines, first: int, end: int, rest: str) -> Iterator[Block]:
    """The lines that nobody took, without blank ones around them; nothing when all are blank."""
    while first < end and not lines[first].bare:
        first += 1
    while end > first and not lines[end - 1].bare:
        end -= 1
    if first < end:
        yield Block(rest, first, end, is_log=rest == LOG)
