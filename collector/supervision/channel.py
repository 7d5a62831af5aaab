"""Frames from a probe's child to its parent, over one pipe: a fixed header with lengths, a JSON header, a payload.

The parent believes nothing: a wrong magic, an unknown kind, a length over the limit or a broken header is
`GarbageError`, after which that pipe is not read any more. A child that is killed in the middle of a frame leaves a
partial one, which is dropped.
"""

from __future__ import annotations

import enum
import json
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MAGIC = b"flt1"
_FIXED = struct.Struct(">4sBIQ")
MAX_HEADER = 1 << 20
MAX_PAYLOAD = 64 << 20


class Kind(enum.IntEnum):
    """What a frame carries. ``Found`` comes before the member that holds its marks."""

    MEMBER = 1
    """Header: the fields of `Member` without data; payload: the redacted bytes."""
    FOUND = 2
    """Payload: JSON list of [kind, value, provisional mark]. Secret, for the parent only."""
    GAP = 3
    RESULT = 4
    """Payload: a pickle, between our own processes."""
    DOING = 5
    MILESTONE = 6
    SPARED = 7
    """A process that must not be killed hard."""
    END = 8
    """The probe's last word: how it ended, and the counts of what was hidden."""


class GarbageError(Exception):
    """What came over the pipe is not ours."""


class FloodError(Exception):
    """More came than one probe may send."""


@dataclass(frozen=True)
class Frame:
    """One decoded frame."""

    kind: Kind
    header: Mapping[str, Any]
    payload: bytes = b""


def send(fd: int, kind: Kind, header: Mapping[str, Any], payload: bytes = b"") -> None:
    """Write one frame, waiting while the pipe is full. ValueError if it is over the limits, OSError if nobody reads."""
    head = json.dumps(header).encode()
    if len(head) > MAX_HEADER or len(payload) > MAX_PAYLOAD:
        raise ValueError(f"{max(len(head), len(payload))} bytes are too many for one frame")
    _write_all(fd, _FIXED.pack(_MAGIC, kind, len(head), len(payload)) + head)
    _write_all(fd, payload)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Frames:
    """Puts the pieces that a pipe delivers back together."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def partial(self) -> bool:
        """Part of a frame has come, the rest has not."""
        return bool(self._buffer)

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """The frames that are complete now. GarbageError as soon as it cannot be one."""
        self._buffer += piece
        while len(self._buffer) >= _FIXED.size:
            kind, head_size, payload_size = self._sizes()
            head_end = _FIXED.size + head_size
            end = head_end + payload_size
            if len(self._buffer) < end:
                return
            header = _header(bytes(self._buffer[_FIXED.size : head_end]))
            payload = bytes(memoryview(self._buffer)[head_end:end])
            del self._buffer[:end]
            yield Frame(kind, header, payload)

    def _sizes(self) -> tuple[Kind, int, int]:
        magic, kind, head_size, payload_size = _FIXED.unpack_from(self._buffer)
        if magic != _MAGIC or head_size > MAX_HEADER or payload_size > MAX_PAYLOAD:
            raise GarbageError("not a frame")
        try:
            return Kind(kind), head_size, payload_size
        except ValueError as unknown:
            raise GarbageError(f"a frame of kind {kind}") from unknown


def _header(data: bytes) -> Mapping[str, Any]:
    try:
        header = json.loads(data)
    except ValueError as broken:
        raise GarbageError("a broken header") from broken
    if not isinstance(header, dict):
        raise GarbageError("a header that is no object")
    return header
