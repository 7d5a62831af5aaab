"""The chosen chain and the waits around it, laid out as boxes and arrows: plain data, which the template draws.

The chain runs down the left; on the right stands who else waits, equal ones in one box ("63 workers like this"), each
with an arrow to what it waits for. So two processes make two boxes, and two hundred make a handful.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flatline.bundle.facts import Frame, Process, Thread, WaitEdge

from ..case import Case
from ..findings import ReportChain, Step
from ..names import process_named, process_of_id
from .visible import visible
from .wording import end_sentence, said

BOX, GAP, MARGIN, LINE, PAD = 330, 120, 16, 17, 10
"""Width of a box, room between the columns, and around all; height of a line, room within a box. In pixels."""
SIDE = 60
"""Beyond the right column, for what waits for another group."""
STEP = 54
"""Between two boxes of the chain: room for what stands at the arrow."""
CHARS = 46
"""That fit into a line of a box."""
LINES = 3
MAX_GROUPS = 14
MAX_STEPS = 24
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Box:
    """One node; `lines` are its texts, the first one its name."""

    x: int
    y: int
    lines: tuple[str, ...]
    role: str
    """``step``, ``end`` (what the chain ends in, all of a cycle) or ``around``."""
    count: int = 1
    """How many threads it stands for."""

    @property
    def height(self) -> int:
        return PAD * 2 + LINE * len(self.lines)

    @property
    def bottom(self) -> int:
        return self.y + self.height

    @property
    def middle(self) -> int:
        return self.y + self.height // 2


@dataclass(frozen=True)
class Arrow:
    """From who waits to who is waited for; `path` is an SVG path."""

    path: str
    strength: str
    role: str
    """``step`` or ``around``."""
    label: str = ""
    label_x: int = 0
    label_y: int = 0
    label_anchor: str = "start"
    """Which end of the label is there."""


@dataclass(frozen=True)
class Picture:
    """All there is to draw; the report tells the same in words."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    left_out: int = 0
    """Groups for which there was no room."""


@dataclass(frozen=True)
class Group:
    """Threads that wait in the same way for the same thing."""

    threads: tuple[Thread, ...]
    edge: WaitEdge
    place: str
    target: str
    """``step 2``, ``end``: the box of the chain that it waits for; "" for what the chain does not show."""

    @property
    def awaited(self) -> str:
        """The thread, or the main thread of the process, that its first one waits for; "" for other nodes."""
        kind, _, name = self.edge.awaited.partition(":")
        return name if kind == "thread" else f"{name}/{name.rpartition('/')[2]}" if kind == "process" else ""


def picture_of(chain: ReportChain | None, case: Case, stacks: Mapping[str, Sequence[Frame]]) -> Picture | None:
    """The chain and what waits around it; None when there is no chain to draw."""
    steps = [step for step in chain.steps if step.is_somebody][:MAX_STEPS] if chain is not None else []
    if chain is None or not steps:
        return None
    column = _column(steps, chain, stacks)
    groups = _groups(case, steps, stacks)
    around = _around(groups[:MAX_GROUPS], column)
    boxes = [*column, *(box for box, _ in around)]
    arrows = [*_down(steps, column, chain), *_across(around, column)]
    width = MARGIN * 2 + BOX + (GAP + BOX + SIDE if around else GAP + SIDE * 2)
    height = max(box.bottom for box in boxes) + MARGIN
    left_out = max(0, len(groups) - MAX_GROUPS)
    return Picture(width, height, tuple(boxes), tuple(arrows), left_out)


# --- the chain, from top to bottom ---


def _column(steps: Sequence[Step], chain: ReportChain, stacks: Mapping[str, Sequence[Frame]]) -> list[Box]:
    """A box for every step, and one for what the chain ends in unless it comes back to one of them."""
    boxes: list[Box] = []
    back = _back_to(steps, chain)
    for number, step in enumerate(steps):
        role = "end" if back is not None and number >= back else "step"
        boxes.append(Box(MARGIN, _next(boxes), _lines(_called(step), _where(step, stacks)), role))
    if _is_last(steps[-1], chain):
        boxes[-1] = replace(boxes[-1], role="end", lines=(*boxes[-1].lines, *_lines(end_sentence(chain.end))))
    elif back is None:
        boxes.append(Box(MARGIN, _next(boxes), _lines(_resource(chain), end_sentence(chain.end)), "end"))
    return boxes


