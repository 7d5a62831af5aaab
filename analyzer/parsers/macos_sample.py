"""``sample PID`` of macOS, as Activity Monitor saves it too: a tree of calls for each thread, each with how often it
was seen; and which OpenMP runtimes a process has mapped (vmmap, /proc/PID/maps).

    2620 Thread_812345   DispatchQueue_1: com.apple.main-thread  (serial)
    + 2620 start  (in dyld) + 520  [0x102e9d088]
    +   2620 Py_BytesMain  (in python3.9) + 40  [0x1028a1234]

Of each thread the way is taken on which it was seen most: children stand in that order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from flatline.bundle.facts import Library, process_id
from flatline.texts.stack_lines import MAX_NAME, RawFrame, short_name

from .interface import HOST, NO_PID, Line, Lines, Parsed, Parser
from .prompts import command_before
from .spans import span
from .stacks import StackOfThread, Stacks, StacksOfProcess

_HEAD = re.compile(r"(?:Analysis of sampling|Sampling process) (?:\S{1,64} \(pid )?(?P<pid>\d{1,9})\b|Call graph:$")
_THREAD = re.compile(r"\s{0,8}\d{1,9} Thread_(?P<tid>[0-9a-f]{1,16})(?::?\s+(?P<name>\S.{0,200}))?$")
_FRAME = re.compile(
    r"(?P<tree>[\s+!:|]{1,4000})(?P<count>\d{1,9}) (?P<name>\S.{0,2000}?)"
    r"  \(in (?P<module>[^)]{1,200})\)(?:\s.{0,300})?$"
)
_ASIDE = re.compile(
    r"(?:Process|Path|Load Address|Identifier|Version|Code Type|Platform|Parent Process|Date/Time|Launch Time|"
    r"OS Version|Report Version|Analysis Tool|Physical footprint.{0,20}|Target Type):|----$|Call graph:$|"
    r"Analysis of sampling|Analysis written to file|Sampling (?:process|completed)"
)
_IMAGES = "Binary Images:"
_IMAGE = re.compile(
    r"0x[0-9a-f]{6,16} -\s+(?:0x[0-9a-f]{6,16}|\?{3})\s+\+?\S.{0,300}?<[0-9A-Fa-f-]{4,40}>\s+(?P<path>/\S.{0,1000})$"
)
_MAPPED = re.compile(
    r"(?:__TEXT\s+[0-9a-f]{6,16}-[0-9a-f]{6,16}\s+\[.{0,200}?"
    r"|[0-9a-f]{8,16}-[0-9a-f]{8,16} [r-][w-][x-][ps] [0-9a-f]{8} [0-9a-f:]{5,8} \d{1,18})\s+(?P<path>/\S.{0,1000})$"
)
"""What vmmap prints of the code of a library; a line of /proc/PID/maps."""
_OPENMP = re.compile(r"/lib(?:omp|iomp5|gomp)\b[^/]{0,60}$")


def parse(lines: Lines, start: int) -> Parsed | None:
    """The head, the tree, and the images below it."""
    stacks = Stacks()
    process = stacks.process(lines[start])
    thread: StackOfThread | None = None
    images: list[Library] = []
    width, end, has_images = -1, start, False
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.bare:
            continue
        head, begun, frame = _HEAD.match(line.bare), _THREAD.match(line.text), _FRAME.match(line.text)
        if head is not None and head["pid"]:
            process.pid, process.is_named = int(head["pid"]), True
        elif begun is not None:
            thread, width = _begun(process, line, begun), -1
        elif frame is not None and thread is not None:
            width = _deeper(thread, line, frame, width)
        elif line.bare == _IMAGES:
            has_images = True
        elif has_images and (image := _IMAGE.match(line.bare)):
            images += _library(image["path"], process.pid, line)
        elif not _ASIDE.match(line.bare) and not _is_list_below(line, has_tree=thread is not None):
            break
        end = index + 1
    for one in process.threads:
        one.frames = [replace(frame, depth=depth) for depth, frame in enumerate(reversed(one.frames))]
    if not stacks.has_frames:
        return None
    return Parsed(end, (*stacks.rows(), *_with_twins(images)), frozenset({"frames"}), stacks.about())


def _begun(process: StacksOfProcess, line: Line, found: re.Match[str]) -> StackOfThread:
    name = found["name"] or ""
    is_main = "com.apple.main-thread" in name or not process.threads
    return process.thread(line, tid=None if is_main else int(found["tid"], 16) % 2**31, is_main=is_main,
                          name="MainThread" if is_main else name or None)  # fmt: skip


def _deeper(thread: StackOfThread, line: Line, found: re.Match[str], width: int) -> int:
    """The frame, when it is the first one below the last: of several children the first was seen most."""
    if len(found["tree"]) <= width:
        return 10_000  # the way has ended: what follows are others
    name = found["name"] if found["name"] != "???" else "?"
    thread.add(RawFrame(short_name(name)[:MAX_NAME], "", None, module=found["module"]), line.number)
    return len(found["tree"])


def _is_list_below(line: Line, *, has_tree: bool) -> bool:
    """``Total number in stack``, ``Sort by top of stack``, and their lines."""
    return has_tree and bool(
        re.match(
            r"Total number in stack|Sort by top of stack|\d{1,9}\s{2,}\S|\S.{0,300}  \(in .{1,200}\)\s+\d", line.bare
        )
    )


# --- libraries ---


def _library(path: str, pid: int, line: Line) -> Iterator[Library]:
    """An OpenMP runtime, of which there should be one."""
    if _OPENMP.search(path):
        name = path.rpartition("/")[2]
        yield Library(process_id(pid, HOST), path, soname=name, family="OpenMP", line=line.number)


def _with_twins(images: list[Library]) -> Iterator[Library]:
    paths = dict.fromkeys(image.path for image in images)
    for image in images:
        twins = tuple(path for path in paths if path != image.path)
        yield replace(image, duplicate_of=twins)


def parse_mapped(lines: Lines, start: int) -> Parsed | None:
    """Which OpenMP runtimes are among what a process has mapped, as vmmap and /proc/PID/maps list it."""
    asked = command_before(lines, start)
    pid = re.search(r"(?:vmmap\s.{0,60}?|/proc/)(\d{1,9})\b", asked.text) if asked else None
    found = span(lines, start, _MAPPED.match)
    images: dict[str, Library] = {}
    for line in found.lines:
        mapped = _MAPPED.match(line.bare)
        for image in _library(mapped["path"], int(pid[1]) if pid else NO_PID, line) if mapped else ():
            images.setdefault(image.path, image)
    return Parsed(found.end, tuple(_with_twins([*images.values()])), about=f"{len(images)} OpenMP runtimes")


PARSERS = (
    Parser("macos-sample", _HEAD, parse),
    Parser("mapped-libraries", _MAPPED, parse_mapped),
)
