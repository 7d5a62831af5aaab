"""The shape of a row in the table of known waits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from flatline.bundle.facts import Frame

Whom = Literal[
    "child", "dataloader-worker", "pool-worker", "thread", "ranks", "lock-file", "peer", "parent", "device", "future",
    "loop", "loop-thread", "idle", "queue", "nobody-known",
]  # fmt: skip


@dataclass(frozen=True)
class KnownWait:
    """One function in which programs wait."""

    file: str
    """How the file's path ends."""
    functions: tuple[str, ...]
    """Short names; () means any function of that file."""
    kind: str
    """The wait edge's kind."""
    whom: Whom
    text: str
    """``waits for a batch from its DataLoader workers``; ``{op}`` is the function."""
    burns_cpu: bool = False
    """It may wait without sleeping."""
    native: bool = False
    """A function of C or C++; then `file` is how the name of its library begins."""
    is_final: bool = False
    """Nothing further out says more."""


_COPIES = re.compile(r"(?:(?<=/)|^)multiprocess/")


def standard_file(file: str) -> str:
    """A file by the name it has in the standard library: ``multiprocess``, which datasets and pathos use, is a copy of
    multiprocessing with another pickler."""
    return _COPIES.sub("multiprocessing/", file) if "multiprocess/" in file else file


def short_function(frame: Frame) -> str:
    """``get`` of ``Queue.get``; of the C library's ``___pthread_mutex_lock`` what programs call."""
    return short_name(frame.kind, frame.function)


def short_name(kind: str, function: str) -> str:
    if kind == "native":
        return function.removeprefix("__GI_").lstrip("_")
    return function.rpartition(".")[2]
