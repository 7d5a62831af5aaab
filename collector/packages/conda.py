"""What conda installed: one JSON file per package below ``conda-meta``, named ``name-version-build.json``."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .reader import Reader

MOST = 2_000
_JSON = 4 * 1024**2


@dataclass(frozen=True)
class CondaPackage:
    """One package; many of them are no Python (cudatoolkit, libgomp)."""

    name: str
    version: str
    build: str
    path: str


def packages(reader: Reader, prefix: str) -> list[CondaPackage]:
    """By their file names; empty where conda made nothing."""
    folder = f"{prefix}/conda-meta"
    return list(_named(folder, sorted(reader.names(folder))[:MOST])) if prefix else []


def _named(folder: str, names: list[str]) -> Iterator[CondaPackage]:
    for name in names:
        parts = name[:-5].rsplit("-", 2) if name.endswith(".json") else []
        if len(parts) == 3:
            yield CondaPackage(*parts, path=f"{folder}/{name}")


def owner(reader: Reader, path: str, installed: Sequence[CondaPackage]) -> CondaPackage | None:
    """Whose file it is. Packages named like the file are asked first, as each has a long list."""
    prefix = installed[0].path.partition("/conda-meta/")[0] if installed else ""
    if not prefix or not path.startswith(f"{prefix}/"):
        return None
    stem = posixpath.basename(path).split(".so")[0][:8]
    line = f'"{posixpath.relpath(path, prefix)}"'.encode()
    for one in sorted(installed, key=lambda one: not one.name.startswith(stem)):
        if line in (reader.raw(one.path, _JSON) or b""):
            return one
    return None
