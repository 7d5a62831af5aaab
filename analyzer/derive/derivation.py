"""The whole derivation, in its order: liveness, waits, chains, verdict, signature; and its tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from flatline.bundle.facts import Liveness, Log, Thread

from ..case import Case, log_text
from ..findings import ChainEnd, Evidence, ReportChain, Step, Verdict, WaitsOn
from ..names import process_named, thread_named
from . import chains as chain_walk
from .chains import Path
from .doings import tell_doings
from .evidence import Quotes
from .liveness import judge_liveness
from .log_verdict import GETS_ON, as_verdict, told_by_texts
from .logs.facts import add_log_facts
from .logs.guarded_calls import add_guards
from .logs.reading import LogText, read_logs
from .logs.repeats import repeating
from .scene import Scene, host_of_id
from .scope import Scope, processes_on, scope_of
from .signature import signature_of
from .verdict import Judged, decisive, judge, led_by
from .waits import derive_waits

MAX_TOLD_STEPS = 8192
"""Of all chains together. What is beyond it is counted and not told; the chain that carries the diagnosis always is."""


@dataclass(frozen=True)
class Derived:
    """What follows from the facts before any rule is asked."""

    paths: tuple[Path, ...] = field(repr=False)
    judged: Judged
    quotes: Quotes = field(repr=False)
    scene: Scene = field(repr=False)

    @property
    def verdict(self) -> Verdict:
        return self.judged.verdict

    @cached_property
    def chains(self) -> list[ReportChain]:
        """As they are published."""
        steps: dict[tuple[str, int], Step] = {}
        return [_report(self.paths[number], self.quotes, steps) for number in self._told]

    @property
    def chain(self) -> int | None:
        """Index, in `chains`, of the one that carries the diagnosis."""
        return self._told.index(self._chosen) if self._chosen is not None else None

    @property
    def chains_left_out(self) -> int:
        return len(self.paths) - len(self._told)

    @cached_property
    def _chosen(self) -> int | None:
        return self.judged.opinions.index(self.judged.chosen) if self.judged.chosen is not None else None

    @cached_property
    def _told(self) -> list[int]:
        """Numbers of the paths that are told, in their order."""
        left, told = MAX_TOLD_STEPS, set() if self._chosen is None else {self._chosen}
        for number, path in enumerate(self.paths):
            left -= len(path.steps)
            if left < 0:
                break
            told.add(number)
        return sorted(told)

    @property
    def signature(self) -> str:
        chosen = self.judged.chosen
        return signature_of(self.scene, self.verdict, chosen.path if chosen is not None else None)

    @cached_property
    def scope(self) -> Scope:
        """Where a cause may lie."""
        return scope_of(self.scene, self.judged.own, self.judged.chosen)

    def led_through(self, processes: Collection[str]) -> Derived:
        """The same, told by the chain that leads through one of these processes; unchanged where none or the chosen one
        does."""
        chosen = self.judged.chosen
        through = [o for o in self.judged.own if not set(processes).isdisjoint(processes_on(o.path))]
        leading = [o for o in through if o.state not in ("healthy", "slow")]
        if chosen is None or not leading or chosen in through:
            return self
        return replace(self, judged=led_by(self.scene, self.judged, decisive(self.scene, leading)))

    def evidence(self, ref: str) -> Evidence:
        """``artefact#pointer`` or ``artefact:line`` as something that can be quoted."""
        return self.quotes.evidence(ref)


def derive(case: Case, text_of: Callable[[Log], str] | None = None) -> Derived:
    """Fill the derived tables and fields of the case's store, and say how the job is."""
    store = case.store
    texts = read_logs(store.rows("logs"), text_of or partial(log_text, case))
    add_log_facts(store, texts)
    add_guards(store, texts)
    scene = Scene(store, repeating(texts))
    judge_liveness(scene)
    tell_doings(scene)
    edges = derive_waits(scene)
    roots = chain_walk.find_roots(scene)
    paths = chain_walk.find_paths(scene, edges, roots)
    paths += chain_walk.find_paths(scene, edges, chain_walk.find_roots_beside(scene, paths))
    chain_rows, ends = chain_walk.as_rows(paths)
    store.set("threads", scene.threads.values())
    store.set("processes", [replace(p, liveness=_liveness(scene, p.id)) for p in scene.processes.values()])
    for table, rows in (("wait_edges", edges), ("chains", chain_rows), ("ends", ends)):
        store.set(table, rows)
    return Derived(tuple(paths), _judged_by(scene, paths, roots, texts), Quotes(store), scene)


def _judged_by(scene: Scene, paths: Sequence[Path], roots: Sequence[Thread], texts: Sequence[LogText]) -> Judged:
    """By the chains; where those pasted decide nothing, or there are none, by what the texts say."""
    judged = judge(scene, paths, roots)
    looked = bool(scene.store.rows("thread_samples"))
    if judged.verdict.state != "unknown" or (looked and judged.own):
        return judged
    told = told_by_texts(scene.store, texts)
    if told is not None and told.confidence <= GETS_ON:
        return replace(judged, seen=told, verdict=as_verdict(judged.verdict, None, len(texts)))
    return replace(judged, verdict=as_verdict(judged.verdict, told, len(texts)))


def _liveness(scene: Scene, process: str) -> Liveness:
    """Of a process: its main thread's."""
    row, main = scene.processes[process], scene.main_thread(process)
    if row.state in ("Z", "X"):
        return "exited"
    return main.liveness if main is not None else "unknown"


def _report(path: Path, quotes: Quotes, steps: dict[tuple[str, int], Step]) -> ReportChain:
    """A chain as it is published. `steps` are those of earlier chains: thousands of them share their ends."""
    for step in path.steps:
        if _key(step) not in steps:
            steps[_key(step)] = _step(step, quotes)
    return ReportChain(
        root=f"{process_named(path.root.pid)} {thread_named(path.root)}",
        text=chain_walk.tell(path),
        steps=[steps[_key(step)] for step in path.steps],
        end=ChainEnd(
            kind=path.kind, what=path.what, state=_end_state(path.steps), why=path.why, strength=path.end_strength
        ),
    )


def _key(step: chain_walk.Step) -> tuple[str, int]:
    return step.node, id(step.edge)


def _end_state(steps: Sequence[chain_walk.Step]) -> str | None:
    last = steps[-1]
    return last.thread.liveness if last.thread is not None else last.process.state if last.process is not None else None


def _step(step: chain_walk.Step, quotes: Quotes) -> Step:
    thread, process, edge = step.thread, step.process, step.edge
    return Step(
        node=step.node,
        text=f"{chain_walk.subject(step)} {edge.text}" if edge else chain_walk.subject(step),
        pid=_named_pid(thread.pid if thread else process.pid if process else None),
        tid=thread.tid if thread else None,
        thread=thread.name if thread else None,
        rank=process.rank if process else None,
        host=host_of_id(thread.process) if thread else process.host if process else None,
        liveness=_judged(thread),
        waits_on=WaitsOn(kind=edge.kind, node=edge.awaited) if edge else None,
        strength=edge.strength if edge else None,
        evidence=[quotes.evidence(ref) for ref in edge.evidence] if edge else [],
    )


def _named_pid(pid: int | None) -> int | None:
    """None for a process that no text names."""
    return pid if pid is not None and pid > 0 else None


def _judged(thread: Thread | None) -> Liveness | None:
    return thread.liveness if thread is not None else None
