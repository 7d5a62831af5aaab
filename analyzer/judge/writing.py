"""Fired rules as findings: the texts filled in, the evidence quoted, the word chosen."""

from __future__ import annotations

from collections.abc import Sequence

from ..findings import Finding, FindingRole, VerdictState, Word
from . import rank
from .evidence import Lookup, evidence_of
from .index import FactIndex
from .texts import render
from .verdicts import Fired

SHORTEST_MESSAGE = 20
"""What is shorter may end two different ones: a rank's number."""
LONGEST_HEAD = 8
"""Words before the message in a line of a log: its time, its host, its program."""
MAX_WITNESSES_SHOWN = 3
BESIDE_PROGRESS: Word = "possible"
"""The highest word for a cause of a hang in a job that gets on."""


class Writer:
    """Writes the findings of one case. A job that is not stuck has no root cause of a hang, only one of its `state`; of
    one that is degraded, and no rule knows by what, anything that may be wrong. Where its own chain `gets_on`, what
    nobody waits for is a guess."""

    def __init__(
        self,
        index: FactIndex,
        look_up: Lookup,
        state: VerdictState = "unknown",
        *,
        is_stuck: bool,
        gets_on: bool = False,
    ) -> None:
        self._index = index
        self._look_up = look_up
        self._state = state
        self._is_stuck = is_stuck
        self._gets_on = gets_on
        self._is_explained = False

    def findings(self, fired: Sequence[Fired]) -> list[Finding]:
        """In the order given; superseded ones are left out."""
        shown = [outcome for outcome in fired if not outcome.hidden]
        makes_it_so = [o for o in shown if _may_be_cause(o) and self._is_of_state(o)]
        self._is_explained = bool(makes_it_so)
        if not self._is_stuck:
            shown = makes_it_so + [o for o in shown if o not in makes_it_so]
        rivals = _rivals(shown) if self._is_stuck else {}
        return [self._finding(outcome, rivals.get(outcome.rule.id)) for outcome in shown]

    def _finding(self, outcome: Fired, rival: str | None) -> Finding:
        model = outcome.rule.model
        beside_progress = not self._is_stuck or (self._gets_on and not outcome.on_a_chain)
        beside_progress = beside_progress and not self._is_of_state(outcome)
        p = rank.capped(outcome.p, BESIDE_PROGRESS) if beside_progress else outcome.p
        rows = [row for witness in outcome.witnesses[:MAX_WITNESSES_SHOWN] for row in witness.match.rows]
        return Finding(
            rule=model.id,
            cause=model.cause,
            variant=model.variant,
            role=self._role(outcome),
            confidence=round(p, 3),
            word=rank.word_for(p),
            title=self._text(model.title, outcome),
            summary=self._summary(outcome, rival),
            evidence=evidence_of(rows, self._look_up),
            action=self._text(model.action, outcome),
            fix=[self._text(text, outcome) for text in model.fix],
            confirm=[self._text(text, outcome) for text in model.confirm],
            not_this_when=self._text(model.not_this_when, outcome),
            refs=list(model.refs),
            explained_by=outcome.explained_by,
            pack=outcome.rule.pack,
            measured=outcome.rule.measured,
            zh=self._translated(outcome),
        )

    def _text(self, text: str, outcome: Fired) -> str:
        return render(text, outcome.best.bindings, self._index)

    def _role(self, outcome: Fired) -> FindingRole:
        if outcome.explained_by or outcome.rule.model.symptom:
            return "symptom"
        wanted = self._is_stuck or (self._state == "degraded" and not self._is_explained)
        is_cause = _may_be_cause(outcome) and (wanted or self._is_of_state(outcome))
        return "root-cause" if is_cause else "contributing"

    def _is_of_state(self, outcome: Fired) -> bool:
        """Whether it is about the state that the job was found to be in, rather than about a hang."""
        return outcome.rule.model.verdict == self._state

    def _summary(self, outcome: Fired, rival: str | None) -> str:
        parts = [self._text(outcome.rule.model.why, outcome), self._elsewhere(outcome)]
        if rival:
            parts.append(f"Undecided between this and {rival}: the evidence speaks about equally for both.")
        return " ".join(part for part in parts if part)

    def _elsewhere(self, outcome: Fired) -> str:
        """What else the rule fired on: other ranks, other files."""
        title = outcome.rule.model.title
        titles = dict.fromkeys(render(title, witness.bindings, self._index) for witness in outcome.witnesses)
        more = _different(list(titles))[1:]
        if not more:
            return ""
        rest = len(more) - MAX_WITNESSES_SHOWN
        listed = "; ".join(more[:MAX_WITNESSES_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")
        return f"It is not the only one: {listed}."

    def _translated(self, outcome: Fired) -> dict[str, str | list[str]] | None:
        zh = outcome.rule.model.zh
        if zh is None:
            return None
        named = {"title": zh.title, "summary": zh.why, "action": zh.action, "not_this_when": zh.not_this_when}
        texts: dict[str, str | list[str]] = {name: self._text(text, outcome) for name, text in named.items() if text}
        if zh.fix:
            texts["fix"] = [self._text(text, outcome) for text in zh.fix]
        return texts


def _different(titles: Sequence[str]) -> list[str]:
    """Without those that only repeat another: one message, as a table has it and as the line of the log."""
    messages = {title.partition(": ")[2] for title in titles}

    def repeats(title: str) -> bool:
        words = title.partition(": ")[2].split(" ")
        tails = (" ".join(words[before:]) for before in range(1, min(len(words), LONGEST_HEAD + 1)))
        return any(len(tail) >= SHORTEST_MESSAGE and tail in messages for tail in tails)

    return [titles[0], *(title for title in titles[1:] if not repeats(title))]


def _may_be_cause(outcome: Fired) -> bool:
    hidden = outcome.explained_by or outcome.rule.model.symptom
    return outcome.may_be_cause and not hidden and outcome.p >= rank.ROOT_CAUSE_FLOOR


def _rivals(shown: Sequence[Fired]) -> dict[str, str]:
    """The two leading causes, about one process, when neither stands out: each rule's id and the other's."""
    leading = [outcome for outcome in shown if _may_be_cause(outcome)][:2]
    if len(leading) < 2:
        return {}
    first, second = leading
    told_apart = first.on_chain_end != second.on_chain_end or first.p - second.p >= rank.TIE
    if told_apart or not first.processes & second.processes or first.rule.model.cause == second.rule.model.cause:
        return {}
    return {first.rule.id: second.rule.id, second.rule.id: first.rule.id}
