"""Secrets by their place in something structured: an environment, a command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Callable

from .names import classify, is_plural
from .spans import Hide
from .values import has_mark, hides_nothing, is_number, is_passcode, looks_secret

_ONE_OF_SEVERAL = re.compile(r"[^\s,;]{8,}")


def hide_named_value(name: str, value: str, hide: Hide) -> str | None:
    """The mark for the whole value when its name says that it is a secret; None: judge it as text."""
    promise = classify(name)
    if promise is None or hides_nothing(promise.kind, value) or has_mark(value):
        return None
    if promise.kind == "otp" and is_passcode(value):
        return hide(promise.kind, value)
    if promise.kind != "password" and is_number(value):
        return None
    if is_plural(name) and _ONE_OF_SEVERAL.search(value) and re.search(r"[\s,;]", value.strip()):
        return _ONE_OF_SEVERAL.sub(lambda one: hide_named_value(name, one[0], hide) or one[0], value)
    if not promise.certain and not looks_secret(value, shortest=8):
        return None
    return hide(promise.kind, value)


def hide_in_argv(argv: Sequence[str], hide_in_text: Callable[[str], str]) -> tuple[str, ...]:
    """A command line as /proc shows it, with NUL between the words, so that an option and its value are seen together.

    Word by word where a word holds NUL itself, which no real one can.
    """
    hidden = hide_in_text("\0".join(argv)).split("\0")
    return tuple(hidden) if len(hidden) == len(argv) else tuple(map(hide_in_text, argv))
