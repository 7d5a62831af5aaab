"""Whether a file or a text is a report that was written before: only such a file is replaced unasked, and what such a
text quotes is no evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from ..findings import VerdictState

_LOOK = 4096
_STATES = "|".join(state.upper() for state in get_args(VerdictState))
_BEGINS = re.compile(
    rf"(?:{_STATES})(?:,|\n|$)|### flatline: "
    r"|\s*\{\s*\"schema\": \"flatline-report/|<!doctype html>.*<title>flatline: ",
    re.DOTALL,
)
"""As text, Markdown, JSON and HTML begin, today and in reports of earlier versions."""
_HEAD_LINES = 16
_IS_REPORT = re.compile(
    rf"(?:{_STATES})(?:, silent for .*)?\n(?:\n(?:Why nothing moves|What it does)\n|  - |\nRoot cause \()"
    rf"|### flatline: (?:{_STATES.lower()})(?:,|\n)"
    r"|\s*\{\s*\"schema\":\s*\"flatline-report/"
    r"|\s*<!doctype html>(?s:.*)<(?:meta name=\"generator\" content=\"flatline |title>flatline: )"
)
"""The same for a text that somebody gives to be analyzed: a log may begin with HUNG as well."""


def is_report(path: Path) -> bool:
    """True for an empty file as well: nothing is lost with it. OSError when it cannot be read."""
    with path.open("rb") as file:
        start = file.read(_LOOK).decode("utf-8", "replace")
    return not start or _BEGINS.match(start) is not None


def is_text_of_report(lines: Sequence[str]) -> bool:
    """Whether a text begins as our reports do, in any of their formats."""
    return _IS_REPORT.match("\n".join(line.rstrip("\r")[:1000] for line in lines[:_HEAD_LINES])) is not None
