"""``flatline salvage``: make a valid bundle out of what a killed collect left, or out of a truncated zip."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from flatline.arguments import Parser
from flatline.bundle.format import PART_SUFFIX
from flatline.bundle.reader import open_bundle
from flatline.bundle.salvage import salvage, salvaged_name
from flatline.bundle.shelf import what_is_there
from flatline.bundle.spool import is_abandoned
from flatline.errors import EXIT_NOWHERE_TO_WRITE, EXIT_OK, FlatlineError

EXAMPLES = """\
examples:
  flatline salvage train.flatline.zip.part               # writes train.first-pass-only.flatline.zip beside it
  flatline salvage half-copied.flatline.zip -o saved.flatline.zip

exit codes: 0 written, 2 usage or nothing is broken, 5 nowhere to write, 20 there is nothing to save
"""


def main(argv: Sequence[str]) -> int:
    """Salvage one file; returns the exit code."""
    options = _parser().parse_args(argv)
    part: Path = options.part
    try:
        replaced = what_is_there(options.output or salvaged_name(part))
        bundle = salvage(part, options.output)
    except FlatlineError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"flatline: the bundle cannot be written: {error.strerror}", file=sys.stderr)
        print("  next:   flatline salvage PART -o /another/folder/saved.flatline.zip", file=sys.stderr)
        return EXIT_NOWHERE_TO_WRITE
    if replaced:
        print(f"flatline: replaced {replaced}", file=sys.stderr)
    print(bundle)
    print(_how_far_hidden(bundle), file=sys.stderr)
    if part.name.endswith(PART_SUFFIX) and not is_abandoned(part):
        print(f"The collect that writes {part.name} still runs: its own bundle will hold more.", file=sys.stderr)
    return EXIT_OK


def _how_far_hidden(bundle: Path) -> str:
    with open_bundle(bundle) as reader:
        if reader.manifest.sensitivity == "UNREDACTED":
            return "Nothing is hidden in it (UNREDACTED): do not attach it to a public ticket."
    return f"Secrets are hidden as of the first pass only; to finish that: flatline redact {bundle}"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="flatline salvage",
        description="Make a valid bundle out of the .part file of a killed collect, or out of a truncated zip. "
        "The input stays as it is.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", type=Path, metavar="PART", help="the .part file, or the truncated .flatline.zip")
    parser.add_argument("-o", "--output", type=Path, metavar="PATH", help="where to write the bundle")
    return parser
