"""What systemctl says of one service in one word: ``systemctl is-active NAME`` and ``is-failed``."""

from __future__ import annotations

import re

from flatline.bundle.facts import ToolRun

from .interface import Lines, Parsed, Parser
from .prompts import command_in
from .spans import next_shown

_ASKED = re.compile(
    r"systemctl (?:--\S+ )*(?:is-active|is-failed) (?P<name>[\w@.-]{2,80}?)(?:\.service)?(?:\s*[;|&].*)?$"
)
_DOWN = frozenset({"inactive", "failed", "unknown", "deactivating", "activating"})
_BEGINS = re.compile(r".{0,200}\bsystemctl (?:--\S+ )*is-(?:active|failed) ")


def parse(lines: Lines, start: int) -> Parsed | None:
    """The prompt, and the word below it."""
    command = command_in(lines[start].bare)
    asked = _ASKED.match(command.text) if command else None
    at = next_shown(lines, start)
    if asked is None or at is None or lines[at].bare not in _DOWN | {"active"}:
        return None
    word = lines[at].bare
    outcome = "ok" if word == "active" else "error" if word == "failed" else "not-started"
    said = f"{asked['name']} is {word}"
    return Parsed(at + 1, (ToolRun(asked["name"], outcome, message=said, line=lines[at].number),), about=said)


PARSERS = (Parser("service-state", _BEGINS, parse),)
