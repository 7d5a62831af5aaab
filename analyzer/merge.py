"""Rows that tell of the same thing become one: what several probes and several rounds saw of it.

`merge_rows` is the whole of it; `moved_to_host` and `prefixed` make the rows of several bundles distinguishable first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from flatline.bundle.facts import HEAVY_SAMPLE, Frame, MissingFact, PollSet, Syscall, Thread, ThreadSample, Timeout
from flatline.bundle.format import LedgerEntry

_HOST = re.compile(r"^h\d+(?=/|$)")
_NAMES_HOST = frozenset({"host", "holders", "id", "owner_process", "peers", "process", "readers", "thread", "writers"})
_NAMES_MEMBER = {"Log": ("artefact", "text"), "LogLine": ("artefact", "log")}
PROVENANCE = frozenset({"artefact", "line", "pointer"})
_ROUND = re.compile(r"threads\.(\d+)\.json$")
_MOMENTARY = frozenset({"state", "wchan", "syscall"})
"""What a thread did when it was looked at."""


def merge_rows(tables: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Tables in which every host, process and thread has exactly one row."""
    merged = {name: list(rows) for name, rows in tables.items()}
    for table, key in (("hosts", "host"), ("processes", "id")):
        if table in merged:
            merged[table] = [_richest(rows) for rows in _grouped(merged[table], key)]
    if "threads" in merged:
        threads = [_latest(rows) for rows in _grouped(merged["threads"], "id")]
        threads = _with_last_sample(threads, merged.get("thread_samples", []))
        threads = _with_memory(threads, merged.get("timeouts", []), _timed)
        threads = _with_memory(threads, merged.get("poll_sets", []), _watching)
        merged["threads"] = _with_python_names(threads, merged.get("frames", []))
    if "frames" in merged:
        merged["frames"] = _with_sources(merged["frames"])
    return merged


def newest_sample(samples: Iterable[int]) -> int:
    """Whose stack counts as the thread's: the last round or extra look; without one the first of the deeper looks."""
    return max(samples, key=lambda n: n if n < HEAVY_SAMPLE else -n)


def moved_to_host(row: Any, host: str) -> Any:
    """The row with every ``h1/…`` in it under another host's number."""

    def moved(value: Any) -> Any:
        if isinstance(value, str):
            return _HOST.sub(host, value)
        return tuple(moved(item) for item in value) if isinstance(value, tuple) else value

    return _changed(row, _NAMES_HOST, moved)


def prefixed(row: Any, prefix: str) -> Any:
    """The row with the bundle's number before the members it names."""
    names = _NAMES_MEMBER.get(type(row).__name__, ("artefact",))
    return _changed(row, names, lambda name: prefix + name if prefix and name else name)


def gaps_of(ledger: Sequence[LedgerEntry], artefact: str) -> list[MissingFact]:
    """What the ledger says is missing: a row for every table of every entry that is not ok."""
    return [
        MissingFact(
            table=table,
            probe=entry.probe,
            status=entry.status,
            process=entry.target if _HOST.match(entry.target) else None,
            message=entry.message or entry.cut,
            hint=entry.hint,
            artefact=artefact,
            pointer=f"/ledger/{index}",
        )
        for index, entry in enumerate(ledger)
        if entry.status != "ok"
        for table in entry.tables or ("",)
    ]


def _changed(row: Any, names: Iterable[str], change: Any) -> Any:
    new = {}
    for name in names:
        old = getattr(row, name, None)
        if old is not None and (value := change(old)) != old:
            new[name] = value
    return replace(row, **new) if new else row


def _grouped(rows: Sequence[Any], key: str) -> Iterable[list[Any]]:
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(getattr(row, key), []).append(row)
    return groups.values()


def _known(row: Any) -> dict[str, Any]:
    return {
        f.name: value
        for f in fields(row)
        if f.name not in PROVENANCE and (value := getattr(row, f.name)) not in (None, "unknown", (), "")
    }


def _richest(rows: Sequence[Any]) -> Any:
    """The row that knows most, its blanks filled from the others."""
    if len(rows) == 1:
        return rows[0]
    best, *others = sorted(rows, key=lambda row: -len(_known(row)))
    blanks: dict[str, Any] = {}
    for row in others:
        blanks = {**_known(row), **blanks}
    whole = replace(best, **{name: value for name, value in blanks.items() if name not in _known(best)})
    return _cited(whole, [best, *others])


