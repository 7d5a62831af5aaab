"""Reading a field of a fact: dotted names, what counts as unknown, and a few fields that are worked out on the spot."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from operator import methodcaller
from typing import Any, get_args, get_type_hints

from flatline.bundle.facts import TABLES, Frame, Scheduler, Syscall

LOG_TABLE = "log"
COUNT_TABLE = "count"
"""What ``count: {as: n}`` binds is no row; its one field is ``n.count``."""
LOG_FIELDS: Mapping[str, str] = {
    "text": "the line",
    "number": "which line of the text that was taken, from 1",
    "is_last": "whether nothing but blank lines follows",
    "pattern": "the name of the pattern",
}
"""What a hit of ``find: log`` has, besides the named groups of its pattern and the fields of its log."""

_NODE_KINDS = ("thread:", "process:", "file:", "mount:", "lock:")


def _code(frame: Frame) -> str | None:
    if not frame.source:
        return None
    return next((line.text.strip() for line in frame.source if line.line == frame.line_no), None)


def _scope(frame: Frame) -> str | None:
    """The class, or the namespace, of a function of C++ or Rust; without what its templates were given."""
    if frame.kind != "native":
        return None
    name, depth = "", 0
    for sign in frame.function.replace("(anonymous namespace)::", ""):
        if sign == "(" and not depth:
            break
        depth += (sign == "<") - (sign == ">" and depth > 0)
        name += sign if not depth and sign != ">" else ""
    return name.rpartition("::")[0] or None


def _share(part: Callable[[Any], float | None], whole: Callable[[Any], float | None]) -> Callable[[Any], float | None]:
    def share(row: Any) -> float | None:
        a, b = part(row), whole(row)
        return a / b if a is not None and b else None

    return share


def _not_free(free: float | None, size: float | None) -> float | None:
    return size - free if free is not None and size is not None else None


_ASKS = re.compile(
    r"""\b(?P<name>raw_input|input|getpass|confirm|prompt|ask)\s*\(\s*(?:prompt\s*=\s*)?"""
    r"""(?:[bBfFrRuU]{0,2}(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))?"""
)


def _prompt(frame: Frame) -> str | None:
    found = _ASKS.search(_code(frame) or "") if frame.source else None
    if found is None:
        return None
    literal = found["text"]
    if literal is None:
        return "Password: " if found["name"] == "getpass" else None
    return literal[1:-1].replace("\\n", " ").strip() or None


_TAKES = re.compile(r"\bwith\s+(?:self\.)?([A-Za-z_][\w.\[\]]*)\s*[:,]|(?:self\.)?([A-Za-z_][\w.\[\]]*)\.acquire\(")
_LOCK = re.compile(r"(?i)lock|mutex|sem(?:aphore)?\b|cond(?:ition)?\b|guard|\b_?cv\b|latch|monitor")


def _lock(frame: Frame) -> str | None:
    found = _TAKES.search(_code(frame) or "") if frame.source else None
    if found is None:
        return None
    name = (found[1] or found[2]).rpartition(".")[2]
    return name if found[2] or _LOCK.search(name) else None


_ROLE = re.compile(r"master|workers?|launcher|chief|head|driver|executor|leader|ps|node|rank|replica")
"""What a pod is in its job, as operators put it into its name."""
_RANDOM = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}(?:[bcdfghjklmnpqrstvwxz2456789]{3,5})?")
"""Of the letters that Kubernetes takes for the end of a name: no vowels, and no digit that looks like a letter."""


def _group(row: Scheduler) -> str | None:
    """``fit`` of the pods fit-master-0 and fit-worker-1-x7k2p: up to what they are in it, without what is random."""
    if row.job is None or row.kind != "kubernetes":
        return None
    words = row.job.rpartition("/")[2].split("-")
    while len(words) > 1 and _RANDOM.fullmatch(words[-1]):
        words.pop()
    end = next((i for i, word in enumerate(words) if word.isdecimal() or _ROLE.fullmatch(word)), len(words))
    return "-".join(words[:end])


VIRTUAL: Mapping[str, Mapping[str, Callable[[Any], Any]]] = {
    "cgroups": {
        "memory_share": _share(lambda row: row.memory_current, lambda row: row.memory_max),
        "pids_share": _share(lambda row: row.pids_current, lambda row: row.pids_max),
    },
    "frames": {"code": _code, "lock": _lock, "prompt": _prompt, "scope": _scope},
    "gpus": {
        "used_share": _share(lambda row: row.used, lambda row: row.memory),
        "power_share": _share(lambda row: row.power, lambda row: row.power_limit),
    },
    "scheduler": {"group": _group},
    "limits": {"share": _share(lambda row: row.used, lambda row: row.soft)},
    "mounts": {
        "used_share": _share(lambda row: _not_free(row.free, row.size), lambda row: row.size),
        "inodes_share": _share(lambda row: _not_free(row.inodes_free, row.inodes), lambda row: row.inodes),
    },
}
"""table -> field -> function; ``frames.code`` is the text of the frame's own line, ``frames.lock`` the name of the lock
that it takes there (``_lock`` of ``with self._lock:``), ``frames.prompt`` what that line
asks a person, where it stands there: ``input("Go on? ")``, ``frames.scope`` of ``pool::Queue::pop`` is ``pool::Queue``;
``scheduler.group`` is what the names of a job's pods have in common;
shares go from 0 to 1."""

NEEDED: Mapping[tuple[str, str], tuple[str, Callable[[Any], bool]]] = {
    ("frames", "code"): ("source", bool),
    ("frames", "lock"): ("source", bool),
    ("frames", "prompt"): ("source", bool),
    ("frames", "scope"): ("function", methodcaller("__contains__", "::")),
}
"""(table, field) -> an attribute, and what must be true of it, else the worked-out field is unknown: most of a million
rows need not be asked."""

_VIRTUAL_BY_TYPE = {TABLES[table]: functions for table, functions in VIRTUAL.items()}


@dataclass(frozen=True)
class Count:
    """What `count: {as: n}` binds: how many rows surely fit."""

    count: int
    at_least: bool = False
    """Whether there may be more that nobody counted."""


class Absent:
    """The row of a table that was not collected: every field is unknown."""

    def __init__(self, table: str) -> None:
        self.table = table


_TABLE_OF_TYPE = {kind: table for table, kind in TABLES.items()}
_ROWS = frozenset({*TABLES.values(), Syscall})


def table_of(row: Any) -> str:
    """The table a row is from."""
    if isinstance(row, Count):
        return COUNT_TABLE
    return row.table if isinstance(row, Absent) else _TABLE_OF_TYPE.get(type(row), "logs")


def is_plain(kind: type, path: str) -> bool:
    """Whether a field is an attribute of every row of this type, and nothing is worked out for it."""
    names = getattr(kind, "__dataclass_fields__", ())
    return path in names and path not in _VIRTUAL_BY_TYPE.get(kind, ())


def value_of(row: Any, path: str) -> Any:
    """The value of a dotted field, None when it is unknown."""
    functions = _VIRTUAL_BY_TYPE.get(type(row))
    if functions and path in functions:
        return functions[path](row)
    value = row
    for part in path.split(".") if "." in path else (path,):
        is_row = type(value) in _ROWS  # asking for a Mapping takes five times as long
        value = getattr(value, part, None) if is_row or not isinstance(value, Mapping) else value.get(part)
        if value is None:
            return None
    return None if value == "unknown" else value


def plain_node(value: Any) -> Any:
    """A node without the kind in front of it: ``thread:h1/1/2`` is the thread ``h1/1/2``."""
    if isinstance(value, str) and value.startswith(_NODE_KINDS):
        return value[value.index(":") + 1 :]
    return value


def has_field(table: str, path: str) -> bool:
    """Whether rows of a table can have this field. `log` hits may have any: named groups become fields."""
    if table == COUNT_TABLE:
        return path == "count"
    if table == LOG_TABLE or path in VIRTUAL.get(table, {}):
        return True
    first, _, rest = path.partition(".")
    if first not in {f.name for f in fields(TABLES[table])}:
        return False
    if not rest:
        return True
    return first in ("counters", "locals") or (table == "threads" and first == "syscall" and rest in _names(Syscall))


def allowed_values(table: str, path: str) -> tuple[str, ...] | None:
    """The words of an enumeration, None for other fields; a rule that names another word can never hold."""
    hint = _hints(Syscall if path.startswith("syscall.") else TABLES.get(table), path.rpartition(".")[2])
    words = get_args(hint)
    return words if words and all(isinstance(word, str) for word in words) else None


def _hints(owner: type | None, name: str) -> Any:
    return _hints_of(owner).get(name) if owner is not None else None


@cache
def _hints_of(owner: type) -> Mapping[str, Any]:
    """Asked for every field of every rule: working them out again took most of a lint."""
    return get_type_hints(owner)


def _names(owner: Any) -> set[str]:
    return {f.name for f in fields(owner)}
