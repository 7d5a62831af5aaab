"""The report for a ticket: short, with the long parts folded away."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..findings import Evidence, Finding
from .view import View
from .visible import visible
from .wording import among, around, chain_heading, decides, place, role, silence, taken_for, the_rule

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!@&])")


def render(view: View, **_: object) -> str:
    """GitHub-flavoured Markdown. Text of the target is escaped, or stands in a fence it cannot close."""
    return "\n".join(_lines(view)) + "\n"


def plain(text: str, limit: int = 2000) -> str:
    """Text of others, so that it formats, links, mentions and embeds nothing."""
    return _MARKUP.sub(r"\\\1", visible(text, limit)).replace("://", ":\u200b//")


def fence(lines: list[str]) -> Iterator[str]:
    """A code block with a fence longer than any run of backticks inside."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    mark = "`" * max(3, longest + 1)
    yield mark + "text"
    yield from (visible(line) for line in lines)
    yield mark


def _lines(view: View) -> Iterator[str]:
    verdict = view.report.verdict
    yield f"### flatline: {', '.join(filter(None, (verdict.state, plain(silence(verdict)))))}"
    if view.chain is not None and view.chain.text:
        yield f"\n**{chain_heading(verdict)}:** {plain(view.chain.text, 4000)}"
    yield ""
    yield from (f"- {plain(reason)}" for reason in view.reasons)
    yield ""
    if view.diagnosis is None:
        yield f"**{plain(view.no_cause)}**"
    else:
        yield from _finding(view.diagnosis)
    if view.others:
        yield "\n**Also seen**\n"
        yield from (f"- {plain(f.title)} ({role(f)}, {f.word})" for f in view.others)
    if view.report.gaps:
        yield "\n**What could not be seen**\n"
        for gap in view.report.gaps:
            hint = f" `{_code(gap.hint)}`" if gap.hint else ""
            yield f"- {plain(gap.probe)}: {gap.status}. {plain(gap.message)}{hint}"
    yield from _asks(view)
    yield from _details(view)
    if found := taken_for(view.report.recognised):
        yield f"\nRead: {plain(found)}."
    if any(bundle.is_as_given for bundle in view.report.bundles):
        yield "\nMade from texts as they were given: their secrets are not hidden here."
    if any(bundle.is_unredacted for bundle in view.report.bundles):
        yield "\n**Made from an UNREDACTED bundle: do not post this in public.**"


def _asks(view: View) -> Iterator[str]:
    if not view.report.ask:
        return
    yield "\n**What would help to decide**\n"
    yield from (f"- {plain(f'{ask.what}. {decides(ask)}')}" for ask in view.report.ask)
    yield "\nPlease run and send the output:\n"
    yield from fence(view.report.request.split("\n"))


def _finding(finding: Finding) -> Iterator[str]:
    yield f"**Root cause ({finding.word}): {plain(finding.title)}** (`{_code(finding.cause)}`)"
    yield ""
    yield plain(finding.summary)
    for title, items in (
        ("Evidence", [_evidence(item) for item in finding.evidence]),
        ("What to do", [plain(item) for item in finding.fix]),
    ):
        if items:
            yield f"\n{title}:\n"
            yield from (f"- {item}" for item in items)
        if title == "Evidence":
            yield from _around(finding.evidence)
    if finding.confirm:
        yield "\nTo confirm:\n"
        yield from fence(finding.confirm)
    yield f"\nThe rule: {plain(the_rule(finding))}"


def _evidence(item: Evidence) -> str:
    where = f"`{_code(place(item))}`"
    return ", ".join(filter(None, (f"{plain(item.quote)} {where}" if item.quote else where, among(item))))


def _around(evidence: Sequence[Evidence]) -> Iterator[str]:
    """The lines beside those of logs."""
    known = [item for item in evidence if around(item)]
    if not known:
        return
    yield "\n<details><summary>The lines around</summary>\n"
    for item in known:
        yield from fence([place(item), *around(item)])
    yield "</details>"


def _details(view: View) -> Iterator[str]:
    if view.stacks:
        yield "\n<details><summary>Stacks</summary>\n"
        for group in view.stacks[:20]:
            who = f"{', '.join(group.threads)}" + (f"  [{group.liveness}]" if group.liveness else "")
            yield from fence([who, *("  " + line for line in group.lines)])
        yield "</details>"
    for log in view.logs[:5]:
        yield f"\n<details><summary>{plain(log.title)}: {plain(log.about)}</summary>\n"
        yield from fence(list(log.lines))
        yield "</details>"


def _code(text: str) -> str:
    return visible(text, 400).replace("`", "'")
