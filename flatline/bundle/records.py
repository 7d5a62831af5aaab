"""Manifest and ledger to JSON and back, and a manifest made from the rest when there is none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from . import strict_json
from .decode import DecodeError, decode
from .format import FileEntry, LedgerEntry, Manifest
from .strict_json import JsonError


def to_json(record: Any) -> bytes:
    """A manifest, ledger or file entry as JSON in UTF-8, one field per line."""
    return json.dumps(asdict(record), ensure_ascii=False, allow_nan=False, indent=1).encode("utf-8", "replace") + b"\n"


def parse_object(text: str) -> dict[str, Any]:
    """JsonError unless it is one JSON object."""
    value = strict_json.loads(text)
    if not isinstance(value, dict):
        raise JsonError("is no JSON object")
    return value


def ledger_of(texts: Mapping[str, str]) -> tuple[tuple[LedgerEntry, ...], list[str]]:
    """(the entries in the order of their names, notes about those that are broken)."""
    entries, notes = [], []
    for name in sorted(texts):
        try:
            entries.append(decode(LedgerEntry, parse_object(texts[name])))
        except (JsonError, DecodeError) as error:
            notes.append(f"{name} {error}")
    return tuple(entries), notes


def rebuilt_manifest(
    head: str, ledger: Iterable[LedgerEntry], files: Iterable[FileEntry], *, unredacted: bool, ended_by: str
) -> Manifest:
    """A manifest for a bundle whose own was not written: `head` (bundle.json) where it fits, the rest as found.

    It claims little: not complete, and redacted in the first pass only.
    """
    try:
        manifest = decode(Manifest, {**parse_object(head), "ledger": [], "files": []})
    except (JsonError, DecodeError):
        manifest = Manifest()
    hidden = manifest.sensitivity == "redacted" and not unredacted
    return replace(
        manifest,
        complete=False,
        ended_by=ended_by,
        sensitivity="redacted" if hidden else "UNREDACTED",
        redaction="first pass only",
        ledger=tuple(ledger),
        files=tuple(files),
    )
