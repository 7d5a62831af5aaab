"""Puts into the tables what logs tell: collectives and ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from flatline.bundle.facts import Collective, Rank

from ...case import FactStore
from .collectives import collectives_of
from .ranks import ranks_of
from .reading import LogText

_RANK_IN_NAME = re.compile(r"(?:rank|dump|trace|_r)[_-]?(?P<rank>\d{1,6})(?:\.\w{1,5})*$")
"""``nccl_trace_rank_3``, ``_dump_3``, ``rank3.json``: a dump of the flight recorder does not say whose it is."""


def add_log_facts(store: FactStore, texts: Sequence[LogText]) -> None:
    """Rows that the logs give beside those of other sources. A log is no whole listing of either."""
    store.revise("collectives", _with_rank)
    collectives = [row for text in texts for row in collectives_of(text)]
    if collectives:
        store.add("collectives", collectives)
    ranks = _joined([row for text in texts for row in ranks_of(text)])
    if ranks:
        store.add("ranks", ranks)


def _with_rank(row: Collective) -> Collective:
    """With the rank that the name of its file tells, where its text tells none."""
    found = _RANK_IN_NAME.search(row.artefact) if row.rank is None else None
    return replace(row, rank=int(found["rank"])) if found else row


def _joined(rows: Sequence[Rank]) -> list[Rank]:
    """One row a rank: whoever has joined in one log is there, also when another log does not tell of it."""
    joined: dict[int, Rank] = {}
    for row in rows:
        if row.present or row.rank not in joined:
            joined[row.rank] = row
    return [joined[rank] for rank in sorted(joined)]