def _cited(row: Any, told_by: Sequence[Any]) -> Any:
    """Of several rows the place of the one that tells the state is where the whole is quoted from: whom it is about
    stands in each of them."""
    if getattr(row, "state", "unknown") == "unknown":
        return row
    telling = next(one for one in told_by if one.state == row.state)
    return replace(row, **{name: getattr(telling, name) for name in PROVENANCE})


def _round_of(thread: Thread) -> int:
    match = _ROUND.search(thread.artefact)
    return int(match[1]) if match else 0


def _latest(rows: Sequence[Thread]) -> Thread:
    """The last look at a thread, its blanks filled from earlier ones; what it did then is never filled in:
    a state of round 2 with the system call of round 0 would be a scene that never was. Rows of the same round that do
    not contradict it are of the same moment: a state of one text and the kernel stack of another."""
    if len(rows) == 1:
        return rows[0]
    *earlier, last = sorted(rows, key=_round_of)
    blanks: dict[str, Any] = {}
    for row in earlier:
        blanks.update((n, v) for n, v in _known(row).items() if n not in _MOMENTARY or _is_same_moment(row, last))
    known = _known(last)
    whole = replace(last, **{name: value for name, value in blanks.items() if name not in known})
    return _cited(whole, [last, *reversed(earlier)])


def _is_same_moment(row: Thread, last: Thread) -> bool:
    return last.state == "unknown" or (_round_of(row) == _round_of(last) and row.state in ("unknown", last.state))


def _with_last_sample(threads: Sequence[Thread], samples: Sequence[ThreadSample]) -> list[Thread]:
    last: dict[str, ThreadSample] = {}
    for sample in samples:
        if sample.thread not in last or sample.sample > last[sample.thread].sample:
            last[sample.thread] = sample
    return [_as_sampled(thread, last.get(thread.id)) for thread in threads]


def _as_sampled(thread: Thread, sample: ThreadSample | None) -> Thread:
    if sample is None or sample.state == "unknown" or sample.sample <= _round_of(thread):
        return thread
    now = replace(thread, state=sample.state, wchan=sample.wchan or thread.wchan)
    if sample.syscall is None or thread.syscall is None or _same_call(thread, sample.syscall):
        return now
    return replace(now, syscall=None, wchan=sample.wchan)


def _same_call(thread: Thread, raw: str) -> bool:
    number = raw.split()[0] if raw.split() else ""
    call = thread.syscall
    return call is not None and (number == str(call.nr) or (number == call.name == "running"))


def _with_memory(
    threads: Sequence[Thread], rows: Sequence[Any], what: Callable[[Syscall, Any], Syscall]
) -> list[Thread]:
    """What stands in a thread's memory, put by `what` into the call it belongs to."""
    found = {row.thread: row for row in rows}

    def filled(thread: Thread) -> Thread:
        call, row = thread.syscall, found.get(thread.id)
        if call is None or row is None or call.name != row.syscall:
            return thread
        return replace(thread, syscall=what(call, row))

    return [filled(thread) for thread in threads] if found else list(threads)


def _timed(call: Syscall, row: Timeout) -> Syscall:
    return replace(call, timeout_s=row.seconds) if call.timed and call.timeout_s is None else call


def _watching(call: Syscall, row: PollSet) -> Syscall:
    return replace(call, watches=row.fds) if call.watches is None else call


def _with_sources(frames: Sequence[Frame]) -> list[Frame]:
    """Source lines are sent with the first stack that shows a place, locals with one look only: all others get them."""
    sources = {(f.thread.rpartition("/")[0], f.file, f.line_no): f for f in frames if f.source}
    # Those of a deeper look are as printed, in quotes and cut: they are no paths to go by.
    looks = (f for f in frames if f.locals and f.sample < HEAVY_SAMPLE)
    locals_ = {(f.thread, f.depth, f.file, f.line_no): f.locals for f in looks}

    def filled(frame: Frame) -> Frame:
        known = sources.get((frame.thread.rpartition("/")[0], frame.file, frame.line_no))
        new: dict[str, Any] = {}
        if known is not None and not frame.source:
            new.update(source=known.source, enclosing=frame.enclosing or known.enclosing)
        found = locals_.get((frame.thread, frame.depth, frame.file, frame.line_no))
        if found is not None and frame.locals is None:
            new.update(locals=found)
        return replace(frame, **new) if new else frame

    return [filled(frame) for frame in frames]


def _with_python_names(threads: Sequence[Thread], frames: Sequence[Frame]) -> list[Thread]:
    names = {frame.thread: frame.thread_name for frame in frames if frame.thread_name}
    return [replace(t, name=names[t.id]) if t.id in names and names[t.id] != t.name else t for t in threads]
