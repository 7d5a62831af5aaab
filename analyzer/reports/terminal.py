"""The summary for a terminal: the verdict, the chain, the cause, what to do; details are in the HTML report."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from ..findings import Evidence, Finding, ReportGap
from .view import View
from .visible import visible
from .wording import among, chain_heading, decides, place, role, silence, taken_for, the_rule

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATE_COLOURS = {"hung": "red", "crashed": "red", "degraded": "yellow", "waiting": "yellow", "healthy": "green"}
MAX_EVIDENCE = 8
MAX_NOTES = 6
MAX_BRANCHES = 3


def render(view: View, *, colour: bool = False, width: int = 100, **_: object) -> str:
    """Plain text; ANSI colours only when `colour`."""
    paper = Paper(colour=colour, width=max(40, min(width, 120)))
    return "\n".join(_lines(view, paper)) + "\n"


class Paper:
    """Width and colour."""

    def __init__(self, *, colour: bool, width: int) -> None:
        self.colour = colour
        self.width = width

    def style(self, text: str, *names: str) -> str:
        """`text`, coloured when that is wanted."""
        if not self.colour:
            return text
        return f"\x1b[{';'.join(_STYLES[name] for name in names)}m{text}\x1b[0m"

    def wrap(self, text: str, indent: str = "", first: str | None = None) -> list[str]:
        """Paragraph lines."""
        return textwrap.wrap(
            visible(text, 4000), self.width, initial_indent=indent if first is None else first,
            subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
        ) or [indent.rstrip()]  # fmt: skip


def _lines(view: View, paper: Paper) -> Iterator[str]:
    yield _headline(view, paper)
    if view.chain is not None and view.chain.text:
        yield ""
        yield paper.style(chain_heading(view.report.verdict), "bold")
        yield from paper.wrap(view.chain.text, "  ")
        for branch in view.branches[:MAX_BRANCHES]:
            yield from paper.wrap(f"Another branch: {branch}", "    ", "  ")
        if len(view.branches) > MAX_BRANCHES:
            yield f"  … and {len(view.branches) - MAX_BRANCHES} more branches"
    for reason in view.reasons:
        yield from paper.wrap(reason, "    ", "  - ")
    yield ""
    yield from _diagnosis(view, paper)
    yield from _others(view, paper)
    yield from _around(view, paper)
    yield from _gaps(view.report.gaps, paper)
    yield from _asks(view, paper)
    yield from _notes(view, paper)


def _headline(view: View, paper: Paper) -> str:
    verdict = view.report.verdict
    state = paper.style(verdict.state.upper(), "bold", _STATE_COLOURS.get(verdict.state, "cyan"))
    return ", ".join(filter(None, (state, visible(silence(verdict)))))


def _diagnosis(view: View, paper: Paper) -> Iterator[str]:
    finding = view.diagnosis
    if finding is None:
        yield from (paper.style(line, "bold") for line in paper.wrap(view.no_cause))
        return
    yield paper.style(f"Root cause ({finding.word}): ", "bold") + visible(finding.title, 600)
    yield from _about(finding, paper)


def _about(finding: Finding, paper: Paper) -> Iterator[str]:
    yield from paper.wrap(f"{finding.summary} [{finding.cause}]", "  ")
    yield paper.style("  evidence", "cyan")
    for item in finding.evidence[:MAX_EVIDENCE]:
        yield from _evidence(item, paper)
    if len(finding.evidence) > MAX_EVIDENCE:
        yield f"    … and {len(finding.evidence) - MAX_EVIDENCE} more in the HTML report"
    yield from _list("what to do", finding.fix, paper)
    yield from _list("to confirm", finding.confirm, paper)
    if finding.action:
        yield from paper.wrap(finding.action, "  ", "  the process: ")
    if finding.not_this_when:
        yield from paper.wrap(finding.not_this_when, "  ", "  not this when: ")
    yield from paper.wrap(the_rule(finding), "  ", "  the rule: ")


def _evidence(item: Evidence, paper: Paper) -> Iterator[str]:
    """The quote, and behind it, dimmed, where it stands."""
    where = ", ".join(filter(None, (visible(place(item), 200), among(item))))
    *lines, last = paper.wrap(item.quote or where, "      ", "    - ")
    yield from lines
    if not item.quote or not where:
        yield last
    elif len(last) + 2 + len(where) <= paper.width:
        yield f"{last}  {paper.style(where, 'dim')}"
    else:
        yield last
        yield f"      {paper.style(where, 'dim')}"


def _list(title: str, items: list[str], paper: Paper) -> Iterator[str]:
    if items:
        yield paper.style(f"  {title}", "cyan")
    for item in items:
        yield from paper.wrap(item, "      ", "    - ")


def _others(view: View, paper: Paper) -> Iterator[str]:
    if view.others:
        yield ""
        yield paper.style("Also seen", "bold")
    for finding in view.others:
        under = f", explained by {finding.explained_by}" if finding.explained_by else ""
        yield from paper.wrap(f"{finding.title} ({role(finding)}, {finding.word}{under})", "    ", "  - ")


def _around(view: View, paper: Paper) -> Iterator[str]:
    """What is amiss around the job, whether or not it has to do with it."""
    notes = [note for panel in view.panels for note in panel.notes]
    if notes:
        yield ""
        yield paper.style("Around it", "bold")
    for note in notes[:MAX_NOTES]:
        yield from paper.wrap(note, "    ", "  - ")
    if len(notes) > MAX_NOTES:
        yield f"  - and {len(notes) - MAX_NOTES} more, in the HTML report"


def _gaps(gaps: list[ReportGap], paper: Paper) -> Iterator[str]:
    if gaps:
        yield ""
        yield paper.style("What could not be seen", "bold")
    for gap in gaps:
        decides = f" It would decide: {', '.join(gap.would_decide)}." if gap.would_decide else ""
        yield from paper.wrap(f"{gap.probe}: {gap.status}. {gap.message}{decides}", "    ", "  - ")
        if gap.hint:
            yield from paper.wrap(gap.hint, "      ", "    to get it: ")


def _asks(view: View, paper: Paper) -> Iterator[str]:
    """What to ask for next; the block stands as it is, so that it can be pasted."""
    if view.report.ask:
        yield ""
        yield paper.style("What would help to decide", "bold")
    for ask in view.report.ask:
        yield from paper.wrap(f"{ask.what}. {decides(ask)}".strip(), "    ", "  - ")
    if view.report.request:
        yield "  To paste for who has the job:"
        yield ""
        yield from (f"    {visible(line, 1000)}".rstrip() for line in view.report.request.split("\n"))


def _notes(view: View, paper: Paper) -> Iterator[str]:
    for bundle in view.report.bundles:
        notes = list(bundle.notes)
        if bundle.is_unredacted:
            notes.append("this bundle is UNREDACTED: do not attach it to a public ticket")
        if bundle.redaction != "complete" and not bundle.is_as_given:
            notes.append(f"redaction: {bundle.redaction}")
        for note in notes:
            yield from paper.wrap(f"{bundle.name}: {note}", "  ")
    if found := taken_for(view.report.recognised):
        yield ""
        yield from paper.wrap(f"Read: {found}.", "  ", "")
