"""What a good rule must have beyond being well-formed. `lint` finds everything that is wrong in one run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from flatline.bundle.facts import TABLES

from ..scan.needed import shortest_needed
from . import rank
from .cases import load_cases
from .counts import OPERATORS
from .fields import COUNT_TABLE, LOG_FIELDS, LOG_TABLE, allowed_values, has_field
from .language import AllOf, AnyOf, Find, Nothing, Operators, PackInfo, Rule, Translation, parse_model
from .pack import PACK_FILE, LoadedRule, Pack, Rulebook, read_file
from .patterns import MIN_LITERAL_BYTES
from .phrases import PHRASES
from .reach import one_kind, unreached
from .readable import UNREAD
from .texts import broken_braces, slots
from .yaml_source import Document, Path, Problem

_KNOWN = frozenset({*TABLES, LOG_TABLE, COUNT_TABLE})
_GROUP = re.compile(r"\(\?P?<([A-Za-z_]\w*)>")
_UNIT_TWICE = re.compile(r"(\{[\w.]+_s(?:\|[^{}]*)?\}) (?:(?:s|sec|secs|seconds)\b|秒)")
STABLE_FLOOR = 2.2
"""A stable rule must be able to reach these log-odds, else it can never be said to be likely."""
BUILT_IN = "built-in "
"""How our own pack's name begins."""


@dataclass(frozen=True)
class Linted:
    """Errors refuse a rule; warnings advise."""

    errors: list[Problem]
    warnings: list[Problem]


def lint(book: Rulebook) -> Linted:
    """Every rule of every pack, and the rules against each other."""
    errors, warnings = [*book.problems], []
    known = {rule.id for rule in (*book.rules, *book.drafts, *book.refused)}
    for rule in (*book.rules, *book.drafts):
        errors += rule.unwritten
        errors += chain.from_iterable(check(rule) for check in _CHECKS)
        errors += _unknown_rules(rule, known)
        errors += one_kind(rule)
        load_cases(rule, errors)
        warnings += _advice(rule)
    for rule in book.refused:
        errors += rule.unwritten
        errors += chain.from_iterable(check(rule) for check in _OF_ANY)
        errors += _unknown_rules(rule, known)
        load_cases(rule, errors)
    errors += chain.from_iterable(map(_bad_shared_patterns, book.packs))
    errors += unreached(book)
    return Linted(sorted(set(errors)), sorted(set(warnings)))


# --- tables, fields, references ---


def _unknown_tables(rule: LoadedRule) -> Iterator[Problem]:
    bound = _Names(rule)
    for part in ("requires", "supports", "contradicts"):
        names = dict(bound.required) if part != "requires" else {}
        for number, model in enumerate(getattr(rule.model, part)):
            yield from bound.check(model, (part, number), names)
            if part == "requires":
                bound.required = dict(names)


