"""What a rule's author is told: each condition in words, its answer, and what was found or is not known."""

from __future__ import annotations

import pytest
from flatline.analyzer.case import case_of
from flatline.analyzer.intake.opening import open_case
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


AFTER = """
requires:
  - {weight: strong, group: told, find: log, as: l, where: {pattern: told}}
  - {none: log, after: l, where: {pattern: told}}
  - {none: log, after: l, where: {pattern: step}}
patterns: {told: 'retry (?P<n>\\d+)', step: '^step \\d'}
"""


@pytest.fixture
def of_log(pack, tmp_path):
    """The lines for a log with the rule that asks what stands below a line."""

    def lines(text):
        pack("retries", AFTER)
        (tmp_path / "job.log").write_text(text)
        with open_case([tmp_path / "job.log"]) as case:
            return list(explain([load_rulebook([pack.folder]).rule("retries")], case))

    return lines


def test_a_line_that_another_condition_has_chosen_anew_is_not_said_to_be_found_by_it(of_log):
    """Under "no such line: yes" the word "found" would say the opposite."""
    lines = [line.strip() for line in of_log("retry 1\nretry 2\nretry 3\n")]
    assert lines[3:] == [
        "yes       find log as l: pattern = told  [strong, told]",
        "found: retry 1",
        "yes       no log: pattern = told; after l",
        "for l: retry 3",
        "yes       no log: pattern = step; after l",
    ]


def test_what_makes_no_such_line_untrue_is_shown(of_log):
    lines = [line.strip() for line in of_log("retry 1\nretry 2\nstep 7\n")]
    place = lines.index("no        no log: pattern = step; after l")
    assert lines[place + 1] == "found: step 7"
