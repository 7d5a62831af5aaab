"""The small files below /proc/PID as text: status, limits, cgroup (proc_pid_status(5), proc_pid_limits(5))."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from flatline.visible import visible

_LIMIT = re.compile(
    r"(?:Max )?(?P<name>[a-z][a-z ]{1,24}?)\s+(?P<soft>unlimited|\d{1,20})\s+(?P<hard>unlimited|\d{1,20})"
    r"(?:\s+(?P<units>[a-z]{1,20}))?"
)


@dataclass(frozen=True)
class LimitLine:
    """One line of /proc/PID/limits. None: unlimited."""

    name: str
    soft: int | None
    hard: int | None
    units: str


def parse_fields(text: str) -> dict[str, str]:
    """``Name:\\tvalue`` lines: status, io, fdinfo."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def parse_signals(mask: str) -> tuple[int, ...]:
    """A hexadecimal mask of status as signal numbers. ValueError for anything else."""
    bits = int(mask, 16)
    return tuple(signal for signal in range(1, bits.bit_length() + 1) if bits >> (signal - 1) & 1)


def parse_kilobytes(value: str | None) -> int | None:
    """``1234 kB`` in bytes."""
    number = (value or "").split()
    return int(number[0]) * 1024 if number and number[0].isdecimal() else None


def parse_last_pid(value: str | None) -> int | None:
    """The last field of NSpid: the process as it sees itself."""
    numbers = (value or "").split()
    return int(numbers[-1]) if numbers and numbers[-1].isdecimal() else None


def parse_limits(text: str) -> Iterator[LimitLine]:
    """The lines of limits below its headline."""
    for line in text.splitlines()[1:]:
        limit = limit_of(line)
        if limit is not None:
            yield limit


def limit_of(line: str) -> LimitLine | None:
    """``Max open files   1024   4096   files``; None when it is no such line."""
    found = _LIMIT.fullmatch(line.strip())
    return (
        LimitLine(found["name"], _bound(found["soft"]), _bound(found["hard"]), found["units"] or "") if found else None
    )


def _bound(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def parse_cgroup(text: str) -> str | None:
    """The path in the unified hierarchy; with version 1 that of the memory controller, else the first."""
    lines = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
    unified = [path for number, _, path in lines if number == "0"]
    memory = [path for _, controllers, path in lines if "memory" in controllers.split(",")]
    paths = [path for path in (*unified, *memory) if path != "/"] or [path for _, _, path in lines]
    return visible(paths[0]) if paths else None
