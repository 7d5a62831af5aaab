"""Environments, package lists and limits that somebody pasted beside each other are those of one process.

No such text names its process. Those of one case are taken for one, that of the stack dump when there is just one,
unless they contradict each other: two lists that give a package two versions are of two environments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flatline.bundle.facts import Cgroup, EnvVar, Library, Limit, Package, Process

from ..merge import merge_rows

_SAYS: dict[type, Callable[[Any], tuple[object, object]]] = {
    EnvVar: lambda row: (row.name, row.value),
    Package: lambda row: (re.sub(r"[-_.]+", "-", row.name).lower(), row.version),
    Library: lambda row: (row.path, row.version),
    Limit: lambda row: ((row.name, row.soft is None), row.soft),
    Cgroup: lambda row: (row.path, row.memory_max),
}
"""What a row says of its process, and with which value: of one process there is one."""


def united(tables: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The tables, with the surroundings of as few processes as they allow."""
    said = _said(tables)
    busy = {row.thread.rpartition("/")[0] for row in tables.get("frames", ())}
    busy |= {row.process for row in tables.get("threads", ())}
    mute = [p for p in tables.get("processes", ()) if p.pid < 0 and p.id not in busy and not p.argv and p.id in said]
    whose = _whose(mute, [p for p in tables.get("processes", ()) if p.id in busy], said)
    if not whose:
        return {**{name: list(rows) for name, rows in tables.items()}, **_with_use(tables.get("limits", ()))}
    moved = {name: [_moved(row, whose) for row in rows] for name, rows in tables.items()}
    return {**moved, **merge_rows({"processes": moved["processes"]}), **_with_use(moved.get("limits", ()))}


def _with_use(limits: Sequence[Limit]) -> dict[str, list[Limit]]:
    """One text shows the limit, another counts what is in use: one row of the two."""
    used = {(row.process, row.name): row.used for row in limits if row.used is not None}
    whole = [row for row in limits if row.soft is not None or row.unlimited]
    met = {(row.process, row.name) for row in whole}
    rows = [replace(row, used=used.get((row.process, row.name), row.used)) for row in whole]
    rows += [row for row in limits if row.soft is None and not row.unlimited
             and (row.used is None or (row.process, row.name) not in met)]  # fmt: skip
    return {"limits": rows} if rows else {}


def _said(tables: Mapping[str, Sequence[Any]]) -> dict[str, dict[object, object]]:
    said: dict[str, dict[object, object]] = {}
    for rows in tables.values():
        for row in rows:
            if type(row) in _SAYS:
                key, value = _SAYS[type(row)](row)
                said.setdefault(row.process, {})[type(row), key] = value
    return said


def _whose(mute: Sequence[Process], alive: Sequence[Process], said: dict[str, dict[object, object]]) -> dict[str, str]:
    """The id of a process that is only surroundings -> the id of the one whose they are."""
    whose: dict[str, str] = {}
    homes = [alive[0].id] if len(alive) == 1 else []
    for row in mute:
        home = next((home for home in homes if _agree(said.get(home, {}), said[row.id])), None)
        if home is None:
            homes.append(row.id)
            continue
        whose[row.id] = home
        said.setdefault(home, {}).update(said[row.id])
    return whose


def _agree(one: Mapping[object, object], other: Mapping[object, object]) -> bool:
    return all(one.get(key, value) == value for key, value in other.items())


def _moved(row: Any, whose: Mapping[str, str]) -> Any:
    if isinstance(row, Process) and row.id in whose:
        return replace(row, id=whose[row.id], pid=int(whose[row.id].rpartition("/")[2]))
    home = whose.get(getattr(row, "process", None) or "")
    return replace(row, process=home) if home else row
