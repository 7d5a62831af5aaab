"""Read what the recorder of a process left: its ring, as `start/sitecustomize.py` lays it out. Hostile until proven."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

SIZE, HEAD, SLOT, OPEN_SLOTS = 65536, 8192, 256, 16
EVENTS_AT = HEAD + OPEN_SLOTS * SLOT
FORMAT = "flatline-ring/1"
_MOST_NS = 1 << 63


@dataclass(frozen=True)
class Event:
    """Something that happened, or with `number` -1 is open: an import that has not returned, a phase not left."""

    number: int
    mono_ns: int
    """CLOCK_MONOTONIC of the job's host."""
    tid: int
    kind: str
    text: str


@dataclass(frozen=True)
class Ring:
    """One process's."""

    header: dict[str, list[str]] = field(default_factory=dict)
    looking: Event | None = None
    """The module that was looked for last."""
    open: tuple[Event, ...] = ()
    """Oldest first."""
    events: tuple[Event, ...] = ()
    """Oldest first; what came before the first of them has been overwritten."""

    def number(self, key: str) -> int | None:
        """A number of the header: pid, ppid, sid, ticks, began."""
        value = self.header.get(key, [""])[0]
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None


def decode(data: bytes) -> Ring:
    """ValueError for what is no ring. A slot that was torn, or makes no sense, is left out."""
    if len(data) != SIZE:
        raise ValueError(f"a ring has {SIZE} bytes, not {len(data)}")
    header: dict[str, list[str]] = {}
    for line in data[:HEAD].split(b"\0", 1)[0].decode("ascii", "replace").splitlines():
        key, _, value = line.partition(" ")
        header.setdefault(key, []).append(value)
    if header.get("format") != [FORMAT]:
        raise ValueError("its header names another format")
    held = list(_slots(data, HEAD, OPEN_SLOTS, numbered=False))
    events = sorted(_slots(data, EVENTS_AT, (SIZE - EVENTS_AT) // SLOT, numbered=True), key=lambda one: one.number)
    return Ring(
        header=header,
        looking=next((one for one in held if one.kind == "module"), None),
        open=tuple(sorted((one for one in held if one.kind != "module"), key=lambda one: one.mono_ns)),
        events=tuple(events),
    )


def _slots(data: bytes, begin: int, count: int, *, numbered: bool) -> Iterator[Event]:
    for slot in range(count):
        at = begin + slot * SLOT
        line = data[at : at + SLOT].decode("ascii", "replace").rstrip("\n ")
        words = line.split(" ", 4 if numbered else 3)
        numbers = words[: 3 if numbered else 2]
        if "\0" in line or len(words) < len(numbers) + 2 or not all(_is_number(word) for word in numbers):
            continue
        number = int(numbers[0]) if numbered else -1
        if numbered and number % count != slot:
            continue
        yield Event(number, int(numbers[-2]), int(numbers[-1]), words[-2], words[-1])


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 20 and int(word) < _MOST_NS
