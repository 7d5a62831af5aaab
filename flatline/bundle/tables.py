"""Reads the typed facts out of a bundle's members into rows of facts.py. One broken row or member costs only itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable

from flatline.errors import UnreadableBundleError

from . import strict_json
from .decode import DecodeError, checks_of
from .facts import COLLECTED
from .strict_json import JsonError

if TYPE_CHECKING:
    from .reader import BundleReader

MAX_ROWS = 1_000_000
MAX_TEXT = 256 * 1024**2
"""Rows and bytes of facts in one bundle: more would not fit into the memory of a laptop."""

Decode = Callable[[type, "dict[str, Any]"], Any]
_SCHEMA = re.compile(r"flatline/[\w.-]{1,100}/(\d{1,9})")


@dataclass
class LoadedTables:
    """`rows` by table; a table is `collected` when any member has it, be it empty. `notes` say what was dropped."""

    rows: dict[str, list[Any]] = field(default_factory=dict)
    collected: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def load(reader: BundleReader, decode: Decode) -> LoadedTables:
    """Every facts/*.json, stacks/*.json and samples/*.jsonl member, in the bundle's order."""
    loading = _Loading(decode)
    for name in reader.names:
        if loading.is_full():
            loading.tables.notes.append(f"{name} and later members were not read: the facts are too many")
            break
        try:
            loading.member(reader, name)
        except UnreadableBundleError as error:
            loading.tables.notes.append(f"not used: {error.what}")
    return loading.tables


class _Loading:
    """The state of one load: what came of it, and how much that was."""

    def __init__(self, decode: Decode) -> None:
        self.tables = LoadedTables()
        self._decode = decode
        self._rows = 0
        self._text = 0

    def is_full(self) -> bool:
        return self._rows >= MAX_ROWS or self._text >= MAX_TEXT

    def member(self, reader: BundleReader, name: str) -> None:
        """Load one member if it holds facts."""
        if name.startswith(("facts/", "stacks/")) and name.endswith(".json"):
            self._text += reader.member(name).size
            rows = self._document(name, reader.json(name))
        elif name.startswith("samples/") and name.endswith(".jsonl"):
            self._text += reader.member(name).size
            rows = self._series(reader.lines(name))
        else:
            return
        faults = Counter[str]()
        for table, row, place in rows:
            self._row(table, row, {"artefact": name, **place}, faults)
            if self.is_full():
                break
        self.tables.notes += [f"{name}: {text} ({count} times)" for text, count in faults.most_common(20)]

    def _document(self, name: str, document: Any) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        tables = document.get("tables") if isinstance(document, dict) else None
        schema = _SCHEMA.fullmatch(str(document.get("schema"))) if isinstance(document, dict) else None
        if schema is None or not isinstance(tables, dict):
            self.tables.notes.append(f"{name} is no table of facts and was left out")
            return
        if int(schema[1]) > 1:
            self.tables.notes.append(f"{name} has the newer schema {schema[0]} and was left out")
            return
        for table, rows in tables.items():
            if not isinstance(rows, list):
                yield table, None, {}
                continue
            self._collect(table)
            for number, row in enumerate(rows):
                yield table, row, {"pointer": f"/tables/{table}/{number}"}

    def _series(self, lines: Iterator[str]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = strict_json.loads(line)
            except JsonError:
                row = None
            table = row.pop("table", None) if isinstance(row, dict) else None
            if isinstance(table, str):
                self._collect(table)
                yield table, row, {"line": number}
            else:
                yield "?", None, {}

    def _collect(self, table: str) -> None:
        if table in COLLECTED:
            self.tables.collected.add(table)
            self.tables.rows.setdefault(table, [])

    def _row(self, table: str, row: Any, place: Mapping[str, Any], faults: Counter[str]) -> None:
        kind = COLLECTED.get(table)
        if not isinstance(row, dict):
            faults["a row that is no JSON object was dropped"] += 1
            return
        if kind is None:
            faults[f"a row of the unknown table {table[:60]!r} was dropped"] += 1
            return
        if not row.get("artefact"):
            row.update(place)
        if not row.keys() <= checks_of(kind).keys():
            faults[f"fields of {table} that this version does not know were ignored"] += 1
        try:
            self.tables.rows[table].append(self._decode(kind, row))
        except (DecodeError, ValueError, TypeError) as error:
            faults[f"a row of {table} was dropped: {str(error).splitlines()[0][:200]}"] += 1
        self._rows += 1
