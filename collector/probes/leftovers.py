"""Spools that killed collects left beside our own: each becomes a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flatline.bundle.salvage import salvage
from flatline.bundle.spool import sweep
from flatline.errors import FlatlineError

from ..linux.unnoticed import is_leased
from .interface import Doing, Gap, Item, Result, View


class Leftovers:
    """Bundles out of the spools that killed collects left in the output folder."""

    name = "leftovers"
    tables: tuple[str, ...] = ()
    limit_s = 5.0
    spans_window = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def gather(self, view: View) -> Iterator[Item]:
        """Yield the path of each bundle that was saved."""
        for spool in sweep(self.folder, spare=is_leased):
            yield Doing(f"salvaging {spool.name}")
            try:
                saved = salvage(spool)
                spool.unlink()
            except (OSError, FlatlineError) as error:
                yield Gap("partial", f"{spool.name} could not be salvaged: {error}", hint=f"flatline salvage {spool}")
            else:
                yield Result(saved)
