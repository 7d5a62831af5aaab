"""The text of a bundle's member, unpacked on a thread of its own while what came before is searched.

The reader checks the member as ever: its size, its checksum, and that it is no bomb.
"""

from __future__ import annotations

import queue
import threading
import zlib
from collections.abc import Iterator
from typing import Any

from flatline.bundle.container import Codec
from flatline.bundle.reader import BundleReader

from .interface import Text

try:
    from isal import isal_zlib  # pyright: ignore[reportMissingImports]
except ImportError:
    isal_zlib = None

BLOCK, PIECE = 256 * 1024, 1024**2
AHEAD = 8
"""Pieces that are unpacked and not yet searched."""
WORTH_A_THREAD = 2 * 1024**2
"""Bytes; a smaller member is unpacked before a thread has begun."""


def member_text(reader: BundleReader, name: str) -> Text:
    """Raises UnreadableBundleError, also while it is read: what the member holds may not be what it declares."""
    size = reader.member(name).size
    pieces = reader.pieces(name, _codec())
    return Text(_ahead(pieces) if size >= WORTH_A_THREAD else pieces, size)


def _codec() -> Codec:
    quick: Any = isal_zlib or zlib
    return Codec(quick.decompressobj, quick.crc32, quick.error, BLOCK, PIECE)


def _ahead(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, got by another thread; what it raises is raised here. It ends when the reading here does."""
    waiting: queue.Queue[bytes | BaseException | None] = queue.Queue(AHEAD)
    abandoned = threading.Event()

    def put(item: bytes | BaseException | None) -> None:
        while not abandoned.is_set():
            try:
                return waiting.put(item, timeout=0.1)
            except queue.Full:
                continue

    def unpack() -> None:
        try:
            for piece in pieces:
                put(piece)
                if abandoned.is_set():
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001  it is raised where the pieces are read
            put(error)

    thread = threading.Thread(target=unpack, name="unpack", daemon=True)
    thread.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        abandoned.set()
        thread.join()
