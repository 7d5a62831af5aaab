"""What a job leaves when its processes are gone: its folder and its core dumps, as named with --cwd and --core."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from flatline.bundle.facts import NATIVE_SAMPLE, File, Process, ToolRun, process_id
from flatline.texts.stack_lines import RawThread

from ..confine import Confined
from ..files import core_notes
from ..files.core_notes import CoreNotes
from ..files.file_looks import Walk, describe, find_locks, listing
from ..linux.grandchild import ask
from ..linux.mounts import by_id
from ..linux.procfs import ProcFS, printable, text_of
from ..stacks import gdb, native, pyspy
from ..tools import ToolOutput, find_tool, run
from .interface import Artefact, Doing, Facts, Gap, Item, Run, View

LISTED = 500
MOST_LOCKS = 100
MOST_CORES = 4
_LOOK_S = 2.0
_TOOL_S = 6.0
_MAX_BYTES = 4 << 20
_RESERVE_S = 0.5
DUMPS_CORE = frozenset({3, 4, 5, 6, 7, 8, 11, 24, 25, 31})
"""Signals that end a process with a core dump (signal(7)); another one means that it was dumped alive."""


class _Tool(NamedTuple):
    """One way to get stacks out of a core dump."""

    name: str
    argv: Callable[[str, CoreNotes, str], list[str]]
    parse: Callable[[bytes], Sequence[RawThread]]


_TOOLS = (
    _Tool("pystack", lambda program, notes, core: native.pystack_core_argv(program, core), native.parse_pystack),
    _Tool("py-spy", lambda program, notes, core: pyspy.core_argv(program, core), pyspy.parse),
    _Tool("gdb", lambda program, notes, core: gdb.core_argv(program, _program(notes), core), gdb.parse),
)


@dataclass(frozen=True)
class _Core:
    """One core dump, looked at."""

    file: File
    notes: CoreNotes | str


class Remains:
    """The folder and the core dumps that --cwd and --core name, for when no process is left to ask."""

    name = "remains"
    tables = ("files", "frames", "processes", "tool_runs")
    limit_s = 12.0
    spans_window = False
    reads = ("the folder of --cwd", "the core dumps of --core")
    runs = tuple(
        Run(line, _TOOL_S, "each core dump, until one shows C frames")
        for line in (
            shlex.join(native.pystack_core_argv("pystack", "CORE")),
            shlex.join(pyspy.core_argv("py-spy", "CORE")),
            shlex.join(gdb.core_argv("gdb", "PROGRAM", "CORE")),
        )
    )

    def gather(self, view: View) -> Iterator[Item]:
        if view.cwd:
            yield Doing(f"the folder {view.cwd}")
            yield from _folder(view.cwd)
        for number, path in enumerate(view.cores[:MOST_CORES], start=1):
            yield Doing(f"the core dump {path}")
            yield from _core(view, number, path)
        if len(view.cores) > MOST_CORES:
            yield Gap("partial", f"only the first {MOST_CORES} core dumps were looked at", tables=("frames",))


# --- the folder ---


def _folder(path: str) -> Iterator[Item]:
    answer = ask(lambda: _look_into(os.path.abspath(path)), _LOOK_S)
    if answer.timed_out or answer.error:
        yield _unread(path, answer.error, answer.left_running)
        return
    text, locks = answer.value
    yield Artefact("raw/given-folder.txt", text, original_path=_shown(path))
    if locks:
        yield Facts("facts/remains-files.json", {"files": locks})


def _look_into(path: str) -> tuple[str, list[File]]:
    eyes = _own_eyes()
    around = frozenset(mount.path for mount in by_id(ProcFS(), "self").values())
    found = find_locks(eyes, path, Walk(depth=3, most=2000, limit_s=1.0, around=around))
    rows = [describe(eyes, lock) for lock in found[:MOST_LOCKS]]
    locks = [replace(row, path=_shown(row.path), why_looked="cwd", named_by="--cwd") for row in rows]
    return listing(eyes, path, LISTED, around), locks


def _own_eyes() -> Confined:
    """With our own root and rights: a person named these paths, not the job."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    return Confined(os.open("/", flags), os.open("/", flags), "/")


# --- a core dump ---


