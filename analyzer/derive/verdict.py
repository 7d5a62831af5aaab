"""Is the job stuck? Read from where the chains of its root threads end, never from whether "something moves"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten

from flatline.bundle.facts import Process, Strength, Thread

from ..findings import Verdict, VerdictState
from ..names import process_named, thread_named
from .chains import Path, subject, tell
from .looks import Told
from .marks import last_marks
from .outlook import Outlook, outlook_of
from .scene import Scene, has_ended, innermost_user, place
from .silence import last_sign

CERTAIN: dict[Strength, float] = {"proven": 0.95, "strong": 0.85, "suggested": 0.65}
SUGGESTED_AT_MOST = 0.75
NOBODY_CONFIDENCE = 0.6
"""For "hung" when the one awaited is unknown, but lies inside a job in which nothing gets on."""
WAITS_OUTSIDE = frozenset({
    "socket-read", "socket-connect", "socket-accept", "socket-write", "stdin-read", "terminal-read", "terminal-write",
    "fifo-open", "file-lock", "lock-file", "poll", "signal", "timer", "traced", "resource", "pipe-read", "pipe-write",
    "collective", "rendezvous", "child",
})  # fmt: skip
"""Ends that somebody or something outside the job can bring about."""
HANGS = frozenset({"mount", "device", "stopped"})
"""Ends that nothing brings about by itself: a dead mount, a driver that does not return, a stop signal."""
TAKES_NOTHING = frozenset({"terminal-write", "pipe-write", "socket-write"})
"""Ends at somebody who takes no more output: not what a job is made to wait for."""
STILL = frozenset({"frozen", "polling", "spinning"})
WITHIN = frozenset({"futex", "thread-join", "gil", "timer"})
"""Waits that only a thread of the same process, or time, can end."""
LONG_SLEEP_S = 2.0
"""Who wakes up more often than this and leaves a full pipe alone does not mean to read it."""
MAX_BESIDE = 2
"""Chains beside the job's own that are told."""
SEVERITY: tuple[VerdictState, ...] = ("hung", "waiting", "unknown", "slow", "healthy")


@dataclass(frozen=True)
class Opinion:
    """What one chain says about its root."""

    path: Path
    state: VerdictState
    confidence: float
    because: str


@dataclass(frozen=True)
class Judged:
    """The verdict, and what every chain says; `chosen` carries it (None: there is none)."""

    verdict: Verdict
    opinions: tuple[Opinion, ...] = ()
    """In the order of the chains."""
    chosen: Opinion | None = None
    own: tuple[Opinion, ...] = ()
    """Of the chains that are about what was asked."""
    seen: Told | None = None
    """What texts tell of the job, where that is too little for a verdict unless nothing else tells anything."""


def judge(scene: Scene, paths: Sequence[Path], roots: Sequence[Thread]) -> Judged:
    """How what was named is, as the chains of its roots tell."""
    ended = _ended(scene)
    if ended is not None:
        return Judged(_verdict(scene, roots, *ended))
    opinions = _capped(_all_get_on([opinion_of(scene, path) for path in paths]))
    asked = {root.id for root in roots}
    own = tuple(opinion for opinion in opinions if _is_own(scene, opinion.path, asked))
    if not own:
        because = f"no thread of the job is in {scene.store.origin}" if not roots else "no chain could be followed"
        return Judged(_verdict(scene, roots, "unknown", 0.0, because))
    nothing_yet = Judged(Verdict(state="unknown", confidence=0.0, because=[]), opinions, own=own)
    return led_by(scene, nothing_yet, decisive(scene, own))


def led_by(scene: Scene, judged: Judged, chosen: Opinion) -> Judged:
    """The same, with the verdict that follows when one of its own chains carries the diagnosis."""
    because = [chosen.because, *_further(scene, judged.own, chosen), *_beside(judged)]
    state, confidence = chosen.state, chosen.confidence
    gone = [p for p in scene.processes.values() if p.relation == "target" and has_ended(p)]
    if any(process.exit_status for process in gone) and state != "hung":
        state, confidence = "crashed", 0.9
    roots = [opinion.path.root for opinion in judged.own]
    verdict = _verdict(scene, roots, state, confidence, *map(_gone, gone), *because)
    if state == "waiting":
        outlook = _outlook(scene, judged, chosen)
        verdict = verdict.model_copy(update={"by_design": outlook.by_design, "outlook": outlook.text})
    return replace(judged, verdict=verdict, chosen=chosen)


