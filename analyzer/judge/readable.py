"""What can be read of a rule file that is not in order, so that one fault does not hide the next."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pydantic import TypeAdapter, ValidationError

from .compiling import PARTS
from .language import Rule, path_in_document
from .yaml_source import Document

UNREAD = "?"
"""The table of a condition that nobody understands: what it binds is not known, nor what it asks."""
_NOTHING: dict[str, Any] = {"find": UNREAD}
_STAND_INS: dict[str, Any] = {
    "id": "x", "version": 1, "status": "experimental", "cause": "x", "title": "-", "why": "-", "requires": [_NOTHING],
    "fix": ["-"], "confirm": ["-"], "action": "-", "not_this_when": "-",
}  # fmt: skip
_ROUNDS = 8
"""What is left out may leave a gap, and the gap be filled: `requires: 7`."""


def readable(document: Document) -> Rule | None:
    """The rule without what is wrong in it, which `parse_rule` has said; None when nothing is left of it."""
    if not isinstance(document.data, dict):
        return None
    data: dict[str, Any] = deepcopy(document.data)
    for _ in range(_ROUNDS):
        try:
            return TypeAdapter(Rule).validate_python(data)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
        for fault in faults:
            path, name = path_in_document(data, fault["loc"])
            _mend(data, (*path, name) if fault["type"] == "missing" else path)
    return None


def _mend(data: dict[str, Any], path: tuple[str | int, ...]) -> None:
    """Leave out what stands at a path; a condition, and what a rule must have, get a stand-in."""
    if len(path) == 1:
        name = str(path[0])
        data.pop(name, None)
        if name in _STAND_INS:
            data[name] = deepcopy(_STAND_INS[name])
        return
    owner: Any = data
    for part in path[:-1]:
        if not isinstance(owner, (dict, list)):
            return
        try:
            owner = owner[part]  # pyright: ignore[reportCallIssue, reportArgumentType]
        except (KeyError, IndexError):  # an earlier fault of the same place has left it out
            return
    if isinstance(owner, list):
        owner[int(path[-1])] = dict(_NOTHING) if path[0] in PARTS else "-"
    elif isinstance(owner, dict):
        owner.pop(path[-1], None)
        if path[-1] in ("find", "none"):
            owner.clear()
            owner.update(_NOTHING)
