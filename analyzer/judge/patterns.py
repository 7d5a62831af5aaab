"""Patterns of rules: RE2 syntax, so that no rule and no log line can make matching slow.

google-re2 has no wheels everywhere. Without it Python's `re` serves the built-in rules only, which are written and
tested by us; a pack from elsewhere could bring a pattern that backtracks for hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..scan.interface import Compiled

try:
    import re2  # pyright: ignore[reportMissingImports]
except ImportError:
    re2 = None

MIN_LITERAL_BYTES = 4
MAX_PATTERN = 4000
"""Characters of one pattern; looking into longer ones for the text they need takes seconds."""
MAX_NESTED = 50
"""Groups within one another."""
MAX_PROGRAM, MAX_PROGRAMS = 40_000, 2_000_000
"""Instructions that RE2 makes of one pattern and of all of a pack: ``\\pL{200}`` are 240,000 and ten megabytes. The
built-in rules have 26,000 at most, and 650,000 together."""
_left: ContextVar[list[int] | None] = ContextVar("left", default=None)
_SPACE = re.compile(r"\\.|\[\^?\]?|\]", re.DOTALL)


class PatternRefused(Exception):
    """The pattern is not RE2 syntax, or must not be run here."""


def compile_pattern(pattern: str, *, trusted: bool = False) -> Compiled:
    """Compile RE2 syntax. Raises PatternRefused; also without google-re2, unless the pattern is `trusted`."""
    if len(pattern) > MAX_PATTERN:
        raise PatternRefused(f"it may have {MAX_PATTERN:,} characters at most")
    if _nested(pattern) > MAX_NESTED:
        raise PatternRefused(f"its groups may be {MAX_NESTED} deep at most")
    _spend(0)  # when all is spent nothing more is compiled
    if re2 is None:
        return _compile_without_re2(pattern, trusted=trusted)
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        raise PatternRefused(reason.decode() if isinstance(reason, bytes) else str(reason)) from None
    _spend(compiled.programsize)
    return compiled


@contextmanager
def one_pack() -> Iterator[None]:
    """All patterns that are compiled meanwhile are of one pack, and together may not be larger than `MAX_PROGRAMS`."""
    token = _left.set([MAX_PROGRAMS])
    try:
        yield
    finally:
        _left.reset(token)


def _spend(size: int) -> None:
    """Take it from what the pack may have: one that is refused has cost its time as well."""
    left = _left.get()
    if left is not None:
        left[0] -= size
        if left[0] <= 0:
            raise PatternRefused(f"this pack's are too large together: {MAX_PROGRAMS:,} instructions are allowed")
    if size > MAX_PROGRAM:
        raise PatternRefused(f"it is too large: RE2 makes {size:,} instructions of it, {MAX_PROGRAM:,} are allowed")


def _nested(pattern: str) -> int:
    """How deep groups are within one another; a bracket in a class counts, which patterns seldom have."""
    depth = deepest = 0
    for mark in re.findall(r"\\.|[()]", pattern, re.DOTALL):
        depth += (mark == "(") - (mark == ")")
        deepest = max(deepest, depth)
    return deepest


def _compile_without_re2(pattern: str, *, trusted: bool) -> Compiled:
    if not trusted:
        raise PatternRefused("patterns of other packs need google-re2, which is not installed here")
    try:
        return re.compile(_with_spaces(pattern), re.ASCII)
    except re.error as error:
        raise PatternRefused(str(error)) from None


def _with_spaces(pattern: str) -> str:
    r"""The pattern with ``\s`` as RE2 has it: to `re` a vertical tab is a space too."""
    in_class = False

    def written(found: re.Match[str]) -> str:
        nonlocal in_class
        text = found[0]
        if text in (r"\s", r"\S") and not in_class:
            return r"[\t\n\f\r ]" if text == r"\s" else r"[^\t\n\f\r ]"
        if text == r"\s":
            return r"\t\n\f\r "
        in_class = in_class or text.startswith("[") if text != "]" else False
        return text

    return _SPACE.sub(written, pattern)
