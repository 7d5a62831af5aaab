"""The program's lines around a frame, and the blocks that enclose them, read as the job's user (see confine)."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from flatline.bundle.facts import READ_AHEAD, SourceLine
from flatline.texts.stack_lines import RawFrame

from ..confine import Confined, ConfineFailed, run_as_target
from ..probes.interface import Gap, Target, View

SUFFIXES = (".py", ".pyw", ".pyx", ".pxi")
"""A frame's file name is the job's choice: for a job of root ``/etc/shadow`` would be readable, so only names of
Python source are opened."""
RECORDER = "/recorder/start/sitecustomize.py"
"""Our own file in the job: it stands between an import and its module."""
MAX_BYTES = 2 * 1024**2
MAX_FILES = 200
READ_LIMIT_S = 1.0
RESERVE_S = 1.0
"""Of the probe's time, never spent on source."""
AROUND = 2
MAX_ENCLOSING = 12
MAX_PARSED = 256 * 1024
"""Characters of a file for which a syntax tree is built: 0.1 s."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = (
    ast.With, ast.AsyncWith, ast.For, ast.AsyncFor, ast.While, ast.If, ast.Try, ast.ExceptHandler,
    getattr(ast, "TryStar", ast.Try),
)
_HEADER = re.compile(r"(?:async\s+)?(?:with|for|while|if|elif|else|try|except|finally)\b")
_DEFINITION = re.compile(r"(?:async\s+)?(?:def|class)\b")

Place = tuple[str, int]
"""File name as the frame spells it, line number."""


@dataclass(frozen=True)
class Lines:
    """What is shown of one place."""

    source: tuple[SourceLine, ...] = ()
    enclosing: tuple[SourceLine, ...] = ()


def is_readable_name(file: str) -> bool:
    """Whether a frame's file name is one whose text may be taken."""
    return file.endswith(SUFFIXES) and not file.startswith("<")


def is_user(file: str) -> bool:
    """Not the standard library, not an installed package, not made up by the interpreter.

    ``<string>`` (a program given with -c), ``<stdin>`` and a notebook's cells are the user's.
    """
    if not file or (file.startswith("<") and not file.startswith(("<string>", "<stdin>", "<ipython-input"))):
        return False
    if "/site-packages/" in file or "/dist-packages/" in file or file.endswith(RECORDER):
        return False
    return not re.search(r"(?:^|/)lib(?:64|32)?/(?:python|pypy)\d[\d.]*t?/|python\d+\.zip/", file)


