"""The tests beside the rules: ``rules/<family>/<id>.test.yaml``, a list of small cases.

Three kinds: `fires` (the rule must fire), `silent` (it must not), and `sibling` (the facts of its nearest look-alike:
it must not fire above a weak hint, and the rule named in `instead` must).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from flatline.bundle.facts import Log

from ..case import FactStore, case_of
from ..findings import Word
from . import rank
from .index import FactIndex
from .language import Identifier, Model, Text, parse_model
from .pack import LoadedRule, Rulebook, read_file
from .samples import SampleRefused, sample_store
from .texts import render
from .verdicts import Fired, judge
from .yaml_source import Document, Problem

Kind = Literal["fires", "silent", "sibling"]
KINDS: tuple[Kind, ...] = ("fires", "silent", "sibling")
_RANK_OF_WORD: dict[Word, int] = {"weak hint": 0, "possible": 1, "likely": 2, "very likely": 3}


class RuleCase(Model):
    """One case of a .test.yaml file."""

    name: Text
    """The fact it states: ``a reader that is itself waiting for the writer``."""
    kind: Kind
    facts: dict[str, list[dict[str, Any]]]
    empty: list[str] = Field(default=[])
    """Tables that were collected and have no row."""
    derive: bool = False
    """Run the analyzer's derivation over the facts first; else derived tables are given like others."""
    word: Word | None = None
    """Of `fires`: how sure it must be, at least."""
    title: Text | None = None
    """Of `fires`: what the title must contain."""
    undecided: bool = False
    """Of `silent`: the rule must say that it cannot tell."""
    instead: Identifier | None = None
    """Of `sibling`: the rule that fires on these facts."""


@dataclass(frozen=True)
class CaseResult:
    """How one case ended; `fault` is empty when it is as it should be."""

    rule: str
    case: RuleCase
    fault: str = ""


def load_cases(rule: LoadedRule, problems: list[Problem]) -> list[RuleCase]:
    """The cases beside a rule; what is wrong with the file is added to `problems`."""
    if not rule.test_path.exists():
        problems.append(rule.document.problem(("id",), f"has no test file {rule.test_path.name} beside it"))
        return []
    document = read_file(rule.test_path, problems)
    if document is None:
        return []
    parsed = parse_model(list[RuleCase], document)
    problems += [fault for fault in parsed if isinstance(fault, Problem)]
    cases = [case for case in parsed if isinstance(case, RuleCase)]
    problems += list(_incomplete(cases, document))
    return cases


def _incomplete(cases: list[RuleCase], document: Document) -> Iterator[Problem]:
    if cases:
        for kind in KINDS:
            if all(case.kind != kind for case in cases):
                yield document.problem((), f"has no case of the kind {kind}")


def run_cases(rule: LoadedRule, book: Rulebook, problems: list[Problem]) -> list[CaseResult]:
    """Run every case beside a rule."""
    return [CaseResult(rule.id, case, run_case(rule, case, book)) for case in load_cases(rule, problems)]


def run_case(rule: LoadedRule, case: RuleCase, book: Rulebook) -> str:
    """"" when the case ends as it should, else what happened."""
    try:
        store, text_of = sample_store(case.facts, empty=case.empty)
    except SampleRefused as refused:
        return f"the sample is wrong: {refused}"
    if case.derive:
        _derive(store, text_of)
    index = FactIndex(store, text_of)
    judgement = judge(book.rules, index)
    fired = {outcome.rule.id: outcome for outcome in judgement.fired}
    broken = [f"{name.id}: {why}" for name, why in judgement.broken]
    if broken:
        return f"a rule broke: {'; '.join(broken)}"
    if case.kind == "fires":
        return _not_fired(fired.get(rule.id), case, index)
    if case.kind == "silent":
        undecided = any(outcome.rule.id == rule.id for outcome in judgement.undecided)
        return _not_silent(fired.get(rule.id), undecided, case)
    return _not_told_apart(rule.id, fired, case)


def _derive(store: FactStore, text_of: Callable[[Log], str]) -> None:
    from ..derive import derive  # only some cases need it

    derive(case_of(store), text_of)


def _not_fired(outcome: Fired | None, case: RuleCase, index: FactIndex) -> str:
    if outcome is None:
        return "it does not fire"
    word = rank.word_for(outcome.p)
    if case.word and _RANK_OF_WORD[word] < _RANK_OF_WORD[case.word]:
        return f"it says {word!r} ({outcome.p:.2f}), wanted {case.word!r}"
    title = render(outcome.rule.model.title, outcome.best.bindings, index)
    return f"its title is {title!r}" if case.title and case.title not in title else ""


def _not_silent(outcome: Fired | None, undecided: bool, case: RuleCase) -> str:
    if outcome is not None:
        return f"it fires ({rank.word_for(outcome.p)}, {outcome.p:.2f})"
    return "it does not say that it cannot tell" if case.undecided and not undecided else ""


def _not_told_apart(rule_id: str, fired: dict[str, Fired], case: RuleCase) -> str:
    outcome = fired.get(rule_id)
    if outcome is not None and not outcome.explained_by and rank.word_for(outcome.p) != "weak hint":
        return f"it fires on its look-alike ({rank.word_for(outcome.p)}, {outcome.p:.2f})"
    if case.instead and case.instead not in fired:
        return f"{case.instead} does not fire"
    return ""
