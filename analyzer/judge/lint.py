"""What a good rule must have beyond being well-formed. `lint` finds everything that is wrong in one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from flatline.bundle.facts import TABLES

from ..scan.needed import shortest_needed
from . import rank
from .cases import load_cases
from .counts import OPERATORS
from .fields import COUNT_TABLE, LOG_TABLE, allowed_values, has_field
from .language import AllOf, AnyOf, Find, Nothing, Operators, PackInfo, Rule, Translation, parse_model
from .pack import PACK_FILE, LoadedRule, Pack, Rulebook, read_file
from .patterns import MIN_LITERAL_BYTES
from .phrases import PHRASES
from .reach import one_kind, unreached
from .texts import broken_braces, slots
from .yaml_source import Document, Path, Problem

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
    known = {rule.id for rule in book.rules}
    for rule in (*book.rules, *book.drafts):
        errors += rule.unwritten
        errors += chain.from_iterable(check(rule) for check in _CHECKS)
        errors += _unknown_rules(rule, known)
        errors += one_kind(rule)
        load_cases(rule, errors)
        warnings += _advice(rule)
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
        if table != LOG_TABLE and table not in TABLES:
            yield self._problem((*path, key), f"there is no table {table!r}")
            return
        if (model.stack or model.innermost) and table != "threads":
            yield self._problem(path, "only threads have a stack")
        if table == LOG_TABLE and "pattern" not in model.where:
            yield self._problem(path, "find: log needs a pattern in its where")
        inner = dict(names)
        yield from self._order(table, model, path, names)
        counted = model.count if isinstance(model, Find) else None
        if isinstance(model, Find) and model.as_:
            inner[model.as_] = table
            if counted is None:
                names[model.as_] = table
        if counted is not None:
            yield from self._count(table, model, path, names)
        yield from self._fields(table, model.where, (*path, "where"), inner)
        for number, nested in enumerate(model.with_):
            target = names if isinstance(model, Find) and counted is None else inner
            yield from self.check(nested, (*path, "with", number), target)

    def _order(self, table: str, model: Find | Nothing, path: Path, names: Mapping[str, str]) -> Iterator[Problem]:
        for key in ("after", "before"):
            name = getattr(model, key)
            if name is None:
                continue
            if table != LOG_TABLE:
                yield self._problem((*path, key), f"only lines of a log are {key} another: find: log")
            elif names.get(name) != LOG_TABLE:
                yield self._problem((*path, key), f"{name!r} is no line of a log that was bound before")

    def _count(self, table: str, model: Any, path: Path, names: dict[str, str]) -> Iterator[Problem]:
        if model.distinct is not None and not has_field(table, model.distinct):
            yield self._problem((*path, "distinct"), f"{table} rows have no field {model.distinct!r}")
        for key in OPERATORS:
            limit = getattr(model.count, key)
            if isinstance(limit, str):
                yield from self._reference(limit, (*path, "count", key), names)
        if model.count.as_:
            names[model.count.as_] = COUNT_TABLE

    def _fields(self, table: str, where: Mapping[str, Any], path: Path, names: Mapping[str, str]) -> Iterator[Problem]:
        for field, predicate in where.items():
            if not has_field(table, field):
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
        if name not in names:
            yield self._problem(path, f"{name!r} is bound by no condition before this one")
        elif not has_field(names[name], field):
            yield self._problem(path, f"{names[name]} rows have no field {field!r}")


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
    yield from _too_short(rule.document, rule.model.patterns)
    for name in rule.model.patterns:
        if name not in used:
            yield rule.document.problem(("patterns", name), f"pattern {name} is not used")


def _bad_shared_patterns(pack: Pack) -> Iterator[Problem]:
    path = pack.root / PACK_FILE
    document = read_file(path, []) if path.exists() else None
    info = parse_model(PackInfo, document) if document is not None else None
    if document is not None and isinstance(info, PackInfo):
        yield from _too_short(document, info.patterns)


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
        for name, field, has_default in slots(text):
            if name not in optional:
                yield rule.document.problem(path, f"{{{name}.{field}}}: {name!r} is bound by no condition")
            elif name not in required and not has_default:
                yield rule.document.problem(
                    path, f"{{{name}.{field}}}: only bound by what supports; say what to write without it: {{…|…}}"
                )
            elif field not in PHRASES.get(optional[name], {}) and not has_field(optional[name], field):
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


_CHECKS = (_unknown_tables, _bad_patterns, _bad_texts, _bad_weights, _half_translated)


def _advice(rule: LoadedRule) -> Iterator[Problem]:
    if rule.model.zh is None:
        yield rule.document.problem(("id",), "has no zh texts")
    if not rule.model.refs:
        yield rule.document.problem(("id",), "has no refs")
