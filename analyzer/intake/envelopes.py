"""What a log driver has put before every line of a text: a time, or the name of who wrote it.

trainer-1  | Epoch 3: loss 0.41                              docker compose
2026-03-01T10:00:00.123456789Z Epoch 3: loss 0.41            kubectl logs --timestamps, docker logs -t, CI
[pod/trainer-0/main] Epoch 3: loss 0.41                      kubectl logs --prefix
Mar 01 10:00:00 gn07 train[4711]: Epoch 3: loss 0.41         journalctl
[2026-03-01, 10:00:00 UTC] {bash.py:93} INFO - Epoch 3       Airflow
gn07: Epoch 3: loss 0.41                                     pdsh, clush

A program may begin a line of its own so; an envelope is what the lines of its tracebacks and tables have as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

MOST_LINES = 1_000
"""Of a part so many are looked at."""
MAX_LAYERS = 3
FEWEST, SHARE = 3, 0.8
"""Of lines that have it: a person may have written some above or below."""
MOST_WRITERS = 64
_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"


@dataclass(frozen=True)
class _Layer:
    """One thing that is put around lines."""

    pattern: re.Pattern[str]
    share: float = SHARE
    of_many: bool = False
    """Whether the lines of several writers are mixed so; else it is one only where one name is in all lines."""


_LAYERS = (
    _Layer(re.compile(r" {4}|\t"), share=1.0),
    _Layer(re.compile(rf"(?P<time>{_STAMP})(?: \d\d[EO]\+?)?(?! \S+ kernel: )(?: |$)")),
    _Layer(re.compile(r"(?P<who>[A-Za-z][\w.-]{0,80}) {0,40}\|(?: |$)"), of_many=True),
    _Layer(re.compile(r"\[(?P<who>(?:pod|init)/[\w.-]{1,80}(?:/[\w.-]{1,80})?)\](?: |$)"), of_many=True),
    _Layer(re.compile(
        r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<who>[\w.-]{1,80} [\w./@-]{1,60}\[\d{1,9}\]):(?: |$)"
    )),
    _Layer(re.compile(
        r"\[(?P<time>\d{4}-\d\d-\d\d[T,] ?\d\d:\d\d:\d\d[^\]]{0,12})\] \{[\w.-]{1,60}:\d{1,6}\} [A-Z]{4,8} - ?"
    )),
    _Layer(re.compile(r"(?!(?:rank|worker|gpu|proc|p)\d)(?P<who>[A-Za-z][A-Za-z-]{0,60}\d[\w.-]{0,60}):(?: |$)")),
)  # fmt: skip


@dataclass(frozen=True)
class Envelope:
    """The layers around every line, the outermost first."""

    layers: tuple[re.Pattern[str], ...] = ()
    is_of_one: bool = True
    """Whether one writer's name is in all of them: then it tells nothing, and is taken from what is shown as well."""

    def opened(self, text: str) -> tuple[str, str, str | None]:
        """The line without it, what is shown of it, and the time that it gave."""
        kept, time = "", None
        for layer in self.layers:
            found = layer.match(text)
            if found is None:
                break
            groups = found.groupdict()
            time = time or groups.get("time")
            kept += found[0] if groups.get("who") and not self.is_of_one else ""
            text = text[found.end() :]
        return text, kept + text, time


NONE = Envelope()


def envelope_of(lines: Sequence[str]) -> Envelope:
    """What is around the lines of one part of an input; `NONE` where too few have the same."""
    rest = list(islice((line for line in lines if line.strip()), MOST_LINES))
    layers: list[re.Pattern[str]] = []
    is_of_one = True
    while len(layers) < MAX_LAYERS and (found := _outermost(rest)) is not None:
        layer, writers, rest = found
        layers.append(layer)
        is_of_one = is_of_one and writers == 1
    return Envelope(tuple(layers), is_of_one) if layers else NONE


def _outermost(lines: Sequence[str]) -> tuple[re.Pattern[str], int, list[str]] | None:
    """The layer that the lines have, how many writers it names, and the lines without it."""
    for layer in _LAYERS:
        matches = [layer.pattern.match(line) for line in lines]
        there = [found for found in matches if found is not None]
        writers = len({found.groupdict().get("who") for found in there})
        if len(there) < max(FEWEST, layer.share * len(lines)) or writers > len(there) / 2:
            continue
        if writers <= (MOST_WRITERS if layer.of_many else 1):
            bare = [line[found.end() :] if found else line for line, found in zip(lines, matches, strict=True)]
            return layer.pattern, writers, bare
    return None
