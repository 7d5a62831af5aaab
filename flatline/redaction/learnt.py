"""What a redactor has learnt: secrets and names, the marks that stand for them, and how often each kind was hidden."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from . import shapes
from .known import KnownValues
from .marks import BEYOND, Mint
from .pseudonyms import KINDS, KnownNames, canonical, keyed_mark
from .values import is_chaseable

MOST_VALUES = 10_000
"""Values that are told apart and chased, in all."""
MOST_PER_SOURCE = 2_000
"""Those that one environment, one command line or one child may add."""


@dataclass(frozen=True)
class Found:
    """A secret this redactor met, and the mark that stands for it."""

    kind: str
    value: str
    mark: str


class Learnt:
    """Gives each secret and each name its mark, once and for all, and counts.

    `namespace` makes the marks of a child process provisional. With `key`, names get their numbers from it.
    """

    def __init__(self, namespace: str, key: bytes) -> None:
        self.revision = 0
        """Grows whenever something becomes known that is chased."""
        self.known = KnownValues()
        self.names = KnownNames()
        self.issued: set[str] = set()
        """The marks that are ours."""
        self.mint = Mint(namespace)
        self.meant: dict[str, str] = {}
        """Pseudonym -> what it stands for."""
        self._key = key
        self._pseudonyms: dict[tuple[str, str], str] = {}
        self._marks: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._new: list[Found] = []
        self.counts: Counter[str] = Counter()
        self._in_place: Counter[str] = Counter()
        """Kind -> replacements of those beyond the limit."""
        self._taken: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._limit = MOST_VALUES

    def fork(self, namespace: str) -> Learnt:
        """For a child process: the same so far."""
        child = Learnt(namespace, self._key)
        child.revision = self.revision
        child.known = self.known.copy()
        child.names = self.names.copy()
        child.issued = set(self.issued)
        child.meant = dict(self.meant)
        child._pseudonyms = dict(self._pseudonyms)
        child._marks = dict(self._marks)
        child._kinds = dict(self._kinds)
        child._limit = min(self._limit, len(self._marks) + MOST_PER_SOURCE)
        return child

    # --- marks ---

    def register(self, kind: str, value: str, limit: int = 0) -> str:
        """The mark of a secret; from now on it is chased, unless it is short or common."""
        mark = self._marks.get(value)
        if mark is not None:
            return mark
        kind = shapes.kind_of(value) or kind
        if len(self._marks) >= (limit or self._limit):
            return self._beyond(kind)
        mark = self.mint.issue(kind)
        self._remember(Found(kind, value, mark))
        self._new.append(Found(kind, value, mark))
        return mark

    def wish(self, kind: str, value: str) -> None:
        """Chase this value, common or not."""
        self.register(kind, value, MOST_VALUES)
        self.known.add(value)
        self.revision += 1

    def pseudonym(self, kind: str, value: str) -> str:
        """The mark of a name or an address; from now on the name is followed, unless texts hold it anyway."""
        meant = (kind, canonical(kind, value))
        mark = self._pseudonyms.get(meant)
        if mark is not None:
            return mark
        if len(self._pseudonyms) >= MOST_VALUES:
            return self._beyond(kind)
        mark = keyed_mark(self._key, kind, value) if self._key else self.mint.issue(kind)
        self._pseudonyms[meant] = mark
        self.meant.setdefault(mark, value)
        self.issued.add(mark)
        self._kinds[mark] = kind
        self._new.append(Found(kind, value, mark))
        self.revision += self.names.add(kind, value)
        return mark

    def hide(self, kind: str, value: str) -> str:
        """The mark of a secret that is hidden here."""
        return self._counted(self.register(kind, value))

    def hide_name(self, kind: str, value: str) -> str:
        """The mark of a name that is hidden here."""
        return self._counted(self.pseudonym(kind, value))

    def hide_again(self, value: str) -> str:
        """The mark of a secret that is known."""
        return self._counted(self._marks[value])

    def reserve(self, mark: str) -> None:
        """It stands in text that was redacted before: it is ours, and never issued again."""
        self.mint.reserve(mark)
        self.issued.add(mark)

    def _beyond(self, kind: str) -> str:
        mark = self.mint.beyond(kind)
        self.issued.add(mark)
        self._kinds[mark] = kind
        return mark

    def _remember(self, found: Found) -> None:
        self._marks[found.value] = found.mark
        self.issued.add(found.mark)
        self._kinds[found.mark] = found.kind
        if is_chaseable(found.value):
            self.known.add(found.value)
            self.revision += 1

    @property
    def has_reached_limit(self) -> bool:
        """Whether secrets were met that are hidden in their place only."""
        return any(mark.endswith(BEYOND) for mark in self._kinds)

    @contextmanager
    def as_one_source(self) -> Iterator[None]:
        """What is learnt here is bounded, and counts as no replacement: nothing was written yet."""
        counts, in_place, limit = Counter(self.counts), Counter(self._in_place), self._limit
        self._limit = min(limit, len(self._marks) + MOST_PER_SOURCE)
        try:
            yield
        finally:
            self.counts, self._in_place, self._limit = counts, in_place, limit

    # --- parent and children ---

    def take_found(self) -> list[Found]:
        """What was met since the last call. Holds values: for the parent only, never to be written."""
        found, self._new = self._new, []
        return found

    def adopt(self, found: Sequence[Found]) -> dict[str, str]:
        """Learn what a child met; its provisional marks -> the final ones."""
        final = {}
        for one in found:
            hides = self.pseudonym if one.kind in KINDS else self.register
            mark = hides(one.kind, one.value)
            if mark != one.mark:
                final[one.mark] = mark
            if mark.endswith(BEYOND):
                self._in_place[self._kinds[mark]] += 1
        return final

    # --- counts ---

    def count(self, mark: str, times: int = 1) -> None:
        """This mark was written so many times more."""
        kind = self._kinds.get(mark, "secret")
        self.counts[kind] += times
        if mark.endswith(BEYOND):
            self._in_place[kind] += times

    def _counted(self, mark: str) -> str:
        self.count(mark)
        return mark

    def take_counts(self) -> list[dict[str, int]]:
        """What was counted since the last call, for the parent's `add_counts`."""
        now = (Counter(self.counts), Counter(self._in_place))
        before, self._taken = self._taken, now
        return [dict(counted - known) for counted, known in zip(now, before)]

    def add_counts(self, counts: Mapping[str, int], in_place: Mapping[str, int] = MappingProxyType({})) -> None:
        """A child's counts."""
        self.counts.update(counts)
        self._in_place.update(in_place)
        for kind in in_place:
            self._beyond(kind)

    def numbers(self) -> dict[str, Any]:
        """For redaction.json: never a value, a hash or a length."""
        distinct = Counter(self._kinds[mark] for mark in {*self._marks.values(), *self.meant})
        return {
            "replacements": dict(sorted(self.counts.items())),
            "distinct": dict(sorted(distinct.items())),
            "beyond_limit": dict(sorted(self._in_place.items())),
        }
