"""Whether a file is a report that was written before: only such a one is replaced unasked."""

from __future__ import annotations

import re
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


def is_report(path: Path) -> bool:
    """True for an empty file as well: nothing is lost with it. OSError when it cannot be read."""
    with path.open("rb") as file:
        start = file.read(_LOOK).decode("utf-8", "replace")
    return not start or _BEGINS.match(start) is not None
