"""The pages made from rules and facts are those of this tree; the authoring guide's examples are rules."""

import re
from pathlib import Path

import pytest
import yaml
from flatline.analyzer.handbook import pages
from flatline.analyzer.judge.lint import lint
from flatline.analyzer.judge.pack import Rulebook, load_rulebook

ROOT = Path(__file__).resolve().parent.parent.parent
GUIDE = (ROOT / "docs" / "rules.md").read_text()


def test_the_pages_are_those_that_make_docs_writes():
    made = pages(ROOT)
    stale = [name for name, text in made.items() if not (ROOT / name).is_file() or (ROOT / name).read_text() != text]
    left = [path.name for path in (ROOT / "docs" / "rules").glob("*.md") if f"docs/rules/{path.name}" not in made]
    assert (stale, left) == ([], []), "run: make docs"


def test_what_the_facts_quote_is_code():
    """The docstrings' double backticks are single ones in Markdown; none is shown as a sign."""
    text = (ROOT / "docs" / "facts.md").read_text()
    assert "\\`" not in text
    assert "``" not in text
    assert "`Fatal Python error`" in text


def test_the_fields_of_a_line_of_a_log_are_listed():
    section = (ROOT / "docs" / "facts.md").read_text().split("\n## log\n")[1].split("\n## ")[0]
    assert re.findall(r"(?m)^\| `(\w+)` \|", section) == ["text", "number", "is_last", "pattern"]


def indented(heading: str, first: str) -> str:
    """The indented block that begins with a text, below a heading of the guide."""
    section = GUIDE.split(f"## {heading}\n")[1].split("\n## ")[0]
    block = re.search(rf"(?m)^    {re.escape(first)}(?:.*\n(?:    .*\n|\n(?=    ))*)", section)
    assert block, (heading, first)
    return re.sub(r"(?m)^    ", "", block[0])


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The guide's whole rule, its cases beside it, as a pack."""
    folder = tmp_path_factory.mktemp("guide") / "pack"
    (folder / "storage").mkdir(parents=True)
    rule = indented("The parts", "id: dead-mount")
    names = re.findall(r"(?m)^(?:explains|supersedes|excludes): \[(.*?)\]", rule)
    (folder / "storage" / "dead-mount.yaml").write_text(rule)
    for name in {name for listed in names for name in listed.split(", ")}:
        other = re.sub(r"(?m)^(explains|supersedes|excludes|verdict): .*\n", "", rule).replace("id: dead-mount", f"id: {name}")
        (folder / "storage" / f"{name}.yaml").write_text(other)
    return folder


def test_the_rule_of_the_guide_is_in_order(example):
    book = load_rulebook([example])
    assert not book.problems, list(map(str, book.problems))
    faults = [str(fault) for fault in lint(Rulebook(book.packs[1:])).errors if "has no test file" not in fault.message]
    assert not faults


def test_the_cause_of_the_guide_is_one(tmp_path):
    (tmp_path / "causes.yaml").write_text(indented("Packs of your own", "- id: "))
    book = load_rulebook([tmp_path], built_in=False)
    assert not book.problems
    assert list(book.causes) == ["snapshot-not-sealed"]


def test_the_guide_tells_how_to_quote_the_last_of_lines_that_repeat(tmp_path):
    """As the guide has it, the rule fires once, on the last line."""
    from flatline.analyzer.intake.opening import open_case
    from flatline.analyzer.judge.explain import explain

    (tmp_path / "pack" / "made").mkdir(parents=True)
    (tmp_path / "pack" / "causes.yaml").write_text("- {id: made-up, family: made, title: Made up}\n")
    head = "id: retries\nversion: 1\nstatus: experimental\ncause: made-up\ntitle: t\nwhy: w\nfix: [f]\nconfirm: [c]\n"
    rest = "action: a\nnot_this_when: n\npatterns: {retries: 'retry \\d'}\nrequires:\n"
    idiom = indented("Conditions", "- {weight: strong, group: told, find: log, as: l")
    (tmp_path / "pack" / "made" / "retries.yaml").write_text(head + rest + idiom)
    (tmp_path / "job.log").write_text("retry 1\nretry 2\nretry 3\n")
    with open_case([tmp_path / "job.log"]) as case:
        lines = list(explain([load_rulebook([tmp_path / "pack"]).rule("retries")], case))
    assert lines[0].startswith("retries: fires once")
    assert "for l: retry 3" in "\n".join(lines)


def test_the_case_of_the_guide_is_one(example):
    (case,) = yaml.safe_load(indented("Cases", "- name: the launcher waits"))
    from flatline.analyzer.judge.cases import RuleCase
    from flatline.analyzer.judge.samples import sample_store

    parsed = RuleCase.model_validate(case)
    store, _ = sample_store(parsed.facts, empty=parsed.empty)
    assert store.collected("locks")
    assert store.rows("threads")


def test_every_condition_of_the_guide_is_understood():
    """Each row of the table of conditions names keys that the language has."""
    from flatline.analyzer.judge.language import AllOf, AnyOf, Find, Nothing

    known = {field.alias or name for model in (Find, Nothing, AnyOf, AllOf) for name, field in model.model_fields.items()}
    table = GUIDE.split("## Conditions\n")[1].split("A frame is")[0]
    used = set(re.findall(r"(?<![\w.{])([a-z_]+): ", " ".join(re.findall(r"`([^`]*)`", table))))
    values = {"lt", "pattern"}
    assert used - values <= known
    assert {"find", "none", "any", "all", "count", "distinct", "after", "before", "at_least", "stack"} <= used


def test_the_commands_of_the_guide_exist():
    from flatline.analyzer.commands.rules import _HELP

    assert set(re.findall(r"(?m)^    flatline rules ([a-z]+)", GUIDE)) == set(_HELP)
