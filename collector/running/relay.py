"""Passes a job's output on, byte by byte as it is, and never keeps the job waiting for who reads it.

One thread reads, another writes. What the reader of our own output has not taken yet is held in memory, beyond that in
an unlinked temporary file; only when that is full as well, or has 1 GiB, the job waits, as it would without us.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import tempfile
import termios
import threading
import time
from collections import deque
from pathlib import Path
from typing import BinaryIO

CHUNK = 1 << 16
MEMORY = 4 << 20
SPOOL = 1 << 30
"""Bytes on the disk; then the job waits for the reader."""
KEPT = 2 << 20
"""Of the log that is kept for the bundle; the file before it is kept as well."""
_POLL_MS = 500
_ROOM_S = 0.2


class Backlog:
    """Bytes in order, in memory first."""

    def __init__(self, memory: int = MEMORY, spool: int = SPOOL) -> None:
        self._memory, self._spool = memory, spool
        self._held: deque[bytes] = deque()
        self._size = 0
        self._file: BinaryIO | None = None
        self._read = self._written = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, data: bytes) -> None:
        """Returns when the bytes are held; waits only where neither memory nor disk has room."""
        with self._changed:
            while not self._hold(data):
                self._changed.wait(_ROOM_S)
            self._changed.notify_all()

    def _hold(self, data: bytes) -> bool:
        if self._written == self._read and self._size + len(data) <= self._memory:
            self._held.append(data)
            self._size += len(data)
            return True
        if self._written + len(data) > self._spool:
            return self._is_closed
        try:
            self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this
            at = 0
            while at < len(data):  # short where a disk or a quota is nearly full
                at += os.pwrite(self._file.fileno(), data[at:], self._written + at)
        except OSError:
            return self._is_closed
        self._written += len(data)
        return True

    def take(self) -> bytes:
        """The next bytes; waits for some. Empty at the end."""
        with self._changed:
            while not self._held and self._read == self._written and not self._is_closed:
                self._changed.wait()
            if self._held:
                data = self._held.popleft()
                self._size -= len(data)
            elif self._file is not None and self._read < self._written:
                data = os.pread(self._file.fileno(), min(CHUNK, self._written - self._read), self._read)
                self._read += len(data)
                if self._read == self._written:
                    self._file.truncate(0)
                    self._read = self._written = 0
            else:
                return b""
            self._changed.notify_all()
            return data

    def close(self) -> None:
        """Nothing more will be put."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class Relay:
    """One stream: from the pipe that the job writes to, to where our own stream goes, and into a log beside it."""

    def __init__(self, source: int, out: int, log: Path, *, backlog: Backlog | None = None) -> None:
        self._source, self._out, self._log = source, out, log
        self._backlog = backlog or Backlog()
        self._is_over = threading.Event()
        self._is_broken = threading.Event()
        self.count = 0
        """Bytes so far."""
        self._passed = 0
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._take_in, self._pass_on)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self, linger_s: float, patience_s: float | None = None) -> None:
        """Wait until all is passed on; for who inherited the stream and outlives the job at most `linger_s`.

        For a reader that takes nothing `patience_s`; None: as long as the job itself would have waited.
        """
        over, passed, since = time.monotonic() + linger_s, self._passed, time.monotonic()
        while any(thread.is_alive() for thread in self._threads):
            for thread in self._threads:
                thread.join(0.05)
            now = time.monotonic()
            if now > over:
                self._is_over.set()
            if passed != self._passed:
                passed, since = self._passed, now
            if patience_s is not None and now - since > linger_s + patience_s:
                self._is_broken.set()
                return

    def _take_in(self) -> None:
        readable = select.poll()
        readable.register(self._source, select.POLLIN)
        try:
            with open(self._log, "ab", 0) as kept:
                left: int | None = None
                while not self._is_broken.is_set() and left != 0:
                    if left is None and self._is_over.is_set():
                        left = _held(self._source)  # written before the end; what comes later is not waited for
                        continue
                    if not readable.poll(_POLL_MS):
                        continue
                    data = os.read(self._source, CHUNK if left is None else min(CHUNK, left))
                    left = None if left is None else left - len(data)
                    if not data:
                        break
                    self.count += len(data)
                    self._backlog.put(data)
                    self._keep(kept, data)
        finally:
            os.close(self._source)  # whoever still writes learns that nobody reads, as without us
            self._backlog.close()

    def _keep(self, kept: BinaryIO, data: bytes) -> None:
        try:
            if kept.tell() > KEPT:
                Path(f"{self._log}.1").write_bytes(self._log.read_bytes())
                kept.truncate(0)
            kept.write(data)
        except OSError:  # a full disk takes the log, not the output
            pass

    def _pass_on(self) -> None:
        while data := self._backlog.take():
            view = memoryview(data)
            while view and not self._is_broken.is_set():
                try:
                    count = os.write(self._out, view)
                    self._passed += count
                    view = view[count:]
                except BlockingIOError:  # whoever gave us the stream wants it non-blocking
                    select.select([], [self._out], [], 1.0)
                except OSError:
                    self._is_broken.set()


def _held(pipe: int) -> int:
    """Bytes that nobody has read yet."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]
