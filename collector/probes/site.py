"""One command or one file of the site's own plan (`--include`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Union

from flatline.bundle.facts import ToolRun
from flatline.bundle.format import Status

from .. import tools
from ..linux import unnoticed
from ..site_plan import Entry, SiteCommand, SiteFile
from .interface import Artefact, Facts, Gap, Item, View

_GRACE_S = 1.0
"""Beyond the entry's own limit: to end the command and to send what it printed."""
_STATUS: Mapping[str, Status] = {
    "timeout": "timeout", "left-running": "timeout", "denied": "denied", "absent": "absent", "flooded": "partial",
}  # fmt: skip


def site_probes(entries: tuple[Entry, ...]) -> list[SiteProbe]:
    """One for each entry, in the order of the plan."""
    return [RunCommand(entry) if isinstance(entry, SiteCommand) else TakeFile(entry) for entry in entries]


class RunCommand:
    """A command of the site's own plan."""

    tables: tuple[str, ...] = ()
    spans_window = False

    def __init__(self, entry: SiteCommand) -> None:
        self.entry = entry
        self.name = f"site-{entry.name}"
        self.limit_s = entry.limit_s + _GRACE_S

    def gather(self, view: View) -> Iterator[Item]:
        """Run it as whoever we are, and keep what it printed until its end or its limit."""
        entry = self.entry
        output = tools.run(entry.argv, limit_s=min(entry.limit_s, view.left_s()), max_bytes=entry.max_bytes)
        printed = output.stdout + (b"\n[stderr]\n" + output.stderr if output.stderr else b"")
        if printed:
            yield Artefact(_member(entry), printed, original_path=entry.asks)
        run = ToolRun(output.name, output.outcome, round(output.seconds, 2), message=output.message or None)
        yield Facts(f"facts/{self.name}.json", {"tool_runs": [run]})
        if output.outcome != "ok":
            yield Gap(_STATUS.get(output.outcome, "error"), f"{output.name}: {_ending(output)}")


def _ending(output: tools.ToolOutput) -> str:
    if output.outcome == "flooded":
        return f"printed more than is kept, the first {len(output.stdout)} bytes are there"
    if output.outcome in ("timeout", "left-running"):
        return f"ended after {output.seconds:.1f} s" + (f"; pid {output.pid} is left" if output.left_running else "")
    return output.message or f"exit code {output.exit_code}"


class TakeFile:
    """A file of the site's own plan."""

    tables: tuple[str, ...] = ()
    spans_window = False

    def __init__(self, entry: SiteFile) -> None:
        self.entry = entry
        self.name = f"site-{entry.name}"
        self.limit_s = entry.limit_s

    def gather(self, view: View) -> Iterator[Item]:
        """Its end, read with our own rights: it was named by who runs us, not by the job."""
        entry = self.entry
        try:
            content, size = _end_of(entry.path, entry.max_bytes)
        except OSError as error:
            status: Status = "denied" if isinstance(error, PermissionError) else "error"
            status = "absent" if isinstance(error, FileNotFoundError) else status
            yield Gap(status, f"{entry.path}: {error.strerror}", target=entry.path)
            return
        cut = ((0, size - len(content)),) if size > len(content) else ()
        yield Artefact(_member(entry), content, original_path=entry.path, original_bytes=size or None, truncated=cut)


SiteProbe = Union[RunCommand, TakeFile]


def _member(entry: Entry) -> str:
    return f"raw/site-{entry.name}.txt"


def _end_of(path: str, most: int) -> tuple[bytes, int]:
    """The last bytes of a regular file, and its size. What the kernel makes up (/proc) has size 0 and is read on."""
    opened = unnoticed.open_path(path)
    try:
        found = os.fstat(opened)
        os.lseek(opened, max(0, found.st_size - most), os.SEEK_SET)
        pieces, left = [], most
        while left > 0 and (piece := os.read(opened, min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces), found.st_size
    finally:
        os.close(opened)
