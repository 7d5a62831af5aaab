"""Takes away what pasting, terminals and log drivers put around a line; nothing of what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Any

from ..parsers.interface import Line
from .envelopes import NONE, Envelope

MAX_LINE = 64 * 1024
MAX_JSON = 8 * 1024**2
"""Of a line that is a whole dump as JSON."""
_DUMP = re.compile(
    r"""\s{0,100}\[?\s{0,100}\{.{0,2000}?"""
    r"""["'](?:frames|entries|pg_config|pg_status|nccl_version|comm_lib_version)["'] ?:"""
)
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)|[@-Z\\-_])|\x9b[0-?]*[ -/]*[@-~]"
)
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|nbsp|#39|#x27|#34);")
_QUOTE = re.compile(r"(?:&gt;|>) ?")
_CRI = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*(?:Z|[+-]\d\d:\d\d)) (?:stdout|stderr) [FP] ")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)(?= |$|\t)")
_PREFIXES = (
    re.compile(r"\[rank(?P<rank>\d{1,6})\]: ?"),
    re.compile(r"\[default(?P<rank>\d{1,6})\]: ?"),
    re.compile(
        r"\[\d{1,6},(?:mpirank:)?(?P<rank>\d{1,6})(?:,[\w.-]{1,64})?\](?:\[[\w.:-]{1,64}\])?"
        r"<(?:std(?:out|err)|stddiag)>: ?"
    ),
    re.compile(r"(?P<rank>\d{1,5}): (?=\S| )"),
    re.compile(r"\((?P<who>[\w.<>()\[\]-]{1,80}) (?:rank=\d+ )?pid=(?P<pid>\d{1,9})(?:, ip=[\d.a-fA-F:]{1,45})?\) ?"),
    re.compile(r"\((?:gdb|lldb)\) ?"),
)  # fmt: skip
_MAX_PREFIXES = 3
MAX_STATES = 8
"""Of one line that a progress bar has overwritten again and again."""


def cleaned(raw: Iterable[str], first: int = 1) -> Iterator[Line]:
    """The lines, numbered from `first`."""
    for number, text in enumerate(raw, first):
        yield clean(number, text)


def clean(number: int, raw: str) -> Line:
    """One line, of which the others are not known."""
    return line_of(number, plain(raw))


def plain(raw: str) -> str:
    """What was written, as characters: without colours, marks of quotation and what HTML makes of signs and spaces."""
    text = raw if len(raw) <= MAX_LINE else raw[: MAX_JSON if _DUMP.match(raw) else MAX_LINE]
    text = text.rstrip("\r\n").replace("\0", "").replace("\xa0", " ")
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    text = _unquoted(text)
    # A line with a tag of its own is markup, in which an escape is one: of nvidia-smi -x, say.
    return text if "&" not in text or "</" in text else _ENTITY.sub(lambda found: unescape(found[0]), text)


def line_of(number: int, text: str, envelope: Envelope = NONE) -> Line:
    """A plain line as it was before a log driver and a launcher put something around it."""
    text, time = _unwrapped(text)
    text, shown, stamped = envelope.opened(text)
    shown, text = _states(shown)[0], _states(text)[1]
    rank = pid = None
    for _ in range(_MAX_PREFIXES):
        found = next((m for pattern in _PREFIXES if (m := pattern.match(text))), None)
        if found is None:
            break
        groups = found.groupdict()
        rank = int(groups["rank"]) if groups.get("rank") else rank
        pid = int(groups["pid"]) if groups.get("pid") else pid
        text = text[found.end() :]
    stamp = _TIME.match(text)
    return Line(number, text, shown, rank, time or stamped or (stamp[1] if stamp else None), pid)


def _unquoted(text: str) -> str:
    """Without the marks of a quoted mail or of a Markdown quotation; ``>>>`` of Python stays."""
    for _ in range(4):
        found = None if text.startswith(">>> ") else _QUOTE.match(text)
        if found is None:
            return text
        text = text[found.end() :]
    return text


def _unwrapped(text: str) -> tuple[str, str | None]:
    """Out of a log driver's envelope: Docker's JSON lines, the CRI format of Kubernetes."""
    if text.startswith('{"log":'):
        record = _json(text)
        log, time = record.get("log"), record.get("time")
        if isinstance(log, str):
            log = log.encode("utf-8", "replace").decode()  # JSON can hold halves of a letter, which nothing else can
            return log.rstrip("\r\n"), time if isinstance(time, str) else None
    found = _CRI.match(text)
    return (text[found.end() :], found[1]) if found else (text, None)


def _json(text: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _states(text: str) -> tuple[str, str]:
    """Of a line that was overwritten: all that it said, and what it said last."""
    if "\r" not in text:
        return text, text
    states = [state for state in text.split("\r") if state.strip()]
    if not states:
        return "", ""
    kept = states if len(states) <= MAX_STATES else [states[0], *states[1 - MAX_STATES :]]
    return " | ".join(kept), states[-1]
