"""``flatline redact``: the redactor as a filter, on a bundle, and to look whether anything is left."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from flatline.arguments import Parser
from flatline.errors import EXIT_NOWHERE_TO_WRITE, EXIT_OK, FlatlineError, NowhereToWriteError, UsageError
from flatline.redaction import Redactor
from flatline.redaction.documents import Survivor, survivors
from flatline.redaction.encodings import ByteSource, Utf8Reader
from flatline.redaction.keep_map import already_there, write_map
from flatline.redaction.names import keep_names
from flatline.redaction.pseudonyms import key_of, no_empty_key
from flatline.redaction.streams import redact_stream
from flatline.redaction.wishes import Wishes, wishes_in, wishes_of
from flatline.visible import visible

EXIT_SURVIVES = 1
_LOOK = 4096
"""Bytes that are looked at to tell a text from a bundle."""

EXAMPLES = """\
examples:
  flatline redact < train.log > train.redacted.log
  flatline redact --check train.log        # is there anything in it to hide? each line and kind; changes nothing
  env | flatline redact                    # what a bundle would show of this environment
  git diff | flatline redact               # before pasting it into an issue
  flatline redact BUNDLE                   # a bundle again: finishes "first pass only", or an UNREDACTED one
  flatline redact BUNDLE --hide 'Project Nordwind' --hide '/case-[0-9]+/' -o public.flatline.zip
  flatline redact --case-key "$KEY" < a.log  # names get the pseudonyms they have in the bundles of this key
  flatline redact --check BUNDLE           # is anything left? names the artefact, the line and the kind

Each secret becomes a mark such as ⟪hf-token·1⟫, each user, host and address a pseudonym such as ⟪host·3⟫; the same has
the same number in the whole text.
Redacting redacted text changes nothing. Text is held back until all of it is read, because a secret that is known by
its last mention is hidden in the first as well; only of a very long one (64 MiB, compressed) the beginning goes out
before, and standard error says so when that mattered.

exit codes: 0 done, or nothing is left · 1 --check: something is left · 2 usage · 5 nowhere to write ·
6 standard output is full · 20 no bundle
"""


def main(argv: Sequence[str]) -> int:
    """Filter, rewrite a bundle, or look; returns the exit code."""
    options = _parser().parse_args(list(argv))
    try:
        return _run(options)
    except FlatlineError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="flatline redact",
        description="Replace the secrets and names in a text or a bundle by marks; everything else passes unchanged.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "source",
        nargs="?",
        default="-",
        metavar="FILE",
        help="a bundle, or a text; without it, or as -, standard input",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help="where the bundle goes; a text goes to standard output"
    )
    parser.add_argument("--case-key", type=no_empty_key, metavar="KEY", help="pseudonyms as others with this key get")
    parser.add_argument("--keep-map", default="", metavar="FILE", help="what the pseudonyms stand for, for you alone")
    parser.add_argument("--check", action="store_true", help="change nothing; say where something is left")
    add_wishes(parser)
    return parser


def add_wishes(parser: argparse._ActionsContainer) -> None:
    """The options that say what else to hide, and what to keep."""
    parser.add_argument("--hide", action="append", default=[], metavar="TEXT|/REGEX/", help="hide this as well")
    parser.add_argument("--keep", action="append", default=[], metavar="NAME", help="a name whose value is no secret")
    parser.add_argument("--redaction", default="", metavar="FILE", help="a file with such wishes: docs/redaction.md")


def wishes(options: argparse.Namespace) -> Wishes:
    """What the options ask for. UsageError for what is not understood."""
    found = wishes_of(options.keep, options.hide)
    if options.redaction:
        try:
            text = Path(options.redaction).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--redaction: {options.redaction} cannot be read: {error}") from None
        found += wishes_in(text, options.redaction)
    return found


def _run(options: argparse.Namespace) -> int:
    asked = wishes(options)
    keep_names(asked.keeps)
    redactor = Redactor(keep_marks=True, key=key_of(options.case_key) if options.case_key else b"")
    redactor.wish(asked)
    if options.keep_map and os.path.lexists(options.keep_map):
        raise already_there(options.keep_map)
    code = _redacted(options, redactor)
    if options.keep_map:
        _keep_map(options.keep_map, redactor)
    return code


def _keep_map(path: str, redactor: Redactor) -> None:
    try:
        write_map(path, redactor.translations)
    except OSError as error:
        raise NowhereToWriteError(f"--keep-map: {path}: {error.strerror or error}") from None


def _redacted(options: argparse.Namespace, redactor: Redactor) -> int:
    if options.source == "-":
        return _text(options, Utf8Reader(sys.stdin.buffer), "standard input", redactor)
    path = Path(options.source)
    if _is_text(path):
        with path.open("rb") as source:
            return _text(options, Utf8Reader(source), path.name, redactor)
    return _check(path, redactor) if options.check else _bundle(options, redactor)


def _is_text(path: Path) -> bool:
    """Whether it begins as text does, and as no zip. False for what cannot be read: the bundle's reader tells why."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as source:
            zipped = source.read(2) == b"PK"
            source.seek(0)
            begin = Utf8Reader(source).read(_LOOK)
    except OSError:
        return False
    return bool(begin) and b"\0" not in begin and not zipped


def _text(options: argparse.Namespace, source: ByteSource, name: str, redactor: Redactor) -> int:
    if options.output:
        raise UsageError(
            "-o is for bundles; text goes to standard output", next_step="flatline redact < text > redacted-text"
        )
    if options.check:
        text = source.read().decode("utf-8", "surrogateescape")
        redactor.text(text)
        return _tell(list(survivors(redactor.text(name), text, redactor)))
    if redact_stream(source, sys.stdout.buffer.write, redactor):
        print("flatline: what was recognised late may stand in the beginning: redact it again", file=sys.stderr)
    sys.stdout.buffer.flush()
    return EXIT_OK


def _check(path: Path, redactor: Redactor) -> int:
    from flatline.bundle.redact import what_survives  # a filter of texts starts in half the time without

    return _tell(list(what_survives(path, redactor)))


def _tell(found: Sequence[Survivor]) -> int:
    for one in found:
        print(visible(f"{one.artefact}: {one.place}: {one.kind}"))
    print(f"{len(found)} left" if found else "nothing is left that would be hidden", file=sys.stderr)
    return EXIT_SURVIVES if found else EXIT_OK


def _bundle(options: argparse.Namespace, redactor: Redactor) -> int:
    from flatline.bundle.redact import redact_bundle, redacted_name

    path = Path(options.source)
    out = options.output or redacted_name(path)
    if os.path.lexists(out):
        raise UsageError(f"{out} is there already", next_step=f"flatline redact {path} -o another-name.flatline.zip")
    try:
        left = redact_bundle(path, out, redactor)
    except OSError as error:
        print(f"flatline: {out} cannot be written: {error.strerror}", file=sys.stderr)
        return EXIT_NOWHERE_TO_WRITE
    for name in left:
        print(visible(f"left out, since it could not be redacted: {name}"), file=sys.stderr)
    print(visible(str(out)) if sys.stdout.isatty() else out)
    return EXIT_OK
