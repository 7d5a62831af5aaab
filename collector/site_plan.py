"""A site's own commands and files, named in a plan that `collect --include` reads: docs/site-plan.md.

JSON is always understood, YAML where PyYAML is there. Whatever is not understood is refused, with its place: a plan
that is silently half followed is worse than none.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Union

from flatline.bundle.strict_json import JsonError, loads
from flatline.errors import UsageError

from .probes.interface import Item, Result, View

MOST_ENTRIES = 50
MOST_PLAN = 64 << 10
MOST_LIMIT_S = 60.0
MOST_BYTES = 8 << 20
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True)
class SiteCommand:
    """A command of the site; no shell sees it."""

    name: str
    argv: tuple[str, ...]
    limit_s: float = 5.0
    max_bytes: int = 256 << 10

    @property
    def asks(self) -> str:
        """What a person would type."""
        return shlex.join(self.argv)


@dataclass(frozen=True)
class SiteFile:
    """A file of the site, of which the end is taken."""

    name: str
    path: str
    limit_s: float = 2.0
    max_bytes: int = 256 << 10

    @property
    def asks(self) -> str:
        """What it reads."""
        return self.path


Entry = Union[SiteCommand, SiteFile]


class SitePlan:
    """Reads the plans, which may lie on a mount that does not answer: in a child, like all else."""

    name = "include"
    tables: tuple[str, ...] = ()
    limit_s = 3.0
    spans_window = False

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths

    def gather(self, view: View) -> Iterator[Item]:
        """Yield all entries, or the UsageError that says what is wrong."""
        try:
            entries = tuple(entry for path in self.paths for entry in read(path))
            _check_names(entries)
            yield Result(entries)
        except UsageError as error:
            yield Result(error)


def read(path: str) -> tuple[Entry, ...]:
    """The entries of one plan. UsageError says what is wrong with it, and where."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, encoding="utf-8") as file:
            text = file.read(MOST_PLAN + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the plan {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(text) > MOST_PLAN:
        raise UsageError(f"the plan {path} is larger than {MOST_PLAN >> 10} KiB")
    return parse(_loaded(text, path), path)


def _loaded(text: str, path: str) -> Any:
    if path.endswith(".json") or text.lstrip().startswith("{"):
        try:
            return loads(text)
        except JsonError as error:
            raise UsageError(f"the plan {path} {error}") from None
    try:
        import yaml
    except ImportError:
        raise UsageError(
            f"the plan {path} is YAML, and this Python has no PyYAML",
            next_step="pip install PyYAML, or write it as JSON",
        ) from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"the plan {path} is broken: {str(error).splitlines()[0]}") from None


def parse(plan: Any, path: str = "plan") -> tuple[Entry, ...]:
    """What a plan says, once it has been loaded. UsageError when it is none."""
    _check_keys(plan, {"commands", "files"}, path)
    commands = [_command(one, f"{path}: commands[{n}]") for n, one in enumerate(_list(plan, "commands", path))]
    files = [_file(one, f"{path}: files[{n}]") for n, one in enumerate(_list(plan, "files", path))]
    entries: tuple[Entry, ...] = (*commands, *files)
    if len(entries) > MOST_ENTRIES:
        raise UsageError(f"{path} has {len(entries)} entries; {MOST_ENTRIES} are the most")
    return entries


def _command(given: Any, where: str) -> SiteCommand:
    _check_keys(given, {"name", "argv", "limit_s", "max_bytes"}, where)
    argv = given.get("argv")
    if not isinstance(argv, list) or not argv or not all(_is_text(word) for word in argv):
        raise UsageError(f"{where}: argv is a list of texts, the program first; nothing here is run by a shell")
    return SiteCommand(_name(given, where), tuple(argv), **_limits(given, where))


def _file(given: Any, where: str) -> SiteFile:
    _check_keys(given, {"name", "path", "limit_s", "max_bytes"}, where)
    path = given.get("path")
    if not _is_text(path) or not path.startswith("/"):
        raise UsageError(f"{where}: path is an absolute path")
    return SiteFile(_name(given, where), path, **_limits(given, where))


def _check_keys(given: Any, known: set[str], where: str) -> None:
    if not isinstance(given, dict):
        raise UsageError(f"{where}: is no mapping; its keys would be {', '.join(sorted(known))}")
    unknown = [str(key) for key in given if key not in known]
    if unknown:
        raise UsageError(f"{where}: does not know {unknown[0]!r}; there are {', '.join(sorted(known))}")


def _list(plan: dict[str, Any], name: str, where: str) -> list[Any]:
    given = plan.get(name, [])
    if not isinstance(given, list):
        raise UsageError(f"{where}: {name} is a list")
    return given


def _name(given: dict[str, Any], where: str) -> str:
    name = given.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{where}: name is of small letters, digits and hyphens, at most 40")
    return name


def _limits(given: dict[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "limit_s" in given:
        found["limit_s"] = float(_number(given["limit_s"], MOST_LIMIT_S, f"{where}: limit_s"))
    if "max_bytes" in given:
        found["max_bytes"] = int(_number(given["max_bytes"], MOST_BYTES, f"{where}: max_bytes"))
    return found


def _number(given: Any, most: float, where: str) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given <= most:
        raise UsageError(f"{where} is a number above 0, at most {most:g}")
    return given


def _is_text(given: Any) -> bool:
    return isinstance(given, str) and bool(given) and "\0" not in given


def _check_names(entries: tuple[Entry, ...]) -> None:
    names = [entry.name for entry in entries]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UsageError(f"two entries of the plan are named {twice}")
