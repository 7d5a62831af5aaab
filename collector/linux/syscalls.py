"""The call a thread is in: its raw line is decoded by flatline.texts.syscalls; here is what needs its mappings."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from flatline.texts.syscalls import OUTSIDE, RUNNING, decode, program_counter, timeout_address

from .procfs import Mapping

__all__ = ["OUTSIDE", "RUNNING", "decode", "library_at", "program_counter", "timeout_address"]


def library_at(address: int, maps: Sequence[Mapping]) -> str | None:
    """The file mapped at an address, without its folder's ``(deleted)``; None for anonymous memory."""
    index = bisect_right([mapping.start for mapping in maps], address) - 1
    if index < 0 or address >= maps[index].end or not maps[index].path.startswith("/"):
        return None
    return maps[index].path
