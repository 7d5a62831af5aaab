"""Packs: which rules spoke, and what happens to files that are not in order."""

import os

import pytest
from flatline.analyzer.judge.pack import load_rulebook

from flatline.errors import RuleError

RULE = "requires: [{weight: strong, find: threads, as: t}]\n"


def load(pack):
    return load_rulebook([pack.folder], built_in=False)


def test_the_built_in_pack_is_in_order():
    book = load_rulebook()
    assert not book.problems
    assert str(book.packs[0]).startswith("built-in 1 (sha256 ")
    assert {rule.model.cause for rule in book.rules} <= set(book.causes)


def test_a_broken_file_is_left_out_and_named_and_the_others_stay(pack):
    pack("good", RULE)
    bad = pack("bad", "requires: 7\n")
    book = load(pack)
    assert [rule.id for rule in book.rules] == ["good"]
    assert str(book.problems[0]).startswith(f"{bad}:11:11: requires")


def test_rules_share_the_patterns_of_their_pack_and_of_the_built_in_one(pack, judged):
    pack("good", "requires: [{find: log, where: {pattern: shared}}]\n")
    assert "pattern 'shared' is not among those of the rule or its pack" in str(load(pack).problems[0])
    (pack.folder / "pack.yaml").write_text('name: ours\nversion: "3"\npatterns: {shared: "step one"}\n')
    logs = {"logs": [{"stream": "stdout", "content": "step one\n"}]}
    assert judged(logs).keys() == {"good"}
    pack("good", "requires: [{find: log, where: {pattern: shared}}]\npatterns: {shared: step two}\n")
    assert not judged(logs), "its own comes first"
    pack("good", "requires: [{find: log, where: {pattern: goes-on}}]\n")
    assert not load_rulebook([pack.folder]).problems
    assert load(pack).problems, "without the built-in pack there is no such pattern"


def test_a_bad_pattern_of_a_pack_is_named_at_its_line(pack):
    pack("good", RULE)
    path = pack.folder / "pack.yaml"
    path.write_text('name: ours\nversion: "3"\npatterns:\n  shared: "(?=no)"\n')
    assert str(load(pack).problems[0]).startswith(f"{path}:4:11: pattern shared: ")


def test_the_hash_changes_with_the_rules_and_not_with_their_tests(pack):
    path = pack("good", RULE)
    first = load(pack).packs[0].sha256
    path.with_name("good.test.yaml").write_text("[]")
    assert load(pack).packs[0].sha256 == first
    path.write_text(path.read_text() + "refs: [x]\n")
    assert load(pack).packs[0].sha256 != first


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("id: good", "id: other"), "must be named other.yaml"),
        (("cause: made-up", "cause: nothing-known"), "in no causes.yaml"),
        (("find: threads", "find: log, where: {pattern: nope}"), "'nope' is not among"),
        (("find: threads", "find: threads, where: {wchan: {re: '('}}"), "pattern"),
    ],
)
def test_what_only_loading_can_see_is_a_problem_with_a_place(pack, change, says):
    path = pack("good", RULE)
    path.write_text(path.read_text().replace(*change))
    problems = load(pack).problems
    assert len(problems) == 1
    assert says in problems[0].message
    assert problems[0].file == str(path)


def test_an_id_that_is_taken_is_refused(pack):
    path = pack("good", RULE)
    (path.parent.parent / "more").mkdir()
    (path.parent.parent / "more" / "good.yaml").write_text(path.read_text())
    book = load(pack)
    assert len(book.rules) == 1
    assert "another rule" in book.problems[0].message


def test_a_pack_that_needs_a_newer_engine_is_refused(pack):
    pack("good", RULE)
    (pack.folder / "pack.yaml").write_text('name: ours\nversion: "3"\nengine: 99\n')
    with pytest.raises(RuleError, match="needs rule engine 99"):
        load(pack)


def test_a_finding_can_be_traced_to_a_named_pack(pack):
    pack("good", RULE)
    (pack.folder / "pack.yaml").write_text('name: ours\nversion: "3"\n')
    assert load(pack).rules[0].pack.startswith("ours 3 (sha256 ")


@pytest.mark.parametrize("make", [lambda p: p / "nowhere", lambda p: p])
def test_a_folder_without_rules_is_a_user_error(tmp_path, make):
    with pytest.raises(RuleError) as error:
        load_rulebook([make(tmp_path)], built_in=False)
    assert str(tmp_path) in error.value.what


def test_own_rules_may_name_built_in_causes(pack):
    pack("good", RULE).write_text(pack("good", RULE).read_text().replace("made-up", "lock-file-stale"))
    assert not load_rulebook([pack.folder]).problems


def test_bytes_that_are_no_text_are_a_problem(pack):
    pack("good", RULE).write_bytes(b"\xff\xfe")
    assert "cannot be read" in load(pack).problems[0].message


@pytest.mark.parametrize("make", [lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/zero")], ids=["fifo", "link to a device"])
def test_a_rule_file_that_is_none_is_a_problem_and_neither_blocks_nor_fills_the_memory(tmp_path, make):
    make(tmp_path / "a.yaml")
    book = load_rulebook([tmp_path], built_in=False)
    assert [problem for problem in book.problems if "a.yaml" in str(problem)]


def test_a_rule_file_of_many_megabytes_is_refused_unread(tmp_path):
    with open(tmp_path / "a.yaml", "wb") as big:
        big.truncate(2 * 1024**3)
    assert load_rulebook([tmp_path], built_in=False).problems
