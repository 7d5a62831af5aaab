"""File systems: df (-h, -hT, -i, -P), mount, /proc/mounts, /proc/PID/mountinfo, findmnt's list."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from flatline.bundle.facts import Mount
from flatline.texts.mounts import LOCAL, REMOTE
from flatline.texts.mounts import parse as parse_lines

from .interface import Line, Lines, Parsed, Parser, any_of
from .spans import rows_of

_DF_HEAD = re.compile(
    r"Filesystem\s+(?:(?P<type>Type)\s+)?(?P<unit>Size|\d{1,5}[KMG]?-[Bb]locks|[\d.]{1,5}[KMG]i?B?-blocks|Inodes)\s+I?Used\s+"
    r"(?P<free>Avail(?:able)?|IFree)\s+(?:I?Use%|Capacity)\s+Mounted on$"
)
_SIZE = r"(?:\d{1,20}(?:[.,]\d{1,2})?[KMGTPE]?i?B?|-)"
_DF_ROW = re.compile(
    rf"(?P<source>\S(?:.{{0,400}}?\S)??)(?:\s+(?P<type>[a-z][\w.-]{{1,20}}))?"
    rf"\s+(?P<size>{_SIZE})\s+(?P<used>-?{_SIZE})\s+(?P<free>-?{_SIZE})\s+"
    r"(?:\d{1,3}%|-)\s+(?P<path>/.{0,1000})$"
)
_MOUNT = re.compile(
    r"(?P<source>\S.{0,400}?) on (?P<path>/.{0,1000}?) type (?P<type>[\w.-]{2,40}) \((?P<options>[^()]{2,2000})\)"
)
_MOUNTS = re.compile(
    r"(?P<source>\S{1,400}) (?P<path>/\S{0,1000}) (?P<type>[a-z][\w.]{1,40}) (?P<options>r[wo]\S{0,2000}) \d \d$"
)
_MOUNTINFO = re.compile(
    r"\d{1,9} \d{1,9} \d{1,9}:\d{1,9} \S{1,1000} /\S{0,1000} r[wo]\S{0,1000} (?:\S{1,60} ){0,6}- \S{2,40} \S{1,400}"
)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5, "E": 1024**6}


def parse_df(lines: Lines, start: int) -> Parsed | None:
    """A headline, then a line for each; a long name stands alone, with the figures in the next line."""
    head = _DF_HEAD.match(lines[start].bare)
    inodes = head is not None and head["unit"] == "Inodes"
    factor = _factor(head["unit"]) if head else _bare_factor(lines[start].bare)
    rows: list[Mount] = []
    alone, end = "", start + (head is not None)
    for index in range(end, len(lines)):
        bare = lines[index].bare
        found = _DF_ROW.match(f"{alone} {bare}" if alone else bare)
        if found is None:
            if bare and (alone or " " in bare or not (rows or head)):
                break
            alone = bare
            continue
        alone, end = "", index + 1
        rows.append(_df_row(found, lines[index], factor, inodes=inodes))
    return Parsed(end, tuple(rows), about=f"{len(rows)} file systems") if rows else None


def _df_row(found: re.Match[str], line: Line, factor: int, *, inodes: bool) -> Mount:
    size, free = _number(found["size"], factor), _number(found["free"], factor)
    row = _row(found["path"], found["type"], found["source"], None, line)
    return replace(row, inodes=size, inodes_free=free) if inodes else replace(row, size=size, free=free)


def _factor(unit: str) -> int:
    """Of a headline: how many bytes a bare number counts."""
    found = re.match(r"(?P<number>\d{1,5})(?P<letter>[KMG]?)-", unit)
    return int(found["number"]) * _UNITS[found["letter"]] if found else 1


def _bare_factor(row: str) -> int:
    """Of a row without its headline: figures without units count KiB."""
    return 1 if re.search(r"\d[KMGTPE]\b", row) else 1024


def _number(text: str, factor: int) -> int | None:
    found = re.fullmatch(r"(?P<number>\d{1,20}(?:[.,]\d{1,2})?)(?P<letter>[KMGTPE]?)i?B?", text)
    if found is None:
        return None
    number = float(found["number"].replace(",", ".")) if not found["number"].isdecimal() else int(found["number"])
    return int(number * (_UNITS[found["letter"]] if found["letter"] else factor))


def parse_mount(lines: Lines, start: int) -> Parsed | None:
    """``mount``: ``server:/x on /mnt type nfs4 (rw,hard)``."""
    return _each(lines, start, lambda line: _of(_MOUNT.match(line.bare), line))


def parse_mounts(lines: Lines, start: int) -> Parsed | None:
    """/proc/mounts, /etc/mtab."""
    return _each(lines, start, lambda line: _of(_MOUNTS.match(line.bare), line))


def parse_mountinfo(lines: Lines, start: int) -> Parsed | None:
    """/proc/PID/mountinfo."""

    def one(line: Line) -> Mount | None:
        found = next(parse_lines(line.bare), None) if _MOUNTINFO.match(line.bare) else None
        if found is None:
            return None
        row = _row(found.path, found.kind, found.source, found.options, line)
        return replace(row, device=found.device)

    return _each(lines, start, one)


def _of(found: re.Match[str] | None, line: Line) -> Mount | None:
    return _row(found["path"], found["type"], found["source"], found["options"], line) if found else None


def _row(path: str, kind: str | None, source: str, options: str | None, line: Line) -> Mount:
    network = None
    if kind is not None:
        network = (
            True if kind in REMOTE or kind.split(".")[0] in ("fuse", "fuseblk") else False if kind in LOCAL else None
        )
    elif re.match(r"[\w.-]{1,255}:/|//|[\w.-]{1,255}@\w{1,20}:", source):
        network = True
    return Mount(path, kind, source, options, network=network, line=line.number)


def _each(lines: Lines, start: int, one: Callable[[Line], Mount | None]) -> Parsed | None:
    end, rows = rows_of(lines, start, one)
    whole = frozenset({"mounts"}) if any(row.path == "/" for row in rows) else frozenset()
    return Parsed(end, tuple(rows), whole, f"{len(rows)} mounts") if rows else None


_DF_BODY = re.compile(
    rf"\S{{1,400}}(?:\s+[a-z][\w.-]{{1,20}})?\s+{_SIZE}\s+{_SIZE}\s+{_SIZE}\s+(?:\d{{1,3}}%|-)\s+/"
)
PARSERS = (
    Parser("df", any_of(_DF_HEAD, _DF_BODY), parse_df),
    Parser("mount", re.compile(r"\S.{0,400}? on /.{0,1000}? type [\w.-]{2,40} \("), parse_mount),
    Parser("proc-mounts", re.compile(r"\S{1,400} /\S{0,1000} [a-z][\w.]{1,40} r[wo]\S{0,2000} \d \d$"), parse_mounts),
    Parser("proc-mountinfo", _MOUNTINFO, parse_mountinfo),
)
