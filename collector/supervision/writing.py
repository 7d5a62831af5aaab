"""The process that writes the bundle: what does not answer stops it, and never us.

A write, an fsync or a rename on a mount that has died sleeps in the kernel for ever. So the output's file system is
touched by a child alone, over a socket; each request has its limit, after which the child is killed, or left where it
sleeps, and the bundle goes on elsewhere: all that was written is kept here, too (at most the bundle's size).
"""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from flatline.bundle.shelf import Disk

from .. import answers
from ..linux import scarcity, unnoticed
from . import descendants, lifecycle

ANSWER_S = 2.0
"""For everything but publishing."""
LATE_S = 0.5
"""For the rest of an answer that has begun to come."""
REAP_S = 0.1
BEGIN_S = 1.0
"""For a host that has no process left just now: without this child there is no bundle."""
_REQUEST = struct.Struct(">cQ")
_OFFSET = struct.Struct(">Q")
_PIECE, _END, _DROP = b"P", b"E", b"D"
_READ = 1 << 20

Patience = Callable[[float], float]
"""How many seconds may be waited now, when that many are wanted."""


class StalledError(OSError):
    """The place does not answer; the process that writes there was given up."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.ETIMEDOUT, why)
        self.why = why


class WritingProcess:
    """A `flatline.bundle.shelf.Shelf` in a child. OSError when the folder takes no file, StalledError in every method.

    The child dies with us; as it holds the spool's lock, whoever gets that knows that both are dead.
    """

    def __init__(
        self,
        final: Path,
        *,
        over: bool,
        patience: Patience = lambda seconds: seconds,
        watched: frozenset[int] = frozenset(),
        on_child: Callable[[int], None] = lambda pid: None,
    ) -> None:
        """`over`: a file of that name may be replaced; else another name is taken. `watched`: see `View`."""
        self.final = Path(final)
        self.file: BinaryIO = io.BytesIO()
        self.publish_s = 10.0
        """How long publishing may take."""
        self._patience = patience
        self._dead = ""
        self._socket, theirs = socket.socketpair()
        parent = os.getpid()
        try:
            self.pid = scarcity.fork(BEGIN_S)
        except OSError:
            self._socket.close()
            theirs.close()
            raise
        if self.pid == 0:
            unnoticed.watched = watched
            _be_child(theirs.detach(), parent, self.final, over)
        on_child(self.pid)
        theirs.close()
        self._socket.setblocking(False)
        self.spool = self.final.with_name(self.final.name + ".part")
        try:
            self.final, self.spool = map(Path, self._answer(self._until(ANSWER_S)))
        except OSError:
            self._give_up()
            raise

    def append(self, offset: int, blob: bytes) -> None:
        """See `Shelf`."""
        deadline = self._until(ANSWER_S)
        self._send(b"A", _OFFSET.pack(offset) + blob, deadline)
        self._answer(deadline)
        self.file.seek(offset)
        self.file.write(blob)

    def publish(self, final: Path, pieces: Iterable[bytes]) -> None:
        """See `Shelf`."""
        deadline = self._until(self.publish_s)
        self._send(b"B", os.fsencode(final), deadline)
        try:
            for piece in pieces:
                self._send(_PIECE, piece, deadline)
        except BaseException:
            if not self._dead:
                self._send(_DROP, b"", deadline)
                self._answer(deadline)
            raise
        self._send(_END, b"", deadline)
        self._answer(deadline)

    def finish(self) -> None:
        """See `Shelf`; a spool that does not answer is left."""
        if not self._dead:
            try:
                deadline = self._until(ANSWER_S)
                self._send(b"F", b"", deadline)
                self._answer(deadline)
            except OSError:
                pass
        self.abandon()

    def abandon(self) -> None:
        """See `Shelf`."""
        if not self._dead:
            self._give_up()

    # --- the talk with the child ---

    def _until(self, seconds: float) -> float:
        return time.monotonic() + self._patience(seconds)

    def _send(self, kind: bytes, payload: bytes, deadline: float) -> None:
        if self._dead:
            raise StalledError(self._dead)
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        view = memoryview(_REQUEST.pack(kind, len(payload)) + payload)
        try:
            while view:
                left = deadline - time.monotonic()
                if left <= 0 or not poll.poll(left * 1000):
                    deadline = self._later()
                    continue
                try:
                    view = view[self._socket.send(view) :]
                except BlockingIOError:  # room for less than the kernel takes at once
                    time.sleep(0.001)
        except OSError as error:
            raise self._stalled(error) from None

    def _answer(self, deadline: float) -> Any:
        try:
            _, (value, number, why) = self._received(deadline)
        except (OSError, EOFError, ValueError) as error:
            raise self._stalled(error) from None
        if number is not None:
            raise OSError(number, why)
        return value

    def _received(self, deadline: float) -> Any:
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        while not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
            deadline = self._later()
        return next(answers.receive(self._socket.fileno(), max(deadline, time.monotonic() + LATE_S)))

    def _later(self) -> float:
        """Another moment for a child that lacks nothing but a processor: the host is busy, and its place answers.
        TimeoutError for one that sleeps, or when no time is left for that."""
        child = descendants.standing(self.pid)
        if child is None or child.state != "R" or self._patience(ANSWER_S) < ANSWER_S:
            raise TimeoutError
        return self._until(ANSWER_S)

    def _stalled(self, error: Exception) -> StalledError:
        stuck = descendants.stuck(self.pid)
        how = "does not answer" if isinstance(error, TimeoutError) else "could not be written: its process ended"
        left = self._give_up()
        self._dead = f"{self.final.parent} {how}" + (f"; {stuck}, it was left there" if left and stuck else "")
        return StalledError(self._dead)

    def _give_up(self) -> bool:
        """End the child, whose spool stays. True when it sleeps where no signal reaches it."""
        self._dead = self._dead or f"{self.final.parent} is not written any more"
        self._socket.close()
        deadline = time.monotonic() + REAP_S
        while True:
            try:
                os.kill(self.pid, signal.SIGKILL)
                if os.waitpid(self.pid, os.WNOHANG)[0] == self.pid:
                    return False
            except (ProcessLookupError, ChildProcessError):
                return False
            if time.monotonic() > deadline:
                return True
            time.sleep(0.005)


# --- the child ---


def _be_child(talk: int, parent: int, final: Path, over: bool) -> NoReturn:
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        lifecycle.reset_signals()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # Slurm and systemd signal all: the collect has yet to write
        lifecycle.ignore_size_limit()
        lifecycle.die_with_parent(parent)
        lifecycle.detach_from_caller(keep=talk)
        _serve(talk, final, over)
    finally:
        os._exit(0)


def _serve(talk: int, final: Path, over: bool) -> None:
    try:
        disk = _disk(final, over)
    except OSError as error:
        answers.send(talk, b"V", _refusal(error))
        return
    answers.send(talk, b"V", ((str(disk.final), str(disk.spool)), None, ""))
    for kind, payload in _requests(talk):
        try:
            _do(disk, kind, payload, talk)
            answers.send(talk, b"V", (None, None, ""))
        except OSError as error:
            answers.send(talk, b"V", _refusal(error))


def _disk(final: Path, over: bool) -> Disk:
    if unnoticed.is_watched(final.parent):
        raise unnoticed.NoticedError("has a watch: writing there would signal a process of the job")
    if not over and os.path.lexists(final):
        final = final.with_name(f"{os.urandom(3).hex()}-{final.name}")
    return Disk(final)


def _refusal(error: OSError) -> tuple[None, int, str]:
    return None, error.errno or errno.EIO, error.strerror or str(error)


def _do(disk: Disk, kind: bytes, payload: bytes, talk: int) -> None:
    if kind == b"A":
        disk.append(_OFFSET.unpack_from(payload)[0], payload[_OFFSET.size :])
    elif kind == b"B":
        pieces = _pieces(talk)
        try:
            disk.publish(Path(os.fsdecode(payload)), pieces)
        except _DroppedError:
            pass
        except OSError:
            _read_on(pieces)
            raise
    elif kind == b"F":
        disk.finish()


def _read_on(pieces: Iterator[bytes]) -> None:
    """What still comes for a bundle that a full disk has refused."""
    try:
        for _ in pieces:
            pass
    except _DroppedError:
        pass


class _DroppedError(Exception):
    """There will be no bundle this time."""


def _pieces(talk: int) -> Iterator[bytes]:
    for kind, payload in _requests(talk):
        if kind == _END:
            return
        if kind == _DROP:
            raise _DroppedError
        yield payload
    raise _DroppedError


def _requests(talk: int) -> Iterator[tuple[bytes, bytes]]:
    while True:
        head = _exactly(talk, _REQUEST.size)
        if head is None:
            return
        kind, size = _REQUEST.unpack(head)
        payload = _exactly(talk, size)
        if payload is None:
            return
        yield kind, payload


def _exactly(talk: int, size: int) -> bytes | None:
    """None: our parent has gone."""
    parts = bytearray()
    while len(parts) < size:
        piece = os.read(talk, min(_READ, size - len(parts)))
        if not piece:
            return None
        parts += piece
    return bytes(parts)
