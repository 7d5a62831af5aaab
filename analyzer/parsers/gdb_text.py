"""Backtraces of gdb (``bt``, ``bt full``, ``thread apply all bt``, ``py-bt``, ``info threads``), pstack and eu-stack.

    Thread 7 (Thread 0x7f4b312946c0 (LWP 45) "python"):
    #0  0x00007f4b34b26f36 in epoll_wait (epfd=5) at ../sysdeps/unix/sysv/linux/epoll_wait.c:30

Frames may be missing, and so may the head; what nobody says to be another thread is taken for the main one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from flatline.bundle.facts import SourceLine
from flatline.texts.stack_lines import RawFrame, gdb_depth, gdb_frame, gdb_head

from .interface import LOOKAHEAD, Line, Lines, Parsed, Parser
from .stacks import FrameText, StackOfThread, Stacks

_BEGINS = re.compile(
    r"\*? ?Thread \d{1,9} \(|#\d{1,5} +\S|\[New (?:LWP|Thread) |\[Thread debugging using|\[Switching to thread"
    r"|TID \d{1,10}:|PID \d{1,10} - |Attaching to (?:program|process)|Traceback \(most recent call first\):"
    r"|Id +Target Id|\*? ?\d{1,6} +(?:Thread|LWP) "
    r"|(?:thread apply all|t a a) (?:py-)?bt|(?:py-)?bt(?: full)?$|thread \d{1,6}$|info threads$"
    r'|Thread \d{1,9} "[^"]{1,64}":?(?: *$| +#0 +\S)'
)
_TID = re.compile(r"TID (?P<tid>\d{1,10}):$")
_PID = re.compile(
    r"PID (?P<a>\d{1,10}) - |Attaching to process (?P<b>\d{1,10})"
    r"|Attaching to program.{0,4096}, process (?P<c>\d{1,10})|\[Inferior \d{1,4} \(process (?P<d>\d{1,10})\) detached\]"
)
_SWITCH = re.compile(r"\[(?:Switching to|Current) thread (?:is )?(?P<number>\d{1,9}) \((?P<what>.{1,200})\)\]")
_LISTED = re.compile(
    r"(?P<current>\*? ?)(?P<number>\d{1,6}) +"
    r'(?P<what>(?:Thread 0x[0-9a-f]{1,16} \(LWP \d{1,10}\)|LWP \d{1,10})(?: "[^"]{0,64}")?)'
    r"[: ] *(?P<frame>.{1,8000})$"
)
_ASIDE = re.compile(
    r"\[New (?:LWP|Thread) |\[Thread |\[Inferior |Using host libthread_db|warning: |Reading symbols from |"
    r"Loaded symbols |\d{1,7}\t|Attaching to |Missing separate debuginfo|Try: (?:dnf|yum|zypper)|"
    r"--Type <RET>|---Type <return>|No locals\.$|No symbol table info available|"
    r"\(More stack frames follow|Backtrace stopped: |Detaching from program|Id +Target Id|To enable execution of this|"
    r"add-auto-load-safe-path |line to your configuration|To completely disable this|set auto-load safe-path|"
    r"For more information about this|\"Auto-loading safe path\"|info \"\(gdb\)Auto-loading|This GDB supports|"
    r"Enable debuginfod|Debuginfod has been|\(no debugging symbols found\)|Download(?:ing|ed) |0x[0-9a-f]{6,16} in |"
    r"(?:thread apply all|t a a) |(?:thread|frame|t) \d{1,6}$|(?:py-)?bt(?: full| -?\d{1,6})?$|py-(?:list|locals)$|"
    r"info threads$|set (?:pagination|width|height|logging) |quit$|detach$"
)
_POSITION = re.compile(r"[A-Za-z_][\w:]{0,200} \(.{0,4000}\) at \S{1,4096}:\d{1,9}$")
"""Where gdb stands after it has attached: a frame without its number."""
_PYTHON = re.compile(r"Traceback \(most recent call first\):$")
_PYTHON_FRAME = re.compile(r'File "(?P<file>[^"\n]{0,4096})", line (?P<line>\d{1,9}), in (?P<name>\S.{0,400})$')
_OLD_FRAME = re.compile(
    r"#(?P<depth>\d{1,5}) +(?:\(?Frame 0x[0-9a-f]{1,16}, for |<[^>]{1,100}>, for |\()file (?P<file>.{1,4096}), "
    r"line (?P<line>\d{1,9}), in (?P<name>[^\s()]{1,400})"
)
_EVALUATED = re.compile(
    r"=(?:Frame 0x[0-9a-f]{1,16}|<frame at remote 0x[0-9a-f]{1,16}>), for file (?P<file>.{1,4096}?), "
    r"line (?P<line>\d{1,9}), in (?P<name>[^\s()]{1,400})"
)
"""Before Python 3.11 the interpreter's C frame has Python's among its arguments, which python-gdb.py prints."""
_CUT = re.compile(
    r"(?:\.{2,6}|…|\[\.{3}\]|\(\.{3}\)|<(?:snip|omitted|\.{3})>|\[(?:snip|omitted)\]|-+ ?(?:snip|8<) ?-+)$", re.I
)
"""Where whoever pasted it has left frames out."""
_NUMBERED = re.compile(r'Thread (?P<number>\d{1,9}) "(?P<name>[^"]{1,64})":?(?: *$| +(?P<frame>#0 +\S.{0,8000})$)')
"""A head that was shortened by whoever pasted it; its innermost frame may stand on the same line."""
_SOURCE = re.compile(r" {0,8}(?P<here>>?) {0,6}(?P<line>\d{1,9}) {1,4}(?P<code>\S.{0,2000}| {2,}\S.{0,2000})$")
"""``py-list``: lines of the script around the one at which its innermost frame stands."""
_SOURCE_ASKED = re.compile(r"py-list\b")
_LIST = re.compile(r"info threads$|Id +Target Id\b")
_STACK_ASKED = re.compile(r"(?:bt|where|backtrace)(?: full| -?\d{1,6})?$")
_PYTHON_ASIDE = re.compile(
    r"<built-in method \w|Waiting for (?:a lock|the GIL)|Garbage-collecting|Unable to locate python frame|"
    r"<method-wrapper|"
    r"\(unable to read python frame|\(frame information optimized out\)|Unable to read information on python frame"
)
_STARTED = frozenset({"start_thread", "clone", "clone3", "__clone", "__clone3", "thread_start"})


@dataclass
class _Dump:
    """What was read so far."""

    stacks: Stacks = field(default_factory=Stacks)
    thread: StackOfThread | None = None
    frame: FrameText = field(default_factory=FrameText)
    depth: int = -1
    in_python: bool = False
    source_asked: bool = False
    frames: int = 0
    listed: set[int] = field(default_factory=set)
    """Lines of the threads of which ``info threads`` has told the innermost frame."""
    current: StackOfThread | None = None
    """The one that ``info threads`` has marked: whose frames a ``bt`` prints."""
    list_asked: bool = False
    """Whether ``info threads`` itself is there, or the head of its list."""
    numbers: set[int] = field(default_factory=set)
    """gdb's own counts of the threads of that list."""
    certain: bool = False
    """Whether a line was seen that nobody but such a tool prints."""


