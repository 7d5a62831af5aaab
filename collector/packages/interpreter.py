"""Which Python a process runs, and where that Python looks for its packages: found again as getpath and site do it.

Python goes by argv[0]: the folder it lies in, and the folder above, may hold ``pyvenv.cfg``. Only what is the very
file that runs (/proc/PID/exe) is believed. Sources: Modules/getpath.py, Lib/site.py; Debian's and Fedora's changes
to the latter are told by its text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..linux.descriptors import DELETED
from .reader import Reader
from .starts import Options, Start, options_of

_VERSION = re.compile(r"python(\d+\.\d+)(t?)")
_IN_LIBRARY = re.compile(r"^(.*)/(lib(?:64)?)/python(\d+\.\d+t?)/lib-dynload/")
_SHARED = re.compile(r"/libpython(\d+\.\d+t?)[dm]*\.so")
_SITE = 64 * 1024


@dataclass(frozen=True)
class Interpreter:
    """One Python."""

    executable: str
    """As Python knows it: a link in a venv is not followed. ``""``: argv[0] led nowhere."""
    version: str = ""
    """``3.11``, ``3.13t``; ``""`` unknown."""
    prefix: str = ""
    base_prefix: str = ""
    """Where the standard library is; `prefix` unless it is a venv."""
    library: str = "lib"
    """sys.platlibdir."""
    is_venv: bool = False
    sees_base: bool = True
    """Packages of the base are visible: outside a venv, and with --system-site-packages."""
    notes: tuple[str, ...] = ()
    """What is uncertain, or not as one would think."""

    @property
    def standard_library(self) -> str:
        return f"{self.base_prefix}/{self.library}/python{self.version}"


def find(reader: Reader, start: Start) -> Interpreter:
    """The interpreter of one process."""
    options = Options() if start.is_title else options_of(start.argv)
    executable, notes = _executable(reader, start)
    home = "" if options.ignores_environment else start.variable("PYTHONHOME").split(":")[0]
    found = _with_version(Interpreter(executable, notes=notes), start)
    found = _with_base(reader, found, start, home)
    return _in_venv(reader, found)


# --- the executable ---


def _executable(reader: Reader, start: Start) -> tuple[str, tuple[str, ...]]:
    replaced = start.exe.endswith(DELETED)
    for candidate in _candidates(reader, start):
        if reader.file(candidate) == start.exe_file or (replaced and reader.kind(candidate) == "file"):
            note = (f"its executable was replaced since it was started: {start.exe}",) if replaced else ()
            return reader.absolute(candidate), note
    exe = start.exe.removesuffix(DELETED)
    if start.is_title or reader.file(start.exec_name) != start.exe_file or start.exec_name == exe:
        return exe, ()
    title = start.argv[0] if start.argv else ""
    return exe, (f"argv[0] is {title!r}, so Python knew neither that it is {start.exec_name} nor of a venv there",)


def _candidates(reader: Reader, start: Start) -> Iterator[str]:
    if start.is_title or not start.argv:
        yield from _around(start, start.exec_name)
        yield from _behind_script(reader, start.exec_name)
    elif "/" in start.argv[0]:
        yield from _around(start, start.argv[0])
    elif start.env is None:
        yield from _around(start, start.exec_name)
    else:
        folders = start.variable("PATH").split(":")
        yield from (posixpath.join(folder, start.argv[0]) for folder in folders if folder)


def _around(start: Start, name: str) -> Iterator[str]:
    """The name where the process stands now, and where it may have stood when it was started."""
    if name:
        yield name
        if not name.startswith("/") and start.variable("PWD").startswith("/"):
            yield posixpath.join(start.variable("PWD"), name)


def _behind_script(reader: Reader, name: str) -> Iterator[str]:
    """``#!/venv/bin/python``: of a script that was executed, its interpreter."""
    first = (reader.raw(name, 256) or b"").split(b"\n")[0] if name else b""
    words = first[2:].split() if first.startswith(b"#!") else []
    if words:
        yield words[0].decode("utf-8", "replace")


# --- version and prefixes ---


