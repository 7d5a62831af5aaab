"""One reporter per file; all render the same plain `View` of a `Report`, none computes anything."""

from __future__ import annotations

from collections.abc import Callable

from ..case import Case
from ..findings import Report
from . import html, json_v1, markdown, terminal
from .view import View, view_of

FORMATS: dict[str, Callable[..., str]] = {
    "html": html.render,
    "json": json_v1.render,
    "md": markdown.render,
    "text": terminal.render,
}
"""``--format`` -> a function of (view, colour=...) to text."""


def render(name: str, report: Report, case: Case, *, colour: bool = False, width: int = 100) -> str:
    """The report in one of `FORMATS`. KeyError for an unknown one."""
    return FORMATS[name](view_of(report, case), colour=colour, width=width)


__all__ = ["FORMATS", "View", "render"]
