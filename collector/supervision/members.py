"""From what a probe yields to the members of a bundle: redacted, serialised bytes."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from flatline.redaction.pseudonyms import without_pseudonyms
from flatline.redaction.redactor import Redactor

from ..probes.interface import Artefact, Facts

_SURROGATE = re.compile("[\ud800-\udfff]")
_SAFE_PATH = re.compile(r"(?:[\w.@+=,~-]+/)*[\w.@+=,~-]+", re.ASCII)


@dataclass(frozen=True)
class Member:
    """One member of the bundle, ready to be written."""

    path: str
    data: bytes
    """Redacted, serialised."""
    media_type: str
    probe: str
    original_path: str = ""
    original_bytes: int | None = None
    truncated: tuple[tuple[int, int], ...] = ()
    redactions: int = 0


def is_safe_path(path: str) -> bool:
    """Relative, plain characters, no dot-only parts: what may be a member's path."""
    return bool(_SAFE_PATH.fullmatch(path)) and not any(set(part) == {"."} for part in path.split("/"))


class MemberMaker:
    """Makes the members of one probe; its redactor is the probe's own."""

    def __init__(self, probe: str, redactor: Redactor) -> None:
        self._probe = probe
        self._redactor = redactor
        self._renamed: dict[str, str] = {}
        """The name a probe gave a member -> the one it has, since that would have shown a secret."""

    def artefact(self, item: Artefact) -> Member:
        """A text as a member, its secrets hidden."""
        before = self._hidden()
        content = item.content if isinstance(item.content, str) else item.content.decode("utf-8", "backslashreplace")
        data = self._redactor.text(printable(content)).encode("utf-8")
        return Member(
            path=self._path(item.path, item.original_path),
            data=data,
            media_type=item.media_type,
            probe=self._probe,
            original_path=self._redactor.text(printable(item.original_path)),
            original_bytes=item.original_bytes,
            truncated=item.truncated,
            redactions=self._hidden() - before,
        )

    def facts(self, item: Facts) -> Member:
        """Rows as a member: one JSON document, or one row a line for ``.jsonl``."""
        before = self._hidden()
        tables = {
            table: self._redactor.rows(table, list(map(self._referring, rows))) for table, rows in item.tables.items()
        }
        lines = item.path.endswith(".jsonl")
        return Member(
            path=self._path(item.path),
            data=(_json_lines(tables) if lines else self._document(tables)).encode("utf-8"),
            media_type="application/jsonl" if lines else "application/json",
            probe=self._probe,
            redactions=self._hidden() - before,
        )

    def _document(self, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
        return _json({"schema": f"flatline/{self._probe}/1", "tables": tables}) + "\n"

    def _path(self, path: str, original_path: str = "") -> str:
        """The member's path; one that holds a secret (a log named after a token) gets a number instead, and a user's or
        a host's name in it becomes its pseudonym without the brackets.

        The name it is made of decides: as a member's it has lost characters that tell a secret, and may be cut.
        """
        base = printable(os.path.basename(original_path.rstrip("/")))
        hidden, hidden_base = self._redactor.text(path), self._redactor.text(base)
        if hidden == path and hidden_base == base:
            return path
        named = without_pseudonyms(hidden)
        if is_safe_path(named) and is_safe_path(without_pseudonyms(hidden_base) or "-"):
            self._renamed[path] = named
            return named
        folder, _, _ = path.partition("/")
        number = len(self._renamed) + 1
        self._renamed[path] = f"{folder}/hidden-name-{self._probe}-{number}{os.path.splitext(path)[1][:6]}"
        return self._renamed[path]

    def _referring(self, row: Any) -> Any:
        """The row, naming members as they are named now."""
        if not self._renamed or not is_dataclass(row) or isinstance(row, type):
            return row
        texts = {one.name: text for one in fields(row) if isinstance(text := getattr(row, one.name), str)}
        return replace(row, **{name: self._renamed[text] for name, text in texts.items() if text in self._renamed})

    def _hidden(self) -> int:
        return sum(self._redactor.counts.values())


def _json_lines(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    return "".join(_json({"table": table, **row}) + "\n" for table, rows in tables.items() for row in rows)


def _json(value: Any) -> str:
    # Marks stay as they are, not \u-escaped: the parent puts final ones in their place.
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    return _SURROGATE.sub(lambda found: "\\\\" + _escaped(found)[1:], text)


def _finite(value: Any) -> Any:
    """JSON knows no NaN: it is unknown."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def printable(text: str) -> str:
    """Text that can be encoded: bytes that were no UTF-8 (surrogates, from `os.fsdecode`) as ``\\xff``."""
    return _SURROGATE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
