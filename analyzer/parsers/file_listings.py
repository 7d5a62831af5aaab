"""Files as people show them: ls -l, stat, file. How old one was, the text does not tell: it does not say when it is."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from flatline.bundle.facts import File

from .interface import Lines, Parsed, Parser

Kind = Literal["file", "directory", "fifo", "socket", "device", "link", "lock"]
_KINDS: dict[str, Kind] = {"-": "file", "d": "directory", "p": "fifo", "s": "socket", "c": "device", "b": "device",
                           "l": "link"}  # fmt: skip
_BITS = r"[dlcbps-](?:[r-][w-][xsS-]){2}[r-][w-][xtT-]"
_WHEN = (
    r"(?:[^\W\d]{3,5}\.? {1,2}\d{1,2} {1,2}(?:\d\d:\d\d|\d{4})|\d{1,2} [^\W\d]{3,5}\.? {1,2}(?:\d\d:\d\d|\d{4})"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?: [+-]\d{4})?)"
)
_ROW = re.compile(
    rf"(?:(?P<inode>\d{{1,18}}) {{1,4}})?(?P<bits>{_BITS})[.+@]? {{1,6}}\d{{1,7}} {{1,6}}"
    rf"(?P<user>[^\s/]{{1,64}}) {{1,12}}(?P<group>[^\s/]{{1,64}}) {{1,20}}"
    rf"(?P<size>\d{{1,3}}, {{1,4}}\d{{1,7}}|\d{{1,18}}|[\d.,]{{1,6}}[KMGTPE]) "
    rf"{{1,4}}{_WHEN} {{1,2}}(?P<name>\S.{{0,1000}})$"
)
_ROW_BEGINS = re.compile(rf"(?:\d{{1,18}} {{1,4}})?{_BITS}[.+@]? {{1,6}}\d{{1,7}} ")
_TOTAL = re.compile(r"(?:total|insgesamt|totale|合計|总用量|итого) \d{1,12}(?:[.,]\d)?[KMGT]?$")
_FOLDER = re.compile(r"(?P<path>[/~.]\S{0,1000}):$")
_ASKED = re.compile(r"(?:.{0,200}[$#%] |\+ )?ls(?: -[\w-]{1,20}){1,4} (?P<path>[/~]\S{1,1000})$")
_WHO_ASKED = re.compile(r"(?:.{0,400}[$#%>;&|] ?)?(?:id -un|whoami)(?: ?[;&].{0,400})?$")
_WHO = re.compile(r"(?P<user>[A-Za-z_][\w.-]{0,31})$|uid=\d{1,10}\((?P<id>[^()\s]{1,64})\)(?P<groups>.{0,2000})$")
NEAR = 6
"""Lines from a listing to whoever it was that asked for it."""
_STAT_FILE = re.compile(r"File: (?P<quote>[`'‘\"]?)(?P<path>[/~.]?\S.{0,1000}?)(?:['’\"]?(?: -> .{1,1000})?)$")
_STAT = {
    "size": re.compile(r"Size: (\d{1,18})\s"), "inode": re.compile(r"Inode: (\d{1,18})\b"),
    "mode": re.compile(r"Access: \((\d{3,5})/"), "uid": re.compile(r"Uid: \(\s*(\d{1,10})/"),
    "gid": re.compile(r"Gid: \(\s*(\d{1,10})/"),
}  # fmt: skip
_STAT_BITS = re.compile(rf"Access: \(\d{{3,5}}/(?P<bits>{_BITS})\)")
_STAT_LINE = re.compile(r"Size: |Device: |Access: |Modify: |Change: |Birth: |Context: ")
_LETTERS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5, "E": 1024**6}


def parse_ls(lines: Lines, start: int) -> Parsed | None:
    """Rows of one folder or several; the folder's name stands above them, or in the command before."""
    folder = _folder(lines, start)
    rows: list[File] = []
    end = start
    for index in range(start, len(lines)):
        bare = lines[index].bare
        found = _ROW.match(bare)
        named = _FOLDER.match(bare)
        if found is not None:
            row = _file(found, folder, lines[index].number)
            rows += [row] if row else []
            end = index + 1
        elif named is not None:
            folder = named["path"].rstrip("/")
        elif _TOTAL.match(bare):
            end = index + 1
        elif bare:
            break
    who = _who(lines, start, end)
    if who is not None:
        rows = [_as_seen_by(*who, row, lines[(row.line or 0) - lines[start].number + start].bare) for row in rows]
    return Parsed(end, tuple(rows), about=f"{len(rows)} files") if rows else None