def _core(view: View, number: int, path: str) -> Iterator[Item]:
    answer = ask(lambda: _Core(describe(_own_eyes(), os.path.abspath(path)), core_notes.read(path)), _LOOK_S)
    if answer.timed_out or answer.error:
        yield _unread(path, answer.error, answer.left_running)
        return
    core: _Core = answer.value
    row = replace(core.file, path=_shown(core.file.path), why_looked="argument", named_by="--core")
    notes = core.notes if isinstance(core.notes, CoreNotes) else None
    yield Artefact(f"raw/core-{number}.txt", _summary(row, core.notes), original_path=row.path)
    tables: dict[str, Sequence[object]] = {"files": [row]}
    # Beside a living job it is another process's end, not the job's.
    if notes is not None and notes.pid and not view.targets:
        tables["processes"] = [_process(notes)]
    yield Facts(f"facts/core-{number}.json", tables)
    if notes is None:
        yield Gap("partial", f"{row.path}: {core.notes}", target=row.path, tables=("frames",))
        return
    yield from _backtrace(view, number, path, notes)


def _process(notes: CoreNotes) -> Process:
    pid, signal = notes.pid or 0, notes.signal
    return Process(
        id=process_id(pid),
        host="h1",
        pid=pid,
        ppid=notes.ppid,
        uid=notes.uid,
        name=notes.name or None,
        exe=notes.exe or None,
        argv=tuple(notes.command.split()) or None,
        relation="target",
        state="X" if signal in DUMPS_CORE else "unknown",
        exit_status=-signal if signal in DUMPS_CORE and signal else None,
        threads_total=len(notes.tids) or None,
    )


def _summary(row: File, notes: CoreNotes | str) -> str:
    lines = [f"core dump: {row.path}", f"size: {row.size} bytes", f"written: {row.age_s} s ago"]
    if isinstance(notes, str):
        return "\n".join([*lines, f"notes: {notes}", ""])
    lines += [
        f"pid: {notes.pid}, parent {notes.ppid}, uid {notes.uid}",
        f"program: {notes.exe or notes.name}",
        f"command: {notes.command}",
        f"signal: {notes.signal}" + ("" if notes.signal in DUMPS_CORE else " (it was dumped alive)"),
        f"threads: {', '.join(map(str, notes.tids[:200]))}",
    ]
    return "\n".join([*lines, ""])


def _backtrace(view: View, number: int, path: str, notes: CoreNotes) -> Iterator[Item]:
    """Stacks by one tool after the other, until one has shown C frames."""
    runs: list[ToolRun] = []
    found = False
    for tool in _TOOLS:
        program = find_tool(tool.name, ours=tool.name != "gdb")
        limit_s = min(_TOOL_S, view.left_s() - _RESERVE_S)
        if program is None or limit_s <= 0:
            continue
        env = {**os.environ, "LC_ALL": "C", "DEBUGINFOD_URLS": ""}
        output = run(tool.argv(program, notes, path), limit_s=limit_s, max_bytes=_MAX_BYTES, env=env)
        threads = _threads(tool, output)
        runs.append(ToolRun(tool.name, output.outcome, round(output.seconds, 3), message=f"core dump {number}"))
        if not threads:
            continue
        found, has_c = True, any(frame.module for thread in threads for frame in thread.frames)
        yield Artefact(f"raw/core-{number}-{tool.name}.txt", output.stdout)
        yield _stacks(f"stacks/core-{number}.{tool.name}.json", notes, threads, NATIVE_SAMPLE if has_c else 0)
        if has_c:
            break
    if not found:
        message = f"no tool found a stack in {_shown(path)}"
        yield Gap("absent", message, "pip install pystack, or install gdb", tables=("frames",))
    if runs:
        yield Facts(f"facts/core-{number}-tools.json", {"tool_runs": runs})


def _stacks(path: str, notes: CoreNotes, threads: Sequence[RawThread], sample: int) -> Facts:
    tids = {thread.pthread or thread.os_thread_id or 0: thread.os_thread_id or 0 for thread in threads}
    rows = native.rows(notes.pid or 0, threads, tids, sample=sample, mono_ns=0)
    return Facts(path, {"frames": list(rows)})


def _threads(tool: _Tool, output: ToolOutput) -> Sequence[RawThread]:
    try:
        threads = tool.parse(output.stdout) if output.outcome == "ok" else ()
    except ValueError:
        return ()
    return [thread for thread in threads if thread.frames]


def _program(notes: CoreNotes) -> str:
    return notes.exe if os.path.isabs(notes.exe) else ""


def _unread(path: str, error: OSError | None, left: int | None) -> Gap:
    shown = _shown(path)
    if error is None:
        waits = f"; pid {left} is left waiting there" if left else ""
        return Gap("timeout", f"its file system does not answer{waits}", target=shown, tables=("files",))
    if isinstance(error, FileNotFoundError):
        return Gap("absent", "there is no such file or folder", target=shown, tables=("files",))
    status = "denied" if isinstance(error, PermissionError) else "error"
    return Gap(status, error.strerror or str(error), target=shown, tables=("files",))


def _shown(path: str) -> str:
    return printable(text_of(os.fsencode(path)))
