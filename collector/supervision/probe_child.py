"""The child's side: run one probe, redact what it yields, send it. Forked by the supervisor, never returns.

Nothing here may be imported late: an import may touch a dead mount. Nothing may reach the parent's stdout either:
whoever called us waits until the last holder of that pipe is gone.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import NoReturn

from flatline.redaction.redactor import Redactor

from .. import tools
from ..linux import unnoticed
from ..probes.interface import Artefact, Doing, Facts, Gap, Item, Milestone, Probe, Result, Secret, View
from . import channel, lifecycle
from .channel import Kind
from .members import Member, MemberMaker, printable


@dataclass(frozen=True)
class Caps:
    """What a child may use, and each of its tools; None: no limit. What sits in a GPU driver has none: it must not be
    killed hard, by a limit neither."""

    memory: int | None = None
    """Bytes."""
    cpu_s: int | None = None
    """Seconds of processor time."""


def become(
    probe: Probe, view: View, *, redactor: Redactor, namespace: str, pipe: int, caps: Caps, parent: int
) -> NoReturn:
    """Everything the child does from its fork to its end."""
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        lifecycle.reset_signals()
        lifecycle.ignore_size_limit()
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a parent that is gone shows as an error of `write`
        lifecycle.die_with_parent(parent)
        lifecycle.become_subreaper()  # orphans of this probe stay below it, where they can be told from others'
        lifecycle.detach_from_caller(keep=pipe)
        lifecycle.limit_resources(memory=caps.memory, cpu_s=caps.cpu_s)
        lifecycle.offer_to_the_oom_killer()
        unnoticed.watched = view.watched
        code = _Sender(probe, redactor.fork(namespace), pipe, caps).run(view)
    finally:
        os._exit(code)


class _Sender:
    def __init__(self, probe: Probe, redactor: Redactor, pipe: int, caps: Caps) -> None:
        self._caps = caps
        self._probe = probe
        self._redactor = redactor
        self._pipe = pipe
        self._maker = MemberMaker(probe.name, redactor)
        tools.announce_spared = self._spared

    def run(self, view: View) -> int:
        """Send all the probe yields, and how it ended. The exit code."""
        try:
            for item in self._probe.gather(view):
                self._send_item(item)
        except BrokenPipeError:
            return 1
        except BaseException as problem:  # noqa: BLE001  whatever a probe does wrong is one entry of the ledger
            self._send(Kind.END, {"error": self._text(_describe(problem, self._caps))})
            return 1
        self._send(Kind.END, {})
        return 0

    def _send_item(self, item: Item) -> None:
        if isinstance(item, Artefact):
            self._send_member(self._maker.artefact(item))
        elif isinstance(item, Facts):
            self._send_member(self._maker.facts(item))
        elif isinstance(item, Gap):
            texts = {name: self._text(getattr(item, name)) for name in ("message", "hint", "target")}
            self._send(Kind.GAP, {"status": item.status, "tables": item.tables, **texts})
        elif isinstance(item, Secret):
            self._redactor.learn(item.kind, item.value)
            self._send_found()
        elif isinstance(item, Result):
            self._send(Kind.RESULT, {}, pickle.dumps(item.value))
        elif isinstance(item, Doing):
            self._send(Kind.DOING, {"text": self._text(item.text)})
        elif isinstance(item, Milestone):
            self._send(Kind.MILESTONE, {"name": item.name})
        else:
            raise TypeError(f"a probe yields items, not {type(item).__name__}")

    def _send_member(self, member: Member) -> None:
        if len(member.data) > channel.MAX_PAYLOAD:
            self._send_item(Gap("partial", f"{member.path} was left out: {len(member.data)} bytes are too many"))
            return
        header = asdict(member)
        payload = header.pop("data")
        header["counts"] = self._redactor.take_counts()
        self._send(Kind.MEMBER, header, payload)

    def _send(self, kind: Kind, header: dict[str, object], payload: bytes = b"") -> None:
        self._send_found()
        channel.send(self._pipe, kind, header, payload)

    def _send_found(self) -> None:
        """What was met must be known to the parent before a mark of it arrives."""
        found = [(one.kind, one.value, one.mark) for one in self._redactor.take_found()]
        if found:
            channel.send(self._pipe, Kind.FOUND, {}, json.dumps(found).encode())

    def _spared(self, pid: int, name: str) -> None:
        self._send(Kind.SPARED, {"pid": pid, "name": self._text(name)})

    def _text(self, text: str) -> str:
        return self._redactor.text(printable(text))


def _describe(problem: BaseException, caps: Caps) -> str:
    """``ValueError: no such thing (sockdiag.py:41)``. Not `traceback`: it reads source files, here of all places."""
    said = str(problem).strip()
    if isinstance(problem, MemoryError) and caps.memory is not None:
        said = f"it may have {caps.memory >> 20} MiB, or the host has no more"
    return type(problem).__name__ + (f": {said}" if said else "") + _place(problem.__traceback__)


def _place(trace: TracebackType | None) -> str:
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})"
