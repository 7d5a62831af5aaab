"""What a witness rests on: the rows it bound, as evidence that can be quoted and clicked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flatline.bundle.facts import Chain, End, Host, WaitEdge

from ..derive.evidence import evidence_of as fact_as_evidence
from ..derive.evidence import quote as quote_of_fact
from ..findings import Evidence
from .fields import Absent
from .logs import LogHit

MAX_QUOTE = 300
MAX_EVIDENCE = 12

Lookup = Callable[[str], Evidence]
"""``artefact#pointer`` or ``artefact:line`` -> what is there."""


def evidence_of(rows: Iterable[Any], look_up: Lookup) -> list[Evidence]:
    """What the bound rows say, each place once and each saying of one thread once, at most twelve."""
    found: list[Evidence] = []
    seen: set[tuple[object, ...]] = set()
    for row in rows:
        for item in _items(row, look_up):
            place = (item.artefact, item.pointer, item.line)
            keys = {place, (item.pid, item.tid, item.quote or place)}
            if item.artefact and not keys & seen:
                found.append(item)
            seen |= keys
    return found[:MAX_EVIDENCE]


def _items(row: Any, look_up: Lookup) -> list[Evidence]:
    """A wait rests on the facts it was drawn from; chains and ends are told elsewhere in the report."""
    if isinstance(row, (Absent, Chain, End, Host)):
        return []
    if isinstance(row, WaitEdge):
        return [look_up(place) for place in row.evidence]
    if isinstance(row, LogHit):
        before, after = (list(map(_printable, texts)) for texts in (row.near.before, row.near.after))
        return [Evidence(artefact=row.artefact, line=row.number, quote=clean(row.text), before=before, after=after,
                         of_at_least=row.of_at_least)]  # fmt: skip
    return [fact_as_evidence(row)]


def quote_of(row: Any) -> str:
    """A row in half a sentence."""
    return clean(row.text if isinstance(row, LogHit) else quote_of_fact(row))


def clean(text: str, limit: int = MAX_QUOTE) -> str:
    """One printable line: a bundle is hostile input, and a terminal obeys escape sequences."""
    line = _printable(text).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).rstrip()


def duration(seconds: float) -> str:
    """``0.5 s``, ``45 s``, ``12 min``, ``5 h``, ``3 days``."""
    if 0 < seconds < 10:
        return f"{seconds:.2g} s"
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.0f} days"
