"""Rule files and facts, written short."""

from __future__ import annotations

import textwrap

import pytest
from flatline.analyzer.judge.index import FactIndex
from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.judge.samples import sample_store
from flatline.analyzer.judge.verdicts import judge

HEAD = """\
id: {id}
version: 1
status: {status}
cause: made-up
title: {title}
why: "why"
fix: ["fix"]
confirm: ["confirm"]
action: "action"
not_this_when: "not this when"
"""
CAUSES = "- {id: made-up, family: made, title: \"Made up\"}\n"


@pytest.fixture
def pack(tmp_path):
    """A folder of rules; call it with an id and the rest of the rule to add one."""
    folder = tmp_path / "pack"
    (folder / "made").mkdir(parents=True)
    (folder / "causes.yaml").write_text(CAUSES)

    def add(rule_id, body, *, status="stable", title="'title'", test=None):
        path = folder / "made" / f"{rule_id}.yaml"
        path.write_text(HEAD.format(id=rule_id, status=status, title=title) + textwrap.dedent(body))
        if test is not None:
            path.with_name(f"{rule_id}.test.yaml").write_text(textwrap.dedent(test))
        return path

    add.folder = folder
    return add


@pytest.fixture
def judged(pack):
    """Judge facts by the rules of the pack: id -> Fired, or the set of missing names of an undecided one."""

    def run(facts, *, empty=()):
        book = load_rulebook([pack.folder], built_in=False)
        assert not book.problems, "\n".join(map(str, book.problems))
        store, text_of = sample_store(facts, empty=empty)
        judgement = judge(book.rules, FactIndex(store, text_of))
        assert not judgement.broken
        outcomes = {outcome.rule.id: outcome for outcome in judgement.fired}
        return outcomes | {outcome.rule.id: set(outcome.missing) for outcome in judgement.undecided}

    return run
