"""Lint: what a good rule must have, each fault at its line."""

import pytest
from flatline.analyzer.judge.lint import lint
from flatline.analyzer.judge.pack import load_rulebook

GOOD = """\
requires:
  - {weight: strong, group: state, find: threads, as: t, where: {state: D}}
supports:
  - {weight: medium, group: kernel, find: kernel_events, as: k, where: {kind: nfs}}
refs: [x]
zh: {title: "{t.pid}", why: w, fix: [f], action: a, not_this_when: n}
"""
CASES = """\
- {name: a, kind: fires, facts: {threads: [{pid: 1, tid: 1, state: D}]}}
- {name: b, kind: silent, facts: {threads: [{pid: 1, tid: 1, state: S}]}}
- {name: c, kind: sibling, facts: {threads: [{pid: 1, tid: 1, state: R}]}}
"""


def linted(pack):
    return lint(load_rulebook([pack.folder], built_in=False))


def test_a_good_rule_passes(pack):
    pack("good", GOOD, test=CASES, title="'{t.pid} {k.text|no message}'")
    result = linted(pack)
    assert (result.errors, result.warnings) == ([], [])


@pytest.mark.parametrize(
    ("change", "place", "says"),
    [
        (("find: threads", "find: treads"), "12:42", "no table 'treads'"),
        (("{state: D}", "{stat: D}"), "12:72", "no field 'stat'"),
        (("{state: D}", "{state: Q}"), "12:73", "never 'Q'"),
        (("{state: D}", "{state: {in: [D, Q]}}"), "12:73", "never 'Q'"),
        (("{state: D}", "{syscall.nope: 1}"), "12:80", "no field 'syscall.nope'"),
        (("{kind: nfs}", "{pid: {same: x.pid}}"), "14:78", "'x' is bound by no condition"),
        (("{kind: nfs}", "{pid: {same: t.nope}}"), "14:78", "no field 'nope'"),
        (("find: kernel_events", "find: kernel_events, stack: [a]"), "14:5", "only threads have a stack"),
        (("weight: medium, ", ""), "14:5", "needs a weight"),
        (("weight: strong", "weight: weak"), "3:9", "z = 2.2"),
        (("group: kernel", "group: state"), "3:9", "two independent kinds"),
        (("title: '", "title: 'x {q.pid} "), "5:8", "'q' is bound by no condition"),
        (("title: '", "title: 'x {t.nope} "), "5:8", "no field 'nope'"),
        (("title: '", "title: 'x {k.text} "), "5:8", "say what to write without it"),
        (("title: '", "title: 'x {pid} "), "5:8", "braces"),
        (("refs: [x]", "explains: [nobody]"), "15:12", "no rule 'nobody'"),
        (("refs: [x]", "explains: [good]"), "15:11", "explains itself"),
        (("refs: [x]", "patterns: {short: 'abc'}"), "15:19", "at least 4 bytes"),
        (("refs: [x]", "patterns: {unused: 'abcd'}"), "15:20", "is not used"),
        (('{title: "{t.pid}"', '{title: "{t.nope}"'), "16:13", "no field 'nope'"),
        ((", action: a", ""), "16:5", "zh texts lack action"),
        (("fix: [f]", "fix: [f, g]"), "16:37", "zh has 2 remedies"),
    ],
)
def test_a_fault_is_named_at_its_place(pack, change, place, says):
    path = pack("good", GOOD, test=CASES)
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change, 1))
    errors = [str(error) for error in linted(pack).errors]
    assert any(error.startswith(f"{path}:{place}: ") and says in error for error in errors), errors


def test_a_variable_bound_in_one_branch_only_is_not_bound(pack):
    branches = "- any: [{find: threads, as: t, where: {state: D}}, {find: gpus}]"
    pack("good", GOOD.replace("- {weight: strong, group: state, find: threads, as: t, where: {state: D}}", branches),
         test=CASES, title="'{t.pid}'")  # fmt: skip
    assert any("'t' is bound by no condition" in error.message for error in linted(pack).errors)


@pytest.mark.parametrize("kind", ["fires", "silent", "sibling"])
def test_each_kind_of_case_is_wanted(pack, kind):
    pack("good", GOOD, test="".join(line for line in CASES.splitlines(True) if kind not in line))
    assert [error.message for error in linted(pack).errors] == [f"has no case of the kind {kind}"]


def test_a_rule_without_tests_is_an_error_and_without_zh_a_warning(pack):
    pack("good", GOOD[: GOOD.index("zh:")])
    result = linted(pack)
    assert "has no test file good.test.yaml" in result.errors[0].message
    assert [warning.message for warning in result.warnings] == ["has no zh texts"]


def test_a_pattern_that_rules_share_needs_a_text_as_theirs_do(pack):
    pack("good", GOOD, test=CASES, title="'{t.pid} {k.text|no message}'")
    path = pack.folder / "pack.yaml"
    path.write_text('name: ours\nversion: "1"\npatterns:\n  short: "a.b"\n')
    assert [str(error) for error in linted(pack).errors] == [
        f"{path}:4:10: pattern short needs a text of at least 4 bytes in every match"
    ]
