"""Which blocks of one input are text of one log: a traceback does not cut it, nor does a program that is run again.

A session of a shell holds what several commands wrote. Each is a log of its own, since what one rank wrote tells
nothing of another. But who saw a program fail, ran it again and saw it get on has one log, in which the error is past.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from flatline.bundle.facts import Frame

from ..derive.logs.progress import progress_of
from ..parsers.interface import Line
from ..parsers.prompts import Command, command_in
from .blocks import PROSE, Block

Run = Sequence[Block]
PROMPTS = ("prompt", "command-line")
"""Kinds of blocks that are a prompt with a command; of the second more is read."""
GETS_ON = 2
"""Steps, or states of a bar, from which on a program gets on: one bar may only have been drawn."""
MAX_STEPS_IN = 200
"""Lines at the end of a text in which they are looked for."""
MAX_BACK = 100
"""Blocks above a text that can be of its session."""
_SHELL = re.compile(r"(?:\([^)]{1,60}\) ?){0,2}\[?(?P<shell>[\w.-]{1,64}@[\w.-]{1,255})")
_AND = re.compile(r" *(?:&&|\|\||;|\|) *")
_SHOWS = re.compile(
    r"(?:\w+=\S* )*(?:z?cat|tail|head|less|more|[efz]?grep|rg|sed|awk|cut|sort|uniq|nl|tac|bat|strings|watch|find|ls"
    r"|journalctl|dmesg|ssh|pdsh|clush|parallel-ssh|screen|tmux|fg|stern|sacct|squeue|scontrol|wandb|tee"
    r"|(?:kubectl|oc|docker|podman|docker[ -]compose|ray job) .{0,200}?\b(?:logs|attach|exec)"
    r"|cd|export|source|\.|module|ulimit|unset|set|echo|mkdir|rm|mv|cp|ln|vim?|nano|emacs|code|alias|kill|pkill|killall|wait"
    r"|pip3?|uv pip|python\S* -m pip|conda|mamba|apt(?:-get)?|git|wget|curl|hf|huggingface-cli|rsync|scp|aws|gsutil"
    r"|(?:docker|podman) (?:pull|build))(?: |$)"
)
"""A command that shows what others wrote, prepares, or fetches: its steps are not those of a program run again."""
_WRITES = re.compile(r"(?:>{1,2}|\btee(?: -a)?) *(?P<file>[^\s&|;>]{2,300})")
_OF_ITSELF = re.compile(r"(?:^| )(?:(?P<nohup>nohup) |(?P<slurm>sbatch) )")


def runs(lines: Sequence[Line], blocks: Sequence[Block]) -> Iterator[Run]:
    """For every log its blocks, which follow one another; it begins and ends with text."""
    found: list[tuple[int, int]] = []
    for first, end in _texts(blocks):
        begun = _begun(lines, blocks, first)
        if begun is not None and _gets_on(lines, blocks[first:end]):
            since = _session(lines, blocks, begun, first)
            while found and found[-1][0] >= since and found[0][0] < begun:
                first = found.pop()[0]
        found.append((first, end))
    yield from (blocks[first:end] for first, end in found)


def _texts(blocks: Sequence[Block]) -> Iterator[tuple[int, int]]:
    """From where to where blocks are text of a log, one after the other."""
    end = 0
    for is_log, group in groupby(blocks, key=lambda block: block.is_log):
        first, end = end, end + sum(1 for _ in group)
        if is_log:
            yield first, end


def _begun(lines: Sequence[Line], blocks: Sequence[Block], first: int) -> int | None:
    """Index of the prompt at which the program was started whose text begins at `first`."""
    command = _typed(lines, blocks[first - 1]) if first else None
    if command is None:
        return None
    if _runs_program(command):
        return first - 1
    for index in range(first - 2, max(-1, first - MAX_BACK), -1):
        typed = _typed(lines, blocks[index])
        if typed is not None and _runs_program(typed) and any(file in command.text for file in _files_of(typed)):
            return index
    return None


def _typed(lines: Sequence[Line], block: Block) -> Command | None:
    return command_in(lines[block.first].bare) if block.kind in PROMPTS else None


def _runs_program(command: Command) -> bool:
    return any(part and not _SHOWS.match(part) for part in _AND.split(command.text))


def _files_of(command: Command) -> Iterator[str]:
    """Where it writes."""
    yield from (found["file"] for found in _WRITES.finditer(command.text))
    own = _OF_ITSELF.search(command.text)
    if own is not None:
        yield "nohup.out" if own["nohup"] else "slurm-"


def _gets_on(lines: Sequence[Line], run: Run) -> bool:
    text = lines[max(run[0].first, run[-1].end - MAX_STEPS_IN) : run[-1].end]
    steps = (state for line in text for state in progress_of(line))
    return len(list(islice(steps, GETS_ON))) == GETS_ON


def _session(lines: Sequence[Line], blocks: Sequence[Block], begun: int, first: int) -> int:
    """Index of the first block of the session: above it a stack was taken, prose stands, or it is another shell's."""
    shell, since = _shell(lines, blocks[begun]), first
    for index in range(first - 1, max(-1, first - MAX_BACK), -1):
        block = blocks[index]
        is_prompt = block.kind in PROMPTS
        has_stack = not block.is_log and any(isinstance(row, Frame) for row in block.rows)
        if has_stack or block.kind == PROSE:
            return index + 1
        if is_prompt and _shell(lines, block) != shell:
            return since
        since = index if is_prompt else since
    return max(0, first - MAX_BACK + 1)


def _shell(lines: Sequence[Line], prompt: Block) -> str:
    """Who is at which host, where the prompt says it."""
    found = _SHELL.match(lines[prompt.first].bare)
    return found["shell"] if found else ""