class _Names:
    """Walks conditions, knowing which variables are bound to which table at every point."""

    def __init__(self, rule: LoadedRule) -> None:
        self._rule = rule
        self.required: dict[str, str] = {}
        self.may_bind_more = False
        """A condition that nobody understands may bind any name."""
        self._groups_of: dict[str, set[str] | None] = {}
        """Of a variable that is a line of a log: the named groups of its patterns; None: any may be there."""
        self._groups = {pattern.name: set(_GROUP.findall(pattern.pattern)) for pattern in rule.patterns}

    def has_field(self, name: str, table: str, field: str) -> bool:
        """Whether what a variable is bound to can have a field."""
        return _has_field(table, field, self._groups_of.get(name))

    def is_bound(self, name: str, names: Mapping[str, str]) -> bool:
        """Whether a variable is bound, as far as anybody can tell."""
        return name in names or self.may_bind_more

    def _problem(self, path: Path, message: str) -> Problem:
        return self._rule.document.problem(path, message)

    def check(self, model: Any, path: Path, names: dict[str, str]) -> Iterator[Problem]:
        """Problems of one condition; variables it binds are added to `names`."""
        if len(path) > 2 and (model.weight or model.group):
            yield self._problem(path, "weight and group belong to conditions of the first level")
        if isinstance(model, AllOf):
            for number, branch in enumerate(model.all):
                yield from self.check(branch, (*path, "all", number), names)
        elif isinstance(model, AnyOf):
            yield from self._branches(model, path, names)
        else:
            yield from self._search(model, path, names)

    def _branches(self, model: AnyOf, path: Path, names: dict[str, str]) -> Iterator[Problem]:
        """Only what every branch binds is bound afterwards."""
        outcomes = []
        for number, branch in enumerate(model.any):
            inner = dict(names)
            yield from self.check(branch, (*path, "any", number), inner)
            outcomes.append(inner)
        names.update({name: table for name, table in outcomes[0].items() if all(name in o for o in outcomes)})

    def _search(self, model: Find | Nothing, path: Path, names: dict[str, str]) -> Iterator[Problem]:
        key = "none" if isinstance(model, Nothing) else "find"
        table = model.none if isinstance(model, Nothing) else model.find
        if table not in _KNOWN:
            self.may_bind_more = self.may_bind_more or table == UNREAD
            if table != UNREAD:
                yield self._problem((*path, key), f"there is no table {table!r}")
        elif (model.stack or model.innermost) and table != "threads":
            yield self._problem(path, "only threads have a stack")
        if table == LOG_TABLE and "pattern" not in model.where:
            yield self._problem(path, "find: log needs a pattern in its where")
        inner = dict(names)
        groups = self._groups.get(str(model.where.get("pattern"))) if table == LOG_TABLE else None
        yield from self._order(table, model, path, names)
        counted = model.count if isinstance(model, Find) else None
        if isinstance(model, Find) and model.as_:
            inner[model.as_] = table
            before = self._groups_of.get(model.as_, set())
            self._groups_of[model.as_] = None if groups is None or before is None else before | groups
            if counted is None:
                names[model.as_] = table
        if counted is not None:
            yield from self._count(table, model, path, names, groups)
        yield from self._fields(table, model.where, (*path, "where"), inner, groups)
        for number, nested in enumerate(model.with_):
            target = names if isinstance(model, Find) and counted is None else inner
            yield from self.check(nested, (*path, "with", number), target)

    def _order(self, table: str, model: Find | Nothing, path: Path, names: Mapping[str, str]) -> Iterator[Problem]:
        for key in ("after", "before"):
            name = getattr(model, key)
            if name is None:
                continue
            if table != LOG_TABLE and table in _KNOWN:
                yield self._problem((*path, key), f"only lines of a log are {key} another: find: log")
            elif names.get(name) != LOG_TABLE and not self.may_bind_more:
                yield self._problem((*path, key), f"{name!r} is no line of a log that was bound before")

    def _count(
        self, table: str, model: Any, path: Path, names: dict[str, str], groups: set[str] | None
    ) -> Iterator[Problem]:
        if model.distinct is not None and not _has_field(table, model.distinct, groups):
            yield self._problem((*path, "distinct"), f"{table} rows have no field {model.distinct!r}")
        for key in OPERATORS:
            limit = getattr(model.count, key)
            if isinstance(limit, str):
                yield from self._reference(limit, (*path, "count", key), names)
        if model.count.as_:
            names[model.count.as_] = COUNT_TABLE

    def _fields(
        self, table: str, where: Mapping[str, Any], path: Path, names: Mapping[str, str], groups: set[str] | None
    ) -> Iterator[Problem]:
        for field, predicate in where.items():
            if not _has_field(table, field, groups):
                yield self._problem((*path, field), f"{table} rows have no field {field!r}")
                continue
            yield from self._words(table, field, predicate, (*path, field))
            for reference in _references(predicate):
                yield from self._reference(reference, (*path, field), names)

    def _words(self, table: str, field: str, predicate: Any, path: Path) -> Iterator[Problem]:
        words = allowed_values(table, field)
        for value in _literals(predicate) if words else ():
            if value not in (words or ()):
                yield self._problem(path, f"{table}.{field} is never {value!r}; it is one of {', '.join(words or ())}")

    def _reference(self, reference: str, path: Path, names: Mapping[str, str]) -> Iterator[Problem]:
        name, _, field = reference.partition(".")
        if not self.is_bound(name, names):
            yield self._problem(path, f"{name!r} is bound by no condition before this one")
        elif name in names and not self.has_field(name, names[name], field):
            yield self._problem(path, f"{names[name]} rows have no field {field!r}")


