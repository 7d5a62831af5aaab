"""How a Python process was started, as far as its search path depends on it. Read from /proc, in a child.

`maps`, `cmdline` and memory can block (see procfs), so all of it is asked for in one process that may be lost.
Sources: proc_pid_auxv(5), getauxval(3), "Command line and environment" of the Python manual.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..linux.grandchild import ask
from ..linux.patience import Patience
from ..linux.procfs import LARGE, ProcFS, Unread, parse_argv, text_of
from ..probes.interface import Target

_AT_EXECFN = 31
_LONGEST = 4096
_VARIABLES = (
    "HOME", "PATH", "PWD", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONUSERBASE",
)  # fmt: skip
"""PWD: where a shell stood that started it, for names relative to a folder that it has left since."""
_WITH_VALUE = "WXQ"


@dataclass(frozen=True)
class MappedFile:
    """One file mapped into a process."""

    path: str
    """As /proc/PID/maps prints it; `` (deleted)`` at its end when the name is gone or means another file by now."""
    device: str
    inode: int


@dataclass(frozen=True)
class Options:
    """What a command line says of the search path (sys.flags)."""

    isolated: bool = False
    ignores_environment: bool = False
    no_site: bool = False
    no_user_site: bool = False
    safe_path: bool = False
    runs: str = ""
    """The script; ``-c`` or ``-m``; ``""`` for standard input."""


@dataclass(frozen=True)
class Start:
    """One process. Equal but for `pid` and `mapped`: the same search path."""

    pid: int
    argv: tuple[str, ...]
    is_title: bool
    """A process title was written over the arguments: they say nothing any more."""
    exec_name: str
    """What was handed to execve(2), which a title does not overwrite; a script's own name where ``#!`` started it."""
    exe: str
    exe_file: tuple[int, int]
    """Device and inode: whatever else is taken for the interpreter must be this file."""
    cwd: str
    env: tuple[tuple[str, str], ...] | None
    """None: overwritten or refused."""
    mapped: tuple[MappedFile, ...] = ()

    def variable(self, name: str) -> str:
        return dict(self.env or ()).get(name, "")


def read_starts(
    proc: ProcFS, targets: Sequence[Target], environments: Mapping[int, Mapping[str, str]], limit_s: float
) -> tuple[list[Start], dict[int, Unread]]:
    """Every process that could be read, in their order, and why the others could not."""
    pids = [target.pid for target in targets]
    asked = ask(lambda: _read_all(proc, targets, environments, limit_s * 0.8), limit_s)
    answers = asked.value if isinstance(asked.value, dict) else {}
    why = "no answer in time" if asked.timed_out else str(asked.error or "no time was left for it")
    lost = Unread("error", why)
    found = {pid: answers.get(pid, lost) for pid in pids}
    return (
        [one for one in found.values() if isinstance(one, Start)],
        {pid: one for pid, one in found.items() if isinstance(one, Unread)},
    )


def _read_all(
    proc: ProcFS, targets: Sequence[Target], environments: Mapping[int, Mapping[str, str]], limit_s: float
) -> dict[int, Start | Unread]:
    patience = Patience(each_s=0.3, total_s=limit_s)
    found: dict[int, Start | Unread] = {}
    end = time.monotonic() + limit_s
    for target in targets:
        if patience.left_s <= 0 or time.monotonic() > end:
            break  # what was read must still be sent
        env = environments.get(target.pid)
        one = patience.read(lambda target=target, env=env: _read(proc, target, env))
        found[target.pid] = one
    return found


def _read(proc: ProcFS, target: Target, env: Mapping[str, str] | None) -> Start | Unread:
    exe = proc.link(target.pid, "exe")
    if isinstance(exe, Unread):
        return exe
    raw, cwd = proc.raw(target.pid, "cmdline", limit=LARGE), proc.link(target.pid, "cwd")
    maps, root = proc.maps(target.pid), proc.link(target.pid, "root")
    if isinstance(maps, Unread):
        return maps
    seen = partial(below, root if isinstance(root, str) else "/")
    files = dict.fromkeys(MappedFile(seen(one.path), one.device, one.inode) for one in maps if one.path[:1] == "/")
    stat = proc.stat(target.pid)
    if isinstance(stat, Unread) or stat.start_ticks != target.start_ticks:
        return Unread("absent", "ended")
    raw = b"" if isinstance(raw, Unread) else raw
    return Start(
        target.pid,
        parse_argv(raw),
        is_title=is_title(raw),
        exec_name=exec_name(proc, target.pid),
        exe=seen(exe),
        exe_file=_file_of(proc.path(target.pid, "exe")),
        cwd=seen(cwd) if isinstance(cwd, str) else "",
        env=None if env is None else tuple((name, env[name]) for name in _VARIABLES if name in env),
        mapped=tuple(files),
    )


def below(root: str, path: str) -> str:
    """A path as the kernel prints it to us, as the process itself would say it, whose root folder is `root`."""
    return path[len(root) :] if root != "/" and path.startswith(root + "/") else path


def _file_of(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def is_title(raw: bytes) -> bool:
    """Whether cmdline holds a title: it is one piece, padded with NULs or without the one at its end."""
    pieces = raw.split(b"\0")
    return bool(raw) and (len(pieces) == 1 or (len(pieces) > 2 and not any(pieces[1:])))


def exec_name(proc: ProcFS, pid: int) -> str:
    """AT_EXECFN of the auxiliary vector; ``""`` when it cannot be read."""
    raw = proc.raw(pid, "auxv")
    if isinstance(raw, Unread):
        return ""
    size = 16 * (len(raw) // 16)
    address = dict(struct.iter_unpack("@2N", raw[:size])).get(_AT_EXECFN)
    if not address:
        return ""
    try:
        memory = os.open(proc.path(pid, "mem"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return text_of(os.pread(memory, _LONGEST, address).split(b"\0")[0])
    except OSError:
        return ""
    finally:
        os.close(memory)


def options_of(argv: Sequence[str]) -> Options:
    """The options of ``python -I -m torch.distributed.run``; those behind the script are the script's."""
    seen, runs, words = "", "", list(argv[1:])
    while words:
        word = words.pop(0)
        if word == "-" or not word.startswith("-"):
            runs = "" if word == "-" else word
            break
        if word.startswith("--"):
            words = words[1:] if word == "--check-hash-based-pycs" else words
            continue
        letters, runs = _letters(word[1:])
        seen += letters
        if runs:
            break
        if letters[-1:] in _WITH_VALUE and word.endswith(letters[-1:]):
            words = words[1:]
    isolated = "I" in seen
    return Options(
        isolated,
        ignores_environment=isolated or "E" in seen,
        no_site="S" in seen,
        no_user_site=isolated or "s" in seen,
        safe_path=isolated or "P" in seen,
        runs=runs,
    )


def _letters(cluster: str) -> tuple[str, str]:
    """The options in one word, up to one that takes a value; and ``-c`` or ``-m`` when they end with it."""
    for position, letter in enumerate(cluster):
        if letter in "cm":
            return cluster[:position], f"-{letter}"
        if letter in _WITH_VALUE:
            return cluster[: position + 1], ""
    return cluster, ""
