"""What one analysis looks at: the facts of one or several bundles, and the text behind them.

Rows of several bundles lie in one `FactStore`: every bundle's host gets its own number (``h1``, ``h2`` …), and a row's
`artefact` begins with ``2:`` when it comes from the second bundle, so that evidence still names one member.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from flatline.bundle.facts import Log
from flatline.bundle.format import MANIFEST, Manifest
from flatline.bundle.reader import BundleReader as ZipReader
from flatline.bundle.reader import open_bundle

from .frames import Frames
from .merge import gaps_of, merge_rows, moved_to_host, prefixed
from .scan.interface import Text, text_of
from .scan.member import member_text

MAX_LOG_BYTES = 8 * 1024**2
MAX_LINES = 200_000


class FactStore:
    """The tables, by name. A table that no probe could fill is not `collected`; its rows are [], and mean nothing."""

    def __init__(
        self,
        tables: Mapping[str, Sequence[Any]] | None = None,
        *,
        collected: Iterable[str] | None = None,
        origin: str = "the bundle",
    ) -> None:
        self.origin = origin
        """What a sentence calls the place of what is not there."""
        self._rows = {name: list(rows) for name, rows in (tables or {}).items()}
        self._collected = set(self._rows if collected is None else collected)
        self._by_id: dict[str, dict[str, Any]] = {}
        self._worked_out: dict[str, dict[str, Any]] = {}

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that have rows."""
        return tuple(sorted(self._rows))

    def rows(self, table: str) -> list[Any]:
        """The rows there are; with several bundles also when only some of them have the table."""
        return self._rows.get(table, [])

    def collected(self, table: str) -> bool:
        """Whether "there is no such row" may be read as "there was none"."""
        return table in self._collected

    def set(self, table: str, rows: Iterable[Any]) -> None:
        """Replace a table; it counts as collected from now on."""
        self._rows[table] = list(rows)
        self._collected.add(table)
        self._changed(table)

    def add(self, table: str, rows: Iterable[Any]) -> None:
        """More rows of a table, of which there may be others that nobody saw: it counts as collected only if it did."""
        self._rows.setdefault(table, []).extend(rows)
        self._changed(table)

    def revise(self, table: str, change: Callable[[Any], Any]) -> None:
        """Put `change(row)` in the place of every row; whether the table counts as collected stays as it is."""
        if table in self._rows:
            self._rows[table] = [change(row) for row in self._rows[table]]
            self._changed(table)

    def by_id(self, table: str) -> dict[str, Any]:
        """id -> row, for tables whose rows have an `id`."""
        if table not in self._by_id:
            self._by_id[table] = {row.id: row for row in self.rows(table)}
        return self._by_id[table]

    def grouped(self, table: str, field: str) -> Mapping[Any, Sequence[Any]]:
        """Rows by an attribute of theirs, each group in the order of the table."""
        return self._once(table, field, lambda: _grouped(self.rows(table), field))

    @property
    def frames(self) -> Frames:
        """The frames by thread, and which threads are alike."""
        return self._once("frames", "", lambda: Frames(self.grouped("frames", "thread")))

    def _once(self, table: str, name: str, make: Callable[[], Any]) -> Any:
        """What is worked out from the rows of a table, until they change."""
        known = self._worked_out.setdefault(table, {})
        if name not in known:
            known[name] = make()
        return known[name]

    def _changed(self, table: str) -> None:
        self._by_id.pop(table, None)
        self._worked_out.pop(table, None)


def _grouped(rows: Iterable[Any], field: str) -> dict[Any, list[Any]]:
    """Run by run: rows of one process or one thread most often come one after the other."""
    groups: defaultdict[Any, list[Any]] = defaultdict(list)
    for value, run in groupby(rows, attrgetter(field)):
        groups[value].extend(run)
    return dict(groups)


class BundleReader(Protocol):
    """What is asked of an opened bundle (flatline.bundle.reader)."""

    @property
    def manifest(self) -> Manifest: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def names(self) -> Sequence[str]: ...
    def read(self, name: str, /) -> bytes: ...
    def text(self, name: str, /) -> str: ...
    def lines(self, name: str, /) -> Iterator[str]: ...


