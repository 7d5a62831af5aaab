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


FAULTY = """\
requires:
  - {weight: huge, group: a, find: threads, as: t, where: {state: {inn: [D]}, stat: D}}
  - {find: treads, as: u, where: {pid: {same: t.nope}}}
  - {find: log, as: l, where: {pattern: told, nme: x}}
  - any: [{find: threads, where: {name: {re: '('}}}, {find: log, where: {pattern: nobodys}}]
patterns: {told: 'failed on (?P<host>\\S+)', open: 'abcd('}
refs: ["{u.any} {t.pid}"]
"""


def test_one_fault_does_not_hide_the_next(pack):
    """A wrong word, a pattern that is none, a table and fields that are not there: each is known without the others."""
    pack("bad", FAULTY, title="'{t.nope} {l.host} {l.nothing} {u.any} {q.pid}'", status="experimental")
    says = "\n".join(str(error).rpartition("bad.yaml:")[2] for error in linted(pack).errors)
    assert says.splitlines() == [
        "1:5: has no test file bad.test.yaml beside it",
        "5:8: log rows have no field 'nothing'",
        "5:8: threads rows have no field 'nope'",
        "5:8: {q.pid}: 'q' is bound by no condition",
        "12:14: requires.0.weight: Input should be 'weak', 'medium', 'strong' or 'decisive'",
        "12:68: inn: there is no such key here",
        "12:85: threads rows have no field 'stat'",
        "13:12: there is no table 'treads'",
        "13:40: threads rows have no field 'nope'",
        "14:52: log rows have no field 'nme'",
        "15:41: pattern: missing ): (",
        "15:83: pattern 'nobodys' is not among those of the rule or its pack",
        "16:51: pattern open: missing ): abcd(",
    ]


@pytest.mark.parametrize(
    "requires",
    [
        "7",
        "[7]",
        "[{as: t, weigth: weak}]",
        "[{any: [{fnd: threads, as: t}]}]",
        "[{find: threads, as: t, count: 3, at_least: 2}]",
    ],
)
def test_what_nobody_understands_may_bind_what_the_texts_show(pack, requires):
    pack("bad", f"requires: {requires}\n", title="'{t.pid}'", status="experimental")
    errors = [error.message for error in linted(pack).errors]
    assert any("requires" in message or "there is no such key" in message for message in errors)
    assert not any("is bound by no condition" in message for message in errors)


@pytest.mark.parametrize("body", ["", "requires: ~\nid: Bad Id\n", "x: [" * 20 + "]" * 20 + "\n"])
def test_a_file_of_which_little_can_be_read_is_an_error_like_others(pack, body):
    path = pack("bad", "")
    path.write_text(body)
    assert linted(pack).errors


def test_a_cause_that_nobody_knows_does_not_hide_a_field_that_is_not_there(pack):
    path = pack("good", GOOD, test=CASES, title="'{t.nope} {k.text|no message}'")
    path.write_text(path.read_text().replace("cause: made-up", "cause: unheard-of"))
    says = [error.message for error in linted(pack).errors]
    assert "unheard-of is in no causes.yaml" in says
    assert "threads rows have no field 'nope'" in says


def test_a_rule_that_is_not_in_order_is_one_that_others_may_name(pack):
    pack("good", GOOD.replace("refs: [x]", "refs: [x]\nexplains: [bad]"), test=CASES)
    pack("bad", GOOD.replace("strong", "huge"), test=CASES)
    (error,) = linted(pack).errors
    assert "requires.0.weight" in error.message


def test_a_number_of_seconds_brings_its_unit(pack):
    pack("good", GOOD, test=CASES, title="'{t.period_s} s {t.period_s|a few} seconds {t.period_s}: {k.text|none}'")
    says = [error.message for error in linted(pack).errors]
    assert [message.partition(" is written")[0] for message in says] == ["{t.period_s|a few}", "{t.period_s}"]


def test_one_entry_of_causes_that_is_not_in_order_costs_the_others_nothing(pack):
    pack("good", GOOD, test=CASES, title="'{t.pid} {k.text|no message}'")
    path = pack.folder / "causes.yaml"
    path.write_text(path.read_text() + "- {id: other, title: Other}\n")
    assert [str(error) for error in linted(pack).errors] == [f"{path}:2:3: family: is missing"]
