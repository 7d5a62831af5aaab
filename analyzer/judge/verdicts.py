"""Judging: every rule against the facts, then the fired ones against each other."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

from flatline.bundle.facts import End, Process, WaitEdge

from ..derive.scope import Scope
from ..findings import Word
from . import measured, rank
from .compiling import Weighed
from .evaluate import MAX_STEPS, Match, Solver, StepsExhausted
from .fields import Absent, value_of
from .index import FactIndex
from .pack import LoadedRule
from .rank import Item

MAX_STEPS_IN_ALL = 500_000
"""Rows looked at for all rules together: a pack of hundreds that each take all they may would take minutes."""
MAX_SOLUTIONS = 400
MAX_WITNESSES = 64
MAX_GUESSES = 16
"""Ways in which an undecided rule may still hold; what any of them lacks would help to decide it."""
SYMPTOM_ROUNDS = 2
"""An explained symptom raises its cause's odds, which may raise the odds of what explains that."""


@dataclass(frozen=True)
class Witness:
    """One binding of a rule's variables for which everything required holds."""

    match: Match
    support: tuple[Item, ...] = ()
    against: tuple[Item, ...] = ()
    unchecked: frozenset[str] = frozenset()
    """Tables and fields that further evidence would have needed."""

    @property
    def bindings(self) -> Mapping[str, Any]:
        return self.match.bindings

    @property
    def is_proven(self) -> bool:
        """Whether it rests on a wait or an end that follows from what the kernel or memory says."""
        return any(isinstance(row, (WaitEdge, End)) and row.strength == "proven" for row in self.match.rows)

    @cached_property
    def processes(self) -> frozenset[str]:
        """Every process it is about."""
        return frozenset(process for process in map(_process_of_row, self.match.rows) if process)

    @property
    def hosts(self) -> set[str]:
        """Where it is; empty: nowhere in particular."""
        return {host for host in map(_host, self.match.rows) if host}

    @property
    def facts(self) -> int:
        """How many independent kinds of evidence hold."""
        return len({item.group for item in self.support})

    @property
    def weights(self) -> set[str]:
        return {item.weight for item in self.support}


@dataclass(frozen=True)
class Fired:
    """A rule that fired, with its witnesses, the strongest first."""

    rule: LoadedRule
    witnesses: tuple[Witness, ...]
    p: float = 0.0
    z: float = rank.BETA
    """The log-odds behind `p`, before any scaling or cap."""
    highest: Word = "very likely"
    """What its word may be at most, whatever the odds."""
    explained_by: str | None = None
    hidden: bool = False
    """Superseded: another rule says the same, more precisely."""
    on_chain_end: bool = False
    """It is about the process in which the diagnosed chain ends."""
    on_a_chain: bool = True
    """It is about a process that the job's roots wait for; else something beside the job's own wait."""
    may_be_cause: bool = True
    """It lies where the cause may be."""

    @property
    def best(self) -> Witness:
        return self.witnesses[0]

    @cached_property
    def processes(self) -> set[str]:
        """Every process it is about."""
        return {process for witness in self.witnesses for process in witness.processes}


@dataclass(frozen=True)
class Undecided:
    """A rule that may hold; `missing` names what would decide it."""

    rule: LoadedRule
    missing: frozenset[str]
    seen: int = 0
    """How many rows speak for it all the same."""


@dataclass(frozen=True)
class Judgement:
    """Every rule's outcome; a rule in neither list does not hold."""

    fired: list[Fired] = field(default_factory=list)
    undecided: list[Undecided] = field(default_factory=list)
    broken: list[tuple[LoadedRule, str]] = field(default_factory=list)


