"""Text that a target controls, made safe to show: it moves no cursor, colours no terminal and floods no page."""

from __future__ import annotations

import re

from flatline.visible import visible as spelled_out

_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def visible(text: str, limit: int = 2000) -> str:
    """One line: no ANSI sequences, controls as ``\\x1f``, at most `limit` characters and how many there were."""
    clean = spelled_out(_ANSI.sub("", text[: limit * 4]).expandtabs(8))
    if len(clean) <= limit and len(text) <= limit * 4:
        return clean
    return f"{clean[:limit]} […{len(text):,} characters]"


def visible_lines(text: str, limit: int = 2000) -> list[str]:
    """Every line of `text`, each `visible`; what a carriage return overwrote is left out, as on a terminal."""
    return [visible(line.rstrip("\r").rpartition("\r")[2], limit) for line in text.split("\n")]
