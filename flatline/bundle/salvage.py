"""Makes a valid bundle out of what a killed collect left, or out of a zip that lost its end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from flatline.errors import UsageError

from . import records, spool
from .format import (
    FIRST_PASS_SUFFIX,
    MANIFEST,
    README,
    REDACTION,
    UNREDACTED_SUFFIX,
    FileEntry,
    Manifest,
    stem_and_suffix,
)
from .reader import BundleReader, open_bundle, with_a_name
from .shelf import why_refused
from .writer import BundleWriter

_NOTICE = """\
This flatline bundle was put together from what a killed `flatline collect` had written.

{hidden}

  flatline show BUNDLE       lists the members and what every probe did
  flatline analyze BUNDLE    names the likely cause
"""

_FIRST_PASS = """\
Secrets known when each member was written are hidden; values learnt later are not: "first pass only".
Finish that before you pass it on: flatline redact BUNDLE"""
_NOTHING = "NOTHING WAS HIDDEN. Do not attach this file to a public ticket."


def salvaged_name(spool_path: Path) -> Path:
    """``job.flatline.zip.part`` -> ``job.first-pass-only.flatline.zip``, beside it.

    UnreadableBundleError when `spool_path` names no file.
    """
    stem, suffix = stem_and_suffix(spool.final_name(with_a_name(spool_path)))
    mark = ".UNREDACTED" if suffix == UNREDACTED_SUFFIX else ""
    return spool_path.with_name(stem + mark + FIRST_PASS_SUFFIX)


def salvage(spool_path: Path, out: Path | None = None) -> Path:
    """Write every whole member of `spool_path` (and the beginning of a last, torn one) into a valid bundle.

    Returns its path; the input stays as it is. UnreadableBundleError when there is nothing to save, UsageError when
    nothing is broken or another file would be lost, OSError when the place takes no file.
    """
    spool_path = Path(spool_path)
    final = salvaged_name(spool_path) if out is None else Path(out)
    if refused := why_refused(final):
        raise UsageError(refused, next_step="flatline salvage PART -o another-name.flatline.zip")
    with open_bundle(spool_path) as reader:
        if not reader.truncated:
            raise UsageError(f"{spool_path.name} is whole", next_step=f"flatline analyze {spool_path}")
        writer = BundleWriter(final, max_size=2**62, clock=lambda: spool_path.stat().st_mtime)
        try:
            for name in reader.names:
                if name not in (MANIFEST, README, REDACTION):
                    _copy(reader, name, writer)
            return writer.publish(lambda files: _closing(reader.manifest, files))
        finally:
            writer.finish()


def _copy(reader: BundleReader, name: str, writer: BundleWriter) -> None:
    known = reader.manifest.entry(name)
    member = reader.member(name)
    torn = ((member.size, max(member.expected, member.size)),) if member.partial else ()
    writer.add(
        name,
        reader.read(name),
        media_type=known.media_type,
        probe=known.probe,
        original_path=known.original_path,
        original_bytes=member.expected if member.partial else known.original_bytes,
        truncated=known.truncated + torn,
        redactions=known.redactions,
    )


def _closing(found: Manifest, files: tuple[FileEntry, ...]) -> list[tuple[str, bytes]]:
    manifest = replace(found, complete=False, ended_by="salvaged", redaction="first pass only", files=files)
    hidden = _NOTHING if found.sensitivity == "UNREDACTED" else _FIRST_PASS
    return [
        (README, _NOTICE.format(hidden=hidden).encode()),
        (REDACTION, json.dumps({"state": manifest.redaction}).encode() + b"\n"),
        (MANIFEST, records.to_json(manifest)),
    ]
