"""The places that evidence points to, as text to show beside it; each member is parsed once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from flatline.errors import UnreadableBundleError

from ..case import Case, lines_of
from ..findings import Evidence, Report
from .visible import visible, visible_lines
from .wording import around

MAX_EXCERPTS = 300
MAX_LENGTH = 4000


@dataclass(frozen=True)
class Excerpt:
    """The place an evidence item points to, with an anchor to jump to."""

    anchor: str
    title: str
    text: str


def place(evidence: Evidence) -> tuple[str, str]:
    """What tells one excerpt from another."""
    return evidence.artefact, evidence.pointer or (f"line {evidence.line}" if evidence.line else "")


def excerpts_of(report: Report, case: Case) -> dict[tuple[str, str], Excerpt]:
    """What the places cited by the findings and by the shown chain hold, each once, the diagnosis first."""
    cited = [item for finding in report.findings for item in finding.evidence]
    if report.chain is not None and report.chain < len(report.chains):
        cited += [item for step in report.chains[report.chain].steps for item in step.evidence]
    members = _Members(case)
    found: dict[tuple[str, str], Excerpt] = {}
    for evidence in cited:
        key = place(evidence)
        if evidence.artefact and key not in found and len(found) < MAX_EXCERPTS:
            title = visible(" ".join(filter(None, key)), 300)
            found[key] = Excerpt(f"e{len(found) + 1}", title, members.excerpt(evidence))
    return found


class _Members:
    """The cited members of a case, each read once."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._parsed = cache(self._parse)

    def excerpt(self, evidence: Evidence) -> str:
        """The row or the lines an evidence item points to; its quote when there is no bundle behind it."""
        try:
            text = self._pointed_at(evidence) if evidence.pointer else self._lines_around(evidence)
        except (LookupError, ValueError, TypeError, RecursionError, UnreadableBundleError):
            text = evidence.quote  # a broken member still has its quote
        return "\n".join(visible_lines(text[:MAX_LENGTH]))

    def _parse(self, artefact: str) -> Any:
        found = self._case.locate(artefact)
        return None if found is None else json.loads(found[0].text(found[1]))

    def _pointed_at(self, evidence: Evidence) -> str:
        value = self._parsed(evidence.artefact)
        if value is None:
            return evidence.quote
        for part in (evidence.pointer or "").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            value = value[int(key)] if isinstance(value, list) else value[key]
        return json.dumps(value, ensure_ascii=False, indent=1)

    def _lines_around(self, evidence: Evidence) -> str:
        wanted = evidence.line or 1
        lines = enumerate(lines_of(self._case, evidence.artefact), start=1)
        near = [(number, line) for number, line in lines if wanted - 5 <= number <= wanted + 2]
        if not near:  # further on than anything is read again for
            return "\n".join(around(evidence)) or evidence.quote
        return "\n".join(f"{number:>7}{'>' if number == wanted else ' '} {line.rstrip()}" for number, line in near)
