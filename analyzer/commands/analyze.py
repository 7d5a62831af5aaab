"""``flatline analyze``: name the root cause that one or several bundles show."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from flatline.arguments import Parser
from flatline.errors import (
    EXIT_CAUSE_NAMED,
    EXIT_OK,
    EXIT_UNDECIDED,
    FlatlineError,
    RuleError,
    UsageError,
)

from ..analysis import NOT_STUCK, analyze
from ..case import Case
from ..findings import Report
from ..intake.explain import explained
from ..intake.opening import STDIN, open_case
from ..intake.progress import progress_on_terminal
from ..intake.sieve import Reading
from ..judge.pack import Rulebook, load_rulebook, own_folder
from ..reports.recognise import is_report

FORMATS = ("text", "html", "md", "json")
_FLAGS = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""No link is followed, and a FIFO that took the file's place since we looked does not hold us."""
_SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".json": "json", ".txt": "text"}

EXAMPLES = """\
examples:
  flatline analyze BUNDLE                            # verdict, chain, cause, evidence
  flatline analyze BUNDLE --format html -o           # the same as one HTML file, BUNDLE's name
  flatline analyze HOST1.zip HOST2.zip               # several hosts of one job
  flatline analyze train.log pyspy.txt               # what somebody pasted: any text, folder or archive
  kubectl logs trainer-0 | flatline analyze -        # from standard input
  flatline analyze ticket.md --explain-input         # what was recognised in it
  flatline analyze BUNDLE --rules ./our-rules        # with rules of your own
  flatline analyze BUNDLE --format json | jq .       # for programs

exit codes:
  0 healthy, slow or waiting as designed   10 a cause was named, or it crashed or is degraded
  2 usage                                  11 stuck or unknown, and undecided
                                           20 the input cannot be read
"""


def main(argv: Sequence[str]) -> int:
    """Analyze and print or write the report; returns the exit code."""
    options = _parser().parse_args(argv)
    try:
        name = _format(options)
        book = _rulebook(options.rules)
        place = None
        if options.output is not None:
            place = _place(options.output, options.bundles, name)
            _spare(place, force=options.force)
        with open_case(options.bundles, Reading(progress_on_terminal(), book.patterns)) as case:
            if options.explain_input:
                _print("\n".join(explained(case)))
                return EXIT_OK
            report = analyze(case, book)
            _deliver(report, case, name, place, plain=options.no_colour)
        return exit_code(report)
    except FlatlineError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        return error.exit_code


def exit_code(report: Report) -> int:
    """What a script learns from the report."""
    state = report.verdict.state
    if report.diagnosis is not None or state in ("crashed", "degraded"):
        return EXIT_CAUSE_NAMED
    if state in NOT_STUCK or (state == "waiting" and report.verdict.by_design):
        return EXIT_OK
    return EXIT_UNDECIDED


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="flatline analyze",
        description="Say whether the job is stuck, what it waits for, and why.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "bundles", nargs="+", type=Path, metavar="PATH",
        help="bundles (one per host of one job), or any texts: logs, dumps, tickets, folders, archives, - for stdin",
    )  # fmt: skip
    parser.add_argument("--explain-input", action="store_true", help="only say what was recognised in the input")
    parser.add_argument("--format", choices=FORMATS, help="default: by the suffix of -o, else text")
    parser.add_argument(
        "-o", "--output", nargs="?", type=Path, const=Path(), metavar="PATH",
        help="write there (.html, .md, .json or .txt); a folder or no PATH: the bundle's name with the format's suffix",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="let -o replace a file that is no report, too")
    parser.add_argument(
        "--rules", action="append", type=Path, default=[], metavar="DIR", help="a folder of rules; may be repeated"
    )
    parser.add_argument("--no-colour", "--no-color", action="store_true", help="no colour even on a terminal")
    return parser


def _rulebook(folders: Sequence[Path]) -> Rulebook:
    """Who gives rules of their own wants to know that one of them is broken. Raises RuleError."""
    book = load_rulebook(folders, own=own_folder())
    if folders and book.problems:
        first, *more = map(str, book.problems)
        raise RuleError(first, listing=tuple(more), next_step=f"flatline rules lint --rules {folders[0]}")
    return book


def _format(options: argparse.Namespace) -> str:
    """As asked, else by the suffix of -o. Raises UsageError for a suffix that means nothing."""
    output: Path | None = options.output
    if options.format or output is None or output == Path() or output.is_dir():
        return options.format or "text"
    try:
        return _SUFFIXES[output.suffix.lower()]
    except KeyError:
        known = ", ".join(_SUFFIXES)
        raise UsageError(
            f"no format of a report ends in {output.suffix or output.name!r}: the suffixes are {known}",
            next_step="--format html (or md, json, text)",
        ) from None


def _deliver(report: Report, case: Case, name: str, place: Path | None, *, plain: bool) -> None:
    from ..reports import render  # the reporters are only needed once there is a report

    if place is not None:
        _write(place, render(name, report, case, colour=False))
        return
    on_terminal = sys.stdout.isatty()
    colour = on_terminal and not plain and not os.environ.get("NO_COLOR")
    width = min(shutil.get_terminal_size().columns, 120) if on_terminal else 100
    _print(render(name, report, case, colour=colour, width=width))


def _place(output: Path, bundles: Sequence[Path], name: str) -> Path:
    """The file to write: as given, or named after the bundle. Raises UsageError where a report must not go."""
    path = output
    if output == Path() or output.is_dir():
        first = Path("stdin") if bundles[0] == STDIN else bundles[0].absolute()
        stem = first.name.removesuffix(".zip").removesuffix(".flatline")
        path = output / f"{stem}.{'txt' if name == 'text' else name}"
    if path.suffix.lower() == ".zip" or any(_is_same(path, bundle) for bundle in bundles):
        raise UsageError(f"{path} is a bundle or named like one, and is not overwritten", next_step="-o REPORT.html")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(f"{path} is no regular file, and is not written to", next_step="-o REPORT.html")
    return path


def _spare(path: Path, *, force: bool) -> None:
    """A report takes the place of an earlier one, of nothing else unasked: `-o train.txt` would cost the log.
    Raises UsageError."""
    try:
        if force or not path.exists() or is_report(path):
            return
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", next_step="-o REPORT.html") from None
    problem = f"{path} exists and is no report of flatline; it would be lost"
    raise UsageError(problem, next_step="-o REPORT.html, or --force")


def _is_same(path: Path, bundle: Path) -> bool:
    try:
        return path.samefile(bundle)
    except OSError:
        return False


def _write(path: Path, text: str) -> None:
    """For its owner only, as a report quotes what the job had in memory."""
    try:
        with open(os.open(path, _FLAGS, 0o600), "w", encoding="utf-8") as file:
            path.chmod(0o600)  # one that was there keeps its own mode
            file.truncate(0)
            file.write(text)
    except OSError as error:
        raise UsageError(f"the report cannot be written to {path}: {error.strerror}", next_step="-o PATH") from None
    print(f"wrote {path}", file=sys.stderr)


def _print(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), end="" if text.endswith("\n") else "\n", flush=True)
