"""The cases beside the rules: they pass, and a case that is wrong is noticed."""

import pytest
from flatline.analyzer.judge.cases import load_cases, run_case
from flatline.analyzer.judge.lint import lint
from flatline.analyzer.judge.pack import load_rulebook

from flatline.bundle.facts import DERIVED

BOOK = load_rulebook()
BUILT_IN = [(rule, case) for rule in BOOK.rules for case in load_cases(rule, [])]

RULE = "requires: [{weight: strong, find: threads, as: t, where: {state: D}}]\n"


@pytest.mark.parametrize(("rule", "case"), BUILT_IN, ids=[f"{rule.id}: {case.name}" for rule, case in BUILT_IN])
def test_a_built_in_rule_does_what_its_cases_say(rule, case):
    assert run_case(rule, case, BOOK) == ""


def test_the_built_in_rules_are_in_order():
    result = lint(BOOK)
    assert [str(problem) for problem in (*result.errors, *result.warnings)] == []


def is_raw(case) -> bool:
    """Whether it is written in what a collector or a parser gives, and the rest is derived from that."""
    judged = any("liveness" in row or "waits_on" in row for rows in case.facts.values() for row in rows)
    return case.derive or not (judged or DERIVED.keys() & case.facts.keys())


def test_every_built_in_rule_fires_on_raw_facts_or_says_why_not():
    """Derived tables written by hand could drift from what derivation draws."""
    raw = {rule.id for rule, case in BUILT_IN if is_raw(case) and case.kind == "fires"}
    takes_several_looks = {"rank-late"}
    assert {rule.id for rule in BOOK.rules} - raw <= {"debugger-prompt", "lock-file-held"} | takes_several_looks


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        ("{name: x, kind: fires, facts: {threads: [{pid: 1, tid: 1, state: S}]}}", "does not fire"),
        ("{name: x, kind: silent, facts: {threads: [{pid: 1, tid: 1, state: D}]}}", "it fires"),
        ("{name: x, kind: sibling, facts: {threads: [{pid: 1, tid: 1, state: D}]}}", "fires on its look-alike"),
        ("{name: x, kind: sibling, instead: other, facts: {threads: [{pid: 1, tid: 1, state: S}]}}", "other does not"),
        ("{name: x, kind: fires, word: likely, facts: {threads: [{pid: 1, tid: 1, state: D}]}}", "wanted 'likely'"),
        ("{name: x, kind: fires, title: zzz, facts: {threads: [{pid: 1, tid: 1, state: D}]}}", "its title is"),
        ("{name: x, kind: silent, undecided: true, facts: {threads: [{pid: 1, tid: 1, state: S}]}}", "cannot tell"),
        ("{name: x, kind: fires, facts: {treads: [{pid: 1}]}}", "no table treads"),
        ("{name: x, kind: fires, facts: {threads: [{pid: 1, tid: 1, nope: 1}]}}", "no field nope"),
        ("{name: x, kind: fires, facts: {threads: [{pid: 1, tid: 1, state: Q}]}}", "the sample is wrong"),
        ("{name: x, kind: fires, facts: {threads: [{pid: 1, tid: 1, stack: [here]}]}}", "a frame is written"),
    ],
)
def test_a_case_that_ends_otherwise_is_a_fault(pack, case, fault):
    pack("made-rule", RULE, test=f"- {case}\n")
    book = load_rulebook([pack.folder], built_in=False)
    rule = book.rules[0]
    assert fault in run_case(rule, load_cases(rule, [])[0], book)
