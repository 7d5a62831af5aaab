"""Processes that no text names, numbered by what is told of them: not by which file was read first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from ..merge import PROVENANCE
from ..parsers.interface import NO_PID
from .owners import nameless, with_pids

_SEEN = ("frames", "threads")


def numbered(tables: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The tables with -1, -2 … for the same processes whichever way the same texts were given.

    First those of which a stack or a thread is told: sentences are about them, and beside the command line of its
    container the one process that was seen is not "the second".
    """
    told: dict[int, list[str]] = {}
    seen: set[int] = set()
    for name in sorted(tables):
        for row in tables[name]:
            for pid in nameless((row,)):
                told.setdefault(pid, []).append(_words(row, pid))
                seen |= {pid} if name in _SEEN else set()
    if not told:
        return {name: list(rows) for name, rows in tables.items()}
    ranked = sorted(told, key=lambda pid: (pid not in seen, sorted(told[pid]), -pid))
    pids = {pid: -number for number, pid in enumerate(ranked, 1)}
    return {name: [with_pids(row, pids) for row in rows] for name, rows in tables.items()}


def _words(row: Any, pid: int) -> str:
    """What a row tells, without the number that its process has so far and where it stands."""
    plain = with_pids(row, {pid: NO_PID})
    values = {field.name: getattr(plain, field.name) for field in fields(plain) if field.name not in PROVENANCE}
    return f"{type(row).__name__} {values!r}"
