"""The paths a job was given, looked at as the job would see them; its folder; and lock files where jobs meet them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from flatline.bundle.facts import File, process_id

from ..confine import Confined, standpoint
from ..files import named_paths
from ..files.file_looks import Looker, Walk, Why, describe, describe_parent, find_locks, listing
from ..files.lock_authors import Authors
from ..files.named_paths import NamedPath
from ..linux import access
from ..linux.descriptors import DELETED
from ..linux.mounts import by_id
from ..linux.procfs import ProcFS
from ..stacks.polled_files import with_people
from .interface import Artefact, Facts, Gap, Item, Target, View

MOST_PATHS = 300
MOST_STANDPOINTS = 4
MOST_LOCKS = 100
LISTED = 500
_BESIDE, _CACHED = 3, 4
"""Depth to which lock files are looked for: in the working directory, and in a cache."""
_MOST_ENTRIES = 2_000
_WALK_S = 1.0
CACHES = (
    "TORCH_EXTENSIONS_DIR", "HF_HOME", "HF_DATASETS_CACHE", "TRANSFORMERS_CACHE", "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
)  # fmt: skip
STREAMS = {1: "stdout", 2: "stderr"}
SHARED_MEMORY = "/dev/shm"
DEVICES = re.compile(r"nvidia(\d+|ctl|-uvm|-modeset)|kfd|davinci\d+|accel\d*|habanalabs\w*")
MOST_DEVICES = 40


class Files:
    """The paths the job was given or uses, as its user may read and write them; its folder; lock files."""

    name = "files"
    tables = ("files",)
    limit_s = 10.0
    spans_window = False
    reads = (
        "/proc/PID/{cwd,fd,mountinfo,ns}",
        "as the job's user, names and attributes: its folder, paths in its arguments and environment, caches,"
        " lock files, /dev/shm, /dev/nvidia*, /dev/kfd",
    )
    runs = ()

    def gather(self, view: View) -> Iterator[Item]:
        proc = ProcFS(view.proc)
        rows: list[File] = []
        artefacts: list[Artefact] = []
        gaps: list[Gap] = []
        dead: set[str] = set()
        for number, targets in enumerate(_by_standpoint(proc, view.targets)[:MOST_STANDPOINTS]):
            looker = _looker(proc, targets[0], dead)
            named = _named(targets, view, number, proc)[: MOST_PATHS - len(rows)]
            rows += _look(looker, [one for _, one in named], {one.path: pid for pid, one in named})
            rows += _look_at_devices(looker)
            artefacts += _cwd_listing(looker, number)
            locks = list(_locks(looker, view.env_names.get(targets[0].pid, {})))
            rows += with_people(locks, Authors(targets[0], proc))
            gaps += _gaps(looker)
        if rows:
            yield Facts("facts/files.json", {"files": rows})
        yield from artefacts
        yield from gaps


def _by_standpoint(proc: ProcFS, targets: Sequence[Target]) -> list[list[Target]]:
    """The job's processes by all that decides how their paths read: user, root, working directory, namespaces."""
    groups: dict[object, list[Target]] = {}
    for target in targets:
        if target.relation != "ancestor" and not target.is_guarded:
            groups.setdefault(standpoint(target, proc.root) or target.uid, []).append(target)
    return list(groups.values())


def _looker(proc: ProcFS, target: Target, dead: set[str]) -> Looker:
    cwd = proc.link(target.pid, "cwd")
    mounts = list(by_id(proc, target.pid).values())
    return Looker(target, mounts, proc.root, cwd if isinstance(cwd, str) else "/", dead)


def _named(targets: Sequence[Target], view: View, number: int, proc: ProcFS) -> list[tuple[int, NamedPath]]:
    """Each path once, with the first process that names it; what a person would look at first comes first."""
    found: dict[str, tuple[int, NamedPath]] = {}
    found["."] = (targets[0].pid, NamedPath(".", "cwd", "cwd"))
    for path in view.logs if number == 0 else ():
        found.setdefault(path, (targets[0].pid, NamedPath(path, "log", "--log", is_sure=False)))
    for target in targets:
        for one in _streams(proc, target.pid):
            found.setdefault(one.path, (target.pid, one))
        env = view.env_names.get(target.pid, {})
        home = env.get("HOME", "")
        for one in (*named_paths.in_arguments(target.argv), *named_paths.in_environment(env, home)):
            path = named_paths.from_home(one.path, home)
            found.setdefault(path, (target.pid, replace(one, path=path)))
    usual = [*named_paths.usual(view.env_names.get(targets[0].pid, {})), NamedPath(SHARED_MEMORY, "usual", "shm")]
    for one in usual:
        found.setdefault(one.path, (targets[0].pid, one))
    return list(found.values())


