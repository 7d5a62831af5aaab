"""From the blocks of all inputs to one case: whose facts they are, the logs, and the text behind the evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flatline.bundle.facts import COLLECTED, Log
from flatline.bundle.format import Manifest

from ..case import Case, FactStore, OpenedBundle
from ..merge import merge_rows
from ..parsers.interface import Line
from .blocks import LOG, PROSE, Block, cut
from .cleaning import line_of, plain
from .envelopes import NONE, envelope_of
from .log_writers import ends, log_of
from .numbering import numbered
from .owners import Owners
from .relations import with_relations
from .sessions import runs
from .sources import Source
from .speakers import Speaker, speaker_of_heading, speaker_of_name
from .surroundings import united
from .tasks import placed
from .tickets import parts
from .wrapped import rejoined, width_of

MAX_ASKED = 20_000
"""Lines of logs, of all inputs, of which it is asked whose they are."""
MAX_AFTER_ERROR = 12
"""Lines that may follow the error that ended a log: the rest of its message, a shell's last words."""
_OF_FAILURES = re.compile(
    r"[*=-]{10,}$|(?:time|host|rank|exitcode|error_file|traceback|msg) *:|[{}\]\"]|\[\d{1,5}\]:$|(?:Other )?Failures:$|"
    r"Root Cause(?: \(first observed failure\))?:$|<NO_OTHER_FAILURES>$|\S{1,400} FAILED$|\* +(?:\S.{0,400} )?\*$"
)
"""A line of the table in which torchrun sums up the failures: part of its last error, however long it is."""
_TABLES = {kind: table for table, kind in COLLECTED.items()}


@dataclass(frozen=True)
class Recognised:
    """One block of one input, as ``--explain-input`` tells it."""

    source: str
    kind: str
    first_line: int
    last_line: int
    about: str = ""


@dataclass
class PastedReader:
    """What a case asks of an opened bundle, answered from the texts at hand."""

    texts: Mapping[str, Sequence[str]]
    """By its name, the lines of each input, where they stood."""
    recognised: tuple[Recognised, ...] = ()
    notes: tuple[str, ...] = ()
    manifest: Manifest = field(default_factory=lambda: Manifest(complete=False, ended_by="pasted"))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.texts)

    def lines(self, name: str, /) -> Iterator[str]:
        return iter(self.texts[name])

    def text(self, name: str, /) -> str:
        return "\n".join(self.lines(name))

    def read(self, name: str, /) -> bytes:
        return self.text(name).encode("utf-8", "replace")


def case_of_texts(sources: Sequence[Source], name: str) -> Case:
    """One case out of all inputs."""
    desk = _Desk()
    for source in sources:
        desk.add(source)
    tables = numbered(united(placed(merge_rows(desk.tables))))
    store = FactStore(with_relations(tables), collected=desk.collected, origin="these texts")
    reader = PastedReader(desk.texts, tuple(desk.recognised), tuple(desk.notes))
    return Case(store, (OpenedBundle(name, reader),))


class _Desk:
    """Where the texts are laid out while they are read."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Any]] = {"gaps": []}
        self.collected: set[str] = set()
        self.texts: dict[str, Sequence[str]] = {}
        self.recognised: list[Recognised] = []
        self.notes: list[str] = []
        self._owners = Owners()
        self._asked = 0
        """Lines of logs of which it was asked whose they are."""

    def add(self, source: Source) -> None:
        """Read one input into rows."""
        kept = source.kept
        if source.note:
            self.notes.append(f"{source.name}: {source.note}")
        shown = list(kept.lines)
        named = speaker_of_name(source.name)
        told: Speaker | None = None
        for part in parts(kept.lines):
            texts = [plain(text) for text in part.lines]
            envelope = NONE if part.is_prose else envelope_of(texts)
            lines = [line_of(part.first + i + 1, text, envelope) for i, text in enumerate(texts)]
            for i, line in enumerate(lines):
                shown[part.first + i] = line.shown
            blocks = cut(lines, rest=PROSE if part.is_prose else LOG)
            width = width_of([line.shown for line in lines])
            for block in blocks:
                if width and block.kind == LOG:
                    whole = rejoined([line.shown for line in lines[block.first : block.end]], width)
                    shown[part.first + block.first : part.first + block.end] = whole
            for block in blocks:
                above = lines[max(0, block.first - 1) : block.first]
                self._block(source, lines, block, named or speaker_of_heading(above) or told)
            self._logs(source, lines, blocks)
            told = speaker_of_heading([line for line in lines if line.bare][-1:]) if part.is_prose else None
        if kept.omitted_bytes:
            self.notes.append(
                f"{source.name}: {kept.omitted_bytes} of {kept.size} bytes in the middle say nothing and were left out"
            )
        self.texts[source.name] = shown

    def _block(self, source: Source, lines: Sequence[Line], block: Block, speaker: Speaker | None) -> None:
        first, last = lines[block.first].number, lines[block.end - 1].number
        about = block.about or (self._log_of(lines[block.first : block.end]) if block.kind == LOG else "")
        self.recognised.append(Recognised(source.name, block.kind, first, last, about))
        for row in self._owners.owned(block.rows, lines[block.first : block.end], speaker):
            self.tables.setdefault(_TABLES[type(row)], []).append(replace(row, artefact=source.name))
        self.collected |= block.collected

    def _log_of(self, lines: Sequence[Line]) -> str:
        """Whose log it is; of a ticket of very many parts the later ones are not asked."""
        lines = ends(lines)
        self._asked += len(lines)
        return log_of([line.text for line in lines]) if self._asked <= MAX_ASKED else ""

    def _logs(self, source: Source, lines: Sequence[Line], blocks: Sequence[Block]) -> None:
        """A log for every run of blocks that are text of one."""
        for whole in runs(lines, blocks):
            first, last = lines[whole[0].first].number, lines[whole[-1].end - 1].number
            row = Log("unknown", "file", text=source.name, text_first=first, text_last=last, size=source.kept.size,
                      last_line=lines[whole[-1].end - 1].shown[:500], omitted_bytes=source.kept.omitted_bytes or None,
                      artefact=source.name, line=first)  # fmt: skip
            self.tables.setdefault("logs", []).append(row)
            self.collected.add("logs")
            self._mark_last_errors(source, lines, whole)

    def _mark_last_errors(self, source: Source, lines: Sequence[Line], run: Sequence[Block]) -> None:
        """Say of the errors of one log which of them nothing follows."""
        after, begins = 0, lines[run[-1].end - 1].number + 1
        for block in reversed(run):
            after += _length(lines, block) if block.kind == LOG else 0
            if after > MAX_AFTER_ERROR:
                break
            begins = lines[block.first].number
        first, last = lines[run[0].first].number, lines[run[-1].end - 1].number
        errors = self.tables.get("errors", [])
        for index in range(len(errors) - 1, -1, -1):  # they are in the order of the blocks, these near the end
            row = errors[index]
            if row.artefact != source.name or (row.line is not None and row.line < first):
                break
            if row.line is not None and row.line <= last:
                errors[index] = replace(row, is_last=row.line >= begins)


def _length(lines: Sequence[Line], block: Block) -> int:
    """How many lines of a log say something else than what the error before them is about."""
    return sum(1 for line in lines[block.first : block.end] if line.bare and not _OF_FAILURES.match(line.bare))
