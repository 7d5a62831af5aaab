"""What is installed in the folders of a search path, read as `importlib.metadata` finds it.

Sources: "Recording installed projects" and "Direct URL Data Structure" of the Python Packaging User Guide.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .reader import Reader

MOST = 5_000
_HEADER = 16 * 1024
"""Name and version are among the first lines of the metadata."""
_LONGEST = 200
"""Characters of a name or version."""
_MAPPING = 256 * 1024
_LINK = ".egg-link"
_LEFTOVER = "~"
"""pip renames what it uninstalls to this, and removes it last."""


@dataclass(frozen=True)
class Distribution:
    """One installed distribution."""

    name: str
    version: str | None
    folder: str
    """The folder of the search path it lies in."""
    metadata: str
    """Its ``.dist-info`` or ``.egg-info``, full path."""
    url: str = ""
    """Where it was installed from, as pip would freeze it: ``git+https://…@commit``, ``file:///wheels/x.whl``."""
    is_editable: bool = False
    mapped_to: tuple[tuple[str, str], ...] = ()
    """Of an editable one: module and the place its finder takes it from."""
    faults: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return normalised(self.name)

    @property
    def frozen(self) -> str:
        """One line, as ``pip freeze`` has it."""
        release = f"{self.name}=={self.version or 'unknown'}"
        if self.is_editable:
            return f"-e {self.url}  # {release}"
        return f"{self.name} @ {self.url}  # {release}" if self.url else release


@dataclass(frozen=True)
class Installed:
    """What one search path offers."""

    effective: tuple[Distribution, ...]
    """One of each name, the first on the path, sorted by name."""
    shadowed: tuple[Distribution, ...] = ()
    """Those of the same name that come later on the path."""
    leftovers: tuple[str, ...] = ()
    """Paths of folders that an interrupted uninstall left."""


@dataclass(frozen=True)
class _Folder:
    distributions: tuple[Distribution, ...]
    leftovers: tuple[str, ...]
    linked: frozenset[str]
    """Names that an ``.egg-link`` says are developed elsewhere (``setup.py develop``)."""


@dataclass
class Folders:
    """Reads each folder once, however many search paths it is on."""

    reader: Reader
    _read: dict[str, _Folder] = field(default_factory=dict)
    _left: int = field(default_factory=lambda: MOST)

    def installed(self, folders: Sequence[str]) -> Installed:
        effective: dict[str, Distribution] = {}
        shadowed: list[Distribution] = []
        read = [self._in(folder) for folder in folders]
        linked = frozenset[str]().union(*(one.linked for one in read))
        for one in (one for folder in read for one in folder.distributions):
            first = effective.setdefault(one.key, one)
            if first is one and one.key in linked and one.metadata.endswith(".egg-info"):
                effective[one.key] = replace(one, url=f"file://{one.folder}", is_editable=True)
            elif first.folder == one.folder and first.version != one.version:
                effective[one.key] = _twice(first, one)
            elif first.metadata != one.metadata:
                shadowed.append(one)
        ordered = sorted(effective.values(), key=lambda one: one.key)
        return Installed(tuple(ordered), tuple(shadowed), tuple(left for one in read for left in one.leftovers))

    def _in(self, folder: str) -> _Folder:
        if folder not in self._read:
            names = self.reader.names(folder)
            found = [name for name in names if _is_metadata(name, folder) and not name.startswith(_LEFTOVER)]
            if len(found) > self._left:
                self.reader.cut.add(f"more than {MOST} distributions")
            found = found[: self._left]
            self._left -= len(found)
            self._read[folder] = _Folder(
                tuple(_read(self.reader, folder, name) for name in found),
                tuple(f"{folder}/{name}" for name in names if name.startswith(_LEFTOVER)),
                frozenset(normalised(name[: -len(_LINK)]) for name in names if name.endswith(_LINK)),
            )
        return self._read[folder]