def _next(boxes: Sequence[Box]) -> int:
    return boxes[-1].bottom + STEP if boxes else MARGIN


def _is_last(step: Step, chain: ReportChain) -> bool:
    """Whether the end is this thread itself: it has ended, gets on, or the trail is lost at it."""
    return step.waits_on is None and chain.end.kind != "cycle"


def _called(step: Step) -> str:
    rank = f"rank {step.rank}, " if step.rank is not None else ""
    return f"{rank}{process_of_id(_process_of(step))}" + (f", {step.thread}" if step.thread else "")


def _process_of(step: Step) -> str:
    return "/".join(step.node.partition(":")[2].split("/")[:2])


def _where(step: Step, stacks: Mapping[str, Sequence[Frame]]) -> str:
    place = _place(stacks.get(step.node.partition(":")[2], ()))
    return ", ".join(filter(None, (said(step.liveness), place)))


def _place(frames: Sequence[Frame]) -> str:
    """``load (data.py:10)``: the job's own innermost frame, else the innermost."""
    frame = next((f for f in frames if f.is_user), frames[0] if frames else None)
    if frame is None:
        return ""
    line = f":{frame.line_no}" if frame.line_no else ""
    return f"{frame.function} ({(frame.file or frame.module or '?').rpartition('/')[2]}{line})"


def _resource(chain: ReportChain) -> str:
    """What the last wait is for, when that is no thread."""
    node = next((step.waits_on.node for step in reversed(chain.steps) if step.waits_on is not None), "")
    kind, _, name = node.partition(":")
    host, _, rest = name.partition("/")
    named = {"nobody": "nobody", "unknown": "not known"}.get(kind)
    return named or f"{kind} {'/' + rest if kind in ('file', 'mount', 'device') else rest or host}"


