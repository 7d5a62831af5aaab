"""What the parent knows of one probe's child: how it stands, and what it has sent so far."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from flatline.redaction.marks import MARK
from flatline.redaction.redactor import Found, Redactor

from ..probes.interface import Gap, Milestone, Probe, View
from . import descendants
from .channel import FloodError, Frame, Frames, GarbageError, Kind
from .members import Member, is_safe_path

MAX_BYTES = 64 << 20
"""A probe may send this much in all."""
MAX_GAPS = 1000
_READ_BYTES = 256 << 10
_READS_PER_TURN = 16

Stopped = Literal["", "timeout", "interrupted", "flooded", "garbage", "not-started"]
"""Why we ended it; empty: it ended by itself."""


@dataclass
class Job:
    """One run of one probe."""

    probe: Probe
    view: View
    """`deadline_ns` is set by the supervisor."""
    limit_s: float | None = None
    """Instead of the probe's own."""
    target: str = ""
    after: frozenset[str] = frozenset()
    """Probes that come first: this one begins once each has passed a milestone or ended, or `PATIENCE_S` is over."""


@dataclass(frozen=True)
class Running:
    """A probe at work, for the progress line. Times are CLOCK_MONOTONIC."""

    probe: str
    pid: int
    began_ns: int
    limit_ns: int
    spans_window: bool
    doing: str = ""
    doing_since_ns: int = 0

    def stuck(self) -> str:
        """``pid 12 (lsof) is in state D in folio_wait_bit_common``, or empty."""
        return descendants.stuck(self.pid)


@dataclass
class Child:
    """One child; `receive` takes in what it sends."""

    job: Job
    redactor: Redactor
    pid: int = 0
    """0: never begun."""
    pipe: int | None = None
    """None: at its end."""
    started_at: str = ""
    began_ns: int = 0
    limit_ns: int = 0
    give_up_ns: int | None = None
    """Set once it has been killed, or has said its last word: after that it is abandoned."""
    signalled: set[int] = field(default_factory=set)
    """Whom of its tree we have ended: once is enough."""
    exit_code: int | None = None
    """None: not reaped."""
    stopped: Stopped = ""
    why: str = ""
    """In words, what `stopped` says."""
    heard_ns: int = 0
    """When it last sent anything."""
    doing: str = ""
    doing_since_ns: int = 0
    last_word: bool = False
    error: str = ""
    gaps: list[Gap] = field(default_factory=list)
    more_gaps: int = 0
    results: list[Any] = field(default_factory=list)
    spared: dict[int, str] = field(default_factory=dict)
    """Pid -> name of tools that must not be killed hard."""
    left_running: list[str] = field(default_factory=list)
    members: int = 0
    kept_bytes: int = 0
    _sent_bytes: int = 0
    _frames: Frames = field(default_factory=Frames)
    _marks: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The probe's."""
        return self.job.probe.name

    def as_running(self) -> Running:
        """How it stands now."""
        return Running(
            probe=self.name,
            pid=self.pid,
            began_ns=self.began_ns,
            limit_ns=self.limit_ns,
            spans_window=self.job.probe.spans_window,
            doing=self.doing,
            doing_since_ns=self.doing_since_ns,
        )

    def family(self) -> set[int]:
        """It, and what is known to have been started by it."""
        return {self.pid, *self.signalled, *self.spared}

    @property
    def cut_short(self) -> bool:
        """It was in the middle of sending something, which is lost."""
        return self._frames.partial

    def close(self) -> None:
        """Read no more of it."""
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None

    def receive(self, now: int) -> Iterator[Member | Milestone]:
        """What has arrived by now, ready to pass on; the rest is kept here. Never waits.

        GarbageError: it is not our protocol. FloodError: more than `MAX_BYTES`.
        """
        for _ in range(_READS_PER_TURN):
            if self.pipe is None:
                return
            try:
                piece = os.read(self.pipe, _READ_BYTES)
            except BlockingIOError:
                return
            if not piece:
                self.close()
                return
            self.heard_ns = now
            for frame in self._frames.feed(piece):
                item = self._understand(frame, now)
                if item is not None:
                    yield item

    def _understand(self, frame: Frame, now: int) -> Member | Milestone | None:
        self._sent_bytes += len(frame.payload)
        if self._sent_bytes > MAX_BYTES:
            raise FloodError
        try:
            if frame.kind == Kind.MEMBER:
                return self._member(frame)
            if frame.kind == Kind.MILESTONE:
                return Milestone(frame.header["name"])
            self._note(frame, now)
        except Exception as broken:  # unpickling alone can raise anything
            raise GarbageError(f"a broken {frame.kind.name.lower()} ({type(broken).__name__})") from broken
        return None

    def _note(self, frame: Frame, now: int) -> None:
        header = frame.header
        if frame.kind == Kind.FOUND:
            self._marks.update(self.redactor.adopt([Found(*one) for one in json.loads(frame.payload)]))
        elif frame.kind == Kind.GAP:
            self._gap(header)
        elif frame.kind == Kind.RESULT:
            self.results.append(pickle.loads(frame.payload))
        elif frame.kind == Kind.DOING:
            self.doing, self.doing_since_ns = self._settled(header["text"]), now
        elif frame.kind == Kind.SPARED:
            self.spared[int(header["pid"])] = self._settled(header["name"])
        elif frame.kind == Kind.END:
            self.last_word = True
            self.error = self._settled(header.get("error", ""))

    def _member(self, frame: Frame) -> Member | None:
        about = dict(frame.header)
        self.redactor.add_counts(*about.pop("counts"))
        if not is_safe_path(about["path"]):
            self.gaps.append(Gap("error", f"no member can be named {about['path']!r}"))
            return None
        about["truncated"] = tuple((int(begin), int(end)) for begin, end in about["truncated"])
        about["original_path"] = self._settled(about["original_path"])
        self.members += 1
        self.kept_bytes += len(frame.payload)
        return Member(data=self._settled_bytes(frame.payload), **about)

    def _gap(self, header: Mapping[str, Any]) -> None:
        if len(self.gaps) >= MAX_GAPS:
            self.more_gaps += 1
            return
        texts = {name: self._settled(header[name]) for name in ("message", "hint", "target")}
        self.gaps.append(Gap(header["status"], tables=tuple(header["tables"]), **texts))

    def _settled(self, text: str) -> str:
        """`text` with final marks for the child's provisional ones, in one pass: a final one is never replaced."""
        if not self._marks or "⟪" not in text:
            return text
        return MARK.sub(lambda mark: self._marks.get(mark[0], mark[0]), text)

    def _settled_bytes(self, data: bytes) -> bytes:
        if not self._marks or "⟪".encode() not in data:
            return data
        return self._settled(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
