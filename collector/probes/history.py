"""What `flatline run` or `watch` saw of the job before the bundle: its resources, a point every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from ..running import history
from .interface import Facts, Gap, Item, View


class History:
    """The last half hour of processor time, memory, reads, writes, output and GPU load, as `flatline run` kept them."""

    name = "history"
    tables = ("resource_points",)
    limit_s = 1.0
    spans_window = False
    reads = ("the file that `flatline run` or `watch` names: numbers only",)
    runs = ()

    def gather(self, view: View) -> Iterator[Item]:
        """Yields nothing where nobody watched."""
        if not view.history:
            return
        try:
            points = history.read(Path(view.history), time.monotonic_ns())
        except (OSError, ValueError, TypeError) as error:
            yield Gap("error", f"what `flatline run` had kept could not be read: {error}", tables=self.tables)
            return
        yield Facts("facts/history.json", {"resource_points": points})
