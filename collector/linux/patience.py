"""Reads that may never return, each with a limit: a reader thread waits in our place, and is left behind if it must be.

Only for disposable children: they fork no more (a thread would make that unsafe), and end with `os._exit`.
"""

from __future__ import annotations

import threading
import time
from typing import Callable, TypeVar, Union

from .procfs import Unread

T = TypeVar("T")


class Patience:
    """How long blocking reads may take: each one `each_s`, all the lost ones together `total_s`."""

    def __init__(self, each_s: float = 0.5, total_s: float = 2.0) -> None:
        self.each_s = each_s
        self.left_s = total_s
        self.lost = 0

    def read(self, what: Callable[[], T]) -> Union[T, Unread]:
        """The answer of `what`, which does not raise, or an `Unread` when there was none in time."""
        answers: list[T] = []
        reader = threading.Thread(target=lambda: answers.append(what()), daemon=True)
        limit = max(0.02, min(self.each_s, self.left_s))
        begin = time.monotonic()
        try:
            reader.start()
        except RuntimeError:  # no thread is left on this host: what never returns costs this process, not the bundle
            return what()
        reader.join(limit)
        if answers:
            return answers[0]
        self.left_s -= time.monotonic() - begin
        self.lost += 1
        return Unread("error", f"did not answer within {limit:.2f} s")
