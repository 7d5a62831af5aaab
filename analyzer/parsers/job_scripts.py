"""Directives of batch scripts: Slurm, SGE, PBS, LSF. What a job asked for, and the limits that this means.

SGE holds a job to ``h_vmem`` with the limit on its address space; Slurm's ``--mem`` is a limit of its control group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from flatline.bundle.facts import Cgroup, EnvVar, Limit, Scheduler, process_id

from .containers import size_of
from .interface import HOST, NO_PID, Line, Lines, Parsed, Parser
from .spans import span

NOBODY = process_id(NO_PID, HOST)
_BEGINS = re.compile(r"#(?:SBATCH\s+-|\$ -[A-Za-z]|PBS\s+-|BSUB\s+-)")
_SCRIPT = re.compile(r"#")
_DIRECTIVE = re.compile(r"#(?P<system>SBATCH|\$|PBS|BSUB)\s+(?P<options>-.*)$")
_OPTION = re.compile(r"(?P<name>--[A-Za-z][\w-]*|-[A-Za-z](?=\d)|-[A-Za-z][\w-]*)(?:[= ]?\s*(?P<value>(?!-)\S+))?")
_SYSTEMS: dict[str, Literal["slurm", "other", "pbs", "lsf"]] = {
    "SBATCH": "slurm", "$": "other", "PBS": "pbs", "BSUB": "lsf",
}  # fmt: skip
_QUEUE = {"slurm": ("--partition", "-p"), "other": ("-q",), "pbs": ("-q",), "lsf": ("-q",)}
_COUNTS = {
    "--nodes": "SLURM_JOB_NUM_NODES",
    "-N": "SLURM_JOB_NUM_NODES",
    "--ntasks": "SLURM_NTASKS",
    "-n": "SLURM_NTASKS",
}
"""What Slurm sets in the job for these options."""
_UNLESS_SAID = "M"
"""Slurm counts memory in megabytes."""


def parse(lines: Lines, start: int) -> Parsed | None:
    """The directives, with comments between them; the commands below them are other texts."""
    found = span(lines, start, _SCRIPT.match)
    last = max((i for i, line in enumerate(found.lines) if _DIRECTIVE.match(line.bare)), default=-1)
    if last < 0:
        return None
    told = [(line, m) for line in found.lines[: last + 1] if (m := _DIRECTIVE.match(line.bare))]
    kind = _SYSTEMS[told[0][1]["system"]]
    options = [(line, o["name"], o["value"] or "") for line, m in told for o in _OPTION.finditer(m["options"])]
    queue = next((value for _, name, value in options if name in _QUEUE[kind] and value), None)
    rows: list[Any] = [Scheduler(kind, queue=queue, process=NOBODY, line=lines[start].number)]
    for line, name, value in options:
        rows += _limits(line, kind, name, value)
        count = re.match(r"\d{1,6}", value)
        if kind == "slurm" and name in _COUNTS and count:
            rows.append(EnvVar(NOBODY, _COUNTS[name], count[0], line=line.number))
    end = next(i for i in range(found.end, start, -1) if lines[i - 1].number == told[-1][0].number)
    return Parsed(end, tuple(rows), about=f"{len(told)} directives of {_name(kind)}")


def _name(kind: str) -> str:
    return {"slurm": "Slurm", "pbs": "PBS", "lsf": "LSF"}.get(kind, "SGE")


def _limits(line: Line, kind: str, name: str, value: str) -> Iterator[Limit | Cgroup]:
    if kind == "slurm" and name == "--mem":
        size = size_of(value if not value.isdecimal() else value + _UNLESS_SAID)
        if size:
            yield Cgroup(NOBODY, "unknown", memory_max=size, line=line.number)
    elif kind == "other" and name == "-l":
        for resource in value.split(","):
            what, _, amount = resource.partition("=")
            size = size_of(amount)
            if what in ("h_vmem", "s_vmem") and size:
                yield Limit(NOBODY, "address space", soft=size, unlimited=False, line=line.number)
    elif kind == "pbs" and name == "-l":
        for what, amount in re.findall(r"\b(vmem|pvmem|mem|pmem)=(\w+)", value):
            size = size_of(amount)
            if size and "vmem" in what:
                yield Limit(NOBODY, "address space", soft=size, unlimited=False, line=line.number)
            elif size:
                yield Cgroup(NOBODY, "unknown", memory_max=size, line=line.number)


PARSERS = (Parser("job-script", _BEGINS, parse),)