def _outlook(scene: Scene, judged: Judged, chosen: Opinion) -> Outlook:
    found = outlook_of(chosen.path)
    if found.by_design and (complaint := _complaint(scene, chosen)):
        found = Outlook(None, f"it tries again and again, and says each time: {complaint}")
    beside = {id(o) for o in _stuck_beside(judged)}
    stuck = (o for o in judged.opinions if (id(o) in beside or o.path.what in TAKES_NOTHING)
             and scene.processes[o.path.root.process].relation == "descendant")  # fmt: skip
    below = next(stuck, None)
    if below is None:
        return found
    return Outlook(None, f"{found.text}; but something that it has started is stuck: {below.because}")


def _complaint(scene: Scene, opinion: Opinion) -> str:
    """What a log that its processes write repeats."""
    on_it = {step.process.id for step in opinion.path.steps if step.process is not None}
    written = (log.path for log in scene.logs if log.path and not on_it.isdisjoint({log.process, *log.writers}))
    said = (scene.repeating[path] for path in written if path in scene.repeating)
    return shorten(next(said, ""), 160, placeholder=" …")


def _verdict(scene: Scene, roots: Sequence[Thread], state: VerdictState, confidence: float, *because: str) -> Verdict:
    since, sign = last_sign(scene, _window(scene, [root.id for root in roots]))
    told = [] if state in ("healthy", "slow") else last_marks(scene, [root.process for root in roots])
    return Verdict(state=state, confidence=confidence, because=[*because, *told], since_s=since, last_sign=sign)


def _is_own(scene: Scene, path: Path, asked: Collection[str]) -> bool:
    """Whether a chain begins at a root of what was named, or at something beside that waits for it."""
    beside = scene.processes[path.root.process].relation == "sibling"
    waits_for_it = any(step.process is not None and step.process.id in scene.named for step in path.steps)
    return path.root.id in asked or (beside and waits_for_it)


def _gone(process: Process) -> str:
    parent = f"; its parent {process.ppid} has not collected it" if process.ppid else ""
    return f"{process_named(process.pid, process.rank)} has ended ({_ending(process)}){parent}"


def _ending(process: Process) -> str:
    status = process.exit_status
    if status is None:
        return "how is not known"
    return f"killed by signal {-status}" if status < 0 else f"with status {status}"


# --- one chain ---


def opinion_of(scene: Scene, path: Path) -> Opinion:
    """The state of a root as its chain tells it."""
    state, confidence, because = _state_of(scene, path)
    looked_once = not any(len(scene.samples_of(s.thread.id)) > 1 for s in path.steps if s.thread is not None)
    if state == "hung" and path.kind != "cycle" and path.what != "exited" and _only_stacks(path):
        return Opinion(path, "unknown", 0.4, f"{because}; one look at a stack does not tell for how long")
    return Opinion(path, state, round(confidence * (0.8 if looked_once else 1), 2), because)


def _only_stacks(path: Path) -> bool:
    """Whether nothing is known of any thread on the way but where it stood: no state, no system call, no course."""
    threads = [step.thread for step in path.steps if step.thread is not None]
    return all(t.state == "unknown" and t.syscall is None and t.liveness == "unknown" for t in threads)


def _state_of(scene: Scene, path: Path) -> tuple[VerdictState, float, str]:
    edge, certain = path.last_edge, CERTAIN[path.end_strength]
    told = tell(path)
    if path.kind == "moving":
        return _progress(scene, path)
    if path.what == "busy":
        return _busy(scene, path)
    if path.kind == "cycle":
        return "hung", certain, f"{told}"
    if path.what == "exited" and edge is None:
        return "unknown", 0.4, f"{process_named(path.root.pid)}: {path.why}"
    if path.what == "exited" or (edge is not None and edge.owner == "nobody"):
        return "hung", certain, told
    if unread := _unread_pipe(scene, path):
        return "hung", min(CERTAIN[path.strength], 0.85), f"{told}; {unread}"
    if path.what in HANGS:
        return "hung", certain, told
    if path.kind == "cut" and any(step.edge is not None and step.edge.kind == "traced" for step in path.steps):
        return "waiting", CERTAIN[path.strength], told  # whatever the debugger itself waits for
    if path.kind == "cut":
        return _cut(scene, path, told)
    if edge is not None and path.what in WAITS_OUTSIDE:
        return "waiting", certain, told
    return "unknown", 0.3, told or path.why


def _unread_pipe(scene: Scene, path: Path) -> str | None:
    """A writer before a full pipe whose reader, one of the job or what started it, is after something else."""
    if path.what == "terminal-read" or (path.what == "timer" and _sleeps_long(path)):
        return None  # a pager waits for a key; and who has not woken up yet may read then
    for step, reader in zip(path.steps, path.steps[1:], strict=False):
        if step.edge is None or step.edge.kind not in ("pipe-write", "socket-write") or reader.process is None:
            continue
        started_it = reader.process.relation == "ancestor" and reader.process.role != "shell"
        if reader.process.id in scene.job or started_it:
            return f"the reader, {process_named(reader.process.pid)} ({reader.process.name}), does not read"
    return None


