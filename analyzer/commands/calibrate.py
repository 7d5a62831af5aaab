"""``flatline rules calibrate``: how often the rules are right over labelled cases, and which words hold."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from flatline.errors import EXIT_OK, UsageError

from ..calibration.cases import LabelledCase, read_cases
from ..calibration.result import Calibration, as_committed, as_json, calibration_of, falls_short
from ..calibration.running import SHAPES, run_all
from ..calibration.telling import lines_of
from ..judge import measured
from ..judge.pack import load_rulebook, own_folder
from ..schemas import text_of

EXIT_ERRORS = 1


def add_options(action: argparse.ArgumentParser) -> None:
    """What ``flatline rules calibrate`` takes, besides ``--rules``."""
    action.add_argument(
        "cases", nargs="+", type=Path, metavar="CASES",
        help="a JSONL file of labelled cases, or a folder with cases.jsonl or labels.jsonl",
    )  # fmt: skip
    action.add_argument("--case", action="append", default=[], metavar="ID", help="only cases whose id has this in it")
    action.add_argument(
        "--shape", choices=[*SHAPES, "all"], default="all",
        help="a folder of files, one text, a Markdown ticket; default: all three",
    )  # fmt: skip
    action.add_argument("--holdout", type=int, default=0, metavar="N", help="put every Nth case aside from the fit")
    action.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), metavar="N", help="processes at once")
    action.add_argument("--show", action="store_true", help="every case and every rule, not only what fell short")
    action.add_argument(
        "--write", type=Path, metavar="PACK/calibration.json",
        help="also write the counts there: reports then tell how each rule of that pack did",
    )  # fmt: skip
    action.add_argument("--format", choices=["text", "json"], default="text")


def run(options: argparse.Namespace) -> int:
    """Analyze, count, fit, print. 1 when a case could not be analyzed."""
    if options.holdout < 0 or options.holdout == 1:
        raise UsageError("--holdout puts every Nth case aside, so that N is 2 at least")
    cases = _wanted(read_cases(options.cases), options.case)
    shapes = SHAPES if options.shape == "all" else (options.shape,)
    book = load_rulebook(options.rules, own=own_folder())
    outcomes = list(run_all(cases, shapes, book, jobs=options.jobs, told=_told()))
    result = calibration_of(
        outcomes,
        packs=[str(pack) for pack in book.packs],
        family_of=lambda cause: book.causes[cause].family if cause in book.causes else cause,
        in_use=measured.probability,
        every=options.holdout,
    )
    if options.write is not None:
        _write(options.write, result)
    if options.format == "json":
        print(json.dumps(as_json(result), indent=1, ensure_ascii=False))
    else:
        print("\n".join(lines_of(result, every_case=options.show, every_rule=options.show)))
    return EXIT_ERRORS if any(falls_short(outcome) == "ERROR" for outcome in outcomes) else EXIT_OK


def _write(path: Path, result: Calibration) -> None:
    """Raises UsageError where it cannot be written."""
    try:
        path.write_text(text_of(as_committed(result)), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    print(f"wrote {path}", file=sys.stderr)


def _wanted(cases: Sequence[LabelledCase], parts: Sequence[str]) -> list[LabelledCase]:
    """Raises UsageError when there is none."""
    wanted = [case for case in cases if not parts or any(part in case.id for part in parts)]
    if not wanted:
        raise UsageError(f"no case has {' or '.join(parts)} in its id")
    return wanted


def _told() -> Callable[[int, int], None]:
    """How far it is, on a terminal only."""
    if not sys.stderr.isatty():
        return lambda done, of: None

    def told(done: int, of: int) -> None:
        sys.stderr.write(f"\r{done} of {of} ")
        sys.stderr.write("\r" if done < of else "\n")
        sys.stderr.flush()

    return told
