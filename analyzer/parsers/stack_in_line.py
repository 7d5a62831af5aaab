"""A stack that a person wrote into one line, or into lines that begin with an arrow, mostly one for each rank.

rank 0: barrier (distributed_c10d.py:2776) <- save (train.py:203) <- main (train.py:171)
rank 1: train.py:171 main -> train.py:90 step -> _engine_run_backward (autograd/graph.py:825)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flatline.bundle.facts import Process, Thread
from flatline.texts.stack_lines import MAX_NAME, RawFrame

from .interface import Line, Lines, Parsed, Parser
from .stacks import Stacks, ranked

MAX_LINES = 256
_INWARD = r"<-{1,2}|←|⟵|<=|\s<\s"
_OUTWARD = r"-{1,2}>|→|⟶|=>|\s>\s|»"
_ARROW = re.compile(rf"(?:(?<!\s)\s+)?(?:{_INWARD}|{_OUTWARD})\s*")
_POINTS_OUT = re.compile(_INWARD)
_PLACE = r"(?P<file>[^\s():,|]{1,300}\.pyx?)(?::(?P<line>\d{1,7}))?"
_NAME = r"(?:<\w{1,30}>|[A-Za-z_][\w.]{0,120}(?:\.<locals>[\w.]{1,60})?)(?:\(\))?"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"(?P<name>{_NAME}) ?[(\[@] ?{_PLACE}[)\]]?\Z",
        rf"{_PLACE}[ :]? ?(?:in |\()?(?P<name>{_NAME})\)?\Z",
        rf"(?P<file>[^\s():,|]{{1,300}}\.pyx?):(?P<name>{_NAME})(?::(?P<line>\d{{1,7}}))?\Z",
        rf"(?P<name>{_NAME})\Z",
    )
)
_HEAD = re.compile(r"(?P<head>[^<>→←]{0,80}?)(?:: |\s[|=—–-]\s|\s-{2}\s|:$)")
_RANK = re.compile(r"(?i)\b(?:(?:global |local )?ranks?|r|gpu|proc(?:ess)?|worker|tp)[ _:#=-]{0,2}(?P<rank>\d{1,5})\b")
_PID = re.compile(r"(?i)\bpid[ :=]{0,2}(?P<pid>\d{1,9})\b")
_THREAD = re.compile(r"(?i)\bthread\b(?!.{0,20}main)|Thread-\d|QueueFeeder|pin_memory|watchdog")
_OUTERMOST = frozenset({"main", "<module>", "__main__", "_run_module_as_main", "_bootstrap", "cli"})
_DECORATION = re.compile(r"^(?:[-*•]\s+|\d{1,2}[.)]\s+)|`|\*\*")


@dataclass(frozen=True)
class _Chain:
    """One stack as it is written."""

    head: str
    frames: tuple[tuple[RawFrame, int], ...]
    """Innermost first, each with its line."""


def parse(lines: Lines, start: int) -> Parsed | None:
    """All such stacks that come one after another, each of a process of its own."""
    stacks = Stacks()
    ranks: dict[int, int] = {}
    at = end = start
    while at < min(len(lines), start + MAX_LINES):
        if not lines[at].bare:
            at += 1
            continue
        chain, after = _chain(lines, at)
        if chain is None:
            break
        _add(stacks, chain, lines[at], ranks)
        at = end = after
    if not stacks.has_frames:
        return None
    return Parsed(end, tuple(_numbered(stacks.rows(), ranks)), frozenset({"frames"}), stacks.about())


def _chain(lines: Lines, at: int) -> tuple[_Chain | None, int]:
    """The stack that begins in this line, and the index after it."""
    text = _DECORATION.sub("", lines[at].bare)
    head, body = _split(text)
    pieces: list[tuple[str, int]] = []
    arrows: list[str] = []
    after = at
    while after < min(len(lines), at + MAX_LINES):
        line = lines[after]
        rest = body if after == at else _DECORATION.sub("", line.bare)
        if after > at and not _ARROW.match(rest):
            break
        arrows += [found[0] for found in _ARROW.finditer(rest)]
        pieces += [(piece, line.number) for piece in _ARROW.split(rest) if piece.strip()]
        after += 1
    frames = [(frame, number) for piece, number in pieces if (frame := _frame(piece.strip(" ,;.`"))) is not None]
    if len(frames) != len(pieces) or not _is_stack([frame for frame, _ in frames], arrows):
        return None, at
    outward = bool(_POINTS_OUT.search(arrows[0]))
    if frames[0][0].name in _OUTERMOST:
        outward = False
    elif frames[-1][0].name in _OUTERMOST:
        outward = True
    return _Chain(head, tuple(frames if outward else reversed(frames))), after


def _split(text: str) -> tuple[str, str]:
    """What stands before the stack, and the stack."""
    found = _HEAD.match(text)
    if found is None:
        return "", text
    rest = text[found.end() :]
    first = _ARROW.split(rest, maxsplit=1)[0].strip(" `")
    if (not rest or _frame(first) is not None) and _frame(found["head"].strip()) is None:
        return found["head"], rest
    return "", text


def _frame(text: str) -> RawFrame | None:
    for form in _FORMS:
        if found := form.match(text):
            groups = found.groupdict()
            number = groups.get("line")
            name = found["name"].removesuffix("()")[:MAX_NAME]
            return RawFrame(name, groups.get("file") or "", int(number) if number else None)
    return None


def _is_stack(frames: Sequence[RawFrame], arrows: Sequence[str]) -> bool:
    """Two places in files; what is written with arrows that point out may also be names alone."""
    placed = sum(1 for frame in frames if frame.file)
    if len(frames) < 2 or not arrows or len({bool(_POINTS_OUT.search(arrow)) for arrow in arrows}) > 1:
        return False
    if placed and any(frame.line for frame in frames):
        return True
    calls = sum(1 for frame in frames if "_" in frame.name or frame.name.startswith("<"))
    return len(frames) > 2 and calls > 0 and bool(re.match(r"\s*(?:<-|←|⟵)", arrows[0]))


def _add(stacks: Stacks, chain: _Chain, line: Line, ranks: dict[int, int]) -> None:
    pid, rank = _PID.search(chain.head), _RANK.search(chain.head)
    known = next((p for p in stacks.processes if pid and p.pid == int(pid["pid"])), None)
    process = known or stacks.process(line, int(pid["pid"]) if pid else -len(stacks.processes))
    if rank:
        ranks[process.pid] = int(rank["rank"])
    is_main = not _THREAD.search(chain.head) and not any(thread.is_main for thread in process.threads)
    thread = process.thread(line, name="MainThread" if is_main else None, is_main=is_main)
    for raw, number in chain.frames:
        thread.add(raw, number)


def _numbered(rows: Sequence[Any], ranks: dict[int, int]) -> Iterator[Any]:
    """The processes and threads with the ranks that their heads tell."""
    for row in rows:
        rank = ranks.get(row.pid) if isinstance(row, Process | Thread) else None
        yield ranked(row, rank) if rank is not None else row


PARSERS = (
    Parser(
        "stack-in-line",
        re.compile(r"(?:[^<>←→⟵⟶»]|<\w{1,30}>){1,300}(?:<[-=\s]|[←⟵→⟶»]|(?<=[-=\s])>)\s*[\w`<-]"),
        parse,
        is_log=True,
    ),
    Parser("stack-in-arrows", re.compile(r"[^\s(\[{].{0,200} \([^()]{1,300}\.pyx?:\d{1,7}\)$"), parse, is_log=True),
)
