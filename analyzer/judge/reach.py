"""What the rules together must reach: every cause, every variant; and evidence of more than one kind for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .language import AllOf, AnyOf, Find
from .pack import CAUSES_FILE, LoadedRule, Pack, Rulebook, read_file
from .yaml_source import Problem

VERDICTS = "none"
"""The family of causes that are no hang: the verdict says them, with or without a rule."""
KIND_OF: Mapping[str, str] = {"errors": "log", "log_lines": "log", "logs": "log", "frames": "threads"}
"""Tables that are read off the same artefact as another one."""
_RULE_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def unreached(book: Rulebook) -> Iterator[Problem]:
    """Causes that no rule names, variants whose rule is none of their cause's, and rules whose variant none lists."""
    rules = (*book.rules, *book.refused)
    causes_of = {rule.id: rule.model.cause for rule in rules if rule.model.status != "deprecated"}
    for pack in book.packs:
        yield from _unreached_in(pack, causes_of)
        yield from _unlisted_in(pack)


def _unreached_in(pack: Pack, causes_of: Mapping[str, str]) -> Iterator[Problem]:
    document = read_file(pack.root / CAUSES_FILE, []) if pack.causes else None
    if document is None:
        return
    for number, entry in enumerate(document.data):
        cause = pack.causes.get(str(entry.get("id"))) if isinstance(entry, dict) else None
        if cause is None:
            continue
        if cause.id not in causes_of.values() and cause.family != VERDICTS:
            yield document.problem((number, "id"), f"no rule names the cause {cause.id}")
        for variant, told_by in cause.variants.items():
            if _RULE_ID.fullmatch(told_by) and causes_of.get(told_by) != cause.id:
                fault = f"{told_by} is no rule that names {cause.id}: a rule's id, or why no rule can tell {variant}"
                yield document.problem((number, "variants", variant), fault)


def _unlisted_in(pack: Pack) -> Iterator[Problem]:
    """Rules of a cause of the same pack whose `variant` is not that cause's, or is another rule's."""
    for rule in pack.rules:
        cause, variant = pack.causes.get(rule.model.cause), rule.model.variant
        if cause and variant and cause.variants.get(variant) != rule.id:
            fault = f"{CAUSES_FILE} does not list {variant} among the variants of {cause.id} as told by {rule.id}"
            yield rule.document.problem(("variant",), fault)


def one_kind(rule: LoadedRule) -> Iterator[Problem]:
    """A rule that may be said to be likely, all of whose evidence is of one kind, none of which states the cause."""
    weighed = [part for part in (*rule.requires, *rule.supports) if part.weight]
    kinds = {kind for part in (*rule.requires, *rule.supports) for kind in kinds_of(part.model)}
    capped = rule.model.status != "stable" or rule.model.at_most in ("possible", "weak hint")
    if len(kinds) < 2 and not capped and all(part.weight != "decisive" for part in weighed):
        yield rule.document.problem(
            ("requires",),
            f"all its evidence is of one kind ({', '.join(kinds)}): say at_most: possible, or give decisive weight to"
            " the text that states the cause itself",
        )


def kinds_of(condition: Any) -> Iterator[str]:
    """The kinds of evidence in which a condition finds something."""
    for table in tables_of(condition):
        yield KIND_OF.get(table, table)


def tables_of(condition: Any) -> Iterator[str]:
    """The tables in which a condition finds something."""
    if isinstance(condition, Find):
        yield condition.find
        yield from (table for inner in condition.with_ for table in tables_of(inner))
    elif isinstance(condition, (AnyOf, AllOf)):
        branches = condition.any if isinstance(condition, AnyOf) else condition.all
        yield from (table for branch in branches for table in tables_of(branch))
