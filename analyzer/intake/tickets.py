"""Tickets: Markdown whose fenced blocks are artefacts, HTML whose <pre> blocks are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape

from .closing_words import closing_words

_FENCE = re.compile(r"(?:> ?)*\s{0,3}(`{3,}(?!`)|~{3,}(?!~)(?!.*~{3}))[^`]*$")
"""No sign is left to the rest of the line: a line that is no fence after all is told at once, however long it is."""
_HTML = re.compile(r"(?i)\s*(?:<!doctype html|<html|<body|<pre\b)")
_PRE = re.compile(r"(?i)<(/?)(?:pre|code)\b[^<>]*>")
_TAG = re.compile(r"<[^<>\n]{1,300}>")


@dataclass(frozen=True)
class Part:
    """Lines of an input that belong together; `is_prose`: what a person wrote around the artefacts."""

    first: int
    """Index of its first line."""
    lines: tuple[str, ...]
    is_prose: bool = False


def parts(lines: Sequence[str]) -> list[Part]:
    """The artefacts and the prose of a ticket in order; one part when it is no ticket."""
    if any(_HTML.match(line) for line in lines[:5]):
        lines = _text_of_html(lines)
    fences = [index for index, line in enumerate(lines) if _FENCE.match(line)]
    return _fenced(lines) if fences else _unfenced(lines)


def _unfenced(lines: Sequence[str]) -> list[Part]:
    """The whole, but for what a person says below it: that is no line of the log."""
    end = closing_words(lines)
    below = [Part(end, tuple(lines[end:]), is_prose=True)] if end < len(lines) else []
    return [Part(0, tuple(lines[:end])), *below]


def _fenced(lines: Sequence[str]) -> list[Part]:
    """A fence is closed by one of the same sign that is at least as long; one that nobody closes ends with the text."""
    found: list[Part] = []
    begun, mark = 0, ""
    for index, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence is None or (mark and not _closes(fence, line, mark)):
            continue
        if index > begun:
            found.append(Part(begun, tuple(lines[begun:index]), is_prose=not mark))
        mark = "" if mark else fence[1]
        begun = index + 1
    if begun < len(lines):
        found.append(Part(begun, tuple(lines[begun:]), is_prose=not mark))
    return found


def _closes(fence: re.Match[str], line: str, mark: str) -> bool:
    return fence[1].startswith(mark) and line.strip().lstrip("> ").strip("`~") == ""


def _text_of_html(lines: Sequence[str]) -> list[str]:
    """The text of a page, a fence where a <pre> begins or ends; the line numbers stay."""
    in_pre = False
    text: list[str] = []
    for line in lines:
        marks = [mark[1] for mark in _PRE.finditer(line)]
        bare = unescape(_TAG.sub("", line))
        if not marks:
            text.append(bare)
            continue
        opens = marks[-1] == ""
        turns = opens != in_pre
        in_pre = opens
        text.append("```" if turns and not bare.strip() else bare)
    return text
