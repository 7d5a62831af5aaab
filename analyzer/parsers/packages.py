"""Lists of installed packages: of pip, uv, poetry, conda and mamba, and what pip complains of.

A list is recognised by its head, or by rows that nothing else prints (``torch==2.7.0``). Rows of a name and a number,
which many programs print, count only where some of the names are those of well-known packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatline.bundle.facts import Package, process_id

from .interface import HOST, LOOKAHEAD, NO_PID, Line, Lines, Parsed, Parser
from .json_text import json_span
from .spans import Span, span, stands_alone

NOBODY = process_id(NO_PID, HOST)
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,80}[A-Za-z0-9])?"
NUMBER = r"\d+!?[\w.+!-]{0,80}"
_WELL_KNOWN = frozenset(
    {
        "accelerate", "ca-certificates", "certifi", "click", "cudatoolkit", "datasets", "deepspeed",
        "filelock", "fsspec", "huggingface-hub", "huggingface_hub", "idna", "jax", "jaxlib", "jinja2",
        "libgcc-ng", "lightning", "mkl", "networkx", "numpy", "openssl", "packaging", "pandas", "pillow",
        "pip", "protobuf", "psutil", "python", "pytorch", "pytorch-lightning", "pyyaml", "ray", "regex",
        "requests", "safetensors", "scipy", "setuptools", "six", "sympy", "tensorflow", "tokenizers",
        "torch", "torchaudio", "torchvision", "tqdm", "transformers", "triton", "typing-extensions",
        "typing_extensions", "urllib3", "vllm", "wandb", "wheel", "zlib",
    }
)  # fmt: skip


def package(line: Line, name: str, version: str | None, *, path: str | None = None, url: str | None = None) -> Package:
    """A row of the process whose list this is, which the text does not name."""
    return Package(NOBODY, name, version, path=path, direct_url=url, line=line.number)


def _is_well_known(name: str) -> bool:
    return name.lower() in _WELL_KNOWN


def listing(found: Span, rows: list[Package], *, whole: bool = True) -> Parsed:
    return Parsed(found.end, tuple(rows), frozenset({"packages"} if whole else ()), f"{len(rows)} packages")


# --- pip freeze, uv pip freeze, requirements ---

_EXTRAS = r"(?:\[[\w, -]{1,80}\])?"
PINNED = re.compile(
    rf"(?:pip install )?(?P<name>{_NAME}){_EXTRAS}\s?===?\s?(?P<version>{NUMBER})"
    r"(?:\s*;.{0,200})?(?:\s+#.{0,200})?(?:\s*\\)?$"
)
_FROM_URL = re.compile(rf"(?P<name>{_NAME}){_EXTRAS} @ (?P<url>\S{{3,400}})$")
_EDITABLE = re.compile(r"-e (?P<url>\S{1,400}?)(?:#egg=(?P<name>[\w.-]{1,80}))?(?:&\S*)?$")
_RANGED = re.compile(
    rf"{_NAME}{_EXTRAS}\s?(?:[<>~!]=|[<>])\s?\d[\w.*+]{{0,40}}(?:\s?,\s?[<>~!=]{{1,2}}\s?\d[\w.*+]{{0,40}}){{0,6}}"
    r"(?:\s*;.{0,200})?$"
)
_REMARK = re.compile(
    r"#|--(?:extra-)?index-url |--find-links|--hash=|-[irf] \S|--no-binary|--prefer-binary|\[notice\]|WARNING: |"
    r"Using Python "
)
_FREEZE = re.compile(
    rf"(?:pip install )?{_NAME}{_EXTRAS}\s?===?\s?{NUMBER}(?:\s*[;#\\].{{0,200}})?$|"
    rf"{_NAME} @ (?:file|git\+|https?|hg\+|svn\+)\S{{3,400}}$|-e (?:git\+|/|\.|file:)\S{{0,400}}$"
)


def parse_freeze(lines: Lines, start: int) -> Parsed | None:
    """Pinned names line by line; ranges of a requirements file are no versions, but belong to it."""
    found = span(lines, start, lambda text: _FREEZE.match(text) or _RANGED.match(text) or _REMARK.match(text))
    found = _without_remarks(lines, start, found)
    rows = [row for line in found.lines if (row := _frozen(line))]
    if not rows or (len(rows) == 1 and not _may_be_one(rows[0], lines, start, found.end)):
        return None
    ranged = any(_RANGED.match(line.bare) for line in found.lines)
    return listing(found, rows, whole=len(rows) > 1 and not ranged)


def _without_remarks(lines: Lines, start: int, found: Span) -> Span:
    """Remarks belong to a list when they stand in it, not after it: those may be anything's."""
    kept = list(found.lines)
    while len(kept) > 1 and _REMARK.match(kept[-1].bare):
        kept.pop()
    end = next(i for i in range(found.end, start, -1) if lines[i - 1].number == kept[-1].number)
    return Span(end, tuple(kept))