def _sleeps_long(path: Path) -> bool:
    last = [step.thread for step in path.steps if step.thread is not None][-1]
    return last.liveness != "polling" or (last.period_s or 0) >= LONG_SLEEP_S


def _cut(scene: Scene, path: Path, told: str) -> tuple[VerdictState, float, str]:
    """Whom it waits for is unknown: hung only if it is somebody of a process, or of ranks, of which none gets on."""
    edge, last = path.last_edge, [s.thread for s in path.steps if s.thread is not None][-1]
    if edge is None or not edge.inside_job:
        return "unknown", 0.3, told or f"{thread_named(path.root)}: {path.why}"
    if edge.kind in ("futex", "thread-join", "gil") and _waits_within(scene, last):
        return "hung", NOBODY_CONFIDENCE, f"{told}; none of its threads gets on or waits for what is outside"
    if edge.kind == "collective" and all(t.liveness in STILL for t in scene.rank_threads):
        return "hung", NOBODY_CONFIDENCE, f"{told}; every rank is here, and none gets on"
    return "unknown", 0.4, told


def _waits_within(scene: Scene, thread: Thread) -> bool:
    """Whether all threads of the process wait for each other or for a clock, none for the world outside."""
    threads = scene.threads_of(thread.process)
    return all(t.liveness == "exited" or (t.liveness in STILL and t.waits_on in WITHIN) for t in threads)


def _progress(scene: Scene, path: Path) -> tuple[VerdictState, float, str]:
    last = path.steps[-1]
    thread = last.thread
    if thread is None:
        return "unknown", 0.3, path.why
    who = subject(last)
    signs = _signs(scene, thread)
    waits = f"{tell(path)}; " if path.edges else ""
    if len(path.steps) > 1 and path.strength == "suggested":
        return "unknown", 0.5, f"{waits}whether that ends the wait does not show"
    if signs:
        return "healthy" if len(path.steps) == 1 else "slow", 0.9, f"{waits}{who} gets on: {' and '.join(signs)}"
    return "slow", 0.8, f"{waits}{who} moves within one function only: {_function(scene, thread)}"


def _signs(scene: Scene, thread: Thread) -> list[str]:
    """What tells progress from going round in one loop."""
    signs = []
    stacks = [stack for stack in scene.stacks_of(thread.id) if stack]
    if len({tuple(place(f)[:2] for f in stack) for stack in stacks}) > 1:
        signs.append("it was seen in different functions")
    process = scene.processes.get(thread.process)
    if process is not None and _log_grew(scene, process):
        signs.append("its log grows")
    if thread.liveness_reason == "its process reads or writes":
        signs.append("it reads or writes")
    return signs


def _log_grew(scene: Scene, process: Process) -> bool:
    return any(log.path in scene.grown_logs for log in scene.logs if process.id in (log.process, *log.writers))


def _function(scene: Scene, thread: Thread) -> str:
    stack = scene.stack(thread.id)
    frame = innermost_user(stack) or (stack[0] if stack else None)
    return f"{frame.function} ({(frame.file or '?').rpartition('/')[2]})" if frame else "unknown"


def _busy(scene: Scene, path: Path) -> tuple[VerdictState, float, str]:
    last, told = path.steps[-1], tell(path)
    process = last.process
    if process is not None and (_log_grew(scene, process) or _memory_grew(scene, process)):
        return "slow", 0.7, f"{told}; meanwhile its log or its memory grows"
    return "unknown", 0.5, told


def _memory_grew(scene: Scene, process: Process) -> bool:
    rss = [sample.rss for sample in scene.process_samples_of(process.id) if sample.rss is not None]
    return len(rss) > 1 and rss[-1] - rss[0] > 4 * 1024**2


# --- all chains ---


def _all_get_on(opinions: Sequence[Opinion]) -> list[Opinion]:
    """Of several that a root may wait for all get on: then it does not matter for which."""
    branches: dict[str, list[Opinion]] = defaultdict(list)
    for opinion in opinions:
        branches[opinion.path.root.id].append(opinion)
    moving = {root for root, own in branches.items() if len(own) > 1 and all(o.path.kind == "moving" for o in own)}
    return [
        replace(o, state="slow", confidence=0.7, because=f"{tell(o.path)}; each of those it may wait for gets on")
        if o.state == "unknown" and o.path.root.id in moving
        else o
        for o in opinions
    ]


