"""What the rules together reach, and evidence of one kind alone."""

import pytest
from flatline.analyzer.judge.lint import lint
from flatline.analyzer.judge.pack import load_rulebook

TWO = """\
requires: [{weight: strong, group: a, find: log, where: {pattern: seen}}]
supports: [{weight: medium, group: b, find: threads, where: {state: D}}]
patterns: {seen: 'server silent'}
"""
ONE = TWO.replace("find: threads, where: {state: D}", "find: errors, where: {is_last: true}")


def linted(pack, causes=None):
    if causes:
        (pack.folder / "causes.yaml").write_text(causes)
    return lint(load_rulebook([pack.folder], built_in=False))


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (TWO, False),
        (ONE, True),
        (ONE + "at_most: possible\n", False),
        (ONE + "at_most: likely\n", True),
        (ONE.replace("strong", "decisive"), False),
        ("requires: [{all: [{find: threads, where: {state: D}}, {find: frames}]}]\n", True),
        ("requires: [{any: [{find: threads, where: {state: D}}, {find: gpus}]}]\n", False),
        ("requires: [{find: threads, as: t, with: [{find: gpus}]}]\n", False),
    ],
)
def test_evidence_of_one_kind_alone_is_no_more_than_possible(pack, body, refused):
    pack("made-rule", body)
    assert any("all its evidence is of one kind" in e.message for e in linted(pack).errors) is refused


def test_a_draft_of_one_kind_is_capped_already(pack):
    pack("made-rule", ONE, status="experimental")
    assert not [e for e in linted(pack).errors if "one kind" in e.message]


def test_every_cause_is_reached_but_those_that_are_verdicts(pack):
    pack("made-rule", TWO)
    causes = "- {id: made-up, family: made, title: t}\n- {id: lonely, family: made, title: t}\n- {id: fine, family: none, title: t}\n"
    found = [str(error) for error in linted(pack, causes).errors if "no rule names" in error.message]
    assert found == [f"{pack.folder}/causes.yaml:2:8: no rule names the cause lonely"]


@pytest.mark.parametrize(
    ("told_by", "says"),
    [("made-rule", ""), ("no evidence shows it", ""), ("other-rule", "other-rule is no rule that names made-up"), ("gone", "gone is no rule")],
)
def test_a_variant_has_a_rule_of_its_cause_or_a_reason(pack, told_by, says):
    pack("made-rule", TWO)
    other = pack("other-rule", TWO)
    other.write_text(other.read_text().replace("cause: made-up", "cause: another"))
    causes = f"- {{id: made-up, family: made, title: t, variants: {{finer: {told_by}}}}}\n- {{id: another, family: made, title: t}}\n"
    found = [error.message for error in linted(pack, causes).errors if "is no rule" in error.message]
    assert bool(found) is bool(says)
    assert not found or found[0].startswith(says)


@pytest.mark.parametrize(("listed", "says"), [("finer: made-rule", False), ("finer: other-rule", True), ("coarser: made-rule", True)])
def test_a_rule_s_variant_is_listed_as_its_own(pack, listed, says):
    pack("made-rule", TWO + "variant: finer\n")
    pack("other-rule", TWO)
    found = [e.message for e in linted(pack, f"- {{id: made-up, family: made, title: t, variants: {{{listed}}}}}\n").errors]
    assert any("does not list finer among the variants of made-up as told by made-rule" in each for each in found) is says
