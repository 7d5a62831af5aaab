"""The view of a text without the codes that colour it."""

from __future__ import annotations

import re

_CODE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")


def without_colours(text: str) -> str:
    """The text with blanks where such codes were, so that everything else stays in its place."""
    return _CODE.sub(lambda code: " " * len(code[0]), text) if "\x1b[" in text else text