def judge(rules: Iterable[LoadedRule], index: FactIndex, scope: Scope | None = None) -> Judgement:
    """Evaluate every rule, then settle who explains whom. One broken rule does not cost the others' answers."""
    scope, judgement, rules = scope or Scope(), Judgement(), list(rules)
    index.logs.expect(pattern for rule in rules for pattern in rule.patterns)
    with _without_collector():
        steps = MAX_STEPS_IN_ALL
        for rule in rules:
            if rule.model.status == "deprecated":
                continue
            solver = Solver(index, min(MAX_STEPS, steps))
            try:
                outcome = judge_rule(rule, index, solver)
            except Exception as error:  # noqa: BLE001  a fault in one rule must not cost the report
                judgement.broken.append((rule, f"{type(error).__name__}: {error}"))
                continue
            finally:
                steps -= solver.taken
            if isinstance(outcome, Fired):
                judgement.fired.append(_placed(outcome, scope))
            elif isinstance(outcome, Undecided):
                judgement.undecided.append(outcome)
    judgement.undecided.sort(key=lambda undecided: (-undecided.seen, undecided.rule.id))
    return replace(judgement, fired=settle(judgement.fired))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Python's collector would walk millions of facts again and again: they are put aside, and put back after."""
    if gc.get_freeze_count() or not gc.isenabled():
        yield  # somebody else has seen to it, and will want it so
        return
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def judge_rule(rule: LoadedRule, index: FactIndex, solver: Solver | None = None) -> Fired | Undecided | None:
    """One rule against the facts: fired, undecided, or None when it does not hold."""
    solver = solver or Solver(index)
    conditions = [weighed.condition for weighed in rule.requires]
    try:
        matches = list(islice(solver.solutions(conditions, {}), MAX_SOLUTIONS))
        if matches:
            return Fired(rule, _strongest([_witness(rule, match, solver) for match in matches]))
        guesses = list(islice(solver.guesses(conditions, {}), MAX_GUESSES))
    except StepsExhausted:
        return Undecided(rule, frozenset({"too many rows to compare"}))
    missing = frozenset().union(*(guess.missing for guess in guesses))
    return Undecided(rule, missing, max(len(guess.rows) for guess in guesses)) if guesses else None


def _witness(rule: LoadedRule, match: Match, solver: Solver) -> Witness:
    """The match with everything that speaks for and against it."""
    support = [Item(weighed.group, weighed.weight) for weighed in rule.requires if weighed.weight]
    unchecked: frozenset[str] = frozenset()
    for weighed in rule.supports:
        found = solver.truth([weighed.condition], match.bindings)
        if found and found.truth:
            support += _item(weighed)
            match = Match(True, found.bindings, match.rows + found.rows)
        elif found:
            unchecked |= found.missing
    against = [item for weighed in rule.contradicts if _holds(weighed, match, solver) for item in _item(weighed)]
    return Witness(match, tuple(support), tuple(against), unchecked)


def _item(weighed: Weighed) -> list[Item]:
    return [Item(weighed.group, weighed.weight)] if weighed.weight else []


def _holds(weighed: Weighed, match: Match, solver: Solver) -> bool:
    return next(solver.solutions([weighed.condition], match.bindings), None) is not None


def _strongest(witnesses: list[Witness]) -> tuple[Witness, ...]:
    """The best witness for each thing the rule is about, the strongest first."""
    best: dict[int, Witness] = {}
    for witness in sorted(witnesses, key=lambda w: -rank.log_odds(w.support, w.against)):
        subject = next((row for row in witness.bindings.values() if not isinstance(row, Absent)), None)
        best.setdefault(id(subject), witness)
    return tuple(best.values())[:MAX_WITNESSES]


def settle(fired: Sequence[Fired]) -> list[Fired]:
    """Probabilities, who is whose symptom, and the order in which to show them."""
    by_id = {outcome.rule.id: outcome for outcome in fired}
    explains = {outcome.rule.id: outcome.rule.model.explains for outcome in fired}
    symptoms: dict[str, int] = {}
    for _ in range(SYMPTOM_ROUNDS):
        by_id = {name: _scored(outcome, symptoms.get(name, 0)) for name, outcome in by_id.items()}
        symptoms = {name: len(_explained(outcome, explains, by_id)) for name, outcome in by_id.items()}
    by_id = _exclusive({name: outcome for name, outcome in by_id.items() if not _is_refuted(outcome)})
    for name in sorted(by_id, key=lambda name: -by_id[name].p):
        cause = by_id[name]
        if cause.p < rank.ROOT_CAUSE_FLOOR or cause.explained_by or not cause.may_be_cause:
            continue
        for symptom in _explained(cause, explains, by_id):
            if not _is_doubtful_beside(cause, by_id[symptom]):
                by_id[symptom] = replace(by_id[symptom], explained_by=name)
        for other in cause.rule.model.supersedes:
            if other in by_id:
                by_id[other] = _superseded(by_id[other], cause)
    return sorted(by_id.values(), key=_order)


def _is_refuted(outcome: Fired) -> bool:
    """Whether what speaks against it leaves so little that to name it would only mislead."""
    return _is_contradicted(outcome.best) and outcome.p < rank.REFUTED_BELOW


def _is_contradicted(witness: Witness) -> bool:
    return any(item.weight == "decisive" for item in witness.against)


