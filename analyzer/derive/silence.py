"""Since when nothing has moved, and which sign of life tells it."""

from __future__ import annotations

from collections.abc import Iterable

from flatline.bundle.facts import Log

from .marks import youngest
from .scene import Scene


def last_sign(scene: Scene, window_s: float) -> tuple[float | None, str | None]:
    """Seconds since the latest sign, and what it was: a log of the job that was written to, what its recorder saw last,
    else its start."""
    since, sign = _of_logs(scene, window_s)
    event = youngest(scene, scene.named)
    if event is None or event.age_s is None or (since is not None and since <= event.age_s):
        return since, sign
    return event.age_s, f"last event of the recorder: {event.kind} {event.text}".rstrip()


def _of_logs(scene: Scene, window_s: float) -> tuple[float | None, str | None]:
    """Seconds since a log of the job was written to, or since its start.

    What grew while we looked was written then; else the whole window has passed without a sign.
    """
    logs = _own_logs(scene)
    grown = [(age, log) for log in logs if (age := _growth_age(scene, log)) is not None]
    if grown:
        age, log = min(grown, key=lambda found: found[0])
        return round(age, 1), _last_write(log)
    ages = [p.age_s for p in scene.processes.values() if p.relation == "target" and p.age_s is not None]
    start = min(ages, default=None)
    log = min(logs, key=lambda log: log.last_write_age_s or 0.0, default=None)
    age = log.last_write_age_s if log is not None else None
    if log is not None and age is not None and (start is None or age <= start):
        return round(max(age, window_s), 1), _last_write(log)
    return (None, None) if start is None else (round(max(start, window_s), 1), "start of the job")


def _last_write(log: Log) -> str:
    return f"last write to {(log.path or log.stream).rpartition('/')[2]}"


def _own_logs(scene: Scene) -> list[Log]:
    """Those of what was asked about; where it writes none itself, those beside it (``train.py | tee log``)."""
    logs = [log for log in scene.logs if log.last_write_age_s is not None]
    own = [log for log in logs if not _writers(log) or scene.named & _writers(log)]
    return own or [log for log in logs if scene.job & _writers(log)]


def _writers(log: Log) -> frozenset[str]:
    return frozenset([*log.writers, *([log.process] if log.process else [])])


def _growth_age(scene: Scene, log: Log) -> float | None:
    """How long before the last look at its size it was last seen to have grown; None: it did not grow."""
    samples = sorted((s for s in _samples(scene, log) if s.size is not None), key=lambda s: s.sample)
    grew = [later.mono_ns for before, later in zip(samples, samples[1:], strict=False) if later.size != before.size]
    return (samples[-1].mono_ns - grew[-1]) / 1e9 if grew else None


def _samples(scene: Scene, log: Log) -> Iterable:
    return (row for row in scene.store.rows("log_samples") if row.path == log.path)
