"""The lines that stacks consist of, as gdb, eu-stack, pystack, faulthandler and py-spy print them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

INNERMOST, OUTERMOST = 300, 100
"""Frames kept of one thread; a deep recursion repeats itself in between."""
MAX_NAME = 1000
_FAULTHANDLER_HEAD = re.compile(
    r"(?P<current>Current thread|Thread) (?P<pthread>0x[0-9a-fA-F]{1,16})(?: \[(?P<name>[^\n]{0,100})\])?"
    r" \((?:most recent call first|native)\):?$"
)
_FAULTHANDLER_FRAME = re.compile(
    r' *File (?:"(?P<file>[^"\n]{0,4096})"|\?\?\?), line (?P<line>\d{1,9}|\?\?\?) in (?P<name>[^\n]{1,1000})$'
)
_GDB_HEAD = re.compile(
    r"\*? ?Thread (?P<number>\d{1,9}) \((?P<what>.{0,200}?\b(?:LWP|Thread|process) [^()\n]{1,200})\)?(?P<rest>.{0,200})"
)
_LWP = re.compile(r"\b(?:LWP|process) (?P<tid>\d{1,10})\b")
_PTHREAD = re.compile(r"\bThread (?P<pthread>0x[0-9a-fA-F]{1,16})\b")
_QUOTED = re.compile(r'"(?P<name>[^"\n]{1,64})"')
_GDB_FRAME = re.compile(
    r"#(?P<depth>\d{1,5}) +(?:(?P<address>0x[0-9a-fA-F]{1,16})(?: in\b| -(?: 1\b)?| 1\b)? ?)?(?P<rest>.{0,8000})$"
)
_AT = re.compile(r" at (?P<file>[^\s()][^\n()]{0,4096}):(?P<line>\d{1,9})$")
_FROM = re.compile(r" (?:from|-) (?P<module>[/\w.\[][^\n()]{0,4096})$")
_CALLED = re.compile(r"[A-Za-z_~?<(\[@$][^\n]{0,2000}$")
_ONE_WORD = re.compile(r"<signal handler called>$|(?:[^\s<>()]|<[^<>]*>|\([^()]*\)){1,1000}$")
_PYSTACK_HEAD = re.compile(r"Traceback for thread (?P<tid>\d{1,10}) ")
_PYSTACK_FRAME = re.compile(
    r' *\((?P<kind>Python|C)\) File "(?P<file>[^"\n]{0,4096})", line (?P<line>\d{1,9}), in (?P<name>.{1,1000}?)'
    r"(?: \((?P<module>[^()\n]{0,4000}\.(?:so|dylib)[^()\n]{0,96}|/[^()\n]{1,4096})\))?(?: \(inlined\))?$"
)
_VERSION_MARK = re.compile(r"@{1,2}[A-Z][A-Za-z]{1,20}_[\w.]{1,40}$|@plt$")
_CLONE = re.compile(r"(?: \[clone [^\]]{1,80}\]){1,4}$|(?:\.(?:isra|part|constprop|cold|llvm)\.?\d{0,24}){1,4}$")


@dataclass(frozen=True)
class RawFrame:
    """One frame as printed; `locals` are (name, repr)."""

    name: str
    file: str
    line: int | None
    locals: tuple[tuple[str, str], ...] = ()
    module: str = ""
    """The mapped file of a native frame, ``?`` where it is not printed; empty: a Python frame."""


@dataclass(frozen=True)
class RawThread:
    """One thread as printed, frames innermost first."""

    pthread: int
    name: str | None
    os_thread_id: int | None
    """In the target's own PID namespace, and only from Python 3.11 on."""
    active: bool | None
    owns_gil: bool | None
    frames: tuple[RawFrame, ...]
    depths: tuple[int, ...]
    """Of each frame: 0, 1, 2 …, with a hole where a deep stack was cut."""


@dataclass(frozen=True)
class Head:
    """The line above the frames of one thread."""

    tid: int | None = None
    pthread: int | None = None
    name: str | None = None
    number: int | None = None
    """gdb's own count; 1 is the main thread."""
    is_current: bool = False
    """faulthandler: the thread that asked for the dump, or died."""


# --- faulthandler ---


def faulthandler_head(text: str) -> Head | None:
    """``Current thread 0x00007f10b4f68b80 [python] (most recent call first):``."""
    found = _FAULTHANDLER_HEAD.match(text)
    if found is None:
        return None
    return Head(
        pthread=int(found["pthread"], 16), name=found["name"] or None, is_current=found["current"] != "Thread"
    )  # fmt: skip


def faulthandler_frame(text: str) -> RawFrame | None:
    """``File "/job/train.py", line 4 in step``: no comma before ``in``, which tells it from a traceback's."""
    found = _FAULTHANDLER_FRAME.match(text)
    if found is None:
        return None
    return RawFrame(found["name"], found["file"] or "", int(found["line"]) if found["line"].isdigit() else None)


# --- gdb, pstack, eu-stack ---


