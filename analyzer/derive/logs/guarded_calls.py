"""Calls that a pasted piece of the program makes under a condition on its rank: ``if rank == 0: evaluate(model)``.

What is found is put where the collector puts it that can read the source: as the block around a frame that makes the
call. Of logs without stacks, the collective that one rank has started is said to be under it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flatline.bundle.facts import Collective, Frame, SourceLine

from ...case import FactStore
from .reading import LogText

MAX_BODY = 60
_WHO = (
    r"(?:\b|_)rank\b|\brank_|get_rank|is_(?:local_|world_)?(?:main|master|global_zero|process_zero|chief|primary|rank)|"
    r"main_process|is_world_process_zero|process_index|process_id\(\)|\bmaster\b|is_global_zero|LOCAL_RANK|\bmain_proc\b"
)
_CONDITION = re.compile(rf"(?P<indent>\s*)(?:el)?if\b(?=.{{0,160}}(?:{_WHO})).{{1,160}}?:(?:\s*#.*)?(?P<rest>\s.*)?$")
_DECORATOR = re.compile(r"(?P<indent>\s*)@[\w.]*(?:rank_?zero|rank_?0|main_process|master|main_rank)\w*(?:\(\))?\s*$")
_DEFINED = re.compile(r"\s*(?:async )?def (?P<name>\w+)\(")
_CALL = re.compile(r"(?<!\w)([A-Za-z_]\w*)\s?\(")
_LEAVES = re.compile(r"\s*(?:return\b|continue\b|break\b|exit\(|sys\.exit\(|raise SystemExit)")
_ELSE = re.compile(r"(?:else|elif)\b")
_NUMBER = re.compile(r"^\s{0,6}\d{1,6}(?::|\s?\||\s?│|(?=\s{2}))")
_NO_CODE = re.compile(r"\.py:\d|File \"|^\s*\d+[:/]\d|\[\d{4}-")
_COMMON = re.compile(
    r"(?:print|len|range|str|int|float|bool|open|list|dict|tuple|set|format|get|items|keys|values|append|info|"
    r"warning|debug|super|isinstance|getattr|setattr|hasattr|zip|enumerate|max|min|sum|sorted|time|sleep|"
    r"get_rank|rank|item|to|cuda|cpu|detach|numpy|join|exists|makedirs|Path|log|write|update|"
    r"is_main_process|is_initialized|get_world_size|if|and|or|not|in|return|elif|while|for|with|assert|"
    r"is_master|is_primary|step|mean|size|main|run|forward|__call__)\Z"
)
"""Names that say nothing, since every program calls them everywhere."""
_CALLS_OF = {
    "BARRIER": r"barrier|wait_for_everyone|synchronize",
    "BROADCAST": r"broadcast\w*|wait_for_everyone",
    "ALLREDUCE": r"all_?reduce\w*|reduce_\w+|barrier|wait_for_everyone",
    "ALLGATHER": r"_?all_?gather\w*|gather_for_metrics|gather_object",
    "GATHER": r"gather\w*",
    "REDUCE": r"reduce\w*",
    "REDUCESCATTER": r"reduce_scatter\w*",
}


_FOR_FIRST = re.compile(
    r"==\s*0\b|in \[?\(?-1, ?0|not [\w.]*rank\b|@|"
    r"(?<!not )\b[\w.]*(?:is_(?:local_|world_)?(?:main|master|chief|global_zero|process_zero|primary)\w*)"
)
_FOR_OTHERS = re.compile(r"!=\s*0\b|> ?0\b|>= ?1\b|not in|not [\w.]*is_\w+|==\s*[1-9]")


@dataclass(frozen=True)
class Guard:
    """The condition over a call, and how many lines above it it stands."""

    text: str
    line: int
    above: int

    def admits(self, rank: int | None) -> bool:
        """Whether that rank can be under it; a condition that leaves the block is one for the rest."""
        if rank is None:
            return True
        leaves = bool(re.search(r":\s*(?:return|continue|break|exit|sys\.exit|raise)\b", self.text))
        first, others = bool(_FOR_FIRST.search(self.text)), bool(_FOR_OTHERS.search(self.text))
        if first == others:
            return True
        return (rank == 0) is (first is not leaves)


def add_guards(store: FactStore, texts: Sequence[LogText]) -> None:
    """Put the conditions of pasted code around the frames and collectives whose calls are under them."""
    if not store.rows("frames") and not store.rows("collectives"):
        return
    guards: dict[str, Guard] = {}
    for text in texts:
        guards |= guards_of([(line.number, line.text) for line in text.lines])
    if not guards:
        return
    callees = {(frame.thread, frame.sample, frame.depth + 1): frame.function for frame in store.rows("frames")}
    ranks = {thread.id: thread.rank for thread in store.rows("threads")}
    store.revise("frames", lambda frame: _around(frame, callees, guards, ranks.get(frame.thread)))
    store.revise("collectives", lambda row: _under(row, guards))


def guards_of(lines: Sequence[tuple[int, str]]) -> dict[str, Guard]:
    """By the short name of what is called: of calls that are under one such condition, and nowhere without it."""
    code = [(number, _NUMBER.sub("", text).expandtabs(4)) for number, text in lines]
    found: dict[str, set[Guard]] = {}
    inside: set[int] = set()
    for at, (number, text) in enumerate(code):
        for place, body, condition in _bodies(code, at, text):
            inside.add(place)
            for name in _called(body):
                found.setdefault(name, set()).add(Guard(condition, number, code[place][0] - number))
    if not found:
        return {}
    free = {name for at, (_, text) in enumerate(code) if at not in inside and not _NO_CODE.search(text)
            for name in _called(text)}  # fmt: skip
    return {
        name: min(ways, key=lambda way: way.above)
        for name, ways in found.items()
        if name not in free and len({way.text for way in ways}) == 1
    }


def _bodies(code: Sequence[tuple[int, str]], at: int, text: str) -> Iterator[tuple[int, str, str]]:
    """(its index, the line, the condition) of all that is under the one that stands at `at`."""
    found = _CONDITION.match(text)
    condition = text.strip()
    if found is None:
        if _DECORATOR.match(text) and at + 1 < len(code) and _DEFINED.match(code[at + 1][1]):
            yield from ((place, line, condition) for place, line in _deeper(code, at + 1))
        return
    condition = condition.split("#")[0].strip()
    if rest := (found["rest"] or "").strip():
        condition = condition.removesuffix(rest).strip()
        yield at, rest, condition
        body = [(at, rest)]
    else:
        body = list(_deeper(code, at))
    if body and _LEAVES.match(body[-1][1]) and not _has_else(code, body[-1][0], found["indent"]):
        # What comes behind is for the others.
        yield from (
            (place, line, f"{condition} {body[-1][1].strip()}")
            for place, line in _beside(code, body[-1][0], found["indent"])
        )
        return
    if not rest:
        yield from ((place, line, condition) for place, line in body)


def _deeper(code: Sequence[tuple[int, str]], at: int) -> Iterator[tuple[int, str]]:
    """The lines below that are indented deeper."""
    own = _indent(code[at][1])
    for place in range(at + 1, min(len(code), at + MAX_BODY)):
        line = code[place][1]
        if line.strip() and _indent(line) <= own:
            return
        if line.strip():
            yield place, line


def _beside(code: Sequence[tuple[int, str]], at: int, indent: str) -> Iterator[tuple[int, str]]:
    """The lines below, to the end of the block that the condition stands in."""
    for place in range(at + 1, min(len(code), at + MAX_BODY)):
        line = code[place][1]
        if line.strip() and _indent(line) < len(indent):
            return
        if line.strip():
            yield place, line


def _has_else(code: Sequence[tuple[int, str]], at: int, indent: str) -> bool:
    after = next((code[place][1] for place in range(at + 1, len(code)) if code[place][1].strip()), "")
    return after.startswith(indent) and bool(_ELSE.match(after, len(indent)))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _called(text: str) -> Iterable[str]:
    if _DEFINED.match(text):
        return ()
    return (name for name in _CALL.findall(text.split("#")[0]) if not _COMMON.match(name))


def _around(
    frame: Frame, callees: Mapping[tuple[str, int, int], str], guards: Mapping[str, Guard], rank: int | None
) -> Frame:
    called = callees.get((frame.thread, frame.sample, frame.depth), "").rpartition(".")[2]
    guard = guards.get(called)
    if guard is None or not guard.admits(rank) or frame.enclosing or frame.is_user is False or frame.kind != "python":
        return frame
    line = SourceLine(max(1, (frame.line_no or guard.above + 1) - guard.above), guard.text)
    return replace(frame, enclosing=(line,))


def _under(row: Collective, guards: Mapping[str, Guard]) -> Collective:
    names = re.compile(
        rf"(?:{_CALLS_OF.get((row.op or '').strip('_').replace('_', '').removesuffix('BASE'), 'none')})\Z"
    )
    guard = next((guard for name, guard in guards.items() if names.match(name) and guard.admits(row.rank)), None)
    return row if guard is None or row.frame else replace(row, frame=f"under `{guard.text}`")
