"""``--explain-input``: what each part of the input was taken for."""

from __future__ import annotations

from collections.abc import Iterator

from flatline.visible import visible

from ..case import Case
from .assemble import PastedReader

_ABOUT = {"log": "what no parser knows: searched as a log", "prose": "what a person wrote: not searched"}


def explained(case: Case) -> Iterator[str]:
    """A line per block: where it stands, its kind, what it is; then what was left out, and why."""
    for bundle in case.bundles:
        if not isinstance(bundle.reader, PastedReader):
            yield f"{visible(bundle.name[:200])}: a flatline bundle; flatline show lists what is in it"
            continue
        for block in bundle.reader.recognised:
            place = f"{visible(block.source[:200])}:{block.first_line}-{block.last_line}"
            yield f"{place:32} {block.kind:20} {visible((block.about or _ABOUT.get(block.kind, ''))[:300])}".rstrip()
        for note in bundle.notes:
            yield f"note: {visible(note[:400])}"