def _with_version(found: Interpreter, start: Start) -> Interpreter:
    """By what is mapped; else by the name of the file that runs."""
    for one in start.mapped:
        match = _IN_LIBRARY.match(one.path)
        if match:
            return replace(found, base_prefix=match[1], library=match[2], version=match[3])
    shared = next((match for one in start.mapped if (match := _SHARED.search(one.path))), None)
    named = _VERSION.search(posixpath.basename(start.exe))
    version = shared[1] if shared else "".join(named.groups()) if named else ""
    return replace(found, version=version)


def _with_base(reader: Reader, found: Interpreter, start: Start, home: str) -> Interpreter:
    if home:
        return replace(found, prefix=home, base_prefix=home)
    if found.base_prefix:
        return replace(found, prefix=found.base_prefix)
    return _beside(reader, found, start.exe.removesuffix(DELETED))


def _beside(reader: Reader, found: Interpreter, executable: str) -> Interpreter:
    """The standard library nearest above an executable, which getpath looks for as well."""
    above = posixpath.dirname(executable)
    while above not in ("", "/"):
        above = posixpath.dirname(above)
        prefix = above.rstrip("/")
        for library in ("lib", "lib64"):
            version = found.version or _only_version(reader, f"{prefix}/{library}")
            if version and reader.kind(f"{prefix}/{library}/python{version}/os.py"):
                return replace(found, prefix=prefix, base_prefix=prefix, library=library, version=version)
    return found


def _only_version(reader: Reader, folder: str) -> str:
    versions = [name[6:] for name in reader.names(folder) if re.fullmatch(r"python\d+\.\d+t?", name)]
    return versions[0] if len(versions) == 1 else ""


def _in_venv(reader: Reader, found: Interpreter) -> Interpreter:
    folder = posixpath.dirname(found.executable)
    for place in (folder, posixpath.dirname(folder)) if folder else ():
        text = reader.text(posixpath.join(place, "pyvenv.cfg"))
        if text is not None:
            return enter_venv(reader, found, posixpath.dirname(folder), text)
    return found


def enter_venv(reader: Reader, found: Interpreter, prefix: str, configuration: str) -> Interpreter:
    """The same Python in the venv at `prefix`; `configuration` is the text of its pyvenv.cfg."""
    pairs = (line.partition("=") for line in configuration.splitlines())
    settings = {key.strip().lower(): value.strip() for key, equals, value in pairs if equals}
    version = re.match(r"\d+\.\d+", settings.get("version_info", settings.get("version", "")))
    if version and not found.version:
        found = replace(found, version=version[0])
    if not found.base_prefix and settings.get("home", "").startswith("/"):
        found = _beside(reader, found, f"{settings['home']}/python")
    sees_base = settings.get("include-system-site-packages", "true").lower() == "true"
    return replace(found, prefix=prefix, is_venv=True, sees_base=sees_base)


# --- folders of packages ---


def site_folders(reader: Reader, found: Interpreter, prefix: str) -> Iterator[str]:
    """Where `site` looks below one prefix (getsitepackages), whether it is there or not."""
    text = reader.text(f"{found.standard_library}/site.py", _SITE) or ""
    number = found.version.rstrip("t")
    if "dist-packages" in text:
        if found.is_venv:
            yield f"{prefix}/lib/python{found.version}/site-packages"
        yield f"{prefix}/local/lib/python{number}/dist-packages"
        yield f"{prefix}/lib/python3/dist-packages"
        yield f"{prefix}/lib/python{number}/dist-packages"
        return
    local = ["/usr/local"] if prefix == "/usr" and '"/usr/local"' in text else []
    for place in (*local, prefix):
        for library in dict.fromkeys((found.library, "lib")):
            yield f"{place}/{library}/python{found.version}/site-packages"


def user_folder(found: Interpreter, start: Start, home: str, *, ignores_environment: bool) -> str:
    """Where packages of one user are; ``""`` when nobody knows his home."""
    given = "" if ignores_environment else start.variable("PYTHONUSERBASE")
    base = given or (f"{home.rstrip('/')}/.local" if home else "")
    return f"{base}/lib/python{found.version}/site-packages" if base else ""
