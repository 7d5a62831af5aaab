"""Progress bars and step counters: how far, how fast, and how long it has taken so far."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...parsers.interface import Line

_CLOCK = r"\d{1,3}(?::\d\d){1,2}"
_COUNT = r"\d[\d,.]{0,14}[kKMGT]?i?B?"
_BAR = re.compile(
    r"(?P<label>[^|\r\n]{0,120}?)(?:(?P<percent>\d{1,3})%(?:\|[^|]{0,200}\| *| Completed \| ))"
    rf"(?P<done>{_COUNT})/(?P<total>{_COUNT}|\?) \[(?P<times>[^\]]{{0,120}})(?:\]|$)"
)  # fmt: skip
"""``map:  11%|█   | 265/2418 [29:56<4:03:50, 147.21 examples/s]``."""
_COUNTER = re.compile(
    rf"(?:(?<=^)|(?<=[\s:]))(?P<done>{_COUNT})(?P<unit>it|\s?\w{{1,12}}) \[(?P<times>{_CLOCK}, [^\]]{{0,80}})\]"
)
"""``264it [00:53, 4.9it/s]``: a bar that does not know its end."""
_GIT = re.compile(
    r"(?P<label>(?:Receiving|Counting|Compressing|Enumerating) objects|Resolving deltas|(?:Checking out|Updating) files"
    r"|Filtering content): +\d{1,3}% \((?P<done>\d{1,9})/(?P<total>\d{1,9})\)"
)
"""``Checking out files:  17% (903/5204)``: what git fetches and writes."""
_TIMES = re.compile(
    rf"(?P<elapsed>{_CLOCK})(?:<(?P<left>{_CLOCK}|\?))?(?:, *(?P<rate>[\d.]+|\?) ?(?P<unit>[^,\]]{{1,24}}))?"
)
_STEP = re.compile(
    r"(?i)\b(?P<label>step|iter|iteration|epoch|batch|global[_ ]step|trial(?= \d{1,9} finished))s?['\"]?[ :=#]{1,12}\[?"
    r"(?P<done>\d{1,9}(?:\.\d{1,6}(?=[},]))?)(?: ?/ {0,8}(?P<total>\d{1,9}))?"
)
"""Also ``{'loss': 0.8815, 'epoch': 1.37}``, with what is done of an epoch."""
_BYTES = re.compile(r"(?i)^\d[\d,.]*[kMGT]i?B?$|B/s")
_DATA_WORK = re.compile(
    r"(?i)token|\bscan|map\b|\bmap|preproc|process|filter|cach|packing|encod|load|examples|docs|files|shard|group|split|generat|dedup"
)
_SCALE = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNKNOWN = "?"
MAX_BEFORE_STEP = 160
"""Characters from the beginning of a line within which it counts its steps."""
MAX_TEXT = 4000
"""Of a line: what it showed last."""


@dataclass(frozen=True)
class Progress:
    """One state of one bar or counter."""

    line: Line
    label: str
    done: float
    total: float | None = None
    elapsed_s: float | None = None
    left_s: float | None = None
    seconds_each: float | None = None
    """Per item; None where the bar prints ``?``."""
    unit: str = ""
    is_bar: bool = True

    @property
    def is_complete(self) -> bool:
        return self.total is not None and self.done >= self.total

    @property
    def is_download(self) -> bool:
        """Whether it counts bytes, or what git fetches."""
        return "B/s" in self.unit or self.unit == "of git" or bool(re.search(r"(?i)download|fetching", self.label))

    @property
    def is_data_work(self) -> bool:
        """Whether it prepares data rather than trains: one rank may do that while the others wait."""
        return bool(_DATA_WORK.search(f"{self.label} {self.unit}"))

    @property
    def text(self) -> str:
        """``Tokenizing at 371592 of 412880 after 1797 s``."""
        of = f" of {self.total:.0f}" if self.total is not None else ""
        after = f" after {self.elapsed_s:.0f} s" if self.elapsed_s is not None else ""
        return f"{self.label or 'a progress bar'} at {self.done:.0f}{of}{after}"


def progress_of(line: Line) -> Iterator[Progress]:
    """Every state that a line shows: one that was overwritten again and again shows several."""
    text = line.text[-MAX_TEXT:]
    if "%|" in text or "% Completed |" in text:
        yield from (p for found in _BAR.finditer(text) if (p := _bar(line, found)))
    elif "% (" in text:
        for found in _GIT.finditer(text):
            yield Progress(line, found["label"], float(found["done"]), float(found["total"]), unit="of git")
    elif "[" in text and (found := _COUNTER.search(text)):
        yield from filter(None, [_bar(line, found)])
    else:
        for found in _STEP.finditer(text[:MAX_BEFORE_STEP]):
            total = float(found["total"]) if found["total"] else None
            yield Progress(line, found["label"].lower(), float(found["done"]), total, is_bar=False)


def _bar(line: Line, found: re.Match[str]) -> Progress | None:
    groups = found.groupdict()
    done, total = _number(groups["done"]), _number(groups.get("total") or _UNKNOWN)
    if done is None:
        return None
    times = _TIMES.search(groups["times"] or "")
    rate, unit = (times["rate"], (times["unit"] or "").strip()) if times else (None, "")
    return Progress(
        line, _label(groups.get("label") or ""), done, total, _seconds(times and times["elapsed"]),
        _seconds(times and times["left"]), _each(rate, unit), unit or _bytes_unit(groups["done"]),
    )  # fmt: skip


def _label(text: str) -> str:
    return text.rpartition(" | ")[2].strip(" :|\x1b").rpartition("]")[2].strip()[-80:]


def _bytes_unit(done: str) -> str:
    return "B/s" if _BYTES.match(done) else ""


def _number(text: str) -> float | None:
    digits = text.rstrip("iB").replace(",", "")
    scale = _SCALE.get(digits[-1:], 1.0)
    try:
        return float(digits.rstrip("kKMGT")) * scale
    except ValueError:
        return None


def _seconds(clock: str | None) -> float | None:
    if not clock or clock == _UNKNOWN:
        return None
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part)
    return float(total)


def _each(rate: str | None, unit: str) -> float | None:
    """``1.6`` and ``s/it`` -> 1.6; ``4`` and ``it/s`` -> 0.25."""
    try:
        value = float(rate or "?")
    except ValueError:
        return None
    if not value:
        return None
    return value if unit.startswith("s/") else 1 / value
