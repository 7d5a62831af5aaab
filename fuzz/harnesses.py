"""What is fuzzed: one function for each way by which hostile bytes come in. Each returns or raises a FlatlineError."""

from __future__ import annotations

import io
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from flatline.analyzer.analysis import analyze
from flatline.analyzer.case import open_bundles
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.judge.pack import Rulebook, load_rulebook
from flatline.analyzer.reports import render

from flatline.bundle.reader import open_bundle
from flatline.bundle.salvage import salvage
from flatline.errors import FlatlineError
from flatline.redaction import Redactor
from flatline.redaction.documents import redact_document

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "fixtures" / "bundles" / "golden-1.0.flatline.zip"
FORMATS = ("json", "html", "md")
_FOLDER = Path(tempfile.mkdtemp(prefix="flatline-fuzz-"))


def clean_up() -> None:
    """Remove what the harnesses have written."""
    shutil.rmtree(_FOLDER, ignore_errors=True)


def bundle(data: bytes) -> None:
    """A file that claims to be a bundle: every member, every table, and what salvage makes of it."""
    path, saved = _FOLDER / "b.flatline.zip", _FOLDER / "saved.flatline.zip"
    path.write_bytes(data)
    with open_bundle(path) as reader:
        reader.tables()
        for name in reader.names:
            try:
                reader.read(name)
                for _ in reader.lines(name):
                    pass
            except FlatlineError:
                continue
    saved.unlink(missing_ok=True)
    salvage(path, saved)


def facts(data: bytes) -> None:
    """A member of a bundle: the first byte says which, the rest is what it holds. Analyzed and rendered."""
    if not data:
        return
    names, members = _golden()
    name = names[data[0] % len(names)]
    path = _FOLDER / "f.flatline.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for each, held in members.items():
            archive.writestr(each, data[1:] if each == name else held)
    with open_bundles([path]) as case:
        report = analyze(case, _rulebook())
        for shape in FORMATS:
            render(shape, report, case)


def text(data: bytes) -> None:
    """What a person pastes: recognised, analyzed, rendered."""
    path = _FOLDER / "pasted.txt"
    path.write_bytes(data)
    with open_case([path]) as case:
        report = analyze(case, _rulebook())
        for shape in FORMATS:
            render(shape, report, case)


def rule(data: bytes) -> None:
    """A file in somebody's folder of rules."""
    folder = _FOLDER / "pack"
    (folder / "family").mkdir(parents=True, exist_ok=True)
    (folder / "pack.yaml").write_text("name: fuzz\nversion: 1.0.0\n")
    (folder / "family" / "a-rule.yaml").write_bytes(data)
    load_rulebook([folder], built_in=False)


def redactor(data: bytes) -> None:
    """A text to be hidden from, plain and as JSON."""
    said = data.decode("utf-8", "surrogateescape")
    Redactor().text(said)
    redact_document("facts/x.json", said, Redactor())


HARNESSES: dict[str, Callable[[bytes], None]] = {
    "bundle": bundle,
    "facts": facts,
    "redactor": redactor,
    "rule": rule,
    "text": text,
}


def seeds(name: str) -> Iterator[bytes]:
    """Good inputs to begin with, beside the corpus: what the project itself holds."""
    if name == "bundle":
        yield GOLDEN.read_bytes()
    elif name == "facts":
        for number, member in enumerate(_golden()[0]):
            yield bytes([number]) + _golden()[1][member]
    elif name == "rule":
        rules = sorted((ROOT / "rules").glob("*/*.yaml"))
        yield from (path.read_bytes() for path in rules if ".test." not in path.name)
    else:
        yield from (path.read_bytes() for path in sorted((ROOT / "fixtures" / "pasted").rglob("*")) if path.is_file())


@cache
def _rulebook() -> Rulebook:
    return load_rulebook()


@cache
def _golden() -> tuple[list[str], dict[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(GOLDEN.read_bytes())) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return [name for name in members if not name.startswith("README")], members