def parse(lines: Lines, start: int) -> Parsed | None:
    """All threads of one look at one process."""
    dump = _Dump()
    dump.stacks.process(lines[start], is_python=None)
    end = start
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.bare:
            continue
        if not _take(dump, line, line.bare) or (index - start > LOOKAHEAD and not dump.frames):
            break
        end = index + 1
    _close(dump)
    if not dump.frames or not (dump.certain or dump.frames > 1):
        return None
    _name_headless(dump)
    _find_main(dump)
    if dump.list_asked and dump.numbers == set(range(1, len(dump.numbers) + 1)):
        dump.stacks.last.known["threads_total"] = len(dump.numbers)
    return Parsed(end, dump.stacks.rows(), frozenset({"frames"}), dump.stacks.about())


def _take(dump: _Dump, line: Line, bare: str) -> bool:
    """Whether the line is one of such a dump; then it is in it."""
    if _goes_on(dump, line, bare):
        dump.frame.join(bare)
        return True
    for take in (_take_head, _take_listed, _take_python, _take_frame):
        taken = take(dump, line, bare)
        if taken is not None:
            return taken
    if _STACK_ASKED.match(bare) and dump.current is not None:
        _go_to(dump, dump.current)
        return True
    if dump.in_python and _take_own_line(dump, line, bare):
        return True
    if dump.frames or dump.frame.text:
        dump.source_asked |= bool(_SOURCE_ASKED.match(bare))
        source = _SOURCE.match(line.text) if dump.source_asked else None
        if source is not None:
            _take_source(dump, source, line)
            return True
    dump.list_asked |= bool(_LIST.match(bare))
    if _ASIDE.match(bare) or (not dump.frames and _POSITION.match(bare)) or (dump.frames and _CUT.match(bare)):
        return True
    return bool(dump.frames or dump.frame.text) and _is_below_frame(line)


