"""``flatline bundle``: loose files as one redacted bundle, ready to attach to a ticket."""

from __future__ import annotations

import argparse
import json
import re
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flatline import __version__
from flatline.arguments import Parser
from flatline.bundle import records
from flatline.bundle.format import (
    BUNDLE_JSON,
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    PASTED,
    README,
    REDACTION,
    FileEntry,
    Manifest,
)
from flatline.bundle.shelf import what_is_there, why_refused
from flatline.bundle.writer import BundleWriter
from flatline.errors import EXIT_NOWHERE_TO_WRITE, EXIT_OK, FlatlineError, UsageError
from flatline.redaction.marks import marks_in
from flatline.redaction.redactor import Redactor
from flatline.redaction.told import what_is_hidden

from ..intake.opening import read_texts
from ..intake.progress import progress_on_terminal
from ..intake.sieve import Reading
from ..intake.sources import Source
from ..judge.pack import load_rulebook, own_folder
from ..scan.interface import Compiled

EXAMPLES = """\
examples:
  flatline bundle evidence/                          # logs, dumps, tool output: one zip, secrets hidden
  flatline bundle train.log pyspy.txt -o job.flatline.zip
  kubectl logs trainer-0 | flatline bundle -
  flatline analyze job.flatline.zip                  # as any other bundle

exit codes: 0 written, 2 usage, 5 nowhere to write, 20 the input cannot be read
"""
_NOTICE = """\
This is a flatline bundle of texts that somebody had: logs, dumps, outputs of tools. No job was looked at.
{hidden}

To open it: any unzip, or
  flatline analyze BUNDLE            the likely cause, with its evidence
  flatline show BUNDLE [MEMBER]      what is inside
"""


def main(argv: Sequence[str]) -> int:
    """Write one bundle; its path on standard output."""
    options = _parser().parse_args(argv)
    try:
        sources = read_texts(options.inputs, Reading(progress_on_terminal(), _patterns))
        place = options.output or Path(_name_of(options.inputs[0]))
        if refused := why_refused(place):
            raise UsageError(f"-o: {refused}", next_step="flatline bundle … -o another-name.flatline.zip")
        replaced = what_is_there(place)
        bundle = _write(place, sources)
    except FlatlineError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"flatline: the bundle cannot be written: {error.strerror}", file=sys.stderr)
        print("  next:   flatline bundle … -o /another/folder/job.flatline.zip", file=sys.stderr)
        return EXIT_NOWHERE_TO_WRITE
    if replaced:
        print(f"flatline: replaced {replaced}", file=sys.stderr)
    print(bundle)
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="flatline bundle",
        description="Put loose logs, stack dumps and tool outputs into one bundle, with their secrets hidden.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("inputs", nargs="+", type=Path, metavar="PATH", help="a file, a folder, an archive, or - ")
    parser.add_argument("-o", "--output", type=Path, metavar="PATH", help="default: here, with a name of its own")
    return parser


def _patterns() -> Sequence[tuple[str, Compiled]]:
    """What an analysis will look for: of a text that is too long nothing else may be left out."""
    return load_rulebook(own=own_folder()).patterns()


def _name_of(path: Path) -> str:
    label = re.sub(r"[^\w.-]+", "-", "pasted" if path == Path("-") else path.resolve().name).strip("-.") or "pasted"
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"{Redactor().text(label)}-{stamp}-{secrets.token_hex(3)}.flatline.zip"


def _write(path: Path, sources: Sequence[Source]) -> Path:
    redactor = Redactor()
    texts = [(source, redactor.text(_text_of(source))) for source in sources if source.kept.lines]
    writer = BundleWriter(path)
    try:
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        writer.add(BUNDLE_JSON, _head(created))
        for number, (source, first) in enumerate(texts, 1):
            text = redactor.rewrite(first) or first  # what a later text taught, in all of them
            name = redactor.text(source.name)
            suffix = re.sub(r"[^\w.-]+", "_", name)[-80:].lstrip("._") or "text"
            writer.add(
                f"{PASTED}{number:03}-{suffix}", text.encode("utf-8", "surrogateescape"),
                original_path=name, original_bytes=source.kept.size, redactions=len(marks_in(text)),
            )  # fmt: skip
        manifest = Manifest(tool_version=__version__, created_at=created, complete=True, ended_by="finished")
        return writer.publish(lambda files: _closing(manifest, files, redactor))
    finally:
        writer.finish()


def _text_of(source: Source) -> str:
    """Without the NULs that a crash leaves in a log: a secret on both sides of one would be no secret."""
    return ("\n".join(source.kept.lines) + "\n").replace("\0", "")


def _head(created: str) -> bytes:
    head = {"format": FORMAT, "format_version": FORMAT_VERSION, "tool_version": __version__, "created_at": created}
    return json.dumps(head).encode() + b"\n"


def _closing(manifest: Manifest, files: tuple[FileEntry, ...], redactor: Redactor) -> list[tuple[str, bytes]]:
    artefacts = {file.path: file.redactions for file in files if file.redactions}
    report = json.dumps({**redactor.report(), "state": manifest.redaction, "artefacts": artefacts}, ensure_ascii=False)
    whole = records.to_json(replace(manifest, files=files))
    notice = _NOTICE.format(hidden="\n".join(what_is_hidden(redactor.counts)))
    return [(README, notice.encode()), (REDACTION, report.encode()), (MANIFEST, whole)]
