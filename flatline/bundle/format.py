"""Bundle format 1: the names, the limits and the records that are not facts (manifest, ledger, files).

The text is docs/bundle-format.md. Python 3.9 syntax, standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

FORMAT = "flatline-bundle"
FORMAT_VERSION = "1.0"
MAJOR = 1
SUFFIX = ".flatline.zip"
UNREDACTED_SUFFIX = ".UNREDACTED.flatline.zip"
FIRST_PASS_SUFFIX = ".first-pass-only.flatline.zip"
PART_SUFFIX = ".part"



def stem_and_suffix(name: str) -> tuple[str, str]:
    """A bundle's name without the longest of these suffixes that it has, and that suffix."""
    for suffix in (UNREDACTED_SUFFIX, FIRST_PASS_SUFFIX, SUFFIX, ".zip"):
        if name.endswith(suffix):
            return name[: -len(suffix)], suffix
    return name, ""


BUNDLE_JSON = "bundle.json"
MANIFEST = "manifest.json"
README = "README.txt"
REDACTION = "redaction.json"
PASTED = "pasted/"
"""Folder of texts that somebody had: their facts are read when the bundle is analyzed."""

MAX_MEMBERS = 10_000
MAX_UNPACKED = 2 * 1024**3
MAX_RATIO = 200
RATIO_FREE_MEMBER = 64 * 1024**2
"""A member's ratio counts only above this size: one repeated log line compresses 340:1, and is honest."""
RATIO_FREE_TOTAL = 256 * 1024**2

DEFAULT_MAX_SIZE = 25 * 1024**2
LOG_HEAD = 64 * 1024
LOG_TOTAL = 2 * 1024**2

Status = Literal["ok", "partial", "timeout", "denied", "absent", "error", "skipped"]


@dataclass(frozen=True)
class LedgerEntry:
    """What one probe did. Written as ledger/NNN-<probe>.json the moment it ends."""

    probe: str
    status: Status
    target: str = ""
    started_at: str = ""
    """ISO 8601 UTC."""
    seconds: float = 0.0
    exit_code: int | None = None
    bytes: int = 0
    """Uncompressed bytes it contributed."""
    cut: str = ""
    """What was left out for size or time."""
    left_running: tuple[str, ...] = ()
    """``pid 123 (nvidia-smi)``: what could not or must not be killed."""
    message: str = ""
    hint: str = ""
    """What would make it work: the one line to paste."""
    tables: tuple[str, ...] = ()
    """Tables this probe would fill, so that a failure says which facts are missing."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileEntry:
    """One member of the bundle."""

    path: str
    sha256: str
    bytes: int
    media_type: str = "application/octet-stream"
    probe: str = ""
    original_path: str = ""
    """Where it was on the host, redacted."""
    original_bytes: int | None = None
    truncated: tuple[tuple[int, int], ...] = ()
    """Byte ranges [from, to) of the original that are not here."""
    redactions: int = 0


@dataclass(frozen=True)
class TargetEntry:
    """A process that was collected from: pid and start ticks name it for ever."""

    pid: int
    start_ticks: int | None = None
    role: str = "unknown"


@dataclass(frozen=True)
class Manifest:
    """The last member: what this bundle is and what it holds."""

    format: str = FORMAT
    format_version: str = FORMAT_VERSION
    tool_version: str = ""
    created_at: str = ""
    complete: bool = False
    """False: published early, or the run was ended by a signal or by its deadline."""
    ended_by: str = ""
    """``finished``, ``deadline``, ``SIGINT``, ``SIGTERM``, ``salvaged`` …"""
    boot_id: str = ""
    mono_ns: int = 0
    """CLOCK_MONOTONIC at `created_at`: hosts disagree about the wall clock."""
    host: str = "h1"
    platform: str = ""
    argv: tuple[str, ...] = ()
    """How it was called, redacted."""
    targets: tuple[TargetEntry, ...] = ()
    window_s: float = 0.0
    samples: int = 0
    label: str = ""
    case: str = ""
    sensitivity: Literal["redacted", "UNREDACTED"] = "redacted"
    redaction: Literal["complete", "first pass only"] = "complete"
    ledger: tuple[LedgerEntry, ...] = ()
    files: tuple[FileEntry, ...] = ()

    def entry(self, path: str) -> FileEntry:
        """What it says of a member; nothing of one that it does not list."""
        return self._entries.get(path, FileEntry(path, "", 0))

    @cached_property
    def _entries(self) -> dict[str, FileEntry]:
        return {entry.path: entry for entry in reversed(self.files)}