def _down(steps: Sequence[Step], column: Sequence[Box], chain: ReportChain) -> Iterable[Arrow]:
    """From every box to the next; from the last one of a cycle back to where it began."""
    x = MARGIN + 28
    for step, above, below in zip(steps, column, column[1:], strict=False):
        yield Arrow(f"M{x} {above.bottom} V{below.y - 7}", step.strength or "suggested", "step", _label(step), x + 12,
                    (above.bottom + below.y) // 2 + 4)  # fmt: skip
    back = _back_to(steps, chain)
    if back is not None:
        last, first, right = column[len(steps) - 1], column[back], MARGIN + BOX
        path = f"M{right} {last.middle} h{GAP // 2} V{first.middle} H{right + 7}"
        yield Arrow(path, steps[-1].strength or "suggested", "step", _label(steps[-1]), right + GAP // 2 - 8,
                    last.y - STEP // 2 + 4, "end")  # fmt: skip


def _label(step: Step) -> str:
    kind = step.waits_on.kind.replace("-", " ") if step.waits_on is not None else ""
    return ", ".join(filter(None, (kind, step.strength)))


def _back_to(steps: Sequence[Step], chain: ReportChain) -> int | None:
    """Of a cycle: the step that its last one waits for."""
    last = steps[-1].waits_on
    if chain.end.kind != "cycle" or last is None:
        return None
    return next((number for number, step in enumerate(steps) if _is_of(step.node, last.node)), 0)


def _is_of(node: str, awaited: str) -> bool:
    """A thread is awaited by its own name, or as the main thread of its process."""
    kind, _, name = awaited.partition(":")
    thread = node.partition(":")[2]
    return node == awaited or (kind == "process" and thread == f"{name}/{name.rpartition('/')[2]}")


# --- who else waits ---


def _groups(case: Case, steps: Sequence[Step], stacks: Mapping[str, Sequence[Frame]]) -> list[Group]:
    """Waiting threads of the job that the chain does not show; equal ones together, the largest group first."""
    threads, processes = case.store.by_id("threads"), case.store.by_id("processes")
    on_chain = {step.node: f"step {number}" for number, step in enumerate(steps)}
    for node in list(on_chain):
        thread = threads.get(node.partition(":")[2])
        if thread is not None and thread.is_main:
            on_chain[f"process:{thread.process}"] = on_chain[node]
    last = next((step.waits_on.node for step in reversed(steps) if step.waits_on is not None), "")
    if last and last not in on_chain and not last.startswith(("nobody:", "unknown:")):
        on_chain[last] = "end"
    members: dict[tuple[str, ...], list[Thread]] = defaultdict(list)
    edges: dict[tuple[str, ...], WaitEdge] = {}
    seen = set()
    for edge in case.store.rows("wait_edges"):
        thread = threads.get(edge.waiter.partition(":")[2])
        if thread is None or thread.id in seen or edge.waiter in on_chain or not _is_shown(thread, processes):
            continue
        seen.add(thread.id)
        key = (thread.role, _DIGITS.sub("#", thread.name or ""), _place(stacks.get(thread.id, ())), edge.kind,
               on_chain.get(edge.awaited, ""))  # fmt: skip
        members[key].append(thread)
        edges.setdefault(key, edge)
    found = [Group(tuple(same), edges[key], key[2], key[4]) for key, same in members.items()]
    told = {thread.id for group in found for thread in group.threads}
    found = [g for g in found if g.target or g.awaited in told or any(thread.is_main for thread in g.threads)]
    return sorted(found, key=lambda group: (not group.target, -len(group.threads), group.threads[0].pid))


def _is_shown(thread: Thread, processes: Mapping[str, Process]) -> bool:
    """Of the job, and no shell above it."""
    process = processes.get(thread.process)
    return process is None or process.relation in ("target", "descendant", "sibling", "unknown")


def _around(groups: Sequence[Group], column: Sequence[Box]) -> list[tuple[Box, Group]]:
    """Beside the box each waits for, as far as there is room."""
    x, placed = MARGIN + BOX + GAP, []
    bottom = MARGIN - 12
    for group in sorted(groups, key=lambda g: _target_y(g, column)):
        box = Box(x, bottom + 12, _lines(_name_of(group), _about(group)), "around", len(group.threads))
        placed.append((box, group))
        bottom = box.bottom
    return placed


def _target_y(group: Group, column: Sequence[Box]) -> int:
    box = _target(group, column)
    return box.y if box is not None else column[-1].bottom


def _target(group: Group, column: Sequence[Box]) -> Box | None:
    if group.target.startswith("step "):
        number = int(group.target.removeprefix("step "))
        return column[number] if number < len(column) else None
    return column[-1] if group.target == "end" else None


def _name_of(group: Group) -> str:
    first = group.threads[0]
    rank = f"rank {first.rank}, " if first.rank is not None else ""
    name = f", {first.name}" if first.name and not first.is_main else ""
    if len(group.threads) == 1:
        return f"{rank}{process_named(first.pid)}{name}"
    word = "pid" if first.rank is None else "rank"
    numbers = list(dict.fromkeys(thread.pid if first.rank is None else thread.rank for thread in group.threads))
    more = " …" if len(numbers) > 3 else ""
    return f"{len(group.threads)} {_noun(first)} like this: {word} {', '.join(map(str, numbers[:3]))}{more}"


def _noun(thread: Thread) -> str:
    if not thread.is_main:
        return "threads"
    return {"dataloader-worker": "workers", "pool-worker": "workers", "rank": "ranks"}.get(thread.role, "processes")


def _about(group: Group) -> str:
    return ", ".join(filter(None, (said(group.threads[0].liveness), group.place or group.edge.kind)))


def _across(around: Sequence[tuple[Box, Group]], column: Sequence[Box]) -> Iterable[Arrow]:
    """From each group to the box of the chain, or to the other group, that it waits for."""
    of_thread = {thread.id: box for box, group in around for thread in group.threads}
    for number, (box, group) in enumerate(around):
        target, other, lane = _target(group, column), of_thread.get(group.awaited), 14 + number * 4 % (GAP // 3)
        if target is not None:
            path = f"M{box.x} {box.middle} H{box.x - lane} V{target.middle} H{MARGIN + BOX + 7}"
        elif other is not None and other is not box:
            right = box.x + BOX
            path = f"M{right} {box.middle} H{right + lane} V{other.middle} H{right + 7}"
        else:
            continue
        yield Arrow(path, group.edge.strength, "around")


def _lines(*texts: str) -> tuple[str, ...]:
    """Wrapped to the width of a box, the first text in one line, the others in three at most."""
    lines: list[str] = []
    for number, text in enumerate(filter(None, texts)):
        wrapped = textwrap.wrap(visible(text, 400), CHARS) or [""]
        room = 1 if number == 0 and len(texts) > 1 else LINES
        kept = wrapped[:room]
        if len(wrapped) > room:
            kept[-1] = kept[-1][: CHARS - 1] + "…"
        lines += kept
    return tuple(lines)
