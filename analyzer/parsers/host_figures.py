"""What a machine says of itself, and of who asks, in a few lines: free, uptime, id.

free prints KiB unless it was asked for something else, which its output does not tell: bare numbers count only where
one unit alone makes a machine of them.
"""

from __future__ import annotations

import re

from flatline.bundle.facts import Host

from .interface import HOST, Lines, Parsed, Parser

_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "B": 1}
_SIZE = r"\d{1,15}(?:[.,]\d{1,2})?(?:[BKMGTP]i?B?)?"
_FREE_HEAD = re.compile(r"total\s+used\s+free\s+shared\s+buff(?:/cache|ers)\s")
_FREE_ROW = re.compile(
    rf"(?P<name>[^\W\d]{{2,14}}|-/\+ buffers/cache)\s?:\s+(?P<figures>{_SIZE}(?:\s+{_SIZE}){{1,6}})$"
)
_UPTIME = re.compile(
    r"\d\d?:\d\d(?::\d\d)?(?: ?[AP]M)? {1,2}up {1,3}(?P<up>\S.{0,40}?),\s+(?:\d{1,5} users?,\s+)?"
    r"load averages?: (?P<load>\d{1,6}[.,]\d\d)"
)
_SPAN = re.compile(
    r"(?:(?P<days>\d{1,5}) days?(?:,\s*|$))?(?:(?P<hours>\d{1,2}):(?P<minutes>\d\d)|(?P<min>\d{1,3}) min)?$"
)
_ID = re.compile(
    r"uid=(?P<uid>\d{1,10})(?:\((?P<user>[^()\s]{1,64})\))? gid=\d{1,10}(?:\([^()\s]{1,64}\))?"
    r"(?: e[ug]id=\d{1,10}(?:\([^()\s]{1,64}\))?){0,2}(?: groups=(?P<groups>\d[^\s]{0,4000}))?(?: context=\S{1,200})?$"
)
_KIB_FROM, _MIB = 8_000_000, range(8_000, 500_000)
"""Totals of memory that can only be KiB, or MiB: a machine for training has 8 GB at least."""


def parse_free(lines: Lines, start: int) -> Parsed | None:
    """The headline and the two or three rows below it."""
    known: dict[str, list[int]] = {}
    names = lines[start].bare.split()
    unit = 1024
    end = start + 1
    for index in range(start + 1, min(start + 6, len(lines))):
        found = _FREE_ROW.match(lines[index].bare)
        if found is None:
            if lines[index].bare:
                break
            continue
        figures = found["figures"].split()
        if not known:
            unit = _unit(figures[0])
        known[found["name"].lower()] = [_bytes(figure, unit) for figure in figures]
        end = index + 1
    if not known:
        return None
    memory = next((row for name, row in known.items() if name != "swap" and "/" not in name), [])
    swap = known.get("swap", [])
    told = dict(zip(names, memory, strict=False)) if unit else {}
    rows = () if not told else (Host(
        HOST, memory_total=told.get("total"), memory_available=told.get("available"),
        swap_total=swap[0] if swap else None, swap_free=swap[2] if len(swap) > 2 else None, line=lines[start].number,
    ),)  # fmt: skip
    return Parsed(end, rows, about="memory" if rows else "memory, in a unit that it does not tell")


def _unit(total: str) -> int:
    """Of bare numbers; 0 where it cannot be told."""
    if not total.isdecimal():
        return 1
    return 1024 if int(total) >= _KIB_FROM else 1024**2 if int(total) in _MIB else 0


def _bytes(figure: str, unit: int) -> int:
    number = re.match(r"[\d.,]+", figure)
    letter = figure[number.end() : number.end() + 1] if number else ""
    value = float(number[0].replace(",", ".")) if number else 0.0
    return int(value * _UNITS.get(letter, unit or 1))


def parse_uptime(lines: Lines, start: int) -> Parsed | None:
    """``uptime``, and the first line of ``w``."""
    found = _UPTIME.match(lines[start].bare)
    if found is None:
        return None
    load = float(found["load"].replace(",", "."))
    row = Host(HOST, load_1m=load, uptime_s=_seconds(found["up"]), line=lines[start].number)
    return Parsed(start + 1, (row,), about=f"load {load:g}")


def _seconds(text: str) -> float | None:
    found = _SPAN.match(text)
    if found is None or not found[0]:
        return None
    days, hours = int(found["days"] or 0), int(found["hours"] or 0)
    return ((days * 24 + hours) * 60 + int(found["minutes"] or found["min"] or 0)) * 60.0


def parse_id(lines: Lines, start: int) -> Parsed | None:
    """``id``: who typed the commands, not whose the job is."""
    found = _ID.match(lines[start].bare)
    if found is None:
        return None
    groups = re.findall(r"\(([^()\s]{1,64})\)", found["groups"] or "")
    among = f", in {', '.join(groups[:12])}" if groups else ""
    row = Host(HOST, collector_uid=int(found["uid"]), line=lines[start].number)
    return Parsed(start + 1, (row,), about=f"user {found['user'] or found['uid']}{among}")


PARSERS = (
    Parser("free", _FREE_HEAD, parse_free),
    Parser("uptime", _UPTIME, parse_uptime),
    Parser("id", _ID, parse_id),
)
