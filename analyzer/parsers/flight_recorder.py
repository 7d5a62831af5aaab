"""PyTorch's flight recorder as text: a dump as JSON or as Python prints it, and what its analyzer reports.

    {"version": "2.10", "pg_config": {…}, "entries": [{"collective_seq_id": 7, "profiling_name": "nccl:all_reduce", …}]}

    Collective sequence number: 7 has errors        (older: Collective 7 at entry 6 errors)
    group info: 0:default_pg
    collective: nccl:all_reduce
    error msg: Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH, …

The dumps that jobs write are pickles; none is read here, as a pickle can run code. Of which rank a dump is, stands in
the name of its file alone.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from flatline.bundle.facts import Collective

from .interface import LOOKAHEAD, Lines, Parsed, Parser

MAX_CHARS = 8 * 1024**2
MAX_HEAD = 128 * 1024
"""Characters among which a dump shows that it is one."""
MAX_RANKS = 4096
MAX_ENTRIES = 400
"""Of one dump: the last ones."""
_MARKS = re.compile(r"""["'](?:entries|pg_config|pg_status|nccl_version|comm_lib_version|nccl_comm_state)["'] ?:""")
_STATES = {"scheduled": "scheduled", "started": "started", "completed": "completed"}
_HEAD = re.compile(
    r"(?:Not all ranks joining collective,? sequence number: |Collective sequence number: )(?P<seq>\d{1,18})"
    r"|(?:Not all ranks joining collective|mismatch in the collective|Collective) (?P<old>\d{1,18}) at entry \d"
)
_REPORT_BEGINS = re.compile(
    r".{0,200}?(?:Not all ranks joining collective|Collective sequence number: \d|[Cc]ollective \d{1,18} at entry \d)"
)
_FIELD = re.compile(
    r"(?:^|[\s\]:])(?P<name>internal record id|group info|collective(?: state| stack trace)?|missing ranks"
    r"|error m(?:sg|essage)|total (?:in|out)put numel|(?:in|out)put sizes|world size|expected ranks)"
    r" ?:(?: (?P<value>.{0,4000}))?$"
)
_NEWER = {"error message": "error msg"}
_CULPRIT = re.compile(r"Culprit rank (?P<rank>\d{1,6})")
_NUMBERS = re.compile(r"\d{1,18}")


def parse_dump(lines: Lines, start: int) -> Parsed | None:
    """One dump; None when it is cut off, or something else in braces."""
    head = "\n".join(line.shown for line in lines[start : start + LOOKAHEAD])
    if not _MARKS.search(head[:MAX_HEAD]):
        return None
    text = _joined(lines, start)
    found = _as_json(text) or _as_python(text)
    if found is None:
        return None
    value, length = found
    entries = value.get("entries")
    if not isinstance(entries, list):
        return None
    rows = tuple(islice(_rows(entries[-MAX_ENTRIES:], lines[start].number), MAX_ENTRIES))
    end = _end(lines, start, length)
    return Parsed(end, rows, frozenset(), f"flight recorder, {len(entries)} collectives")


def _joined(lines: Lines, start: int) -> str:
    """The text from a line on."""
    parts: list[str] = []
    size = 0
    for line in lines[start:]:
        parts.append(line.shown)
        size += len(line.shown) + 1
        if size > MAX_CHARS:
            break
    return "\n".join(parts)


def _end(lines: Lines, start: int, length: int) -> int:
    """Index after the line in which the text of that length ends."""
    for index in range(start, len(lines)):
        length -= len(lines[index].shown) + 1
        if length <= 0:
            return index + 1
    return len(lines)


def _as_json(text: str) -> tuple[dict[str, Any], int] | None:
    try:
        value, end = json.JSONDecoder().raw_decode(text, len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, dict) else None


def _as_python(text: str) -> tuple[dict[str, Any], int] | None:
    """What ``print`` or ``pprint`` makes of it; no names are looked up. The whole rest must be the one value."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return (value, len(text)) if isinstance(value, dict) else None


def _rows(entries: list[Any], line: int) -> Iterator[Collective]:
    for entry in entries:
        if isinstance(entry, dict):
            yield Collective(
                group=_group(entry), seq=_whole(entry.get("collective_seq_id", entry.get("seq_id"))),
                op=_op(entry.get("profiling_name")), sizes=_sizes(entry.get("input_sizes")),
                dtype=_first_text(entry.get("input_dtypes")), state=_state(entry.get("state")),
                frame=_frame(entry.get("frames")), line=line,
            )  # fmt: skip


def _state(value: object) -> Any:
    return _STATES.get(value, "unknown") if isinstance(value, str) else "unknown"


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _op(value: object) -> str | None:
    """``nccl:all_reduce`` -> ``ALL_REDUCE``."""
    return value.partition(":")[2].upper() or value.upper() if isinstance(value, str) else None


def _group(entry: Mapping[Any, Any]) -> str | None:
    """``0(default_pg)``, as the watchdog writes it."""
    group = entry.get("process_group")
    if isinstance(group, (list, tuple)) and len(group) == 2:
        return f"{group[0]}({group[1]})"
    pg = entry.get("pg_id")
    return str(pg) if isinstance(pg, (int, str)) else None


def _sizes(value: object) -> tuple[tuple[int, ...], ...] | None:
    if not isinstance(value, (list, tuple)):
        return None
    shapes = [shape for shape in value if isinstance(shape, (list, tuple))]
    return tuple(tuple(n for n in shape if isinstance(n, int)) for shape in shapes) or None


def _first_text(value: object) -> str | None:
    return value[0] if isinstance(value, (list, tuple)) and value and isinstance(value[0], str) else None


def _frame(frames: object) -> str | None:
    """``all_reduce (distributed_c10d.py:2501)`` of the innermost frame."""
    first = frames[0] if isinstance(frames, (list, tuple)) and frames else None
    if not isinstance(first, dict) or not isinstance(first.get("name"), str):
        return None
    file = str(first.get("filename", "?")).rpartition("/")[2]
    return f"{first['name']} ({file}:{first.get('line', '?')})"[:300]


# --- what the analyzer prints ---


def parse_report(lines: Lines, start: int) -> Parsed | None:
    """One collective of a report: its head and the fields below it."""
    found = _HEAD.search(lines[start].bare)
    if found is None:
        return None
    fields: dict[str, str] = {}
    end = start + 1
    for index in range(start + 1, min(len(lines), start + LOOKAHEAD)):
        bare = lines[index].bare
        field = _FIELD.search(bare)
        if field is None or _HEAD.search(bare):
            break
        fields.setdefault(_NEWER.get(field["name"], field["name"]), (field["value"] or "").strip())
        end = index + 1
    if not {"group info", "collective", "internal record id"} & fields.keys():
        return None
    if found["old"] and fields.get("expected ranks", "").isdecimal():
        # The older analyzer prints how many ranks were expected, not which.
        fields["expected ranks"] = " ".join(map(str, range(min(int(fields["expected ranks"]), MAX_RANKS))))
    seq = int(found["seq"] or found["old"])
    rows = tuple(_told(seq, fields, lines[start].number))
    return Parsed(end, rows, frozenset(), f"flight recorder's report of collective {seq}")


def _told(seq: int, fields: Mapping[str, str], line: int) -> Iterator[Collective]:
    """A row for each rank that has joined; the culprits' own are not told, only that they differ."""
    missing = _ranks(fields.get("missing ranks", ""))
    culprits = {int(rank) for rank in _CULPRIT.findall(fields.get("error msg", ""))}
    joined = [rank for rank in _ranks(fields.get("expected ranks", "")) if rank not in missing and rank not in culprits]
    group, _, name = fields.get("group info", "").partition(":")
    for rank in joined or [None]:
        yield Collective(
            rank=rank, group=f"{group.strip()}({name.strip()})" if name else group or None, seq=seq,
            op=_op(fields.get("collective")), state=_state(fields.get("collective state")), line=line,
        )  # fmt: skip


def _ranks(text: str) -> list[int]:
    return sorted({int(number) for number in _NUMBERS.findall(text)})[:MAX_RANKS]


PARSERS = (
    Parser("flight-recorder-dump", re.compile(r"\{"), parse_dump),
    Parser("flight-recorder-report", _REPORT_BEGINS, parse_report, is_log=True),
)
