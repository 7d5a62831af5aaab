"""sys.path of a process from outside, in its order: what Python puts there by itself, and what its maps prove."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from flatline.bundle.facts import READ_AHEAD

from ..linux.descriptors import DELETED
from . import interpreter
from .interpreter import Interpreter
from .reader import Reader
from .starts import Options, Start, options_of

_PACKAGES = re.compile(r"^(/.*?/(?:site|dist)-packages)/")
_MOST_PTH = 200
_MOST_LINES = 5_000
_MOST_LINKS = 10
_USERS = 1024 * 1024


@dataclass
class SearchPath:
    """The folders, and what about them is not certain."""

    interpreter: Interpreter
    folders: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    code_lines: list[str] = field(default_factory=list)
    """``x.pth: import …``: lines that Python runs and we do not. They may add folders that we do not know."""
    _known: set[tuple[int, int]] = field(default_factory=set)

    def add(self, reader: Reader, folder: str) -> bool:
        """Put it at the end, if it is there and not already in."""
        file = reader.file(folder)
        if file is None or file in self._known:
            return False
        self._known.add(file)
        self.folders.append(reader.absolute(folder))
        return True


def find(reader: Reader, start: Start, uid: int) -> SearchPath:
    """The search path of one process of this user."""
    path = _without_maps(reader, start, uid, interpreter.find(reader, start))
    return _with_maps(reader, start, uid, path)


def _without_maps(reader: Reader, start: Start, uid: int, found: Interpreter) -> SearchPath:
    path = SearchPath(found, notes=list(found.notes))
    options = Options() if start.is_title else options_of(start.argv)
    if start.is_title:
        path.notes.append("a process title overwrites its arguments: the folder of its script is not known")
    elif not (options.safe_path or (start.variable("PYTHONSAFEPATH") and not options.ignores_environment)):
        path.add(reader, _first_folder(reader, start, options))
    if start.env is None:
        path.notes.append("its environment could not be read: PYTHONPATH is not known")
    given = "" if options.ignores_environment else start.variable("PYTHONPATH")
    for entry in given.split(":") if given else ():
        _add_relative(reader, start, path, entry)
    for folder in (found.standard_library, f"{found.standard_library}/lib-dynload"):
        path.add(reader, folder)
    if not options.no_site:
        for folder in _site_folders(reader, start, options, found, uid):
            _add_site(reader, path, folder)
    return path


def _first_folder(reader: Reader, start: Start, options: Options) -> str:
    """sys.path[0]: of a script its own folder, links followed; a folder or zip that is run is itself the entry."""
    if options.runs in ("", "-c", "-m"):
        return start.cwd or "."
    script = options.runs
    if not reader.kind(script) and start.variable("PWD").startswith("/"):
        script = posixpath.join(start.variable("PWD"), script)
    if reader.kind(script) == "directory" or script.endswith((".zip", ".pyz")):
        return script
    for _ in range(_MOST_LINKS):
        target = reader.link(script)
        if target is None:
            break
        script = posixpath.join(posixpath.dirname(script), target)
    return posixpath.dirname(reader.absolute(script))


def _add_relative(reader: Reader, start: Start, path: SearchPath, entry: str) -> None:
    """An entry of PYTHONPATH counts from where the process stood when it started, which may be elsewhere by now."""
    if entry.startswith("/") or reader.kind(entry or "."):
        path.add(reader, entry or ".")
    elif start.variable("PWD").startswith("/"):
        path.add(reader, posixpath.join(start.variable("PWD"), entry))


def _site_folders(reader: Reader, start: Start, options: Options, found: Interpreter, uid: int) -> Iterator[str]:
    if found.is_venv:
        yield from interpreter.site_folders(reader, found, found.prefix)
    hidden = options.no_user_site or (start.variable("PYTHONNOUSERSITE") and not options.ignores_environment)
    if found.sees_base and not hidden:
        home = start.variable("HOME") or _home(reader, uid)
        yield interpreter.user_folder(found, start, home, ignores_environment=options.ignores_environment)
    if found.sees_base:
        yield from interpreter.site_folders(reader, found, found.base_prefix)


def _home(reader: Reader, uid: int) -> str:
    """By the job's own list of users, as Python does it when HOME is not set."""
    lines = (line.split(":") for line in (reader.text("/etc/passwd", _USERS) or "").splitlines())
    return next((line[5] for line in lines if len(line) > 5 and line[2] == str(uid)), "")


# --- .pth files ---


def _add_site(reader: Reader, path: SearchPath, folder: str) -> None:
    """A folder of packages with what its .pth files add (site.addsitedir). Their code is not run."""
    if not folder or reader.kind(folder) != "directory":
        return
    path.add(reader, folder)
    names = sorted(name for name in reader.names(folder) if name.endswith(".pth") and not name.startswith("."))
    for name in names[:_MOST_PTH]:
        text = reader.text(f"{folder}/{name}") or ""
        for line in text.lstrip("\ufeff").splitlines()[:_MOST_LINES]:
            _add_line(reader, path, folder, name, line.rstrip())


def _add_line(reader: Reader, path: SearchPath, folder: str, name: str, line: str) -> None:
    if not line.strip() or line.startswith("#"):
        return
    if line.startswith(("import ", "import\t")):
        path.code_lines.append(f"{folder}/{name}: {line[:READ_AHEAD]}")
    elif "\0" not in line:
        path.add(reader, posixpath.join(folder, line))


# --- the maps as arbiter ---


def _with_maps(reader: Reader, start: Start, uid: int, path: SearchPath) -> SearchPath:
    """Packages whose libraries are mapped are in use, whatever the reckoning says. Memory wins, and it is noted."""
    unknown = _unreckoned(reader, start, path)
    for folder in unknown:
        prefix = re.sub(r"/lib(64)?/python[^/]*/site-packages$", "", folder)
        configuration = reader.text(f"{prefix}/pyvenv.cfg") if prefix != folder else None
        if configuration is not None and not path.interpreter.is_venv:
            found = interpreter.enter_venv(reader, path.interpreter, prefix, configuration)
            note = f"libraries of the venv {prefix} are mapped: it is taken for the one that is active"
            again = _without_maps(reader, start, uid, replace(found, notes=(*found.notes, note)))
            return _with_rest(reader, start, again)
    return _with_rest(reader, start, path)


def _with_rest(reader: Reader, start: Start, path: SearchPath) -> SearchPath:
    for folder in _unreckoned(reader, start, path):
        path.notes.append(f"libraries below {folder} are mapped, though it is not on the path as reckoned: added")
        path.add(reader, folder)
    return path


def _unreckoned(reader: Reader, start: Start, path: SearchPath) -> list[str]:
    folders = dict.fromkeys(match[1] for one in start.mapped if (match := _PACKAGES.match(one.path)))
    known = {reader.file(folder) for folder in path.folders}
    return [one for one in folders if not one.endswith(DELETED) and reader.file(one) not in {*known, None}]
