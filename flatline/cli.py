"""The front door: one sorted table of commands, imported only when used."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Callable

from flatline import __version__
from flatline.errors import EXIT_OK, OutputLostError
from flatline.output import watched_output

COMMANDS = {
    "analyze": ("flatline.analyzer.commands.analyze:main", "name the root cause that a bundle shows"),
    "bundle": ("flatline.analyzer.commands.bundle:main", "put loose logs and dumps into one redacted bundle"),
    "collect": ("flatline.collector.commands.collect:main", "take everything a stuck job leaves into one zip"),
    "demo": ("flatline.commands.demo:main", "get a job stuck, collect, analyze, show the report"),
    "doctor": ("flatline.collector.commands.doctor:main", "say what a collect can see here, and what would help"),
    "redact": ("flatline.commands.redact:main", "hide the secrets of a text or a bundle, or look for any"),
    "rules": ("flatline.analyzer.commands.rules:main", "list, show, lint and test the rules"),
    "run": ("flatline.collector.commands.run:main", "start a job, and collect before anything is killed"),
    "salvage": ("flatline.commands.salvage:main", "make a valid bundle out of what a killed collect left"),
    "show": ("flatline.commands.show:main", "list a bundle's members or print one"),
    "snippet": ("flatline.commands.snippet:main", "print lines that record, for the top of a script"),
    "watch": ("flatline.collector.commands.watch:main", "collect when a job that runs already gets stuck"),
}
"""name -> ("module:function", one-line help); the function takes the arguments and returns the exit code."""

EXAMPLES = """\
examples:
  flatline collect --pid 4242          # write a bundle for the job that pid 4242 belongs to
  flatline run -- python train.py      # with the recorder; see --silence and --timeout
  flatline analyze BUNDLE              # what it is waiting for, and why
  flatline analyze BUNDLE --format html -o report.html
  flatline demo                        # see all of it on a job that is really stuck
"""


def usage() -> str:
    """The top-level help."""
    rows = "\n".join(f"  {name:9} {text}" for name, (_, text) in sorted(COMMANDS.items()))
    return (
        "usage: flatline COMMAND [options]\n\n"
        "When a training job is alive but silent: collect what it leaves, name the likely cause.\n\n"
        f"commands:\n{rows}\n\n"
        f"{EXAMPLES}\n"
        "flatline COMMAND --help tells more.\n"
    )


def resolve(name: str) -> Callable[[Sequence[str]], int]:
    """The function behind a command. KeyError for an unknown one."""
    module, _, function = COMMANDS[name][0].partition(":")
    return getattr(importlib.import_module(module), function)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    stand_on_streams()
    output = watched_output()
    try:
        code = _run_to_its_last_word(list(sys.argv[1:] if argv is None else argv))
    except OutputLostError:
        code = EXIT_OK  # told below
    except BrokenPipeError:  # the reader of our output has seen enough; Python must not flush into it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:  # a collect that has begun answers signals itself
        print("flatline: interrupted", file=sys.stderr)  # noqa: T201
        return 128 + signal.SIGINT
    if output is None or output.lost is None:
        return code
    if code != output.lost.exit_code:  # else the command has told it
        print("\n".join(output.lost.lines()), file=sys.stderr)  # noqa: T201
    return output.lost.exit_code


def _run_to_its_last_word(args: list[str]) -> int:
    try:
        return run(args)
    finally:
        sys.stdout.flush()


def stand_on_streams() -> None:
    """Put what the caller has closed (``2>&-``) on /dev/null: the next file that is opened would get its number, and
    take what is meant for a person. And let standard output take a path that is no text in the locale's encoding."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")


def run(args: list[str]) -> int:
    """The command that the arguments name."""
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage(), end="")  # noqa: T201
        return 0 if args else 2
    if args[0] in ("-V", "--version"):
        print(f"flatline {__version__}")  # noqa: T201
        return 0
    if args[0] not in COMMANDS:
        print(f"flatline: no command {args[0]!r}; there are {', '.join(sorted(COMMANDS))}", file=sys.stderr)  # noqa: T201
        return 2
    return resolve(args[0])(args[1:])