def _who(lines: Lines, start: int, end: int) -> tuple[str, str] | None:
    """The user that was asked for beside the listing (``id -un``, ``whoami``, ``id``), and what its groups are."""
    asked = False
    for index in range(max(start - NEAR, 0), min(end + NEAR, len(lines))):
        bare = lines[index].bare
        if _WHO_ASKED.match(bare):
            asked = True
            continue
        found = _WHO.match(bare)
        if found and found["id"]:
            return found["id"], found["groups"]
        if found and asked and not _TOTAL.match(bare):
            return found["user"], ""
    return None


def _as_seen_by(user: str, groups: str, row: File, listed: str) -> File:
    """Whether `user` may write there, as far as the bits of the mode tell."""
    found = _ROW.match(listed)
    if found is None or row.mode is None or user == "root":
        return row
    owner, group = found["user"], found["group"]
    if owner == user:
        may = bool(row.mode & 0o200)
    elif f"({group})" in groups:
        may = bool(row.mode & 0o020)
    elif row.mode & 0o022 == 0o020 and not groups:
        return row  # the group may, and who is in it was not told
    else:
        may = bool(row.mode & 0o002)
    return replace(row, writable=may, why_not_writable=None if may else "mode")


def _folder(lines: Lines, start: int) -> str:
    for index in range(start - 1, max(start - 3, -1), -1):
        found = _FOLDER.match(lines[index].bare) or _ASKED.match(lines[index].bare)
        if found is not None:
            return found["path"].rstrip("/")
    return ""


def _file(found: re.Match[str], folder: str, number: int) -> File | None:
    name = found["name"].partition(" -> ")[0]
    if name in (".", ".."):
        return None
    # `ls -l DIR/FILE` names the file itself: what the command named is no folder then.
    path = name if name.startswith(("/", "~")) or not folder else f"{folder}/{name}"
    return File(
        path, kind=_kind(found["bits"], name), exists=True, mode=_mode(found["bits"]), uid=_number(found["user"]),
        gid=_number(found["group"]), size=_size(found["size"]), inode=_number(found["inode"] or ""), line=number,
    )  # fmt: skip


def _kind(bits: str, path: str) -> Kind:
    is_lock = bits[0] == "-" and re.search(r"(?:\.lock|/lock|^lock|\.lck)$", path)
    return "lock" if is_lock else _KINDS[bits[0]]


def _mode(bits: str) -> int:
    mode = 0
    for sign in bits[1:10]:
        mode = mode << 1 | (sign in "rwxst")
    return mode | (bits[3] in "sS") << 11 | (bits[6] in "sS") << 10 | (bits[9] in "tT") << 9


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _size(text: str) -> int | None:
    if text[-1] in _LETTERS:
        return int(float(text[:-1].replace(",", ".")) * _LETTERS[text[-1]])
    return _number(text)


def parse_stat(lines: Lines, start: int) -> Parsed | None:
    """``stat FILE``: the name, then sizes, the number, the mode, the times."""
    head = _STAT_FILE.match(lines[start].bare)
    if head is None:
        return None
    end = start + 1
    while end < min(len(lines), start + 20) and (not lines[end].bare or _STAT_LINE.match(lines[end].bare)):
        end += 1
    text = "\n".join(line.bare for line in lines[start:end])
    told = {name: found[1] for name, pattern in _STAT.items() if (found := pattern.search(text))}
    if "size" not in told:
        return None
    bits = _STAT_BITS.search(text)
    path = head["path"].rstrip("'’\"")
    row = File(
        path, kind=_kind(bits["bits"], path) if bits else "unknown", exists=True,
        mode=int(told["mode"], 8) & 0o7777 if set(told.get("mode", "8")) <= set("01234567") else None,
        uid=_number(told.get("uid", "")), gid=_number(told.get("gid", "")), size=int(told["size"]),
        inode=_number(told.get("inode", "")), line=lines[start].number,
    )  # fmt: skip
    return Parsed(end, (row,), about=path)


_NAMED_PIPE = re.compile(r"(?P<path>\S.{0,400}?): +fifo \(named pipe\)$")


def parse_file(lines: Lines, start: int) -> Parsed | None:
    """What file(1) says of a named pipe."""
    found = _NAMED_PIPE.match(lines[start].bare)
    if found is None:
        return None
    return Parsed(start + 1, (File(found["path"], kind="fifo", exists=True, line=lines[start].number),), about="a FIFO")


PARSERS = (
    Parser("file", _NAMED_PIPE, parse_file),
    Parser("ls", re.compile(f"{_ROW_BEGINS.pattern}|{_TOTAL.pattern}"), parse_ls),
    Parser("stat", re.compile(r"File: \S"), parse_stat),
)