def _twice(first: Distribution, other: Distribution) -> Distribution:
    fault = f"{posixpath.basename(other.metadata)} says that {other.version} is installed in the same place"
    return replace(first, faults=(*first.faults, fault))


def normalised(name: str) -> str:
    """Names that differ only in case and in ``-``, ``_`` and ``.`` are one (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_metadata(name: str, folder: str) -> bool:
    lower = name.lower()
    return lower.endswith((".dist-info", ".egg-info")) or (lower == "egg-info" and folder.endswith(".egg"))


# --- one distribution ---


def _read(reader: Reader, folder: str, entry: str) -> Distribution:
    path = posixpath.join(folder, entry)
    header = _header(reader, path)
    stem, _, version = entry.rpartition(".")[0].partition("-")
    found = Distribution(
        (header.get("name") or stem or posixpath.basename(folder).partition("-")[0])[:_LONGEST],
        (header.get("version") or version)[:_LONGEST] or None,
        folder,
        path,
        faults=() if header.get("name") else ("its metadata is missing or unreadable",),
    )
    return _with_origin(reader, found)


def _header(reader: Reader, path: str) -> Mapping[str, str]:
    """The fields of METADATA or PKG-INFO; distutils wrote a single file in place of the folder."""
    for name in ("/METADATA", "/PKG-INFO", ""):
        text = reader.text(path + name, _HEADER)
        if text:
            lines = text.partition("\n\n")[0].splitlines()
            pairs = (line.partition(":") for line in lines if line[:1] not in " \t")
            return {key.strip().lower(): value.strip() for key, colon, value in reversed(list(pairs)) if colon}
    return {}


def _with_origin(reader: Reader, found: Distribution) -> Distribution:
    text = reader.text(f"{found.metadata}/direct_url.json") if found.metadata.endswith(".dist-info") else None
    try:
        record = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return replace(found, faults=(*found.faults, "direct_url.json cannot be read"))
    if not isinstance(record, dict) or not isinstance(record.get("url"), str):
        return found
    is_editable = _part(record, "dir_info").get("editable") is True
    mapped = tuple(_mapping(reader, found)) if is_editable else ()
    return replace(found, url=_url(record), is_editable=is_editable, mapped_to=mapped)


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = record.get(name)
    return part if isinstance(part, dict) else {}


def _url(record: Mapping[str, Any]) -> str:
    version_control, url = _part(record, "vcs_info"), record["url"]
    if isinstance(version_control.get("vcs"), str):
        commit = version_control.get("commit_id") or version_control.get("requested_revision")
        url = f"{version_control['vcs']}+{url}" + (f"@{commit}" if commit else "")
    below = record.get("subdirectory")
    return f"{url}#subdirectory={below}" if isinstance(below, str) else url


# --- editable installs ---


def _mapping(reader: Reader, found: Distribution) -> Iterator[tuple[str, str]]:
    """What the finder of setuptools maps, read as text: ``MAPPING = {'x': '/src/x'}``."""
    ours = f"__editable___{found.name}_{found.version}_finder.py"
    for name in reader.names(found.folder):
        if _letters(name) == _letters(ours):
            yield from mapping_of(reader.text(f"{found.folder}/{name}", _MAPPING) or "")


def _letters(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def mapping_of(source: str) -> list[tuple[str, str]]:
    """The literal assigned to MAPPING. Parsed, never run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
            values = [value for node in tree.body if (value := _assigned(node, "MAPPING"))]
            mapping = ast.literal_eval(values[0]) if values else {}
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        return []
    pairs = mapping.items() if isinstance(mapping, dict) else ()
    return [(name, place) for name, place in pairs if isinstance(name, str) and isinstance(place, str)]


def _assigned(node: ast.stmt, name: str) -> ast.expr | None:
    if isinstance(node, ast.AnnAssign):
        places = [node.target]
    elif isinstance(node, ast.Assign):
        places = node.targets
    else:
        return None
    return node.value if any(isinstance(one, ast.Name) and one.id == name for one in places) else None
