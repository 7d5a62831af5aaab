"""`conda list`, `mamba list`, with ``--export``, and `conda env export`."""

from __future__ import annotations

import re

from flatline.bundle.facts import Package

from .interface import Lines, Parsed, Parser
from .packages import NUMBER, PINNED, listing, package
from .spans import Span, span

_HEAD = re.compile(
    r"# packages in environment at |#\s+Name\s+Version\s+Build|List of packages in environment: |"
    r"# This file may be used to create an environment"
)
_ROW = re.compile(
    rf"(?P<name>[a-z0-9_][\w.-]{{0,80}})\s+(?P<version>{NUMBER})(?:\s+(?P<build>[\w.]{{1,60}}|<pip>))?"
    r"(?:\s+(?P<channel>\S{1,100}))?$"
)
_EXPORT = re.compile(
    r"(?:- )?(?P<name>[a-z0-9_][\w.-]{0,80})=(?P<version>\d[\w.!+]{0,60})(?:=(?P<build>[\w.]{1,60}))?$"
)
_BODY = re.compile(
    rf"[a-z0-9_][\w.-]{{0,80}}\s+{NUMBER}\s+[\w.]{{0,40}}(?:py\d{{1,3}}|h[0-9a-f]{{7}}|pypi|pyh?d)[\w.]{{0,60}}(?:\s+\S{{1,100}})?$"
)
"""A row whose build tells it."""


def parse_conda(lines: Lines, start: int) -> Parsed | None:
    """`conda list`, `mamba list`, and with ``--export``."""
    found = span(lines, start, lambda text: text.startswith("#") or _HEAD.match(text) or _ROW.match(text)
                 or _EXPORT.match(text))  # fmt: skip
    rows = _conda_rows(found, _ROW, _EXPORT)
    return listing(found, rows)


def parse_conda_body(lines: Lines, start: int) -> Parsed | None:
    """Rows without the head: their builds tell them."""
    found = span(lines, start, _BODY.match)
    rows = _conda_rows(found, _ROW)
    return listing(found, rows, whole=False) if len(rows) >= 2 else None


def _conda_rows(found: Span, *patterns: re.Pattern[str]) -> list[Package]:
    told = ((line, next((m for pattern in patterns if (m := pattern.match(line.bare))), None)) for line in found.lines)
    return [package(line, m["name"], m["version"]) for line, m in told if m and not line.bare.startswith("#")]


_ENV_FILE = re.compile(r"(?:name: [\w.-]{1,60}|channels:|dependencies:)$")
_ENV_OWN = re.compile(r"name: |channels:$|dependencies:$|prefix: |- \S|variables:$|[A-Z_]+: ")


def parse_environment_file(lines: Lines, start: int) -> Parsed | None:
    """`conda env export`, environment.yml."""
    if not any(line.bare == "dependencies:" for line in lines[start : start + 12]):
        return None
    found = span(lines, start, _ENV_OWN.match)
    rows: list[Package] = []
    for line in found.lines:
        item = line.bare.removeprefix("- ")
        if line.bare.startswith("- ") and (told := PINNED.match(item) or _EXPORT.match(item)):
            rows.append(package(line, told["name"], told["version"]))
    return listing(found, rows, whole=False)


PARSERS = (
    Parser("conda-list", _HEAD, parse_conda),
    Parser("conda-environment", _ENV_FILE, parse_environment_file),
    Parser("conda-list", _BODY, parse_conda_body),
)
