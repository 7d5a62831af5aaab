"""A child's end as an entry of the ledger: what it did, what is missing, and the line that would get it."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from flatline.bundle.format import LedgerEntry, Status

from .child import Child

TEXTS_SHOWN = 5
TEXT_LENGTH = 400


def entry(child: Child, now: int) -> LedgerEntry:
    """How the probe ended, in one record. Texts are redacted already."""
    status = _status(child)
    return LedgerEntry(
        probe=child.name,
        status=status,
        target=child.job.target,
        started_at=child.started_at,
        seconds=round((now - child.began_ns) / 1e9, 3) if child.pid else 0.0,
        exit_code=child.exit_code,
        bytes=child.kept_bytes,
        cut="what it was sending when it ended" if child.cut_short else "",
        left_running=tuple(child.left_running),
        message=_message(child),
        hint=_joined(gap.hint for gap in child.gaps),
        tables=_tables(child, status),
    )


def _status(child: Child) -> Status:
    if child.stopped == "not-started":
        return "error" if child.error else "skipped"
    if child.stopped == "interrupted":
        return "partial" if child.members else "skipped"
    if child.stopped:
        return "timeout" if child.stopped == "timeout" else "error"
    if child.error or not child.last_word:
        return "error"
    missing: list[Status] = [gap.status for gap in child.gaps if gap.status != "ok"]  # an "ok" is a remark
    if not missing:
        return "ok"
    return "partial" if child.members or child.results else _worst(missing)


def _worst(statuses: Iterable[Status]) -> Status:
    """Of a probe that found nothing at all: what kept it from it."""
    found = set(statuses)
    order: tuple[Status, ...] = ("timeout", "error", "denied", "absent", "skipped", "partial", "ok")
    return next(status for status in order if status in found)


def _message(child: Child) -> str:
    texts = [child.why, child.error]
    if child.pid and not child.stopped and not child.last_word:
        texts.append(_unexpected_end(child.exit_code) + (f" while {child.doing}" if child.doing else ""))
    texts += [f"{named(gap.target)}: {gap.message}" if gap.target else gap.message for gap in child.gaps]
    return _joined(texts, more=child.more_gaps)


def named(target: str) -> str:
    """``pid 12`` for ``h1/12``; a path as it is."""
    host, slash, pid = target.partition("/")
    return f"pid {pid}" if slash and host == "h1" and pid.isdigit() else target


def _unexpected_end(code: int | None) -> str:
    if code is None:
        return "its process vanished"
    if code == -signal.SIGXCPU:
        return "its process had used all the processor time that it may have"
    return f"its process was ended by signal {-code}" if code < 0 else f"its process ended with code {code}, unfinished"


def _tables(child: Child, status: Status) -> tuple[str, ...]:
    """Which tables may lack rows: those the gaps name, or all where the probe itself did not get to its end."""
    named = sorted({table for gap in child.gaps for table in gap.tables})
    return tuple(named) if status == "partial" and named and not child.stopped else child.job.probe.tables


def _joined(texts: Iterable[str], *, more: int = 0) -> str:
    """Different texts, each once, not too many and not too long."""
    different = list(dict.fromkeys(text for text in texts if text))
    shown = [text if len(text) <= TEXT_LENGTH else text[:TEXT_LENGTH] + "…" for text in different[:TEXTS_SHOWN]]
    rest = len(different) - len(shown) + more
    return "; ".join(shown + ([f"and {rest} more"] if rest else []))