class Sources:
    """Source lines, each place read once per standpoint, by a child that is the job's user."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[tuple[tuple[str, ...], Place], Lines] = {}
        self._asked: set[tuple[tuple[str, ...], Place]] = set()
        self._failed: dict[tuple[str, ...], ConfineFailed] = {}

    def of(self, target: Target, where: tuple[str, ...] | None, frames: Iterable[RawFrame]) -> dict[Place, Lines]:
        """What is known of the user's frames among these, after reading places never asked for.

        `where` is the target's standpoint; None: unknown, and no file is read.
        """
        place_of = {(f.file, f.line) for f in frames if f.line and is_user(f.file)}
        places = [(file, line) for file, line in place_of if line is not None]
        if not self._view.source or not places:
            return {}
        shown = {place: lines for place in places if (lines := _of_command(target, place)) is not None}
        if where is None or target.is_guarded:
            return shown
        unknown = [p for p in places if is_readable_name(p[0]) and (where, p) not in self._asked]
        if unknown and where not in self._failed:
            self._read(target, where, unknown)
        shown.update({place: self._known[where, place] for place in places if (where, place) in self._known})
        return shown

    def _read(self, target: Target, where: tuple[str, ...], places: list[Place]) -> None:
        self._asked.update((where, place) for place in places)
        limit_s = min(READ_LIMIT_S, max(0.0, self._view.left_s() - RESERVE_S))
        answers = run_as_target(
            target, lambda job: read_places(job, places), proc=self._view.proc, limit_s=limit_s
        )
        for answer in answers:
            if isinstance(answer, ConfineFailed):
                self._failed[where] = answer
                return
            place, lines = answer
            self._known[where, place] = lines

    def gaps(self) -> Iterator[Gap]:
        """One per way of failing."""
        for failed in dict.fromkeys(self._failed.values()):
            left = f"; pid {failed.left_running} is left running" if failed.left_running else ""
            yield Gap("partial", f"source lines are missing: {failed.message}{left}", tables=("frames",))


def _of_command(target: Target, place: Place) -> Lines | None:
    """Of ``python -c`` the program is an argument."""
    text = command_text(target.argv) if place[0] == "<string>" else None
    return None if text is None else Text(text).around(place[1])


def read_places(job: Confined, places: Iterable[Place]) -> Iterator[tuple[Place, Lines]]:
    """The lines of every place that can be read, one file at a time; a file that cannot is left out."""
    by_file: dict[str, list[int]] = {}
    for file, line in places:
        by_file.setdefault(file, []).append(line)
    for file, lines in list(by_file.items())[:MAX_FILES]:
        try:
            raw = job.read(file, 0, MAX_BYTES + 1)
        except OSError:
            continue
        if len(raw) <= MAX_BYTES and b"\0" not in raw:
            text = Text(raw.decode("utf-8", "backslashreplace"))
            yield from (((file, line), text.around(line)) for line in lines)


class Text:
    """A source file as text, and its syntax tree when that is needed."""

    def __init__(self, text: str) -> None:
        self._lines = text.rstrip("\n").split("\n")  # not splitlines: a form feed is no line's end to Python
        self._tree: ast.AST | None = None
        self._parsed = len(text) > MAX_PARSED

    def around(self, line: int) -> Lines:
        """The line with its neighbours, and the headers of the blocks around it within its function."""
        if not 0 < line <= len(self._lines):
            return Lines()
        first, last = max(1, line - AROUND), min(len(self._lines), line + AROUND)
        source = tuple(self._shown(number) for number in range(first, last + 1))
        return Lines(source, tuple(self._shown(number) for number in self._enclosing(line)[-MAX_ENCLOSING:]))

    def _shown(self, number: int) -> SourceLine:
        return SourceLine(number, self._lines[number - 1].rstrip()[:READ_AHEAD])

    def _enclosing(self, line: int) -> list[int]:
        """From the syntax tree; by indentation where there is none: a file that is half edited, one that is Cython,
        or one written for a newer Python than the collector's."""
        if not self._parsed:
            self._parsed = True
            self._tree = _tree("\n".join(self._lines))
        return _by_indentation(self._lines, line) if self._tree is None else _by_syntax(self._tree, line)


def _tree(text: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid escape sequence" in the job's source is not our business
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _by_syntax(tree: ast.AST, line: int) -> list[int]:
    nodes: list[Any] = list(ast.walk(tree))
    functions = (node.lineno for node in nodes if isinstance(node, _FUNCTIONS) and _spans(node, line))
    inside = max(functions, default=0)
    blocks = {node.lineno for node in nodes if isinstance(node, _BLOCKS) and _spans(node, line)}
    return sorted(number for number in blocks if number > inside)


def _spans(node: Any, line: int) -> bool:
    return node.lineno < line <= (node.end_lineno or 0)


def _by_indentation(text: list[str], line: int) -> list[int]:
    """Every line further out bounds the block, so that the header of a sibling is not taken for one around."""
    indent = _indent(text[line - 1])
    found: list[int] = []
    for number in range(line - 1, 0, -1):
        stripped = text[number - 1].strip()
        if not stripped or stripped.startswith("#") or _indent(text[number - 1]) >= indent:
            continue
        if _DEFINITION.match(stripped):
            break
        indent = _indent(text[number - 1])
        if _HEADER.match(stripped):
            found.append(number)
    return found[::-1]


def _indent(line: str) -> int:
    expanded = line.expandtabs(8)
    return len(expanded) - len(expanded.lstrip(" "))


def command_text(argv: tuple[str, ...]) -> str | None:
    """The program of ``python -c``; its frames are in ``<string>``. None: it was started otherwise."""
    words = iter(argv[1:])
    for word in words:
        if not word.startswith("-") or word.startswith("--") or word == "-":
            return None
        if word in ("-X", "-W"):
            next(words, None)
        elif word.endswith("c"):
            return next(words, None)
        elif "c" in word and not word.startswith(("-X", "-W", "-m")):
            return word.partition("c")[2]
        elif "m" in word and not word.startswith(("-X", "-W")):
            return None
    return None
