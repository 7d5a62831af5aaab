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
