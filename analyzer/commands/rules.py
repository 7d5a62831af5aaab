"""``flatline rules``: list, show, lint, test and calibrate the rules, and print their JSON Schema."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flatline.arguments import Parser
from flatline.errors import EXIT_OK, FlatlineError

from ..judge.cases import run_cases
from ..judge.drafting import draft
from ..judge.explain import explain
from ..judge.language import rule_json_schema
from ..judge.lint import lint
from ..judge.pack import MARK, LoadedRule, Pack, Rulebook, load_rulebook, own_folder, own_place, rule_files
from ..judge.yaml_source import Problem
from ..schemas import text_of
from . import calibrate

EXAMPLES = """\
examples:
  flatline rules list                          # every rule, its status and its cause
  flatline rules show lock-file-stale          # one rule file
  flatline rules lint --rules ./our-rules      # is everything in order? file:line:column of what is not
  flatline rules new our-storage --cause filesystem-not-responding   # a draft in your own pack
  flatline rules test                          # run the cases beside the rules
  flatline rules explain output-pipe-full BUNDLE   # why it fired, or did not, condition by condition
  flatline rules calibrate cases.jsonl         # how often are they right? labelled cases, in three shapes
  flatline rules schema > rule.schema.json     # for editors

exit codes: 0 all is well, 1 a rule is wrong or a case fails, 2 usage, 20 a bundle cannot be read
"""
EXIT_FAULTS = 1
_DIR = "a folder of rules, besides the built-in ones and your own; may be repeated"


def main(argv: Sequence[str]) -> int:
    """Run one subcommand; returns the exit code."""
    options = _parser().parse_args(argv)
    try:
        return _ACTIONS[options.action](options)
    except FlatlineError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="flatline rules",
        description="The knowledge, one rule per file.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in _HELP.items():
        action = actions.add_parser(name, help=text, description=text)
        if name == "list":
            action.add_argument("--format", choices=["text", "json"], default="text")
        if name == "new":
            action.add_argument("--cause", required=True, metavar="CAUSE", help="an id of causes.yaml")
        if name in ("show", "explain", "new"):
            help_text = "the id of the new rule" if name == "new" else "a rule, or a cause: all the rules that name it"
            action.add_argument("rule", metavar="RULE", help=help_text)
        if name == "explain":
            action.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE")
        if name == "calibrate":
            calibrate.add_options(action)
        if name == "test":
            action.add_argument("only", nargs="*", metavar="RULE", help="only these")
        if name != "schema":
            action.add_argument("--rules", action="append", type=Path, default=[], metavar="DIR", help=_DIR)
    return parser


def _rulebook(options: argparse.Namespace) -> Rulebook:
    """The built-in rules, the user's own, those of ``--rules``."""
    return load_rulebook(options.rules, own=own_folder())


def _list(options: argparse.Namespace) -> int:
    book = _rulebook(options)
    if options.format == "json":
        print(json.dumps([_packed(pack) for pack in book.packs], indent=1, ensure_ascii=False))
        return _report(book)
    for pack in book.packs:
        print(f"{pack}, needs rule engine {pack.engine}, {pack.root}")
        print(f"  {'FAMILY':10} {'RULE':28} {'STATUS':12} {'CAUSE':28} WHAT THE CAUSE IS")
        for rule in sorted(pack.rules, key=lambda rule: (rule.family, rule.id)):
            name, status, cause = rule.id, rule.model.status, rule.model.cause
            print(f"  {rule.family:10} {name:28} {status:12} {cause:28} {book.causes[cause].title}")
    return _report(book)


def _packed(pack: Pack) -> dict[str, Any]:
    rules = [
        {
            "id": rule.id, "version": rule.model.version, "family": rule.family, "status": rule.model.status,
            "cause": rule.model.cause, "variant": rule.model.variant, "title": rule.model.title, "file": str(rule.path),
            "measured": rule.measured.model_dump() if rule.measured else None,
        }
        for rule in sorted(pack.rules, key=lambda rule: (rule.family, rule.id))
    ]  # fmt: skip
    about = {"pack": pack.name, "version": pack.version, "sha256": pack.sha256, "engine": pack.engine}
    return {**about, "folder": str(pack.root), "rules": rules}


def _new(options: argparse.Namespace) -> int:
    """A pack may begin with nothing: also a folder that is not there yet, or has no rule."""
    book = load_rulebook([folder for folder in options.rules if rule_files(folder)], own=own_folder())
    folder = options.rules[-1] if options.rules else own_place()
    for path in draft(options.rule, options.cause, folder, book):
        print(f"wrote {path}")
    place = f" --rules {folder}" if options.rules else ""
    then = f"flatline rules lint{place} && flatline rules test {options.rule}{place}"
    print(f"next:   fill in every {MARK}, then: {then}")
    return EXIT_OK


def _show(options: argparse.Namespace) -> int:
    rules = _rulebook(options).rules_of(options.rule)
    print("---\n".join(rule.path.read_text(encoding="utf-8") for rule in rules), end="")
    return EXIT_OK


def _lint(options: argparse.Namespace) -> int:
    book = _rulebook(options)
    result = lint(book)
    for warning in result.warnings:
        print(f"{warning} (warning)")
    faults = book.faults(result.errors)
    for error in result.errors:
        print(error if error in faults else f"{error} (built-in, not yours)")
    if not faults:
        print(f"{len(book.rules)} rules are in order")
    return EXIT_FAULTS if faults else EXIT_OK


def _test(options: argparse.Namespace) -> int:
    book = _rulebook(options).with_drafts()
    problems: list[Problem] = []
    results = [result for rule in _chosen(book, options.only) for result in run_cases(rule, book, problems)]
    faults = [result for result in results if result.fault]
    for result in faults:
        print(f"{result.rule}: {result.case.kind}: {result.case.name}: {result.fault}")
    print(f"{len(results) - len(faults)} of {len(results)} cases are as they should be")
    return max(_report(book, problems), EXIT_FAULTS if faults else EXIT_OK)


def _chosen(book: Rulebook, only: Sequence[str]) -> list[LoadedRule]:
    return [book.rule(name) for name in only] if only else book.rules


def _explain(options: argparse.Namespace) -> int:
    book = _rulebook(options)
    from ..intake.opening import open_case
    from ..intake.sieve import Reading

    with open_case(options.bundles, Reading(patterns=book.patterns)) as case:
        rules = book.rules_of(options.rule)
        print("\n".join(explain(rules, case)))
    others = [rule.id for rule in book.naming(options.rule) if rule not in rules]
    if others:
        print(f"\nThe cause {options.rule} is named by these rules as well: {', '.join(others)}")
    return EXIT_OK


def _schema(_: argparse.Namespace) -> int:
    print(text_of(rule_json_schema()), end="")
    return EXIT_OK


def _report(book: Rulebook, more: Sequence[Problem] = ()) -> int:
    for problem in (*book.problems, *more):
        print(problem, file=sys.stderr)
    return EXIT_FAULTS if more or book.faults(book.problems) else EXIT_OK


_ACTIONS = {
    "calibrate": calibrate.run,
    "explain": _explain,
    "lint": _lint,
    "list": _list,
    "new": _new,
    "schema": _schema,
    "show": _show,
    "test": _test,
}
_HELP = {
    "calibrate": "how often the rules are right, over labelled cases",
    "explain": "why a rule fired or did not, condition by condition",
    "lint": "check every rule; problems carry file:line:column",
    "list": "every rule, its status and its cause",
    "new": "write a new rule and its tests, to be filled in",
    "schema": "the JSON Schema of a rule file",
    "show": "print one rule file",
    "test": "run the cases beside the rules",
}
