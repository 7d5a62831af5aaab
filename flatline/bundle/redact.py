"""A bundle out of a bundle, redacted once more: after a collect that was killed, or with more to hide."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatline.redaction import Redactor
from flatline.redaction.documents import Survivor, redact_document, survivors
from flatline.redaction.marks import marks_in
from flatline.redaction.told import what_is_hidden

from . import records
from .decode import decode
from .format import MANIFEST, README, REDACTION, SUFFIX, FileEntry, Manifest, stem_and_suffix
from .reader import BundleReader, open_bundle, with_a_name
from .writer import BundleWriter

_OWN = (MANIFEST, README, REDACTION)
_NOTICE = """\
This is a flatline bundle that `flatline redact` has redacted once more, with all that is known of its secrets.
{hidden}
{left}
  flatline show BUNDLE              lists the members and what every probe did
  flatline analyze BUNDLE           names the likely cause
  flatline redact --check BUNDLE    looks whether anything is left
"""


def redacted_name(path: Path) -> Path:
    """``job.first-pass-only.flatline.zip`` -> ``job.redacted.flatline.zip``, beside it.

    UnreadableBundleError when `path` names no file.
    """
    name, _ = stem_and_suffix(with_a_name(path).name)
    name = name[: -len(".redacted")] if name.endswith(".redacted") else name
    return path.with_name(f"{name.replace('UNREDACTED', '').rstrip('.-')}.redacted{SUFFIX}")


def redact_bundle(path: Path, out: Path, redactor: Redactor) -> list[str]:
    """Write `out`; the names of members that could not be redacted and were therefore left out.

    UnreadableBundleError when `path` is no bundle, OSError when the place takes no file.
    """
    left: list[str] = []
    names: dict[str, str] = {}
    marks: dict[str, int] = {}
    with open_bundle(path) as reader:
        writer = BundleWriter(out, max_size=2**62)
        try:
            for name in reader.names:
                if name in _OWN:
                    continue
                try:
                    _add(reader, name, writer, redactor)
                except (UnicodeError, RecursionError, ValueError) as error:
                    left.append(redactor.text(f"{name}: {type(error).__name__}"))
            _choose_names(reader, redactor, names)
            writer.publish(
                lambda files: _closing(reader, redactor, files, left, marks),
                replace=lambda name, data: _again(name, data, redactor, names, marks),
                rename=lambda name: names.get(name, name),
            )
        finally:
            writer.finish()
    return left


def what_survives(path: Path, redactor: Redactor) -> Iterator[Survivor]:
    """What another redaction of the bundle would hide. The redactor must not have seen anything before."""
    with open_bundle(path) as reader:
        for name in reader.names:  # what one member teaches may stand in another
            redact_document(name, _text(reader, name), redactor)
        for name in reader.names:
            if redactor.text(name) != name:
                yield Survivor(redactor.text(name), "its name", "secret")
            yield from survivors(name, _text(reader, name), redactor)


def _text(reader: BundleReader, name: str) -> str:
    return reader.read(name).decode("utf-8", "surrogateescape")


def _add(reader: BundleReader, name: str, writer: BundleWriter, redactor: Redactor) -> None:
    known = reader.manifest.entry(name)
    before = sum(redactor.counts.values())
    data = redact_document(name, _text(reader, name), redactor).encode("utf-8", "surrogateescape")
    writer.add(
        name,
        data,
        media_type=known.media_type,
        probe=known.probe,
        original_path=redactor.text(known.original_path),
        original_bytes=known.original_bytes,
        truncated=known.truncated,
        redactions=known.redactions + sum(redactor.counts.values()) - before,
    )


def _choose_names(reader: BundleReader, redactor: Redactor, names: dict[str, str]) -> None:
    for entry in reader.manifest.files:
        source = os.path.basename(entry.original_path)
        if redactor.text(entry.path) != entry.path or redactor.text(source) != source:
            folder, suffix = entry.path.partition("/")[0], os.path.splitext(entry.path)[1][:6]
            names[entry.path] = f"{folder}/hidden-name-again-{len(names) + 1}{suffix}"


def _again(name: str, data: bytes, redactor: Redactor, names: dict[str, str], marks: dict[str, int]) -> bytes | None:
    """With what later members have taught, and what others are called now."""
    text = data.decode("utf-8", "surrogateescape")
    for old, new in names.items():
        text = text.replace(old, new)
    text = redact_document(name, text, redactor)
    text = redactor.rewrite(text) or text
    marks[names.get(name, name)] = len(marks_in(text))
    hidden = text.encode("utf-8", "surrogateescape")
    return None if hidden == data else hidden


def _closing(
    reader: BundleReader, redactor: Redactor, files: tuple[FileEntry, ...], left: list[str], marks: dict[str, int]
) -> list[tuple[str, bytes]]:
    known: dict[str, Any] = json.loads(redact_document(MANIFEST, records.to_json(reader.manifest).decode(), redactor))
    manifest = replace(decode(Manifest, known), sensitivity="redacted", redaction="complete", files=files)
    hidden = "\n".join(what_is_hidden(redactor.counts))
    gone = f"Left out, since they could not be redacted: {'; '.join(left)}.\n" if left else ""
    report = {
        **redactor.report(),
        "state": "complete",
        "artefacts": {name: number for name, number in marks.items() if number},
        "left_out": left,
    }
    return [
        (README, _NOTICE.format(hidden=hidden, left=gone).encode()),
        (REDACTION, json.dumps(report, ensure_ascii=False, indent=1).encode() + b"\n"),
        (MANIFEST, records.to_json(manifest)),
    ]
