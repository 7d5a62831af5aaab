"""Backtraces of lldb: ``bt``, ``bt all``, ``thread backtrace all``, ``thread list``.

    * thread #1, name = 'python3', stop reason = signal SIGSTOP
      * frame #0: 0x00007f7c712a3f16 libc.so.6`__futex_abstimed_wait_common at futex-internal.c:57:12
        frame #1: 0x00007f7c712aed90 libc.so.6`__new_sem_wait_slow64(sem=0x0000562a2540a160) at sem_waitcommon.c:183:10

The first thread is the main one. Only ``thread list`` and older versions print the kernel's numbers. When it attaches,
lldb lists every thread with its innermost frame; the backtrace that follows takes its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from flatline.texts.stack_lines import MAX_NAME, RawFrame, short_name

from .interface import Line, Lines, Parsed, Parser
from .stacks import FrameText, StackOfThread, Stacks

_THREAD = re.compile(
    r"(?:\* ?)?thread #(?P<number>\d{1,6})(?:: tid = (?P<tid>0x[0-9a-f]{1,8}|\d{1,10}))?(?:, |$)(?P<rest>.{0,8000})"
)
_FRAME = re.compile(r"(?:\* ?)?frame #(?P<depth>\d{1,5}): (?P<address>0x[0-9a-f]{6,16})(?: (?P<rest>\S.{0,8000}))?$")
_WHERE = re.compile(r"(?P<frame>0x[0-9a-f]{6,16} \S.{0,4000}?)(?:, (?:name|queue|activity|stop reason) = .{0,4000})?$")
_NAME = re.compile(r"(?:^|, )name = '(?P<name>[^'\n]{1,64})'")
_PROCESS = re.compile(
    r"Process (?P<pid>\d{1,10}) (?:stopped|detached|launched|exited)\b|process attach (?:--pid|-p) (?P<asked>\d{1,10})$"
)
_ASIDE = re.compile(
    r"(?:process (?:attach|status|interrupt|continue)|attach |thread (?:backtrace|list|select|info)|t \d|"
    r"bt(?: all| -?\d{1,6})?$|"
    r"frame (?:select|variable|info)|up$|down$|detach$|quit$|exit$|target |settings |script |image list|command )"
    r"|Executable (?:module|binary) set to |Architecture set to|Current executable set to|There is a running process|"
    r"error: |warning: |(?:-> )?\d{1,7} {1,8}\t|Target \d{1,4}: \("
)
_BEGINS = re.compile(
    r"(?:\* ?)?thread #\d{1,6}(?:: tid = |, (?:name|queue|stop reason) = |$)"
    r"|(?:\* ?)?frame #\d{1,5}: 0x[0-9a-f]{6,16} \S"
    r"|Process \d{1,10} stopped$|process attach (?:--pid|-p) \d{1,10}$"
)
_ENDS = (" [opt]", " [artificial]", " [optimized]")


@dataclass
class _Dump:
    """What was read so far."""

    stacks: Stacks = field(default_factory=Stacks)
    thread: StackOfThread | None = None
    by_number: dict[int, StackOfThread] = field(default_factory=dict)
    depth: int = -1
    frame: FrameText = field(default_factory=FrameText)
    frames: int = 0


def parse(lines: Lines, start: int) -> Parsed | None:
    """All threads of one look at one process."""
    dump = _Dump()
    dump.stacks.process(lines[start], is_python=None)
    end = start
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.bare:
            continue
        if not _take(dump, line, line.bare):
            break
        end = index + 1
    _close(dump)
    if not dump.frames:
        return None
    return Parsed(end, dump.stacks.rows(), frozenset({"frames"}), dump.stacks.about())


def _take(dump: _Dump, line: Line, bare: str) -> bool:
    """Whether the line is one of such a dump; then it is in it."""
    if found := _THREAD.match(bare):
        return _begin(dump, line, found)
    if found := _FRAME.match(bare):
        return _frame(dump, line, int(found["depth"]), bare)
    if found := _PROCESS.match(bare):
        return _named(dump, int(found["pid"] or found["asked"]))
    if dump.frame.may_go_on and dump.frame.is_within_arguments:
        dump.frame.join(bare)
        return True
    return bool(_ASIDE.match(bare))


def _named(dump: _Dump, pid: int) -> bool:
    process = dump.stacks.last
    if process.is_named and process.pid != pid:
        return False
    process.pid, process.is_named = pid, True
    return True


def _begin(dump: _Dump, line: Line, found: re.Match[str]) -> bool:
    """The next thread, or one of which only the innermost frame is known so far."""
    _close(dump)
    number, tid, name = int(found["number"]), found["tid"], _NAME.search(found["rest"])
    known = dump.by_number.get(number)
    if known is not None and len(known.frames) > 1:
        return False  # another look
    thread = known or dump.stacks.last.thread(line, is_main=number == 1)
    thread.frames.clear()
    thread.tid = int(tid, 0) if tid else thread.tid
    thread.name = name["name"] if name else thread.name
    dump.by_number[number] = dump.thread = thread
    dump.depth = -1
    where = _WHERE.match(found["rest"]) if tid else None
    if where:  # of ``thread list``
        dump.frame.begin(f"frame #0: {where['frame']}", line, is_whole=True)
    return True


def _frame(dump: _Dump, line: Line, depth: int, bare: str) -> bool:
    _close(dump)
    if dump.thread is None:
        dump.thread = dump.stacks.last.thread(line)
    if depth == 0 and dump.depth < 0:
        dump.thread.frames.clear()  # the same one, of the list
    elif depth <= dump.depth:
        if depth != 0:
            return False
        dump.thread = dump.stacks.last.thread(line)  # the heads were lost
    dump.depth = depth
    dump.frame.begin(bare, line)
    return True


def _close(dump: _Dump) -> None:
    """The frame that was being read is whole."""
    found = _FRAME.match(dump.frame.text)
    if found is not None and dump.thread is not None:
        dump.thread.add(frame_of(found["rest"] or "", found["address"]), dump.frame.line)
        dump.frames += 1
    dump.frame.text = ""


def frame_of(text: str, address: str) -> RawFrame:
    """``libc.so.6`poll + 79``, ``libpython3.11.so.1.0`acquire_timed(lock=0x1) at _threadmodule.c:98:17``."""
    module, tick, rest = text.partition("`")
    if not tick:
        module, rest = (text.split(" ")[0], "") if text else ("?", "")
    for end in _ENDS:
        rest = rest.removesuffix(end)
    place = re.fullmatch(r"([^\s()][^\n()]{0,4096}?):(\d{1,9})(?::\d{1,6})?", rest[rest.rfind(" at ") + 4 :])
    if place is not None and " at " in rest:
        rest = rest[: rest.rfind(" at ")]
    rest = re.sub(r" \+ \d{1,12}$", "", rest)
    rest = rest.rpartition(" [inlined] ")[2]
    name = short_name(rest) if rest.endswith(")") else _cut(rest)
    return RawFrame(name[:MAX_NAME] or address, place[1] if place else "", int(place[2]) if place else None,
                    module=module or "?")  # fmt: skip


def _cut(name: str) -> str:
    """Without arguments of which the end is lost."""
    at = name.find("(", 1)
    return name[:at] if at > 0 and not name.startswith("(") and name.count("(") > name.count(")") else name


PARSERS = (Parser("lldb-backtrace", _BEGINS, parse),)
