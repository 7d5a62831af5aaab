"""The command line of collect."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from flatline.arguments import Parser
from flatline.bundle.format import DEFAULT_MAX_SIZE
from flatline.errors import FlatlineError
from flatline.redaction.pseudonyms import no_empty_key
from flatline.redaction.wishes import wishes_of

from ..collection import Options
from ..review import is_possible

EPILOG = """\
examples:
  flatline collect                          choose the job that looks stuck, or ask
  flatline collect --pid 4242               the whole tree that pid 4242 belongs to
  flatline collect --name 'train_*.py' --log out/train.log -o /tmp/
  x=$(flatline collect --pid 4242 --quiet)  the path of the bundle, for a script
  flatline collect --pid 4242 --dry-run     what would be asked, and nothing else
  flatline collect --log out.log --cwd run/ --core core.4242      the job is gone; what it left

exit codes: 0 bundle written · 3 written, but without any stack of the target, or of a job that is gone without
anything that was named · 4 no target, or cannot choose ·
5 nowhere to write · 2 usage · 130/143 ended by SIGINT/SIGTERM, bundle written
"""

MIN_DEADLINE_S = 2.0


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; argparse prints and exits with 2 on a mistake."""
    parser = Parser(
        prog="flatline collect",
        description="Take everything a stuck job leaves into one zip. The job is left exactly as it was found.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    target = parser.add_argument_group("the job")
    target.add_argument("--pid", type=positive, action="append", default=[], metavar="N", help="any process of it")
    target.add_argument("--name", action="append", default=[], metavar="GLOB", help="any process that matches")
    target.add_argument("--log", action="append", default=[], metavar="PATH", help="a log file to take as well")
    gone = parser.add_argument_group("when its processes are gone (with --log, these are taken without a process)")
    gone.add_argument("--cwd", default="", metavar="DIR", help="the folder it ran in")
    gone.add_argument("--core", action="append", default=[], metavar="FILE", help="a core dump it left")
    site = parser.add_argument_group("the site")
    site.add_argument("--include", action="append", default=[], metavar="PLAN", help="its own commands and files")
    out = parser.add_argument_group("the bundle")
    out.add_argument("-o", "--output", default="", metavar="PATH", help="a file or a folder (default: here)")
    out.add_argument("--label", default="", help="goes into its name and its manifest")
    out.add_argument("--case", default="", metavar="ID", help="a ticket, or what several bundles share")
    out.add_argument("--max-size", type=size, default=DEFAULT_MAX_SIZE, metavar="25M", help="of the zip")
    out.add_argument("--no-source", action="store_true", help="take no lines of the job's source code")
    out.add_argument("--locals", action="store_true", help="take the local variables of main threads, redacted")
    out.add_argument("--no-attach", action="store_true", help="let no process stand still, not even for its C frames")
    out.add_argument("--case-key", type=no_empty_key, metavar="KEY", help="give bundles of one job the same pseudonyms")
    out.add_argument("--keep-map", default="", metavar="FILE", help="what the pseudonyms stand for, for you alone")
    out.add_argument("--hide", action="append", default=[], metavar="TEXT|/REGEX/", help="hide this as well")
    out.add_argument("--keep", action="append", default=[], metavar="NAME", help="a name whose value is no secret")
    out.add_argument("--redaction", default="", metavar="FILE", help="a file with such wishes: docs/redaction.md")
    out.add_argument("--review", action="store_true", help="show what the bundle will hold before it is closed")
    out.add_argument("--unredacted", action="store_true", help="hide nothing; the bundle says so")
    limits = parser.add_argument_group("time")
    limits.add_argument("--deadline", type=seconds, default=30.0, metavar="30", help="seconds for everything")
    limits.add_argument("--window", type=seconds, default=4.0, metavar="4", help="seconds to watch whether it moves")
    parser.add_argument("--history", default="", help=argparse.SUPPRESS)  # for `flatline run` and `watch` alone
    parser.add_argument("--dry-run", action="store_true", help="say what would be collected, and from what")
    parser.add_argument("--quiet", action="store_true", help="print nothing but the path of the bundle")
    args, extra = parser.parse_known_args(argv)
    if extra:
        meant = f"; did you mean --pid {extra[0]}?" if extra[0].isdigit() else ""
        parser.error(f"unrecognized arguments: {' '.join(extra)}{meant}")
    if args.deadline < MIN_DEADLINE_S:
        parser.error(f"--deadline {args.deadline:g} is too short to write a bundle; {MIN_DEADLINE_S:g} is the least")
    if args.review and (args.quiet or not is_possible()):
        parser.error("--review asks on a terminal; without one, `flatline redact --check BUNDLE` looks")
    try:
        args.wishes = wishes_of(args.keep, args.hide)
    except FlatlineError as error:
        parser.error(error.what)
    if args.pid and args.name:
        parser.error("give --pid or --name, not both")
    return args


def options(args: argparse.Namespace, argv: Sequence[str]) -> Options:
    """What the collection needs to know of them."""
    return Options(
        pids=tuple(args.pid),
        names=tuple(args.name),
        logs=tuple(args.log),
        cwd=args.cwd,
        includes=tuple(args.include),
        cores=tuple(args.core),
        output=args.output,
        label=args.label,
        case=args.case,
        deadline_s=args.deadline,
        # A window that fills the deadline would leave nothing for what comes after it.
        window_s=min(args.window, args.deadline / 2),
        max_size=args.max_size,
        source=not args.no_source,
        locals=args.locals,
        attach=not args.no_attach,
        history=args.history,
        redacted=not args.unredacted,
        wishes=args.wishes,
        redaction=args.redaction,
        review=args.review,
        case_key=args.case_key or "",
        keep_map=args.keep_map,
        argv=("flatline", "collect", *(_without_key(word, args.case_key or "") for word in argv)),
    )


def _without_key(word: str, key: str) -> str:
    """A word of the command line as the bundle may hold it: who has the key could try names until one fits."""
    return word[: len(word) - len(key)] + "***" if key and (word == key or word.endswith(f"={key}")) else word


def positive(text: str) -> int:
    """A pid."""
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number <= 0:
        raise argparse.ArgumentTypeError(f"a pid is a positive number, not {text}")
    return number


def seconds(text: str) -> float:
    """``7`` or ``2.5``; ``7s`` is understood too."""
    try:
        number = float(text.removesuffix("s"))
    except ValueError:
        number = 0.0
    if not 0 < number < 86_400:
        raise argparse.ArgumentTypeError(f"{text} is no sensible number of seconds")
    return number


def size(text: str) -> int:
    """``25M``, ``512K``, ``1G`` or bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 25M, 512K or 1G")
    number = int(float(found[1]) * {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}[found[2].upper()])
    if number < 256 * 1024:
        raise argparse.ArgumentTypeError(f"{text} is too small for a bundle; 256K is the least")
    return number