def _is_doubtful_beside(cause: Fired, symptom: Fired) -> bool:
    """Whether a cause that by its evidence is no more than possible would hide what is next to certain."""
    likely = rank.word_for(measured.probability(cause.z)) in ("likely", "very likely")
    return not likely and rank.word_for(symptom.p) == "very likely"


def _superseded(vague: Fired, precise: Fired) -> Fired:
    """Without the witnesses about the same processes; hidden when that leaves none."""
    left = tuple(w for w in vague.witnesses if w.processes and not w.processes & precise.processes)
    if left:
        return replace(vague, witnesses=left)
    return replace(vague, explained_by=precise.rule.id, hidden=True)


def _scored(outcome: Fired, symptoms: int) -> Fired:
    best = outcome.best
    word = rank.highest_word(
        proven=best.is_proven,
        decisive="decisive" in best.weights,
        strong="strong" in best.weights,
        facts=best.facts,
        settled=outcome.rule.model.status == "stable",
        refuted=_is_contradicted(best),
    )
    highest = rank.lower(word, outcome.rule.model.at_most or word)
    z = rank.log_odds(best.support, best.against, symptoms)
    return replace(outcome, z=z, highest=highest, p=rank.capped(measured.probability(z), highest))


def _exclusive(by_id: dict[str, Fired]) -> dict[str, Fired]:
    shared = dict(by_id)
    for name, outcome in by_id.items():
        rivals = [other for other in outcome.rule.model.excludes if other in by_id]
        if rivals:
            zs = {member: _z(by_id[member]) for member in (name, *rivals)}
            shares = rank.shared_out(zs)
            for member, share in shares.items():
                shared[member] = replace(shared[member], p=min(shared[member].p, share))
    return shared


def _z(outcome: Fired) -> float:
    return rank.log_odds(outcome.best.support, outcome.best.against)


def _explained(cause: Fired, explains: Mapping[str, Iterable[str]], fired: Mapping[str, Fired]) -> list[str]:
    """Fired rules that this one explains, where both are about the same hosts."""
    names = rank.reachable(explains, cause.rule.id)
    return sorted(name for name in names if name in fired and _overlap(cause, fired[name]))


def _overlap(first: Fired, second: Fired) -> bool:
    a, b = first.best.hosts, second.best.hosts
    return not a or not b or bool(a & b)


def _order(outcome: Fired) -> tuple[Any, ...]:
    """Causes before symptoms; of near equals the one at the end of the chain first."""
    return (
        outcome.explained_by is not None,
        not outcome.may_be_cause,
        -round(outcome.p, 1),
        not outcome.on_chain_end,
        -outcome.p,
        -len(outcome.rule.requires),
        outcome.rule.id,
    )


def _host(row: Any) -> str:
    for name in ("host", "process", "thread", "waiter", "id"):
        value = value_of(row, name)
        if isinstance(value, str):
            node = value.rpartition(":")[2] if name == "waiter" else value
            return node.partition("/")[0]
    return ""


def _placed(outcome: Fired, scope: Scope) -> Fired:
    """Where the rule's witnesses lie; those a cause may be about come first, and speak for the rule."""

    def rank_of(witness: Witness) -> tuple[bool, bool]:
        return not _meets(witness.processes, scope.suspects), not _meets(witness.processes, scope.waited_for)

    placed = replace(outcome, witnesses=tuple(sorted(outcome.witnesses, key=rank_of)))
    about = placed.best.processes
    return replace(
        placed,
        on_chain_end=scope.ends_at in outcome.processes,
        on_a_chain=_meets(about, scope.waited_for),
        may_be_cause=_meets(about, scope.suspects),
    )


def _meets(processes: frozenset[str], wanted: frozenset[str] | None) -> bool:
    """What is about no process in particular, as a full disk, is about all of them."""
    return wanted is None or not processes or bool(processes & wanted)


def _process_of_node(node: str) -> str:
    """``h1/12`` of ``thread:h1/12/13``, ``process:h1/12`` and ``h1/12``; "" for other nodes."""
    kind, colon, name = node.rpartition(":")
    host, _, rest = name.partition("/")
    pid = rest.partition("/")[0]
    is_task = kind in ("thread", "process") or not colon
    return f"{host}/{pid}" if is_task and pid.isdigit() else ""


def _process_of_row(row: Any) -> str:
    """The process a row is about; "" for rows about files, mounts, hosts."""
    for name in ("thread", "process", "waiter"):
        value = getattr(row, name, None)
        if isinstance(value, str):
            return _process_of_node(value)
    return row.id if isinstance(row, Process) else ""
