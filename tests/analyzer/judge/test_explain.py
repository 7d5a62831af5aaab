"""What a rule's author is told: each condition in words, its answer, and what was found or is not known."""

from __future__ import annotations

import pytest
from flatline.analyzer.case import case_of
from flatline.analyzer.judge.describe import head
from flatline.analyzer.judge.explain import explain
from flatline.analyzer.judge.language import Find, Nothing
from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.judge.samples import sample_store

RULE = """
requires:
  - {weight: strong, group: mount, find: mounts, as: m, where: {answers: false}}
  - any:
      - {find: threads, as: t, where: {state: D}}
      - {find: threads, as: t, where: {wchan: {re: '^nfs_'}}}
supports:
  - {weight: medium, group: path, find: threads, where: {id: {same: t.id}, syscall.path: {starts: {same: m.path}}}}
"""


@pytest.fixture
def told(pack):
    def lines(facts, empty=()):
        pack("lost-mount", RULE)
        store, _ = sample_store(facts, empty=empty)
        return list(explain([load_rulebook([pack.folder]).rule("lost-mount")], case_of(store)))

    return lines


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Find(find="threads", as_="t", where={"state": "D"}), "find threads as t: state = D"),
        (Nothing.model_validate({"none": "mounts", "where": {"network": True}}), "no mounts: network = true"),
        (Find.model_validate({"find": "files", "where": {"holders": {"not": []}}}), "find files: holders not (= ())"),
        (Find.model_validate({"find": "fds", "where": {"fd": {"in": [1, 2]}, "peers": {"contains": {"same": "p.id"}}}}),
         "find fds: fd in 1, 2; peers contains p.id"),
        (Find(find="log", where={"pattern": "oom"}, scope="last-line"), "find log: pattern = oom; in the last line"),
        (Find(find="threads", stack=["a.py:f", "...", "b.py:g"]), "find threads: stack has a.py:f > ... > b.py:g"),
    ],
)  # fmt: skip
def test_a_condition_is_said_in_words(model, words):
    assert head(model) == words


def test_a_rule_that_fires_shows_what_each_condition_found(told):
    lines = told({
        "mounts": [{"path": "/mnt", "kind": "nfs4", "network": True, "asked": True, "answers": False}],
        "threads": [{"pid": 7, "tid": 7, "state": "D", "syscall": {"name": "read", "path": "/mnt/x"}}],
    })  # fmt: skip
    assert lines[0].startswith("lost-mount: fires once")
    assert "  yes       find mounts as m: answers = false  [strong, mount]" in lines
    assert "            yes      find threads as t: state = D" in lines
    assert any(line.startswith("            found: pid 7 ") for line in lines)


def test_what_needs_a_row_that_was_not_found_is_not_asked_and_no_other_table_is_blamed(told):
    lines = told({"threads": [{"pid": 7, "tid": 7, "state": "S", "wchan": "pipe_read"}]}, empty=["mounts"])
    assert lines[0].startswith("lost-mount: does not fire")
    assert "  no        find mounts as m: answers = false  [strong, mount]" in lines
    place = next(n for n, line in enumerate(lines) if line.startswith("  not asked"))
    assert "no row was found to be m, t" in "".join(lines[place:])
    assert "logs" not in "".join(lines)


def test_lines_are_broken_between_words(told):
    assert all(len(line) <= 118 for line in told({"threads": [{"pid": 7, "tid": 7}]}))
