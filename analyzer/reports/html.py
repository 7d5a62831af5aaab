"""The report to read: one file, no script, nothing fetched, every text of the target inert."""

from __future__ import annotations

from importlib import resources

import jinja2

from flatline import __version__

from .view import View
from .visible import visible
from .wording import (
    among,
    around,
    chain_heading,
    decides,
    duration,
    end_sentence,
    place,
    record,
    role,
    said,
    silence,
    taken_for,
)


def render(view: View, **_: object) -> str:
    """HTML. Autoescape is switched on explicitly: choosing by file name would leave ``.html.j2`` unescaped."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        among=among, around=around, chain_heading=chain_heading, decides=decides, duration=duration,
        end_sentence=end_sentence, place=place, record=record, role=role, said=said,
        silence=silence, taken_for=taken_for, visible=visible,
    )  # fmt: skip
    template = resources.files("flatline.analyzer.reports") / "templates" / "report.html.j2"
    page = environment.from_string(template.read_text(encoding="utf-8"))
    return page.render(view=view, report=view.report, version=__version__)
