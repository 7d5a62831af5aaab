"""``flatline show``: what a bundle holds and what every probe did, or one member of it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from flatline.arguments import Parser
from flatline.bundle.format import REDACTION, LedgerEntry, Manifest
from flatline.bundle.reader import BundleReader, open_bundle
from flatline.errors import EXIT_OK, EXIT_UNREADABLE, FlatlineError, UnreadableBundleError
from flatline.visible import visible

EXAMPLES = """\
examples:
  flatline show BUNDLE                         # header, ledger, what was hidden, members
  flatline show BUNDLE logs/train.log          # print one member
  flatline show BUNDLE logs/train.log | less   # the same bytes, unchanged
  flatline show BUNDLE --json                  # the listing for programs

exit codes: 0 shown, 2 usage, 6 standard output is full, 20 the bundle cannot be read or has no such member
"""


def main(argv: Sequence[str]) -> int:
    """Print the listing or one member; returns the exit code."""
    options = _parser().parse_args(argv)
    try:
        with open_bundle(options.bundle) as reader:
            _show(reader, options.artefact, as_json=options.json)
            sys.stdout.flush()
    except FlatlineError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"flatline: {options.bundle} cannot be shown: {error.strerror}", file=sys.stderr)
        return EXIT_UNREADABLE
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="flatline show",
        description="List a bundle's members, what every probe did and what was hidden, or print one member.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="a .flatline.zip, a truncated one, or a .part")
    parser.add_argument("artefact", nargs="?", metavar="ARTEFACT", help="the member to print, as the listing names it")
    parser.add_argument("--json", action="store_true", help="print the listing as JSON")
    return parser


def _show(reader: BundleReader, artefact: str | None, *, as_json: bool) -> None:
    if artefact is not None:
        _print_member(reader, artefact, sys.stdout)
    elif as_json:
        print(json.dumps(listing(reader), indent=1))
    else:
        for line in listing_lines(reader):
            print(visible(line))


def _print_member(reader: BundleReader, name: str, out: TextIO) -> None:
    """To a terminal as a person reads it, with nothing that could steer it; to a pipe or file the bytes themselves."""
    if out.isatty():
        for line in _json_lines(reader, name) or reader.lines(name):
            out.write(visible(line) + "\n")
        return
    for piece in reader.pieces(name):
        out.buffer.write(piece)


def _json_lines(reader: BundleReader, name: str) -> list[str]:
    """A JSON member, which stands in one line, a value to a line; empty for what is none, or is cut off."""
    if not name.endswith(".json"):
        return []
    try:
        return json.dumps(reader.json(name), indent=1, ensure_ascii=False).split("\n")
    except UnreadableBundleError:
        return []


# --- the listing ---


def listing(reader: BundleReader) -> dict[str, Any]:
    """The listing as data: manifest, notes, members as the container holds them."""
    return {
        "schema": "flatline-show/1",
        "path": str(reader.path),
        "truncated": reader.truncated,
        "notes": reader.notes,
        "members": [
            {"path": name, "bytes": member.size, "packed": member.packed, "cut_off": member.partial}
            for name, member in ((name, reader.member(name)) for name in reader.names)
        ],
        "hidden": what_was_hidden(reader),
        "manifest": asdict(reader.manifest),
    }


def listing_lines(reader: BundleReader) -> Iterator[str]:
    """The listing as a person reads it."""
    yield from _header_lines(reader)
    yield from _ledger_lines(reader.manifest.ledger)
    yield from _hidden_lines(what_was_hidden(reader), is_off=reader.manifest.sensitivity == "UNREDACTED")
    yield from _member_lines(reader)


def _header_lines(reader: BundleReader) -> Iterator[str]:
    manifest = reader.manifest
    yield f"{reader.path.name}: flatline bundle {manifest.format_version}"
    yield f"  collected    {_when_and_where(manifest)}"
    if manifest.argv:
        yield f"  called as    {' '.join(manifest.argv)}"
    for target in manifest.targets:
        yield f"  target       pid {target.pid} ({target.role})"
    if manifest.label or manifest.case:
        yield f"  label, case  {manifest.label or '-'}, {manifest.case or '-'}"
    ended = "yes" if manifest.complete else f"no (ended by: {manifest.ended_by or 'unknown'})"
    yield f"  complete     {ended}"
    how_far = "nothing is hidden" if manifest.sensitivity == "UNREDACTED" else f"redaction {manifest.redaction}"
    yield f"  sensitivity  {manifest.sensitivity}; {how_far}"
    for note in reader.notes:
        yield f"  note         {note}"


def _when_and_where(manifest: Manifest) -> str:
    when = manifest.created_at or "at an unknown time"
    tool = f"by flatline {manifest.tool_version or '(unknown version)'}"
    return f"{when} {tool} on {manifest.host}" + (f", {manifest.platform}" if manifest.platform else "")


def _ledger_lines(ledger: Sequence[LedgerEntry]) -> Iterator[str]:
    yield ""
    yield "ledger" if ledger else "ledger: empty"
    for entry in ledger:
        name = f"{entry.probe} {entry.target}".rstrip()
        yield f"  {entry.status:8} {entry.seconds:6.2f} s  {name:20} {entry.message}".rstrip()
        for word, text in (("cut", entry.cut), ("left", ", ".join(entry.left_running)), ("hint", entry.hint)):
            if text:
                yield f"{'':21}{word}: {text}"


def what_was_hidden(reader: BundleReader) -> dict[str, Any] | None:
    """What redaction.json counts: by kind, the different values of each, by artefact. None when nobody has counted."""
    try:
        report = reader.json(REDACTION)
    except UnreadableBundleError:  # also when there is none
        return None
    if not isinstance(report, dict) or not isinstance(report.get("replacements"), dict):
        return None
    return {key: _counts(report.get(key)) for key in ("replacements", "distinct", "artefacts")}


def _counts(counts: Any) -> dict[str, int]:
    return {name: n for name, n in counts.items() if type(n) is int and n > 0} if isinstance(counts, dict) else {}


def _hidden_lines(hidden: dict[str, Any] | None, *, is_off: bool) -> Iterator[str]:
    yield ""
    if is_off:
        yield "hidden: nothing, the bundle is UNREDACTED"
        return
    if hidden is None:
        yield f"hidden: not counted ({REDACTION} says nothing of it)"
        return
    kinds, distinct, artefacts = hidden["replacements"], hidden["distinct"], hidden["artefacts"]
    yield f"hidden: {sum(kinds.values())}" if kinds else "hidden: nothing was found"
    for kind, number in sorted(kinds.items(), key=lambda row: (-row[1], row[0])):
        values = distinct.get(kind, 0)
        of = f"of {values} {'value' if values == 1 else 'values'}" if values else ""
        yield f"  {number:>10}  {kind:14} {of}".rstrip()
    if artefacts:
        yield "hidden, by artefact"
    for name, number in sorted(artefacts.items(), key=lambda row: (-row[1], row[0])):
        yield f"  {number:>10}  {name}"


def _member_lines(reader: BundleReader) -> Iterator[str]:
    probes = {entry.path: entry.probe for entry in reader.manifest.files}
    yield ""
    yield f"members: {len(reader.names)}"
    for name in reader.names:
        member = reader.member(name)
        cut = "  (cut off)" if member.partial else ""
        yield f"  {member.size:>10}  {probes.get(name, ''):14} {name}{cut}"