def _has_field(table: str, field: str, groups: set[str] | None) -> bool:
    """Whether rows of a table can have a field; of a line of a log only with these named `groups`, when they are known.
    Of a table that nobody knows: they may."""
    if table == LOG_TABLE:
        return groups is None or field in groups or field in LOG_FIELDS or has_field("logs", field)
    return table not in _KNOWN or has_field(table, field)


def _references(predicate: Any) -> Iterator[str]:
    if not isinstance(predicate, Operators):
        return
    for name in ("same", "not_same"):
        if getattr(predicate, name):
            yield getattr(predicate, name)
    for name in ("gt", "ge", "lt", "le", "in_"):
        if isinstance(getattr(predicate, name), str):
            yield getattr(predicate, name)
    for name in ("contains", "starts", "ends"):
        operand = getattr(predicate, name)
        if operand is not None and hasattr(operand, "same"):
            yield operand.same
    yield from _references(predicate.not_)


def _literals(predicate: Any) -> list[Any]:
    """The words a predicate compares an enumeration with."""
    if isinstance(predicate, Operators):
        inner = _literals(predicate.not_) if predicate.not_ is not None else []
        return inner + (list(predicate.in_) if isinstance(predicate.in_, list) else [])
    return [] if isinstance(predicate, list) else [predicate]


# --- patterns and texts ---


def _bad_patterns(rule: LoadedRule) -> Iterator[Problem]:
    used = set(_patterns_used(rule.model))
    yield from _short_patterns(rule)
    for name in rule.model.patterns:
        if name not in used:
            yield rule.document.problem(("patterns", name), f"pattern {name} is not used")


def _short_patterns(rule: LoadedRule) -> Iterator[Problem]:
    yield from _too_short(
        rule.document,
        {pattern.name: pattern.pattern for pattern in rule.patterns if pattern.name in rule.model.patterns},
    )


def _bad_shared_patterns(pack: Pack) -> Iterator[Problem]:
    path = pack.root / PACK_FILE
    document = read_file(path, []) if path.exists() else None
    info = parse_model(PackInfo, document) if document is not None else None
    if document is not None and isinstance(info, PackInfo):
        good = {pattern.pattern for pattern in pack.patterns.values()}
        yield from _too_short(document, {name: text for name, text in info.patterns.items() if text in good})


def _too_short(document: Document, patterns: Mapping[str, str]) -> Iterator[Problem]:
    for name, pattern in patterns.items():
        if shortest_needed(pattern) < MIN_LITERAL_BYTES:
            what = f"pattern {name} needs a text of at least {MIN_LITERAL_BYTES} bytes in every match"
            yield document.problem(("patterns", name), what)


def _patterns_used(model: Rule) -> Iterator[str]:
    todo: list[Any] = [*model.requires, *model.supports, *model.contradicts]
    while todo:
        condition = todo.pop()
        if isinstance(condition, (Find, Nothing)):
            todo += condition.with_
            if isinstance(condition.where.get("pattern"), str):
                yield str(condition.where["pattern"])
        else:
            todo += condition.any if isinstance(condition, AnyOf) else condition.all


