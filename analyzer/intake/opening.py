"""Opens whatever was given: bundles, loose files and folders, archives of them, standard input, in any mixture."""

from __future__ import annotations

import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from flatline.bundle.format import BUNDLE_JSON, MANIFEST, PASTED
from flatline.errors import UnreadableBundleError, UsageError

from ..case import Case, OpenedBundle, joined_cases, open_bundles
from .assemble import case_of_texts
from .regular import open_regular
from .sieve import PLAIN, Reading
from .sources import OWN_REPORT, Source, names_too_many, read_path, read_stream, text_of

STDIN = Path("-")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")


def open_case(paths: Sequence[Path], reading: Reading = PLAIN) -> Case:
    """One case of all that was given. Raises UnreadableBundleError when something cannot be read at all."""
    bundles, texts = _sorted_out(paths)
    if not bundles:
        return case_of_texts(read_texts(texts, reading), name=_name(texts))
    case = open_bundles(bundles)
    sources = [*_inside(case, reading), *_distinct(_sources(texts, reading))]
    if not any(source.kept.lines for source in sources):
        return case
    pasted = case_of_texts(sources, name=_name(texts or bundles))
    if all(_is_made_of_texts(bundle) for bundle in case.bundles):
        case.close()  # all that is in them was read
        return pasted
    return joined_cases(case, pasted)


def read_texts(paths: Sequence[Path], reading: Reading = PLAIN) -> list[Source]:
    """All texts of files, folders, archives and standard input. Raises UnreadableBundleError when there is none,
    UsageError when all that is there is a report of ours."""
    sources = _distinct(_sources(paths, reading))
    if any(source.kept.lines for source in sources):
        return sources
    if own := [source.name for source in sources if source.note == OWN_REPORT]:
        raise UsageError(f"{own[0]}: {OWN_REPORT}", next_step="flatline analyze BUNDLE")
    raise UnreadableBundleError(
        f"{_name(paths)} holds no text{_why(sources)}",
        next_step="flatline analyze BUNDLE, or a log, a stack dump, a ticket",
    )


def _inside(case: Case, reading: Reading) -> Iterator[Source]:
    """The texts that `flatline bundle` put into a bundle."""
    for bundle in case.bundles:
        for name in bundle.names:
            if name.startswith(PASTED):
                yield text_of(BytesIO(bundle.read(name)), name, reading)


def is_bundle(path: Path) -> bool:
    """Whether it is a zip that flatline wrote, or claims to be one: what is damaged is left to the reader to refuse."""
    if path == STDIN or (path.exists() and not path.is_file()):
        return False
    try:
        with open_regular(path) as file:
            if not file.read(4).startswith(_ZIP):
                return path.suffix == ".zip"
            if names_too_many(file):
                return True
            with zipfile.ZipFile(file) as archive:
                return not {BUNDLE_JSON, MANIFEST}.isdisjoint(archive.namelist())
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
        return True


def _is_made_of_texts(bundle: OpenedBundle) -> bool:
    return any(name.startswith(PASTED) for name in bundle.names)


def _sorted_out(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The bundles, those that lie in a folder included, and what may hold texts."""
    bundles: list[Path] = []
    texts: list[Path] = []
    for path in paths:
        if is_bundle(path):
            bundles.append(path)
            continue
        texts.append(path)
        if path.is_dir():
            bundles += sorted(found for found in path.glob("*.zip") if is_bundle(found))
    return bundles, texts


def _sources(paths: Sequence[Path], reading: Reading) -> Iterator[tuple[Path, Source]]:
    """What was read, and which of the paths it came from."""
    for path in paths:
        found = [read_stream(sys.stdin.buffer, reading=reading)] if path == STDIN else read_path(path, reading)
        for source in found:
            yield path, source


def _distinct(found: Iterable[tuple[Path, Source]]) -> list[Source]:
    """The sources, no two of one name, since evidence names its text: ``node0/train.log`` and ``node1/train.log``."""
    sources = list(found)
    names = Counter(source.name for _, source in sources)
    taken = Counter[str]()
    distinct: list[Source] = []
    for path, source in sources:
        name = source.name
        if names[name] > 1 and path != STDIN:
            name = str(path if path.name == name else path / name)
        name = _writable(name)
        taken[name] += 1
        distinct.append(replace(source, name=name if taken[name] == 1 else f"{name} ({taken[name]})"))
    return distinct


def _writable(name: str) -> str:
    """A file's name as a report can hold it: bytes of it that are no letter are spelled out."""
    return name.encode("utf-8", "backslashreplace").decode()


def _name(paths: Sequence[Path]) -> str:
    first = "stdin" if paths[0] == STDIN else _writable(paths[0].resolve().name)
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def _why(sources: Sequence[Source]) -> str:
    return next((f": {source.name}: {source.note}" for source in sources if source.note), "")