def _may_be_one(row: Package, lines: Lines, start: int, end: int) -> bool:
    return _is_well_known(row.name) or stands_alone(lines, start, end)


def _frozen(line: Line) -> Package | None:
    if found := PINNED.match(line.bare):
        return package(line, found["name"], found["version"])
    if found := _FROM_URL.match(line.bare):
        wheel = re.search(r"/[\w.]+-(\d[\w.+!]*)-(?:cp|py)\d\S*\.whl", found["url"].replace("%2B", "+"))
        return package(line, found["name"], wheel[1] if wheel else None, url=found["url"])
    found = _EDITABLE.match(line.bare)
    if found is None:
        return None
    name = found["name"] or found["url"].partition("@")[0].rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
    return package(line, name, None, url=f"-e {found['url']}") if name else None


# --- pip list ---

_COLUMNS = re.compile(
    r"Package\s+Version(?:\s+(?:Editable project location|Location|Installer|Build|Latest|Type|Source)){0,6}$"
)
_RULE = re.compile(r"-{3,}(?: +-{3,}){1,6}$")
_COLUMN_ROW = re.compile(rf"(?P<name>{_NAME})\s+(?P<version>{NUMBER})(?:\s+(?P<rest>\S.{{0,300}}))?$")
_LEGACY = re.compile(rf"(?P<name>{_NAME}) \((?P<version>{NUMBER})(?:, (?P<path>[^()]{{1,300}}))?\)$")
_HEADLESS = re.compile(rf"{_NAME}\s{{2,}}{NUMBER}(?:\s{{2,}}\S.{{0,300}})?$")
_LEAST = 4
"""Rows of a list without a head."""
_LEAST_KNOWN = 2


def parse_columns(lines: Lines, start: int) -> Parsed | None:
    """Below its head, or below the rule under it."""
    has_head = bool(_COLUMNS.match(lines[start].bare))
    if not has_head and not _names_known(lines[start + 1 : start + LOOKAHEAD]):
        return None
    found = span(lines, start, lambda text: _COLUMNS.match(text) or _RULE.match(text) or _COLUMN_ROW.match(text))
    rows = [package(line, f["name"], f["version"], path=_path(f["rest"])) for line in found.lines
            if (f := _COLUMN_ROW.match(line.bare)) and not _COLUMNS.match(line.bare)]  # fmt: skip
    return listing(found, rows, whole=has_head and bool(rows))


def _names_known(lines: Lines) -> bool:
    """Whether rows that follow at once name a well-known package."""
    near = span(lines, 0, _COLUMN_ROW.match)
    return any(_is_well_known(line.bare.split()[0]) for line in near.lines)


def parse_headless(lines: Lines, start: int) -> Parsed | None:
    """Rows only: at least four, two of them of well-known names."""
    near = span(lines[start : start + LOOKAHEAD], 0, _COLUMN_ROW.match, blanks=1)
    names = [line.bare.split()[0] for line in near.lines]
    if len(names) < _LEAST or sum(map(_is_well_known, names)) < _LEAST_KNOWN:
        return None
    found = span(lines, start, _COLUMN_ROW.match, blanks=1)
    rows = [package(line, f["name"], f["version"], path=_path(f["rest"])) for line in found.lines
            if (f := _COLUMN_ROW.match(line.bare))]  # fmt: skip
    return listing(found, rows, whole=False)


def parse_legacy(lines: Lines, start: int) -> Parsed | None:
    """``name (1.0)``, as pip printed it before version 10."""
    near = span(lines[start : start + LOOKAHEAD], 0, _LEGACY.match)
    if len(near.lines) < _LEAST or not any(_is_well_known(line.bare.split()[0]) for line in near.lines):
        return None
    found = span(lines, start, _LEGACY.match)
    rows = [package(line, f["name"], f["version"], path=f["path"]) for line in found.lines
            if (f := _LEGACY.match(line.bare))]  # fmt: skip
    return listing(found, rows)


def _path(rest: str | None) -> str | None:
    found = re.search(r"(?:^|\s)(/\S+)", rest or "")
    return found[1] if found else None


_JSON = re.compile(r'\[(?:\s*\{"name": ?".*)?$')
_JSON_ROW = re.compile(r'"name": ?"(?P<name>[\w.-]{1,100})"[^{}]{0,600}?"version": ?"(?P<version>[^"]{1,100})"')