def _streams(proc: ProcFS, pid: int) -> Iterator[NamedPath]:
    """Files that its output goes to; a device or a pipe is a matter of descriptors."""
    for fd, stream in STREAMS.items():
        link = proc.link(pid, "fd", fd)
        if isinstance(link, str) and link.startswith("/") and not link.startswith("/dev/") and DELETED not in link:
            yield NamedPath(link, "log", stream)


def _devices(confined: Confined, folder: str) -> list[str]:
    names = [name for name in confined.listdir(folder, 5_000) if DEVICES.fullmatch(name)]
    return [posixpath.join(folder, name) for name in sorted(names)[:MOST_DEVICES]]


def _look_at_devices(looker: Looker) -> Iterator[File]:
    """Those of accelerators. That one may be opened is said by its mode here; a control group can still forbid it."""
    paths = [path for _, found in looker.each(["/dev"], _devices) for path in found]
    for path, row in looker.each(paths, describe):
        yield _placed(looker, row, path, why="usual", named_by="device", pid=looker.target.pid)


def _look(looker: Looker, named: Sequence[NamedPath], named_of: Mapping[str, int]) -> Iterator[File]:
    by_path = {one.path: one for one in named}
    missing = []
    for path, row in looker.each(list(by_path), describe):
        one = by_path[path]
        if row.exists is False and not one.is_sure:
            continue
        yield _placed(looker, row, path, why=one.why, named_by=one.named_by, pid=named_of[path])
        if row.exists is False and one.is_output:
            missing.append(path)
    for path, row in looker.each(missing, describe_parent):
        one = by_path[path]
        yield _placed(looker, row, row.path, why=one.why, named_by=f"parent of {one.named_by}", pid=named_of[path])


def _placed(looker: Looker, row: File, path: str, *, why: str, named_by: str, pid: int) -> File:
    where = looker.cwd if path == "." else row.path
    mount = looker.mount_at(where)
    return replace(
        row,
        path=where,
        process=process_id(pid),
        why_looked=cast(Why, why),
        named_by=named_by,
        on_mount=mount.path if mount else None,
    )


def _cwd_listing(looker: Looker, number: int) -> Iterator[Artefact]:
    for _, text in looker.each(["."], partial(_listing, _mount_points(looker))):
        name = "raw/cwd-listing.txt" if number == 0 else f"raw/cwd-listing-{number + 1}.txt"
        yield Artefact(name, text, original_path=looker.cwd)


def _listing(around: frozenset[str], confined: Confined, folder: str) -> str:
    try:
        return listing(confined, folder, LISTED, around)
    except OSError as error:
        return f"[… {error.strerror} …]\n"


def _mount_points(looker: Looker) -> frozenset[str]:
    return frozenset(mount.path for mount in looker.mounts)


# --- lock files ---


def _locks(looker: Looker, env: Mapping[str, str]) -> Iterator[File]:
    caches = {env[name]: name for name in CACHES if env.get(name, "").startswith("/")}
    for one in named_paths.usual(env):
        if one.named_by in CACHES:
            caches.setdefault(one.path, "cache")
    found: dict[str, tuple[Why, str]] = {}
    for folder, paths in looker.each([".", *caches], partial(_find, _mount_points(looker)), together=1):
        why, named_by = ("cwd", "cwd") if folder == "." else ("cache", caches[folder])
        for path in paths:
            found.setdefault(path, (cast(Why, why), named_by))
    for path, row in looker.each(list(found)[:MOST_LOCKS], describe):
        why, named_by = found[path]
        if row.kind == "lock":
            yield _placed(looker, row, path, why=why, named_by=named_by, pid=looker.target.pid)


def _find(around: frozenset[str], confined: Confined, folder: str) -> list[str]:
    depth = _BESIDE if folder == "." else _CACHED
    return find_locks(confined, folder, Walk(depth, _MOST_ENTRIES, _WALK_S, around))


# --- what could not be had ---


def _gaps(looker: Looker) -> Iterator[Gap]:
    target = process_id(looker.target.pid)
    for failure in looker.failed[:1]:
        hint = access.hint_when_denied({looker.target.uid}) if failure.reason == "denied" else ""
        message = f"the paths of pid {looker.target.pid} could not be looked at as its user: {failure.message}"
        yield Gap(failure.reason, message, hint, target, ("files",))
    stalled = list(dict.fromkeys(looker.stalled_paths))
    if stalled:
        more = f" and {len(stalled) - 5} more" if len(stalled) > 5 else ""
        message = f"no answer within a moment: {', '.join(stalled[:5])}{more}"
        yield Gap("timeout", message, target=target, tables=("files",))