def gdb_head(text: str) -> Head | None:
    """``Thread 7 (Thread 0x7f4b312946c0 (LWP 45) "python"):``."""
    found = _GDB_HEAD.match(text)
    if found is None:
        return None
    lwp, pthread, name = _LWP.search(text), _PTHREAD.search(text), _QUOTED.search(text)
    if lwp is None and pthread is None:
        return None
    return Head(
        tid=int(lwp["tid"]) if lwp else None, pthread=int(pthread["pthread"], 16) if pthread else None,
        name=name["name"] if name else None, number=int(found["number"]),
    )  # fmt: skip


def gdb_depth(text: str) -> int | None:
    """The number of a frame's line; None: it is no frame."""
    found = _GDB_FRAME.match(text)
    return int(found["depth"]) if found else None


def gdb_frame(text: str) -> RawFrame | None:
    """``#3  0x00007f… in do_wait (sem=0x1) at sem.c:111``, ``#0  0x… poll - /usr/lib64/libc.so.6``; without its number
    it is none."""
    found = _GDB_FRAME.match(text)
    if found is None:
        return None
    rest = found["rest"].strip()
    at, source = _AT.search(rest), ("", None)
    if at:
        rest, source = rest[: at.start()], (at["file"], int(at["line"]))
    module = _FROM.search(f" - {rest}" if rest.startswith("/") else f" {rest}")
    if module:
        rest = rest[: max(0, module.start() - 1)]
    name = short_name(_without_arguments(rest.strip()))
    if name in ("", "??"):
        name = found["address"] or "??"
    elif not _CALLED.match(name) or " /" in name or not (found["address"] or at or module or _ONE_WORD.match(name)):
        return None
    return RawFrame(name[:MAX_NAME], source[0], source[1], module=module["module"] if module else "?")


def short_name(name: str) -> str:
    """``std::thread::join`` of ``std::thread::join()``, ``pthread_cond_wait`` of ``pthread_cond_wait@@GLIBC_2.3.2``."""
    name = _CLONE.sub("", _VERSION_MARK.sub("", name.strip()))
    bare = name.removesuffix(" const")
    if not bare.endswith(")"):
        return _CLONE.sub("", bare)
    begins = _opening(bare)
    before = bare[:begins].rstrip() if begins > 0 else ""
    if not before or before.endswith(("operator", "::", "<")):
        return bare
    return _CLONE.sub("", before)


def _without_arguments(text: str) -> str:
    """Without the values that gdb prints behind the name: ``poll (fds=0x1, nfds=1)``. A cut list has no end."""
    if text.endswith(")"):
        begins = _opening(text)
        if begins > 0 and text[begins - 1] == " ":
            return text[: begins - 1]
        return text
    cut = text.find(" (")
    return text[:cut] if cut > 0 else text


def _opening(text: str) -> int:
    """Where the parenthesis that ends the text begins; -1: nowhere."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        if text[at] == ")":
            depth += 1
        elif text[at] == "(":
            depth -= 1
            if depth == 0:
                return at
    return -1


# --- pystack ---


def pystack_head(text: str) -> Head | None:
    """``Traceback for thread 5530 (python) [Has the GIL] (most recent call last):``."""
    found = _PYSTACK_HEAD.match(text)
    return Head(tid=int(found["tid"])) if found else None


def pystack_frame(text: str) -> RawFrame | None:
    """``(C) File "???", line 0, in pthread_cond_wait (/usr/lib/libc.so.6)``."""
    found = _PYSTACK_FRAME.match(text)
    if found is None:
        return None
    file = "" if found["file"] == "???" else found["file"]
    module = (found["module"] or "?") if found["kind"] == "C" else ""
    return RawFrame(found["name"], file, int(found["line"]) or None, module=module)


# --- py-spy as JSON ---


def pyspy_thread(printed: Mapping[str, Any]) -> RawThread:
    """One thread of ``py-spy dump --json``."""
    frames = [_json_frame(frame) for frame in _list(printed.get("frames")) if isinstance(frame, dict)]
    kept = [(depth, frame) for depth, frame in enumerate(frames) if _is_kept(depth, len(frames))]
    return RawThread(
        pthread=_integer(printed.get("thread_id")) or 0,
        name=_text(printed.get("thread_name")),
        os_thread_id=_integer(printed.get("os_thread_id")),
        active=_flag(printed.get("active")),
        owns_gil=_flag(printed.get("owns_gil")),
        frames=tuple(frame for _, frame in kept),
        depths=tuple(depth for depth, _ in kept),
    )


def _is_kept(depth: int, total: int) -> bool:
    return depth < INNERMOST or depth >= total - OUTERMOST


def _json_frame(printed: Mapping[str, Any]) -> RawFrame:
    return RawFrame(
        name=_text(printed.get("name")) or "?",
        file=_text(printed.get("filename")) or "",
        line=_integer(printed.get("line")),
        locals=tuple(_locals(_list(printed.get("locals")))),
        module=_text(printed.get("module")) or "",
    )


def _locals(printed: list[Any]) -> Iterator[tuple[str, str]]:
    for local in printed:
        if isinstance(local, dict) and isinstance(local.get("name"), str) and isinstance(local.get("repr"), str):
            yield local["name"], local["repr"]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
