"""Rules of a user's own: drafted, filled in, and in every analysis."""

import json
import re

import pytest
from flatline.analyzer.analysis import analyze
from flatline.analyzer.commands import rules
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.judge.cases import run_cases
from flatline.analyzer.judge.drafting import draft
from flatline.analyzer.judge.lint import lint
from flatline.analyzer.judge.pack import Rulebook, load_rulebook, own_folder

from flatline.errors import RuleError


@pytest.fixture(scope="module")
def book():
    return load_rulebook()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "flatline" / "rules"


def test_a_draft_lacks_nothing_but_what_is_marked(book, tmp_path):
    rule, tests = draft("our-storage", "filesystem-not-responding", tmp_path / "ours", book)
    assert (rule.parent.name, tests.name) == ("storage", "our-storage.test.yaml")
    found = load_rulebook([tmp_path / "ours"])
    mine = [problem for problem in lint(Rulebook(found.packs[1:])).errors if problem.file == str(rule)]
    assert len(mine) >= 10
    assert all(problem.message.startswith("TODO: ") for problem in mine)
    assert not any(result.fault for result in run_cases(found.rule("our-storage"), found.with_drafts(), []))


def test_a_draft_is_not_asked_and_that_is_said(book, tmp_path):
    rule, _ = draft("our-storage", "filesystem-not-responding", tmp_path / "ours", book)
    found = load_rulebook([tmp_path / "ours"])
    assert "our-storage" not in {rule.id for rule in found.rules}
    (problem,) = [problem for problem in found.problems if problem.file == str(rule)]
    assert "our-storage is a draft and not in use: 1" in problem.message
    with case_of_text("TODO a text that every such log has\n", tmp_path) as case:
        report = analyze(case, found)
    assert "our-storage" not in {finding.rule for finding in report.findings}
    assert [gap.message for gap in report.gaps if gap.probe == "rules"] == [str(problem)]


def test_a_draft_is_in_use_when_its_last_todo_is_gone(book, tmp_path):
    rule, _ = draft("our-storage", "filesystem-not-responding", tmp_path / "ours", book)
    texts = re.sub(r'"TODO[^"]*"', '"done"', rule.read_text())
    rule.write_text(texts)
    assert "patterns.told" in str([problem.message for problem in lint(load_rulebook([tmp_path / "ours"])).errors])
    rule.write_text(texts.replace("'TODO a", "'a"))
    found = load_rulebook([tmp_path / "ours"])
    assert not found.problems
    assert "our-storage" in {rule.id for rule in found.rules}


def case_of_text(text, folder):
    (folder / "job.log").write_text(text)
    return open_case([folder / "job.log"])


def test_a_draft_that_is_filled_in_is_in_order(book, tmp_path):
    folder = tmp_path / "ours"
    for path in draft("our-storage", "filesystem-not-responding", folder, book):
        path.write_text(re.sub(r"TODO:?", "done", path.read_text()))
    found = load_rulebook([folder])
    assert not [str(problem) for problem in lint(Rulebook(found.packs[1:])).errors if str(folder) in problem.file]


@pytest.mark.parametrize(
    ("rule", "cause", "says"),
    [
        ("Not An Id", "disk-full", "is no id"),
        ("../../escape", "disk-full", "is no id"),
        ("disk-full", "disk-full", "there is a rule 'disk-full' already"),
        ("ours", "disk-empty", "is in no causes.yaml"),
    ],
)
def test_what_cannot_be_drafted_is_said(book, tmp_path, rule, cause, says):
    with pytest.raises(RuleError, match=re.escape(says)):
        draft(rule, cause, tmp_path, book)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_not_written_over(book, tmp_path):
    rule, _ = draft("ours", "disk-full", tmp_path, book)
    rule.write_text("mine")
    with pytest.raises(RuleError, match="File exists"):
        draft("ours", "disk-full", tmp_path, book)
    assert rule.read_text() == "mine"


@pytest.mark.parametrize("there", [[], ["notes.txt"], ["storage/old.test.yaml"]])
def test_a_pack_begins_in_a_folder_without_rules(home, tmp_path, there, capsys):
    """One that was just made, holds something else, or is not there yet."""
    folder = tmp_path / "ours"
    for name in there:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    folder.mkdir(exist_ok=True)
    assert rules.main(["new", "our-disk", "--cause", "disk-full", "--rules", str(folder)]) == 0
    assert (folder / "storage" / "our-disk.yaml").is_file()
    assert capsys.readouterr().err == ""


