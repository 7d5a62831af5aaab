"""`flatline doctor`: what a collect will be able to see here, and the line that fixes each gap."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from flatline.arguments import Parser
from flatline.bundle.format import LedgerEntry
from flatline.errors import EXIT_OK, EXIT_SOMETHING_MISSING, FlatlineError

from .. import checks
from ..checks import Answer, Check
from ..collection import Collection, Options
from ..probes.interface import Target
from ..supervision.supervisor import Job
from .arguments import positive

DEADLINE_S = 60.0


def main(argv: Sequence[str]) -> int:
    """Run the command; the exit code is documented in its help."""
    args = parse(argv)
    collection = Collection(Options(deadline_s=DEADLINE_S), on_wait=lambda running: None)
    missing = 0
    try:
        with collection.supervisor:
            targets = collection.find([args.pid]).targets if args.pid else ()
            for check in checks.checks(args.output, with_job=bool(targets)):
                answer = ask(collection, check, targets)
                missing += not answer.ok
                print("\n".join(lines(check.name, answer)), flush=True)
    except FlatlineError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        return error.exit_code
    if collection.supervisor.interrupted:
        return 128 + collection.supervisor.interrupted
    print(f"\n{missing} of these will be missing from a bundle." if missing else "\nNothing will be missing.")
    return EXIT_SOMETHING_MISSING if missing else EXIT_OK


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; argparse prints and exits with 2 on a mistake."""
    parser = Parser(
        prog="flatline doctor",
        description="Say what a collect would be able to see here, and what would help. Nothing is collected.",
        epilog="exit codes: 0 nothing will be missing · 1 something will · 4 no such process · 2 usage",
    )
    parser.add_argument("--pid", type=positive, metavar="N", help="a process of a job: try what it takes on this one")
    parser.add_argument("-o", "--output", default="", metavar="PATH", help="where the bundle would go (default: here)")
    return parser.parse_args(argv)


def ask(collection: Collection, check: Check, targets: Sequence[Target]) -> Answer:
    """One check in its child. One that did not answer is an answer, too."""
    values, entry = collection.supervisor.call(Job(check, collection.view(targets)))
    return values[0] if values else _unanswered(entry)


def _unanswered(entry: LedgerEntry) -> Answer:
    left = f"; left behind: {', '.join(entry.left_running)}" if entry.left_running else ""
    return Answer(False, f"no answer: {entry.message or entry.status}{left}")


def lines(name: str, answer: Answer) -> Iterator[str]:
    """One line, and below it what to type when something is missing."""
    yield f"  {'ok' if answer.ok else 'missing':8}{name:14}{answer.text}"
    if not answer.ok and answer.hint:
        yield f"  {'':8}{'':14}to get it: {answer.hint}"
