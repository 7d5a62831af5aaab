"""From a reference to something that can be quoted: ``facts/processes.json#/tables/threads/3`` to a short text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flatline.bundle.facts import (
    Fd,
    File,
    Frame,
    Futex,
    Lock,
    Log,
    LogLine,
    MissingFact,
    Mount,
    Process,
    RecorderEvent,
    Socket,
    Syscall,
    Thread,
    WaitEdge,
)

from ..case import FactStore
from ..findings import SAID, Evidence
from ..names import command_line, process_named, process_of_id, thread_named
from .edges.draw import reference

MAX_QUOTE = 300


class Quotes:
    """Resolves references of one store; built once, when the first is asked for."""

    def __init__(self, store: FactStore, tables: tuple[str, ...] = ()) -> None:
        self._store = store
        self._tables = tables
        self._rows: dict[str, Any] | None = None
        self._quoted: dict[str, Evidence] = {}

    def evidence(self, ref: str) -> Evidence:
        """The row behind a reference, quoted; a bare reference when nothing is there."""
        if ref not in self._quoted:
            self._quoted[ref] = self._quote(ref)
        return self._quoted[ref]

    def _quote(self, ref: str) -> Evidence:
        if self._rows is None:
            tables = self._tables or self._store.tables
            self._rows = {reference(row): row for table in tables for row in self._store.rows(table)}
        row = self._rows.get(ref) if ref else None
        return evidence_of(row) if row is not None else _bare(ref)


def evidence_of(row: Any) -> Evidence:
    """A fact as evidence: where it is from, whom it is about, and what it says."""
    pid, tid = _ids(row)
    return Evidence(
        artefact=row.artefact,
        pointer=row.pointer,
        line=row.line,
        pid=pid,
        tid=tid,
        rank=getattr(row, "rank", None),
        quote=quote(row),
    )


def quote(row: Any) -> str:
    """One line of text that says what a row says."""
    shape = _SHAPES.get(type(row))
    text = shape(row) if shape is not None else _plain(row)
    return text if len(text) <= MAX_QUOTE else f"{text[: MAX_QUOTE - 1]}…"


def _bare(ref: str) -> Evidence:
    artefact, hash_, pointer = ref.partition("#")
    if hash_:
        return Evidence(artefact=artefact, pointer=pointer)
    name, _, line = ref.rpartition(":")
    return Evidence(artefact=name, line=int(line)) if line.isdigit() and name else Evidence(artefact=ref)


def _ids(row: Any) -> tuple[int | None, int | None]:
    parts = str(getattr(row, "thread", None) or getattr(row, "process", None) or getattr(row, "id", "")).split("/")
    pid = getattr(row, "pid", None) or (int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else None)
    tid = getattr(row, "tid", None) or (int(parts[2]) if len(parts) > 2 and parts[2].isdigit() else None)
    return (pid, tid) if pid is None or pid > 0 else (None, None)


def _named(row: Process | WaitEdge) -> str:
    pid = row.pid or 0
    return process_named(pid, row.rank if pid <= 0 else None)


def _thread(row: Thread) -> str:
    call = row.syscall
    does = f"{call.name}({_on(call)}) " if call is not None else ""
    wchan = f" wchan {row.wchan}" if row.wchan and row.wchan != "0" else ""
    state = f", {SAID.get(row.liveness, row.liveness)}" if row.liveness != "unknown" else ""
    return f"{process_named(row.pid)} {thread_named(row)}: {does}state {row.state}{wchan}{state}"


def _on(call: Syscall) -> str:
    fd = f"fd {call.fd}" if call.fd is not None else ""
    return " -> ".join(part for part in (fd, call.path) if part)


def _frame(row: Frame) -> str:
    source = next((line.text.strip() for line in row.source if line.line == row.line_no), "")
    name = row.qualname or row.function
    return f"{name} ({row.file or '?'}:{row.line_no or '?'})" + (f"  {source}" if source else "")


def _process(row: Process) -> str:
    argv = command_line(row.argv or ()) or row.name or ""
    status = f" exit status {row.exit_status}" if row.exit_status is not None else ""
    return f"{_named(row)} ({row.role}) state {row.state}{status}: {argv}"


def _futex(row: Futex) -> str:
    owners = {
        "self": "which it has taken itself",
        "alive": f"which {_owner(row)} has",
        "not-a-thread-of-the-process": f"whose owner, {_owner(row)}, has ended",
    }
    says = [
        f"{process_of_id(row.process)} thread {row.thread.rpartition('/')[2]} sleeps on {_SLEEPS_ON[row.primitive]}",
        owners.get(row.owner_state, ""),
        f"taken {row.depth} times" if row.depth is not None and row.depth > 1 else "",
        f"as {row.waiters - 1} more" if row.waiters is not None and row.waiters > 1 else "",
        "shared between processes" if row.mapping else "",
    ]
    return ", ".join(filter(None, says))


def _owner(row: Futex) -> str:
    number = row.owner_thread.rpartition("/")[2] if row.owner_thread else row.owner_tid
    return "another thread" if number is None else f"thread {number}"


_SLEEPS_ON = {
    "mutex": "a mutex", "rwlock": "a read-write lock", "condition": "a condition variable", "semaphore": "a semaphore",
    "barrier": "a barrier", "join": "the end of a thread", "pi-mutex": "a mutex", "python-lock": "a Python lock",
    "python-rlock": "a Python RLock", "python-semaphore": "a semaphore of multiprocessing",
    "unknown": "a lock or an event of unknown kind",
}  # fmt: skip


def _fd(row: Fd) -> str:
    peers = ", ".join(peer.rpartition("/")[2] for peer in row.peers or ())
    return f"{process_of_id(row.process)} fd {row.fd} -> {row.path} ({row.mode})" + (
        f", other end: pid {peers}" if peers else ""
    )


def _socket(row: Socket) -> str:
    return f"{row.family} {row.state or ''} {row.local or ''} -> {row.remote or ''} rx {row.rx_queue} tx {row.tx_queue}"


def _lock(row: Lock) -> str:
    does = "waits for" if row.waiting else "holds"
    owner = (row.owner_process or "?").rpartition("/")[2]
    return f"pid {owner} {does} {row.kind} {row.mode} on {row.path or row.inode}"


def _mount(row: Mount) -> str:
    answers = {True: "answers", False: "does not answer", None: "was not asked"}[row.answers]
    return f"{row.path} ({row.kind}, {row.source}) {answers}"


def _file(row: File) -> str:
    there = {True: "exists", False: "does not exist", None: "unknown"}[row.exists]
    named = f", named by {row.named_by}" if row.named_by else ""
    held = f", open in {len(row.holders)} processes" if row.holders is not None else ""
    age = f", last changed {row.age_s:.0f} s ago" if row.age_s is not None else ""
    return f"{row.path} {there}{named}{held}{age}"


def _log(row: Log) -> str:
    age = f" {row.last_write_age_s:.0f} s ago" if row.last_write_age_s is not None else ""
    return f"{row.path or row.stream}: last write{age}: {row.last_line or ''}"


def _event(row: RecorderEvent) -> str:
    age = f", {row.age_s:.0f} s before the look" if row.age_s is not None else ""
    return f"{row.kind.replace('-', ' ')}: {row.text}{age}"


def _plain(row: Any) -> str:
    known = {name: value for name, value in vars(row).items()
             if name not in ("artefact", "line", "pointer") and value not in (None, "unknown", (), "")}  # fmt: skip
    return ", ".join(f"{name} {value}" for name, value in known.items())


_SHAPES: dict[type, Callable[[Any], str]] = {
    Fd: _fd,
    File: _file,
    Frame: _frame,
    Futex: _futex,
    Lock: _lock,
    Log: _log,
    LogLine: lambda row: row.text,
    MissingFact: lambda row: f"{row.probe} {row.status}: {row.message}",
    Mount: _mount,
    Process: _process,
    RecorderEvent: _event,
    Socket: _socket,
    Thread: _thread,
    WaitEdge: lambda row: f"{_named(row)} {row.text} ({row.strength}: {row.reason})",
}