def test_a_folder_without_rules_is_told_how_to_get_one(tmp_path, capsys):
    assert rules.main(["list", "--rules", str(tmp_path)]) == 2
    assert f"next:   flatline rules new ID --cause CAUSE --rules {tmp_path}" in capsys.readouterr().err


def test_a_cause_of_ones_own_that_is_not_in_order_is_named_where_it_is_wanted(home, tmp_path, capsys):
    folder = tmp_path / "ours"
    folder.mkdir()
    (folder / "causes.yaml").write_text(
        "- {id: not-sealed, title: Not sealed}\n- {id: late, family: made, title: Late}\n"
    )
    assert rules.main(["new", "our-seal", "--cause", "not-sealed", "--rules", str(folder)]) == 2
    said = capsys.readouterr().err
    assert f"{folder}/causes.yaml:1:3: family: is missing" in said
    assert "next:" not in said
    assert rules.main(["new", "our-late", "--cause", "late", "--rules", str(folder)]) == 0


def test_a_fault_of_our_own_rules_is_shown_and_does_not_fail_a_users_lint(home, tmp_path, monkeypatch, capsys):
    ours = tmp_path / "built-in"
    (ours / "storage").mkdir(parents=True)
    (ours / "pack.yaml").write_text('name: built-in\nversion: "1"\n')
    (ours / "causes.yaml").write_text("- {id: disk-full, family: storage, title: Full}\n")
    (ours / "storage" / "broken.yaml").write_text("id: broken\n")
    monkeypatch.setattr("flatline.analyzer.judge.pack.built_in_folder", lambda: ours)
    assert rules.main(["lint"]) == 1
    assert "(built-in, not yours)" not in capsys.readouterr().out
    folder = tmp_path / "ours"
    assert rules.main(["new", "our-disk", "--cause", "disk-full", "--rules", str(folder)]) == 0
    for path in folder.rglob("*.yaml"):
        path.write_text(path.read_text().replace("TODO", "done"))
    capsys.readouterr()
    assert rules.main(["lint", "--rules", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "broken.yaml:1:1: version: is missing (built-in, not yours)" in said
    assert "1 rules are in order" in said
    assert rules.main(["test", "our-disk", "--rules", str(folder)]) == 0
    assert rules.main(["list", "--rules", str(folder)]) == 0
    (folder / "storage" / "our-disk.test.yaml").unlink()
    assert rules.main(["lint", "--rules", str(folder)]) == 1


def test_own_rules_are_drafted_and_listed_with_their_pack(home, capsys):
    assert own_folder() is None
    assert rules.main(["new", "our-disk", "--cause", "disk-full"]) == 0
    assert str(home / "storage" / "our-disk.yaml") in capsys.readouterr().out
    assert own_folder() == home
    assert rules.main(["list", "--format", "json"]) == 1
    assert "our-disk is a draft and not in use" in capsys.readouterr().err
    path = home / "storage" / "our-disk.yaml"
    path.write_text(path.read_text().replace("TODO", "done"))
    assert rules.main(["list", "--format", "json"]) == 0
    packs = json.loads(capsys.readouterr().out)
    assert [(pack["pack"], pack["version"], pack["engine"]) for pack in packs] == [
        ("built-in", "1", 1),
        ("own", "1", 1),
    ]
    assert [rule["id"] for rule in packs[1]["rules"]] == ["our-disk"]


def test_an_own_pack_that_cannot_be_used_costs_no_analysis(home):
    home.mkdir(parents=True)
    (home / "pack.yaml").write_text('name: own\nversion: "1"\nengine: 99\n')
    found = load_rulebook(own=own_folder(), built_in=False)
    assert "needs rule engine 99" in str(found.problems[0])


def test_a_relative_config_home_is_not_used(monkeypatch, tmp_path):
    """As the XDG specification wants it: a stuck job's folder must not bring rules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "config/flatline/rules").mkdir(parents=True)
    (tmp_path / "config/flatline/rules/pack.yaml").write_text('name: own\nversion: "1"\n')
    assert own_folder() is None