def parse_json(lines: Lines, start: int) -> Parsed | None:
    """`pip list --format json`, `uv pip list --format json`, `conda list --json`."""
    near = " ".join(line.bare[:2000] for line in lines[start : start + 16])
    if not re.match(r'\[\s*\{\s*"(?:name": ?"[^"]{1,100}", *"version"|base_url")', near):
        return None
    found = json_span(lines, start)
    rows = _json_rows(found)
    return listing(found, rows) if rows else None


def _json_rows(found: Span) -> list[Package]:
    """All on one line, or a name and below it its version."""
    rows: list[Package] = []
    name = ""
    for line in found.lines:
        rows += [package(line, told["name"], told["version"]) for told in _JSON_ROW.finditer(line.text)]
        if told := re.match(r'"name": ?"([\w.-]{1,100})",?$', line.bare):
            name = told[1]
        elif name and (told := re.match(r'"version": ?"([^"]{1,100})"', line.bare)):
            rows.append(package(line, name, told[1]))
            name = ""
    return rows


# --- pip show, pip check ---

_SHOW = re.compile(r"Name: [A-Za-z0-9][\w.-]{0,80}$")
_SHOW_OWN = re.compile(
    r"(?:Name|Version|Summary|Home-page|Author|Author-email|License|License-Expression|Location|Requires|Required-by|"
    r"Editable project location|Metadata-Version|Installer|Classifiers|Entry-points|Project-URLs):|---$"
)


def parse_show(lines: Lines, start: int) -> Parsed | None:
    """`pip show NAME …`."""
    near = [line.bare for line in lines[start + 1 : start + 4] if line.bare]
    if not near or not re.match(rf"Version: {NUMBER}$", near[0]):
        return None
    found = span(lines, start, _SHOW_OWN.match)
    return listing(found, list(_shown(found)), whole=False)


def _shown(found: Span) -> Iterator[Package]:
    name: Line | None = None
    version = path = None
    for line in found.lines:
        title, _, value = line.bare.partition(": ")
        if title == "Name":
            if name:
                yield package(name, name.bare.partition(": ")[2], version, path=path)
            name, version, path = line, None, None
        elif title == "Version":
            version = value
        elif title == "Location":
            path = value
    if name:
        yield package(name, name.bare.partition(": ")[2], version, path=path)


_UNMET = re.compile(
    rf"(?:ERROR: )?(?P<name>{_NAME}) (?P<version>{NUMBER}) (?P<what>"
    rf"requires (?P<other>{_NAME}).{{0,200}}?(?:, but you have (?P=other) (?P<has>{NUMBER}).{{0,60}}|"
    r", which is not installed\.?)|"
    r"has requirement (?P<old>[A-Za-z0-9._-]{1,80}).{0,200}?, but you(?:'ll)? have (?P=old) (?P<had>\S{1,80}?)"
    r"\.?(?: which is incompatible\.?)?|is not supported on this platform)$"
)
_CHECK = re.compile(
    rf"(?:ERROR: )?{_NAME} {NUMBER} (?:requires {_NAME}.{{0,200}}, (?:but you have|which is not installed)|"
    r"has requirement .{1,200}, but you|is not supported on this platform)|No broken requirements found\.$"
)


def parse_check(lines: Lines, start: int) -> Parsed | None:
    """`pip check`, and what an installation says of the same: it may be part of a log."""
    found = span(lines, start, _CHECK.match, blanks=1)
    rows: list[Package] = []
    for line in found.lines:
        if unmet := _UNMET.match(line.bare):
            broken = (unmet["what"][:300],)
            rows.append(Package(NOBODY, unmet["name"], unmet["version"], broken=broken, line=line.number))
            other, has = unmet["other"] or unmet["old"], unmet["has"] or unmet["had"]
            if other and has:
                rows.append(package(line, other, has.rstrip(".")))
    about = f"{sum(bool(row.broken) for row in rows)} packages whose requirements are not met"
    return Parsed(found.end, tuple(rows), about=about)


PARSERS = (
    Parser("pip-list", re.compile(rf"{_COLUMNS.pattern}|{_RULE.pattern}"), parse_columns),
    Parser("pip-list-json", _JSON, parse_json),
    Parser("pip-show", _SHOW, parse_show),
    Parser("pip-check", _CHECK, parse_check, is_log=True),
    Parser("pip-freeze", _FREEZE, parse_freeze),
    Parser("pip-list", re.compile(rf"{_NAME} \({NUMBER}(?:, [^()]{{1,300}})?\)$"), parse_legacy),
    Parser("pip-list", _HEADLESS, parse_headless),
)
