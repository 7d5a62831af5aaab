"""All that is read for processes that see the same files, in one child: environments, packages, libraries."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from flatline.bundle.facts import Library

from ..confine import Confined
from . import conda, integrity, libraries, search_path
from .conda import CondaPackage
from .distributions import Distribution, Folders, Installed
from .libraries import Owner
from .reader import Reader, Whereabouts
from .search_path import SearchPath
from .starts import Start

_NICE = 10


@dataclass(frozen=True)
class Environment:
    """What a Python of the job sees installed; sent again, with the same `pids`, when more is known."""

    pids: tuple[int, ...]
    executable: str
    version: str
    prefix: str
    folders: tuple[str, ...]
    installed: Installed
    conda: tuple[CondaPackage, ...] = ()
    notes: tuple[str, ...] = ()
    code_lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Libraries:
    """The libraries that matter in one process; those of others with the very same ones are left out."""

    pids: tuple[int, ...]
    rows: tuple[Library, ...]


@dataclass(frozen=True)
class Cut:
    """What was left out, in a few words each."""

    what: tuple[str, ...]


@dataclass(frozen=True)
class Survey:
    """The work for `run_as_target`."""

    starts: Sequence[Start]
    uid: int
    whereabouts: Whereabouts
    limit_s: float
    avoid: Collection[str] = ()
    """Folders that did not answer before."""

    def __call__(self, confined: Confined) -> Iterator[Environment | Libraries | Cut]:
        os.nice(_NICE)
        reader = Reader(confined, self.whereabouts, end=time.monotonic() + self.limit_s, avoid=self.avoid)
        environments = list(_environments(reader, self.starts, self.uid))
        yield from environments
        yield from _libraries(reader, self.starts, environments)
        yield from (_checked(reader, one) for one in environments)
        if reader.cut:
            yield Cut(tuple(sorted(reader.cut)))


def _environments(reader: Reader, starts: Sequence[Start], uid: int) -> Iterator[Environment]:
    """Each set of installed packages once, with all processes that see it; most of a job's see the same."""
    folders = Folders(reader)
    reckoned: dict[object, tuple[SearchPath, Installed]] = {}
    groups: dict[object, list[Start]] = {}
    for start in starts:
        alike = replace(start, pid=0)
        if alike not in reckoned:
            path = search_path.find(reader, start, uid)
            reckoned[alike] = path, folders.installed(path.folders)
        path, installed = reckoned[alike]
        groups.setdefault((path.interpreter.prefix, installed.effective), []).append(start)
    for group in groups.values():
        path, installed = reckoned[replace(group[0], pid=0)]
        found = path.interpreter
        yield Environment(
            tuple(start.pid for start in group),
            found.executable,
            found.version,
            found.prefix,
            tuple(path.folders),
            installed,
            tuple(conda.packages(reader, found.base_prefix)),
            tuple(path.notes),
            tuple(path.code_lines),
        )


def _libraries(reader: Reader, starts: Sequence[Start], environments: Sequence[Environment]) -> Iterator[Libraries]:
    environment_of = {pid: one for one in environments for pid in one.pids}
    groups: dict[object, list[Start]] = {}
    for start in starts:
        files = frozenset(one.file for one in libraries.of_interest(start.mapped))
        groups.setdefault((environment_of[start.pid].pids, files), []).append(start)
    for group in groups.values():
        environment = environment_of[group[0].pid]
        found = libraries.of_interest(group[0].mapped)
        owners = libraries.owners(
            reader, found, _all(environment.installed), partial(_conda_owner, reader, environment)
        )
        versions = libraries.c_library_versions(reader, found)
        if found:
            pids = tuple(start.pid for start in group)
            yield Libraries(pids, tuple(libraries.rows(pids[0], found, owners, versions)))


def _all(installed: Installed) -> list[Distribution]:
    return [*installed.effective, *installed.shadowed]


def _conda_owner(reader: Reader, environment: Environment, path: str) -> Owner | None:
    found = conda.owner(reader, path, environment.conda)
    return Owner(found.name, found.version, is_conda=True) if found else None


def _checked(reader: Reader, environment: Environment) -> Environment:
    """The same with what is wrong with the packages that matter, and with what an uninstall left behind."""
    left: dict[str, list[str]] = {}
    for path in environment.installed.leftovers:
        whose = integrity.leftover_of(path, environment.installed.effective)
        left.setdefault(whose.key if whose else path, []).append(path)
    checked = []
    for one in environment.installed.effective:
        one = integrity.checked(reader, one) if integrity.matters(one.name) else one
        beside = tuple(f"{path}: left by an uninstall that was interrupted" for path in left.pop(one.key, ()))
        checked.append(replace(one, faults=(*one.faults, *beside)))
    rest = tuple(path for paths in left.values() for path in paths)
    return replace(environment, installed=replace(environment.installed, effective=tuple(checked), leftovers=rest))
