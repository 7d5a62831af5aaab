"""Values from a child that has read hostile files, over a pipe: framed, bounded in time and size, and never code."""

from __future__ import annotations

import os
import pickle
import select
import struct
import time
from collections.abc import Iterator
from dataclasses import is_dataclass
from io import BytesIO
from typing import Any

MAX_FRAME = 32 * 1024**2
"""Bytes of one pickled value."""


class _RecordsOnly(pickle.Unpickler):
    """Builtin values and flatline's dataclasses, which do nothing when they are made."""

    def find_class(self, module: str, name: str) -> Any:
        if not module.startswith("flatline.") or "." in name:
            raise pickle.UnpicklingError(f"{module}.{name} is not taken from a child")
        found = super().find_class(module, name)
        if not (isinstance(found, type) and found.__module__ == module and is_dataclass(found)):
            raise pickle.UnpicklingError(f"{module}.{name} is no record of ours")
        return found


def send(out: int, kind: bytes, value: Any) -> None:
    """One value; `kind` is a single byte that says what it means. OSError when nobody reads any more."""
    body = pickle.dumps(value, protocol=4)
    view = memoryview(kind + struct.pack(">I", len(body)) + body)
    while view:
        view = view[os.write(out, view) :]


def receive(reading: int, deadline: float) -> Iterator[tuple[bytes, Any]]:
    """(kind, value) as they arrive.

    TimeoutError at `deadline` (time.monotonic()), EOFError when the child ends without a word, ValueError for garbage.
    """
    while True:
        kind, length = struct.unpack(">cI", _exactly(reading, 5, deadline))
        if length > MAX_FRAME:
            raise ValueError(f"a value of {length} bytes")
        yield kind, _value(_exactly(reading, length, deadline))


def _value(body: bytes) -> Any:
    try:
        return _RecordsOnly(BytesIO(body)).load()
    except Exception as error:  # noqa: BLE001  crafted bytes make pickle raise anything
        raise ValueError(f"no value: {error}") from None


def _exactly(reading: int, size: int, deadline: float) -> bytes:
    parts = bytearray()
    ready = select.poll()  # select(2) knows no descriptor above 1023
    ready.register(reading, select.POLLIN)
    while len(parts) < size:
        left = deadline - time.monotonic()
        if left <= 0 or not ready.poll(left * 1000):
            raise TimeoutError
        chunk = os.read(reading, size - len(parts))
        if not chunk:
            raise EOFError("the child ended without a word")
        parts += chunk
    return bytes(parts)