def _bad_texts(rule: LoadedRule) -> Iterator[Problem]:
    walker = _Names(rule)
    required: dict[str, str] = {}
    optional: dict[str, str] = {}
    for number, model in enumerate(rule.model.requires):
        list(walker.check(model, ("requires", number), required))
    optional.update(required)
    for number, model in enumerate(rule.model.supports):
        list(walker.check(model, ("supports", number), optional))
    for path, text in _texts(rule.model):
        if broken_braces(text):
            yield rule.document.problem(path, "braces hold a bound variable and its field: {t.pid}")
        for slot in _UNIT_TWICE.findall(text):
            yield rule.document.problem(path, f'{slot} is written with its unit, as "2 s" or "5 min": no unit after it')
        for name, field, has_default in slots(text):
            if not walker.is_bound(name, optional):
                yield rule.document.problem(path, f"{{{name}.{field}}}: {name!r} is bound by no condition")
            elif name not in optional:
                continue
            elif name not in required and not has_default:
                yield rule.document.problem(
                    path, f"{{{name}.{field}}}: only bound by what supports; say what to write without it: {{…|…}}"
                )
            elif field not in PHRASES.get(optional[name], {}) and not walker.has_field(name, optional[name], field):
                yield rule.document.problem(path, f"{optional[name]} rows have no field {field!r}")


def _texts(model: Rule) -> Iterator[tuple[Path, str]]:
    for owner, prefix in ((model, ()), (model.zh, ("zh",))):
        if owner is None:
            continue
        for name in ("title", "why", "action", "not_this_when"):
            if getattr(owner, name):
                yield (*prefix, name), getattr(owner, name)
        lists = ("fix",) if isinstance(owner, Translation) else ("fix", "confirm")
        for name in lists:
            for number, text in enumerate(getattr(owner, name)):
                yield (*prefix, name, number), text


# --- weights and other rules ---


def _bad_weights(rule: LoadedRule) -> Iterator[Problem]:
    for part in ("supports", "contradicts"):
        for number, model in enumerate(getattr(rule.model, part)):
            if model.weight is None:
                yield rule.document.problem((part, number), "what supports or contradicts needs a weight")
    if rule.model.status != "stable" or rule.model.at_most in ("possible", "weak hint"):
        return
    items = [rank.Item(w.group, w.weight) for w in (*rule.requires, *rule.supports) if w.weight]
    if rank.log_odds(items, ()) < STABLE_FLOOR:
        yield rule.document.problem(("status",), f"a stable rule needs evidence that can reach z = {STABLE_FLOOR}")
    groups = {item.group for item in items}
    if len(groups) < 2 and all(item.weight != "decisive" for item in items):
        yield rule.document.problem(("status",), "a stable rule needs two independent kinds of evidence (groups)")


def _unknown_rules(rule: LoadedRule, known: set[str]) -> Iterator[Problem]:
    for part in ("explains", "supersedes", "excludes"):
        for number, name in enumerate(getattr(rule.model, part)):
            if name not in known:
                yield rule.document.problem((part, number), f"there is no rule {name!r}")


def _half_translated(rule: LoadedRule) -> Iterator[Problem]:
    """A stable rule of our own pack speaks both languages; none speaks half of one: a report would mix them."""
    zh, own = rule.model.zh, rule.pack.startswith(BUILT_IN)
    if rule.model.status != "stable" or (zh is None and not own):
        return
    lacking = [name for name in ("title", "why", "fix", "action", "not_this_when") if not getattr(zh, name, None)]
    if lacking:
        yield rule.document.problem(("zh",) if zh else ("id",), f"a stable rule's zh texts lack {', '.join(lacking)}")
    elif zh is not None and len(zh.fix) != len(rule.model.fix):
        yield rule.document.problem(("zh", "fix"), f"zh has {len(zh.fix)} remedies, and the rule {len(rule.model.fix)}")


_OF_ANY = (_unknown_tables, _short_patterns, _bad_texts)
"""What can be said also of a rule that is not in order: they ask each part of it by itself."""
_CHECKS = (_unknown_tables, _bad_patterns, _bad_texts, _bad_weights, _half_translated)


def _advice(rule: LoadedRule) -> Iterator[Problem]:
    if rule.model.zh is None:
        yield rule.document.problem(("id",), "has no zh texts")
    if not rule.model.refs:
        yield rule.document.problem(("id",), "has no refs")
