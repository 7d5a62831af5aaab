"""What stands before a message of the kernel: stamps and levels of dmesg, /dev/kmsg, syslog and the journal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_DECODED = re.compile(
    r"(?:kern|user|daemon|syslog|auth)\s{0,4}:(?:emerg|alert|crit|err|warn|notice|info|debug)\s{0,3}:\s"
)
_HUMAN = re.compile(
    rf"\[(?:\w{{2,4}} {_MONTH} [ \d]\d \d\d:\d\d:\d\d \d{{4}}|{_MONTH} ?[ \d]\d \d\d:\d\d(?::\d\d)?"
    r"| {0,8}\+\d{1,9}\.\d{6}|<[ \d]{1,12}\.\d{6}>)\]\s?"
)
"""``dmesg -T``; ``dmesg -e`` and ``-d`` print ``[Mar 4 09:47]`` and ``[  +0.000001]``."""
_STAMP = re.compile(r"(?:<\d{1,3}>)?(?:\[ {0,12}(?P<stamp>\d{1,12}\.\d{1,9})\]\s?)?(?:\[ {0,12}[TC]\d{1,9}\]\s?)?")
"""``[ 2780.390483]``, and with printk.caller=1 also who printed it (``[ T1184]``)."""
_RECORD = re.compile(r"\d{1,4},\d{1,20},(?P<micros>\d{1,20}),[-c+](?:,[\w=]{1,40})?;")
_ISO_ALONE = re.compile(rf"(?P<iso>{_ISO}) ")
_JOURNAL = re.compile(
    rf"(?:(?P<iso>{_ISO}) |{_MONTH} {{1,2}}\d{{1,2}} (?:\d{{4}} )?\d\d:\d\d:\d\d(?:\.\d{{1,6}})? )?"
    r"(?P<host>[\w.⟪·⟫-]{1,255}) kernel(?:\[\d{1,7}\])?: ?"
)


_WALL = re.compile(
    r"kernel(?:\[\d{1,7}\])?: ?(?=\[ {0,12}\d{1,12}\.\d{1,9}\]|NMI |watchdog: |BUG: |INFO: |Uhhuh|mce: |Disabling )"
)
"""syslogd on every terminal (``Message from syslogd@host``), and lines of a log that lost their host."""


@dataclass(frozen=True)
class Head:
    """A line of the log, taken apart."""

    message: str
    is_kernel: bool = False
    """What stands before the message can only be the kernel's."""
    stamp: float | None = None
    """Seconds since boot."""
    iso: str | None = None
    """The time as it stands there."""

    def utc(self, boot_s: float | None) -> str | None:
        """The time, where the line or `boot_s` (seconds since 1970 of the boot) tells it for certain."""
        try:
            if self.iso is not None:
                return _utc(self.iso)
            when = None if self.stamp is None or boot_s is None else boot_s + self.stamp
            return None if when is None else _text(datetime.fromtimestamp(when, timezone.utc))
        except (OverflowError, ValueError, OSError):
            return None


def head_of(line: str) -> Head:
    """The line without what was put before the message."""
    text = line.strip() if line[:1].isspace() and not line.startswith("\t") else line
    record = _RECORD.match(text)
    if record:
        return Head(text[record.end() :], True, stamp=int(record["micros"]) / 1e6)
    at, known, iso = 0, False, None
    for pattern in (_DECODED, _HUMAN):
        if found := pattern.match(text, at):
            at, known = found.end(), True
    if wall := _WALL.match(text, at):
        at, known = wall.end(), True
    journal = _JOURNAL.match(text, at)
    alone = None if journal else _ISO_ALONE.match(text, at)
    if journal:
        at, known, iso = journal.end(), True, journal["iso"]
    elif alone:
        at, iso = alone.end(), alone["iso"]
    stamped = _STAMP.match(text, at)
    assert stamped is not None  # every part of it may be missing
    stamp = float(stamped["stamp"]) if stamped["stamp"] else None
    is_kernel = known or bool(stamp is not None and re.match(r"(?:<\d{1,3}>)?\[ {0,12}\d{1,12}\.\d{6}\]", text[at:]))
    after = text[stamped.end() :]
    behind = _JOURNAL.match(after) if stamp is not None and journal is None else None
    if behind:  # ``[    7.000001] host kernel: …``, journalctl -o short-monotonic
        return Head(after[behind.end() :], True, stamp, behind["iso"] or iso)
    return Head(after, is_kernel, stamp, iso)


def _utc(iso: str) -> str | None:
    """None where the zone is not stated."""
    text = iso.replace(",", ".").replace(" ", "T", 1)
    text = re.sub(r"Z$", "+00:00", text)
    text = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", text)
    text = re.sub(r"\.(\d{1,9})", lambda m: "." + (m[1] + "000000")[:6], text)
    when = datetime.fromisoformat(text)
    return None if when.tzinfo is None else _text(when.astimezone(timezone.utc))


def _text(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
