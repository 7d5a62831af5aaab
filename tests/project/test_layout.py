"""The shape of the house: who imports whom, what is packaged, what every page says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flatline import cli

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = {"flatline": "flatline", "collector": "flatline.collector", "analyzer": "flatline.analyzer", "rules": "flatline.rules"}
STANDARD_LIBRARY_ONLY = ("flatline/errors.py", "flatline/visible.py", "flatline/cli.py", "flatline/bundle", "flatline/redaction", "flatline/texts", "flatline/commands", "collector")
OPTIONAL = {"yaml", "psutil", "pynvml", "rich"}
"""Used when they are there, imported inside functions only."""


def modules(folder: str) -> list[Path]:
    path = ROOT / folder
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    """Absolute names a module imports; with `top_level` only what importing it imports."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level else ast.walk(tree)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize(("side", "other"), [("collector", "flatline.analyzer"), ("analyzer", "flatline.collector")])
def test_neither_side_imports_the_other(side: str, other: str) -> None:
    for path in modules(side):
        assert not [name for name in imports(path) if name.startswith(other)], path


@pytest.mark.parametrize("folder", ["flatline/errors.py", "flatline/bundle", "flatline/redaction", "flatline/texts", "flatline/cli.py"])
def test_the_contract_imports_neither_side(folder: str) -> None:
    for path in modules(folder):
        found = {n for n in imports(path) if n.startswith(("flatline.collector", "flatline.analyzer", "flatline.rules"))}
        assert not found, path


@pytest.mark.parametrize("folder", STANDARD_LIBRARY_ONLY)
def test_the_collecting_side_needs_nothing_but_the_standard_library(folder: str) -> None:
    for path in modules(folder):
        foreign = {name.split(".")[0] for name in imports(path)} - set(sys.stdlib_module_names) - {"flatline"}
        assert foreign <= OPTIONAL, (path, foreign)
        at_import = {name.split(".")[0] for name in imports(path, top_level=True)}
        assert not at_import & OPTIONAL, path


def test_nothing_imports_commands() -> None:
    for folder in FOLDERS:
        for path in modules(folder):
            if "commands" not in path.parts:
                text = path.read_text()
                assert not re.search(r"^\s*from \S*commands\S* import|^\s*import \S*commands", text, re.M), path


def test_every_package_folder_is_listed_in_pyproject() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    listed = set(re.findall(r'"(flatline[.\w]*)"', text.split("packages = [")[1].split("]")[0]))
    found = set()
    for folder, package in FOLDERS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            inner = init.parent.relative_to(ROOT / folder).parts
            found.add(".".join((package, *inner)))
    assert listed == found


def test_every_command_resolves() -> None:
    for name in cli.COMMANDS:
        assert callable(cli.resolve(name)), name


def test_the_front_door_imports_neither_side() -> None:
    code = "import sys, flatline.cli; print([m for m in sys.modules if m.startswith(('flatline.collector', 'flatline.analyzer', 'pydantic', 'jinja2', 'rich'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout.strip() == "[]"


def test_collect_starts_without_the_analyzer() -> None:
    code = "import sys, flatline.collector.commands.collect; print([m for m in sys.modules if m.startswith(('flatline.analyzer', 'pydantic', 'jinja2', 'yaml', 'rich'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout.strip() == "[]"


def test_no_second_copy_of_the_folders_is_importable_as_top_level() -> None:
    assert not {"collector", "analyzer", "rules"} & set(sys.modules)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/bundle-format.md", "docs/frameworks.md", "docs/redaction.md", "docs/reliability.md", "docs/rules.md", "docs/site-plan.md"])
def test_every_path_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    quoted = re.findall(r"`((?:flatline|collector|analyzer|rules|tests|fixtures|docs|bench)/[\w./-]+)`", text)
    missing = [link for link in links if not ((ROOT / page).parent / link).exists()]
    missing += [path for path in quoted if not (ROOT / path).exists()]
    assert not missing


def test_the_readme_shows_the_help_as_it_is() -> None:
    assert cli.usage().strip() in (ROOT / "README.md").read_text()