def _capped(opinions: Sequence[Opinion]) -> tuple[Opinion, ...]:
    """A chain with a suggested step is as sure as its end only if all branches of its root say the same."""
    branches: dict[str, list[VerdictState]] = defaultdict(list)
    for opinion in opinions:
        branches[opinion.path.root.id].append(opinion.state)
    agreed = {root for root, states in branches.items() if len(states) > 1 and len(set(states)) == 1}
    return tuple(
        replace(o, confidence=min(o.confidence, SUGGESTED_AT_MOST))
        if o.path.strength == "suggested" and o.path.edges and o.path.root.id not in agreed
        else o
        for o in opinions
    )


def decisive(scene: Scene, opinions: Sequence[Opinion]) -> Opinion:
    """Hung outweighs all; a root that gets on itself outweighs what others wait for outside; then the surest."""
    of_roots = _without_launchers(scene, opinions)
    if not any(o.state == "hung" and o.confidence > 0.5 for o in of_roots):
        on = [o for o in of_roots if o.state in ("healthy", "slow")]
        if on:
            return min(on, key=lambda o: (o.state == "healthy" and len(on) < len(of_roots), _rank_of(o)))
    return min(of_roots, key=lambda o: (SEVERITY.index(o.state), *_rank_of(o)))


def _without_launchers(scene: Scene, opinions: Sequence[Opinion]) -> list[Opinion]:
    """A launcher only waits for ranks that speak for themselves."""
    has_ranks = any(scene.processes[o.path.root.process].rank is not None for o in opinions)
    kept = [o for o in opinions if not has_ranks or scene.processes[o.path.root.process].rank is not None]
    return kept or list(opinions)


def _rank_of(opinion: Opinion) -> tuple[float, int, int, int]:
    """Surest first, then a cycle before a sink, then the longest, then the lowest root."""
    path = opinion.path
    order = ("cycle", "sink", "moving", "cut", "none").index(path.kind)
    return -opinion.confidence, order, -len(path.steps), path.root.pid


def _further(scene: Scene, opinions: Sequence[Opinion], chosen: Opinion) -> list[str]:
    """What else speaks for it, or against."""
    on_the_way = {step.node for step in chosen.path.steps}
    others = {o.path.root.id for o in opinions if o.path.steps[-1].node == chosen.path.steps[-1].node
              and f"thread:{o.path.root.id}" not in on_the_way}  # fmt: skip
    lines = []
    if others:
        lines.append(f"{len(others)} more root thread{'s wait' if len(others) > 1 else ' waits'} for the same")
    still = {s.thread.id: s.thread for s in chosen.path.steps if s.thread is not None}
    looks = max((len(scene.samples_of(t)) for t in still), default=0)
    if chosen.state == "hung" and looks > 1:
        lines.append(f"in {looks} looks within {_window(scene, list(still)):.1f} s none of them got on")
    return lines


def _beside(judged: Judged) -> list[str]:
    """What else is stuck, and is not waited for."""
    lines = [f"not waited for, but stuck as well: {o.because}" for o in _stuck_beside(judged)]
    more = [f"and {len(lines) - MAX_BESIDE} more beside it are stuck"] if len(lines) > MAX_BESIDE else []
    return lines[:MAX_BESIDE] + more


def _stuck_beside(judged: Judged) -> list[Opinion]:
    """The surest chain of each root that nobody waits for; none that leads to what is told anyway."""
    told = {step.node for o in judged.own for step in o.path.steps if step.thread is not None}
    own = {id(o) for o in judged.own}  # thousands of chains: they are told apart, not compared
    stuck = [o for o in judged.opinions if id(o) not in own and o.state == "hung" and o.confidence > 0.5]
    stuck = [o for o in stuck if told.isdisjoint(step.node for step in o.path.steps)]
    return list({o.path.root.id: o for o in sorted(stuck, key=_rank_of, reverse=True)}.values())


def _window(scene: Scene, threads: Sequence[str]) -> float:
    windows = [(s[-1].mono_ns - s[0].mono_ns) / 1e9 for t in threads if len(s := scene.samples_of(t)) > 1]
    return max(windows, default=0.0)


def _ended(scene: Scene) -> tuple[VerdictState, float, str] | None:
    """When nothing of the job is left running."""
    processes = [scene.processes[p] for p in sorted(scene.named)]
    if not processes or not all(has_ended(p) for p in processes):
        return None
    failed = [p for p in processes if p.exit_status]
    if failed:
        status = failed[0].exit_status or 0
        how = f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"
        who = process_named(failed[0].pid, failed[0].rank)
        return "crashed", 0.95, f"every process of the job has ended; {who} {how}"
    if any(p.exit_status is None for p in processes):
        return "unknown", 0.4, "every process of the job has ended; how is not known"
    return "healthy", 0.7, "every process of the job has ended with status 0"