def _goes_on(dump: _Dump, line: Line, bare: str) -> bool:
    """Whether a frame that gdb has wrapped at the width of the terminal goes on here."""
    if not dump.frame.may_go_on or line.text[:1] not in " \t" or _begins_anew(bare):
        return False
    return bare.startswith(("at ", "from ")) or dump.frame.is_within_arguments


def _begins_anew(bare: str) -> bool:
    return gdb_depth(bare) is not None or gdb_head(bare) is not None


def _is_below_frame(line: Line) -> bool:
    """Variables of ``bt full``, sources of ``eu-stack -s``, and lines of them that were wrapped."""
    return line.text[:4].isspace() and len(line.text) > 4


def _take_head(dump: _Dump, line: Line, bare: str) -> bool | None:
    short = _NUMBERED.match(bare)
    if short:
        _close(dump)
        dump.thread = dump.stacks.last.thread(line, name=short["name"], is_main=short["number"] == "1")
        dump.in_python, dump.depth = False, -1
        return _take_frame(dump, line, short["frame"]) if short["frame"] else True
    named = _PID.match(bare)
    if named:
        process = dump.stacks.last
        pid = int(next(value for value in named.groups() if value))
        if process.pid and process.pid != pid:
            return False
        process.pid, process.is_named, dump.certain = pid, True, True
        _close(dump)
        return True
    listed = _TID.match(bare)
    head = gdb_head(bare)
    switch = _SWITCH.match(bare)
    if switch:
        head = gdb_head(f"Thread {switch['number']} ({switch['what']})")
    if listed is None and (head is None or _LISTED.match(bare)):
        return None
    _close(dump)
    tid = int(listed["tid"]) if listed else head.tid if head else None
    pthread = head.pthread if head else None
    known = dump.stacks.last.known_thread(tid, pthread)
    if known is not None and known.line in dump.listed:
        known.frames.clear()  # of which only the innermost was listed before
        dump.listed.remove(known.line)
    elif known is not None and not switch:
        return False  # another look
    is_main = head is not None and head.number == 1
    name = head.name if head else None
    dump.thread = known or dump.stacks.last.thread(line, tid=tid, pthread=pthread, name=name, is_main=is_main)
    dump.in_python, dump.certain, dump.depth = False, True, -1
    return True


def _go_to(dump: _Dump, thread: StackOfThread) -> None:
    """What follows are all frames of a thread of which only the innermost was listed before."""
    _close(dump)
    if thread.line in dump.listed:
        thread.frames.clear()
        dump.listed.remove(thread.line)
    dump.thread, dump.in_python, dump.depth, dump.current = thread, False, -1, None


def _take_listed(dump: _Dump, line: Line, bare: str) -> bool | None:
    """A line of ``info threads``: a thread and its innermost frame."""
    found = _LISTED.match(bare)
    head = gdb_head(f"Thread {found['number']} ({found['what']})") if found else None
    if found is None or head is None:
        return None
    _close(dump)
    if dump.stacks.last.has(head.tid, head.pthread):
        return False
    dump.thread = dump.stacks.last.thread(
        line, tid=head.tid, pthread=head.pthread, name=head.name, is_main=head.number == 1
    )  # fmt: skip
    dump.listed.add(dump.thread.line)
    dump.numbers.add(int(found["number"]))
    if found["current"].startswith("*"):
        dump.current = dump.thread
    dump.certain, dump.depth = True, 0
    dump.frame.begin(f"#0  {found['frame']}", line)
    return True


def _take_python(dump: _Dump, line: Line, bare: str) -> bool | None:
    """``py-bt``: Python's frames of the thread at which gdb stands."""
    if _PYTHON.match(bare):
        _close(dump)
        thread = dump.thread or dump.stacks.last.thread(line)
        if any(frame.kind == "python" for frame in thread.frames):
            return False
        thread.beside, thread.frames = thread.frames, []
        dump.thread, dump.in_python, dump.certain = thread, True, True
        dump.stacks.last.known["is_python"] = True
        return True
    old = _OLD_FRAME.match(bare)
    if old:
        goes_on = bool(dump.frame.text) or 0 <= dump.depth < int(old["depth"])
        _close(dump)
        if goes_on and not dump.in_python and dump.thread is not None:
            _add_python(dump, old, line)
            dump.depth = int(old["depth"])
            return True
        if dump.thread is not None and dump.thread.frames and not dump.in_python:
            dump.thread.beside, dump.thread.frames = dump.thread.frames, []
        dump.in_python = dump.certain = True
        dump.stacks.last.known["is_python"] = True
    found = old or (_PYTHON_FRAME.match(bare) if dump.in_python else None)
    if found:
        thread = dump.thread or dump.stacks.last.thread(line)
        dump.thread = thread
        thread.add(RawFrame(found["name"], found["file"], int(found["line"])), line.number)
        dump.frames += 1
        return True
    return True if dump.in_python and _PYTHON_ASIDE.match(bare) else None


