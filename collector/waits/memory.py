"""The memory of a process, read through /proc/PID/mem: needs ptrace rights, stops nothing, changes nothing.

The descriptor belongs to the address space it was opened for: when the process ends or the number is used again, reads
fail, and never come from another process. Reads take the mmap lock and may wait for a page: behind a limit only.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator, Sequence

from ..linux.procfs import Mapping, ProcFS

CHUNK = 1 << 20
_PRESENT = 1 << 63
"""Bit of a pagemap entry (Documentation/admin-guide/mm/pagemap.rst)."""
_ENTRY = 8


class Memory:
    """What one process has at its addresses. Opening raises OSError; a read that fails is None."""

    def __init__(self, proc: ProcFS, pid: int) -> None:
        self._page = proc.page_size
        self._memory = os.open(proc.path(pid, "mem"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._pagemap = os.open(proc.path(pid, "pagemap"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._pagemap = -1

    def close(self) -> None:
        os.close(self._memory)
        if self._pagemap >= 0:
            os.close(self._pagemap)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, address: int, size: int) -> bytes | None:
        """Exactly `size` bytes."""
        try:
            found = os.pread(self._memory, size, address)
        except (OSError, OverflowError):
            return None
        return found if len(found) == size else None

    def around(self, address: int, before: int, after: int) -> bytes | None:
        """The bytes from `before` an address to `after` behind it; NUL where a neighbouring page is none of memory."""
        found = self.read(address - before, before + after)
        if found is not None:
            return found
        here = address - address % self._page
        start, end = max(address - before, here), min(address + after, here + self._page)
        middle = self.read(start, end - start)
        if middle is None:
            return None
        head = self.read(address - before, start - (address - before)) or bytes(start - (address - before))
        return head + middle + (self.read(end, address + after - end) or bytes(address + after - end))

    def number(self, address: int, layout: str = "=Q") -> int | None:
        """One number, as `struct` reads it: a pointer unless told otherwise."""
        found = self.read(address, struct.calcsize(layout))
        return None if found is None else struct.unpack(layout, found)[0]

    def text(self, address: int, size: int = 64) -> str | None:
        """The bytes before a NUL, at most `size`; a page boundary may cut them."""
        room = self._page - address % self._page
        found = self.read(address, min(size, room))
        if found is not None and b"\0" not in found and room < size:
            found += self.read(address + room, size - room) or b""
        return None if found is None or b"\0" not in found else found.partition(b"\0")[0].decode("ascii", "replace")

    def chunks(self, mappings: Sequence[Mapping]) -> Iterator[tuple[int, bytes]]:
        """(address, bytes) of what lies in memory now. Pages never touched would be made, and swapped ones fetched, by
        reading them: without pagemap, which tells them apart, nothing is read."""
        for mapping in mappings:
            for start, end in self._present(mapping):
                for address in range(start, end, CHUNK):
                    found = self.read(address, min(CHUNK, end - address))
                    if found is not None:
                        yield address, found

    def _present(self, mapping: Mapping) -> Iterator[tuple[int, int]]:
        """Runs of pages that are in memory, of 512 pages at a time: a mapping may be larger than any machine."""
        step = 512 * self._page
        for start in range(mapping.start, mapping.end, step):
            end = min(start + step, mapping.end)
            entries = self._entries(start, end)
            begin = None
            for index, entry in enumerate(entries):
                if bool(entry & _PRESENT) is (begin is not None):
                    continue
                address = start + index * self._page
                if begin is None:
                    begin = address
                else:
                    yield begin, address
                    begin = None
            if begin is not None:
                yield begin, start + len(entries) * self._page

    def _entries(self, start: int, end: int) -> array[int]:
        entries = array("Q")
        try:
            raw = os.pread(self._pagemap, (end - start) // self._page * _ENTRY, start // self._page * _ENTRY)
        except (OSError, OverflowError):
            return entries
        entries.frombytes(raw[: len(raw) // _ENTRY * _ENTRY])
        return entries
