"""Facts written by hand, short: the samples in ``<rule>.test.yaml`` and in tests.

A row gives what matters; ids, hosts and processes follow from its pid and tid. A thread may bring its `stack`,
outermost frame first (``"train.py:12 main"``, or ``{at: …, code: …, user: true}``), and a log its `content`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from flatline.bundle.facts import TABLES, Log, field_names, process_id, thread_id

from ..case import FactStore

Rows = Mapping[str, Sequence[Mapping[str, Any]]]

_FRAME = re.compile(r"^(?P<file>.+):(?P<line_no>\d+) (?P<function>\S+)$")


class SampleRefused(Exception):
    """A sample names a table or field that does not exist, or a value that cannot be."""


def sample_store(tables: Rows, *, empty: Sequence[str] = ()) -> tuple[FactStore, Callable[[Log], str]]:
    """The facts, and the text of their logs. Tables in `empty` were collected and have no row; all others were not.

    Raises SampleRefused.
    """
    rows: dict[str, list[Any]] = {name: [] for name in empty}
    texts: dict[str, str] = {}
    for table, given in tables.items():
        for number, row in enumerate(given):
            row = dict(row)
            if table == "threads" and "stack" in row:
                frames = _frames(thread_id(row["pid"], row["tid"]), row.pop("stack"))
                rows.setdefault("frames", []).extend(_row("frames", frame, 0) for frame in frames)
            if table == "logs":
                _take_content(row, texts, number)
            rows.setdefault(table, []).append(_row(table, row, number))
    return FactStore(rows), lambda log: texts.get(log.text, "")


def _take_content(row: dict[str, Any], texts: dict[str, str], number: int) -> None:
    if "content" not in row:
        return
    content = str(row.pop("content"))
    row.setdefault("text", f"logs/{number}.log")
    texts[row["text"]] = content
    lines = [line for line in content.splitlines() if line.strip()]
    row.setdefault("last_line", lines[-1] if lines else None)
    row.setdefault("ends_with_newline", content.endswith("\n"))


def _row(table: str, given: Mapping[str, Any], number: int) -> Any:
    if table not in TABLES:
        raise SampleRefused(f"there is no table {table}")
    row = {**_identity(table, given), **given}
    unknown = sorted(set(row) - set(field_names(table)))
    if unknown:
        raise SampleRefused(f"{table} rows have no field {', '.join(unknown)}")
    try:
        return _adapter(table).validate_python(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise SampleRefused(f"{table}.{number}.{where}: {first['msg']}") from None


@cache
def _adapter(table: str) -> TypeAdapter[Any]:
    return TypeAdapter(TABLES[table])


def _identity(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row's pid, tid or waiter implies."""
    names = field_names(table)
    pid, tid = row.get("pid"), row.get("tid")
    implied: dict[str, Any] = {"host": "h1"}
    if table == "wait_edges":
        numbers = re.findall(r"/(\d+)", str(row.get("waiter", "")))
        implied |= {"process": process_id(int(numbers[0])), "pid": int(numbers[0])} if numbers else {}
    elif tid is not None and pid is not None:
        implied |= {"id": thread_id(pid, tid), "process": process_id(pid), "is_main": pid == tid}
    elif pid is not None:
        implied |= {"id": process_id(pid)}
    return {name: value for name, value in implied.items() if name in names}


def _frames(thread: str, stack: Sequence[Any]) -> list[dict[str, Any]]:
    frames = []
    for depth, given in enumerate(reversed(stack)):
        entry = given if isinstance(given, Mapping) else {"at": given}
        match = _FRAME.match(str(entry.get("at")))
        if not match:
            raise SampleRefused(f"a frame is written 'file.py:12 function', not {entry.get('at')!r}")
        frame: dict[str, Any] = {"thread": thread, "sample": 0, "depth": depth, **match.groupdict()}
        frame["line_no"] = int(match["line_no"])
        if "code" in entry:
            frame["source"] = [{"line": frame["line_no"], "text": entry["code"]}]
        if "user" in entry:
            frame["is_user"] = entry["user"]
        frames.append(frame)
    return frames