@dataclass(frozen=True)
class OpenedBundle:
    """One bundle of a case, open for reading members by name."""

    name: str
    reader: BundleReader
    facts_notes: tuple[str, ...] = ()
    """Rows and members of facts that were dropped, and why."""

    @property
    def manifest(self) -> Manifest:
        return self.reader.manifest

    @property
    def notes(self) -> tuple[str, ...]:
        """What was wrong with it: ``the zip is truncated`` …"""
        return (*self.reader.notes, *self.facts_notes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.reader.names)

    def read(self, name: str) -> bytes:
        return self.reader.read(name)

    def text(self, name: str) -> str:
        return self.reader.text(name)

    def lines(self, name: str) -> Iterator[str]:
        return self.reader.lines(name)

    def whole(self, name: str) -> Text:
        """A member of any length, to be read once."""
        return member_text(self.reader, name) if isinstance(self.reader, ZipReader) else text_of(self.text(name))


@dataclass
class Case:
    """1..N bundles and their facts. Close it (or use it in a `with`)."""

    store: FactStore
    bundles: tuple[OpenedBundle, ...] = ()
    _open: ExitStack = field(default_factory=ExitStack, repr=False)

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Case:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def locate(self, artefact: str) -> tuple[OpenedBundle, str] | None:
        """The bundle and the member behind an `artefact` (``stacks/1.0.json``, ``2:stacks/1.0.json``)."""
        number, colon, name = artefact.partition(":")
        index, member = (int(number) - 1, name) if colon and number.isdigit() else (0, artefact)
        if not 0 <= index < len(self.bundles) or member not in self.bundles[index].names:
            return None
        return self.bundles[index], member


def case_of(store: FactStore, bundles: Sequence[OpenedBundle] = ()) -> Case:
    """A case of facts at hand: no bundle need be behind it."""
    return Case(store, tuple(bundles))


def open_bundles(paths: Sequence[Path]) -> Case:
    """Open bundles and join their facts. Raises UnreadableBundleError when one cannot be read at all."""
    with ExitStack() as stack:
        bundles, rows, collected = [], [], []
        for number, path in enumerate(paths, start=1):
            reader = open_bundle(path)
            stack.callback(reader.close)
            loaded = reader.tables()
            tables = {**loaded.rows, "gaps": gaps_of(reader.manifest.ledger, MANIFEST)}
            rows.append(_renumbered(tables, number) if len(paths) > 1 else tables)
            collected.append({*loaded.collected, "gaps"})
            bundles.append(OpenedBundle(path.name, reader, tuple(loaded.notes)))
        store = FactStore(_joined(rows), collected=set.intersection(*collected))
        return Case(store, tuple(bundles), stack.pop_all())


def joined_cases(first: Case, second: Case) -> Case:
    """Both as one case; what they opened is closed with it. The hosts of `second` are further ones."""
    number = len(first.bundles) + 1
    rows = [{name: case.store.rows(name) for name in case.store.tables} for case in (first, second)]
    rows[1] = _renumbered(rows[1], number)
    collected = [{name for name in case.store.tables if case.store.collected(name)} for case in (first, second)]
    both = Case(FactStore(_joined(rows), collected=set.intersection(*collected)), (*first.bundles, *second.bundles))
    both._open.push(first._open)
    both._open.push(second._open)
    return both


def log_text(case: Case, log: Log) -> str:
    """The text of one log, at most 8 MiB from its end; empty when none was taken."""
    return _end_of(whole_log(case, log).pieces).decode("utf-8", "replace")


def whole_log(case: Case, log: Log) -> Text:
    """All of the text of one log, to be read once; empty when none was taken."""
    place = case.locate(log.text) if log.text else None
    if place is None:
        return Text(())
    if log.text_first is None:
        return place[0].whole(place[1])
    return text_of("\n".join(islice(place[0].lines(place[1]), log.text_first - 1, log.text_last)))


def _end_of(pieces: Iterable[bytes]) -> bytes:
    kept: deque[bytes] = deque()
    size = 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        while size - len(kept[0]) >= MAX_LOG_BYTES:
            size -= len(kept.popleft())
    return b"".join(kept)[-MAX_LOG_BYTES:]


def lines_of(case: Case, artefact: str) -> Iterator[str]:
    """The lines of one member, at most 200,000 of them."""
    place = case.locate(artefact)
    return islice(place[0].lines(place[1]), MAX_LINES) if place else iter(())


def _renumbered(tables: Mapping[str, Sequence[Any]], number: int) -> dict[str, list[Any]]:
    host, prefix = f"h{number}", "" if number == 1 else f"{number}:"
    return {name: [prefixed(moved_to_host(row, host), prefix) for row in rows] for name, rows in tables.items()}


def _joined(cases: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    joined: dict[str, list[Any]] = {}
    for tables in cases:
        for name, rows in tables.items():
            joined.setdefault(name, []).extend(rows)
    return merge_rows(joined)
