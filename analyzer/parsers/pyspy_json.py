"""``py-spy dump --json``: a list with an object for every thread; cut short, what is whole of it counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from flatline.texts.stack_lines import RawThread, pyspy_thread

from .interface import LOOKAHEAD, NO_PID, Lines, Parsed, Parser
from .stacks import Stacks

_BEGINS = re.compile(r'\[\s*$|\[?\s*\{\s*$|\[?\s*\{\s*"pid"\s*:')
_SIGNS = ('"frames"', '"thread_id"')
_CLOSERS = ("", "]", "}]", "]}]", "}]}]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|$)')
_NUMBER = re.compile(r'"line"\s*:')


def parse(lines: Lines, start: int) -> Parsed | None:
    """The threads of a dump, of one process or of several."""
    if not _looks_like_one(lines, start):
        return None
    text, numbers, end = _text(lines, start)
    printed = _loaded(text)
    threads = [t for t in printed if isinstance(t, dict) and isinstance(t.get("frames"), list)]
    stacks = Stacks()
    at = iter(numbers)
    for thread in threads:
        _add(stacks, lines, start, thread, at)
    about = stacks.about() if stacks.has_frames else "cut too short to be read"
    collected = frozenset({"frames"}) if stacks.has_frames else frozenset()
    return Parsed(max(end, start + 1), stacks.rows(), collected, about)


def _looks_like_one(lines: Lines, start: int) -> bool:
    near = "\n".join(line.text[:400] for line in lines[start : start + LOOKAHEAD])
    return all(sign in near for sign in _SIGNS)


def _text(lines: Lines, start: int) -> tuple[str, list[int], int]:
    """The text of the list, the line of every frame in it, and the index after its end."""
    parts: list[str] = []
    numbers: list[int] = []
    depth = 0
    for index in range(start, len(lines)):
        text = lines[index].text
        depth += _depth(text)
        if depth < 0 or not _is_json(text):
            return "\n".join(parts), numbers, index
        parts.append(text)
        numbers += [lines[index].number] * len(_NUMBER.findall(text))
        if depth == 0 and text.strip():
            return "\n".join(parts), numbers, index + 1
    return "\n".join(parts), numbers, len(lines)


def _is_json(text: str) -> bool:
    bare = text.strip()
    return not bare or bare[0] in '[]{}",-0123456789tfn'


def _depth(text: str) -> int:
    """By how much a line opens more than it closes; strings are skipped, which never go over the end of a line."""
    bare = _STRING.sub("", text)
    return sum(map(bare.count, "[{")) - sum(map(bare.count, "]}"))


def _loaded(text: str) -> list[Any]:
    """All of it, else what stands before the place at which it was cut."""
    whole = text if text.lstrip().startswith("[") else f"[{text}"
    for candidate in _candidates(whole):
        for closer in _CLOSERS:
            try:
                printed = json.loads(candidate + closer, strict=False)
            except (ValueError, RecursionError):
                continue
            return printed if isinstance(printed, list) else []
    return []


def _candidates(text: str) -> Iterator[str]:
    yield text.rstrip().rstrip(",")
    cut = text.rfind("}")
    if cut > 0:
        yield text[: cut + 1]


def _add(stacks: Stacks, lines: Lines, start: int, printed: dict[str, Any], at: Iterator[int]) -> None:
    raw: RawThread = pyspy_thread(printed)
    pid = printed.get("pid")
    pid = pid if isinstance(pid, int) and not isinstance(pid, bool) and 0 < pid < 2**31 else NO_PID
    process = next((p for p in stacks.processes if p.pid == pid), None) or stacks.process(lines[start], pid)
    process.known |= _told(printed.get("process_info"))
    is_main = raw.name == "MainThread" or (raw.os_thread_id is not None and raw.os_thread_id == pid)
    tid = raw.os_thread_id if raw.os_thread_id and 0 < raw.os_thread_id < 2**31 else None
    thread = process.thread(
        lines[start], tid=tid or (pid if is_main and pid else None), pthread=raw.pthread or None, name=raw.name,
        is_main=is_main, active=raw.active, owns_gil=raw.owns_gil,
    )  # fmt: skip
    for frame in raw.frames:
        thread.add(frame, next(at, lines[start].number))


def _told(info: Any) -> dict[str, Any]:
    """What newer versions say of the process itself."""
    if not isinstance(info, dict):
        return {}
    told: dict[str, Any] = {}
    parent = info.get("ppid")
    if isinstance(parent, int) and not isinstance(parent, bool):
        told["ppid"] = parent
    if isinstance(info.get("command_line"), str):
        told["argv"] = tuple(info["command_line"].split())
    return told


PARSERS = (Parser("py-spy-json", _BEGINS, parse),)