def _take_frame(dump: _Dump, line: Line, bare: str) -> bool | None:
    depth = gdb_depth(bare)
    if depth is None:
        return None
    _close(dump)
    if depth == 0 and dump.current is not None and dump.thread is not None and dump.thread.line in dump.listed:
        _go_to(dump, dump.current)
    if gdb_frame(bare) is None and bare.count("(") <= bare.count(")"):
        return False
    if dump.in_python:
        return False if depth == 0 else None
    if dump.thread is None:
        dump.thread = dump.stacks.last.thread(line)
    elif depth <= dump.depth:
        if depth != 0:
            return False
        dump.thread = dump.stacks.last.thread(line)  # the heads were lost: a stack that begins anew is another thread's
    dump.depth = depth
    dump.frame.begin(bare, line)
    return True


def _close(dump: _Dump) -> None:
    """The frame that was being read is whole."""
    frame = gdb_frame(dump.frame.text) if dump.frame.text else None
    if frame is not None and dump.thread is not None:
        dump.thread.add(frame, dump.frame.line)
        dump.frames += 1
        dump.certain |= "0x" in dump.frame.text
        evaluated = _EVALUATED.search(dump.frame.text)
        if evaluated:
            _add_python(dump, evaluated, dump.frame)
    dump.frame.text = ""


def _add_python(dump: _Dump, found: re.Match[str], where: Line | FrameText) -> None:
    """A frame of Python among those of C."""
    if dump.thread is not None:
        number = where.number if isinstance(where, Line) else where.line
        dump.thread.add(RawFrame(found["name"], found["file"], int(found["line"])), number)
        dump.frames += 1
        dump.stacks.last.known["is_python"] = True


def _take_source(dump: _Dump, source: re.Match[str], line: Line) -> None:
    """A line of the script: the one that is marked is where the innermost frame of Python stands."""
    _close(dump)
    thread = dump.thread
    if not source["here"] or thread is None:
        return
    at, text = int(source["line"]), SourceLine(int(source["line"]), source["code"].strip())
    python = next((n for n, frame in enumerate(thread.frames) if frame.kind == "python"), None)
    if python is None:
        if not thread.beside:
            thread.beside, thread.frames = thread.frames, []
        thread.add(RawFrame("?", "", at), line.number, source=(text,))
        dump.stacks.last.known["is_python"] = True
    elif thread.frames[python].line_no in (None, at):
        thread.frames[python] = replace(thread.frames[python], source=(text,))


def _take_own_line(dump: _Dump, line: Line, bare: str) -> bool:
    """``py-bt`` prints the line of the script below each frame, as a traceback does."""
    frame = dump.thread.frames[-1] if dump.thread is not None and dump.thread.frames else None
    if frame is None or frame.line_no is None or frame.source or not line.text.startswith("    "):
        return False
    if frame.line != line.number - 1 or dump.thread is None:
        return False
    dump.thread.frames[-1] = replace(frame, source=(SourceLine(frame.line_no, bare),))
    return True


def _name_headless(dump: _Dump) -> None:
    """A ``bt`` before ``info threads`` is of the thread that the list marks, when both begin with the same frame."""
    process, marked = dump.stacks.last, dump.current
    bare = [thread for thread in process.threads if thread.frames and not thread.tid and not thread.pthread]
    if marked is None or marked.line not in dump.listed or len(bare) != 1 or not marked.frames:
        return
    native = [frame for frame in (*bare[0].frames, *bare[0].beside) if frame.kind == "native"]
    if not native or native[0].function == marked.frames[0].function:
        marked.frames, marked.beside = bare[0].frames, bare[0].beside
        process.threads.remove(bare[0])


def _find_main(dump: _Dump) -> None:
    """Without numbers: a stack that a thread's start is not the end of may be the main thread's."""
    threads = [thread for thread in dump.stacks.last.threads if thread.frames]
    if any(thread.is_main for thread in dump.stacks.last.threads):
        return
    own = [t for t in threads if not t.tid or t.tid == dump.stacks.last.pid]
    unstarted = [t for t in own if not any(f.function in _STARTED for f in (*t.frames, *t.beside))]
    if unstarted:
        unstarted[0].is_main = True


PARSERS = (Parser("gdb-backtrace", _BEGINS, parse),)
