"""Who has what open, as two commands list it: ``ls -l /proc/PID/fd`` and ``fuser``.

lrwx------ 1 ann ann 64 Feb 11 08:02 6 -> /dev/tty

/dev/nvidia2:        22871m 22872m
                     USER        PID ACCESS COMMAND
/srv/runs/mlflow.db: ann        7718 F.... python
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from flatline.bundle.facts import Fd, Process, Socket, process_id
from flatline.texts.descriptor_links import kind_of_link, kind_of_printed

from .interface import HOST, NO_PID, Line, Lines, Parsed, Parser
from .process_rows import named
from .prompts import command_in

# --- ls -l /proc/PID/fd ---

_BITS = r"l(?P<read>[r-])(?P<write>[w-])[x-](?:[r-][w-][x-]){2}"
_ROW = re.compile(
    rf"{_BITS}[.+@]? {{1,6}}1 {{1,6}}\S{{1,64}} {{1,12}}\S{{1,64}} {{1,20}}\d{{1,6}} {{1,4}}\S.{{4,40}}? "
    r"(?P<link>(?:/proc/(?P<pid>\d{1,9})/(?:task/\d{1,9}/)?fd/)?(?P<fd>\d{1,7})) -> (?P<target>\S.{0,1000})$"
)
_FD_BEGINS = re.compile(r"(?:total \d{1,9}$|l[r-][w-][x-](?:[r-][w-][x-]){2}[.+@]? {1,6}1 )")
_ASKED = re.compile(r"(?:.{0,200}[;&|(] ?)?(?:ls|ll)\s.{0,80}/proc/(?P<pid>\d{1,9}|self)/(?:task/\d{1,9}/)?fd\b")
_NEAR = 6
_PLACE = re.compile(r"(?P<kind>pipe|socket):\[(?P<inode>\d{1,20})\]$")
_MODES: dict[tuple[str, str], Literal["read", "write", "both", "unknown"]] = {
    ("r", "-"): "read", ("-", "w"): "write", ("r", "w"): "both",
}  # fmt: skip


def parse_fds(lines: Lines, start: int) -> Parsed | None:
    """Links by number; whose they are says each link, or the command above."""
    of = _asked(lines, start)
    pid = int(of["pid"]) if of and of["pid"].isdecimal() else NO_PID
    rows: list[Fd] = []
    begun = end = start + lines[start].bare.startswith("total")
    for index in range(begun, len(lines)):
        bare = lines[index].bare
        found = _ROW.match(bare)
        if found is None:
            if bare:
                break
            continue
        if not found["pid"] and of is None and not _is_telling(found["target"]):
            return None
        rows.append(_descriptor(found, int(found["pid"] or pid), lines[index]))
        end = index + 1
    return Parsed(end, tuple(rows), about=f"{len(rows)} descriptors") if rows else None


def _asked(lines: Lines, start: int) -> re.Match[str] | None:
    """The command that lists them; what another one of the same line printed may stand in between."""
    for index in range(start - 1, max(start - _NEAR, 0) - 1, -1):
        command = command_in(lines[index].bare)
        if command is not None:
            return _ASKED.match(command.text)
    return None


def _is_telling(target: str) -> bool:
    """Whether only a descriptor leads there: a link named by a number may be any other."""
    return bool(_PLACE.match(target)) or target.startswith(("anon_inode:", "/dev/"))


def _descriptor(found: re.Match[str], pid: int, line: Line) -> Fd:
    target = found["target"].rstrip()
    deleted = target.endswith(" (deleted)")
    path = target.removesuffix(" (deleted)")
    (_, inode), kind = kind_of_link(path), kind_of_printed(path)
    mode = _MODES.get((found["read"], found["write"]), "unknown")
    return Fd(process_id(pid, HOST), int(found["fd"]), kind, path=path, inode=inode, mode=mode, deleted=deleted,
              line=line.number)  # fmt: skip


# --- fuser ---

_VERBOSE_HEAD = re.compile(r"USER\s+PID\s+ACCESS\s+COMMAND$")
_NAME = r"(?P<name>/(?!proc/)\S{1,400}|\d{1,5}/(?:tcp|udp|sctp)6?):"
_SHORT = re.compile(rf"{_NAME}(?P<pids>(?:\s+\d{{1,9}}[cefFrm]{{0,6}}){{1,400}})$")
_PID = re.compile(r"\d+")
_VERBOSE = re.compile(
    rf"(?:{_NAME}\s*)?(?:(?P<user>[^\s:/]{{1,64}})\s+(?P<pid>\d{{1,9}}|kernel)\s+"
    r"(?P<access>[cefFrm.]{2,8}|mount|swap|knfsd|loop)\s+(?P<command>\S.{0,400}))?$"
)
MOST_HOLDERS = 4000
"""Of one listing; more are cut off, and the listing says so."""
_SHORT_BEGINS = re.compile(rf"{_NAME.replace('?P<name>', '?:')}\s+\d{{1,9}}[cefFrm]{{0,6}}(?:\s|$)")


def parse_fuser(lines: Lines, start: int) -> Parsed | None:
    """Both forms: numbers behind the name, or a table of processes."""
    rows: list[Any] = []
    holders = 0
    verbose = _VERBOSE_HEAD.match(lines[start].bare) is not None
    begun = end = start + verbose
    name: str | None = None
    for index in range(begun, len(lines)):
        line = lines[index]
        if not line.bare:
            continue
        found = (_VERBOSE if verbose else _SHORT).match(line.bare)
        if found is None or (verbose and not (found["name"] or name)):
            break
        name = found["name"] or name
        end = index + 1
        pids = () if verbose else _PID.findall(found["pids"])
        holders += 1 if verbose else len(pids)
        if verbose and holders <= MOST_HOLDERS:
            rows += _opened(name or "", found, line)
        elif not verbose:
            rows += _numbers(name or "", pids[: max(0, MOST_HOLDERS - holders + len(pids))], line)
    about = f"who has {name} open" if name else "fuser"
    if holders > MOST_HOLDERS:
        about += f": the first {MOST_HOLDERS} of {holders}, the rest is cut off"
    return Parsed(end, tuple(rows), about=about) if rows or end > begun else None


def _opened(name: str, found: re.Match[str], line: Line) -> Iterator[Any]:
    if not found["pid"] or not found["pid"].isdecimal():
        return
    pid, user = int(found["pid"]), found["user"]
    comm, argv = named(found["command"])
    yield Process(
        process_id(pid, HOST), HOST, pid, user=None if user.isdecimal() else user,
        uid=int(user) if user.isdecimal() else None, name=comm, argv=argv,
        is_python=comm.startswith("python") if comm else None, line=line.number,
    )  # fmt: skip
    yield from _held(name, pid, line)


def _numbers(name: str, pids: Sequence[str], line: Line) -> Iterator[Any]:
    for pid in map(int, pids):
        yield Process(process_id(pid, HOST), HOST, pid, line=line.number)
        yield from _held(name, pid, line)


def _held(name: str, pid: int, line: Line) -> Iterator[Fd | Socket]:
    """A descriptor whose number is not told."""
    process = process_id(pid, HOST)
    if name.startswith("/"):
        yield Fd(process, -1, kind_of_printed(name), path=name, line=line.number)
        return
    port = name.partition("/")[0]
    is_tcp = "/tcp" in name
    yield Socket(-line.number, "inet", "stream" if is_tcp else "dgram", state="LISTEN" if is_tcp else None,
                 local=f"*:{port}", line=line.number)  # fmt: skip
    yield Fd(process, -1, "socket", inode=-line.number, line=line.number)


PARSERS = (
    Parser("fd-links", _FD_BEGINS, parse_fds),
    Parser("fuser", re.compile(f"{_VERBOSE_HEAD.pattern}|{_SHORT_BEGINS.pattern}"), parse_fuser),
)
