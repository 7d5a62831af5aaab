"""The file systems the job depends on, each asked whether it still answers."""

from __future__ import annotations

import errno
import os
import posixpath
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from flatline.bundle.facts import Mount, Quota, process_id

from ..confine import Confined, run_as_target
from ..files import named_paths
from ..linux import access, descriptors, quota
from ..linux import mounts as mountinfo
from ..linux.descriptors import DELETED
from ..linux.grandchild import ask_all
from ..linux.mounts import MountLine, mount_of
from ..linux.procfs import ProcFS, Unread
from .interface import Facts, Gap, Item, Target, View

ALWAYS = ("/", "/tmp", "/dev/shm")
MOST_REMOTE = 50
MOST_LOCAL = 50
MOST_NAMESPACES = 4
_ANSWER_S = 1.5
_TEMPORARY = ("TMPDIR", "TMP", "TEMP")
_AUTOMOUNT = "autofs"
"""Never asked: to ask is to mount."""


@dataclass(frozen=True)
class Told:
    """What asking one mount gave."""

    sizes: tuple[int, int, int, int] | None = None
    """Bytes: all, free to the user; inodes: all, free."""
    seconds: float | None = None
    stalled: bool = False
    left_running: int | None = None
    error: int = 0
    """errno: it answered, with an error."""
    refused: str = ""
    """Why it could not be asked."""
    quota: Quota | None = None
    """The job's user's own, where the kernel keeps one."""

    @property
    def was_asked(self) -> bool:
        return self.stalled or self.seconds is not None


class Mounts:
    """The file systems the job uses, and whether each of them still answers."""

    name = "mounts"
    tables = ("mounts",)
    limit_s = 8.0
    spans_window = False
    reads = ("/proc/PID/{cwd,fd,mountinfo,ns,root}", "statvfs(3) and statx(2) of every mount in use, as the job's user")
    runs = ()

    def gather(self, view: View) -> Iterator[Item]:
        proc = ProcFS(view.proc)
        rows: list[Mount] = []
        quotas: list[Quota] = []
        gaps: list[Gap] = []
        for namespace, targets in _by_namespace(proc, view.targets)[:MOST_NAMESPACES]:
            seen = _topmost(mountinfo.by_id(proc, targets[0].pid).values())
            used = {found.path for path in _used_paths(proc, targets, view) if (found := mount_of(path, seen))}
            chosen, left_out = _chosen(seen, used)
            told = _ask(proc, targets[0], chosen)
            rows += [_row(mount, one, namespace) for mount, one in zip(chosen, told)]
            quotas += [one.quota for one in told if one.quota]
            gaps += _gaps(targets[0], chosen, told, left_out)
        if rows:
            yield Facts("facts/mounts.json", {"mounts": rows, **({"quotas": quotas} if quotas else {})})
        yield from gaps


def _by_namespace(proc: ProcFS, targets: Sequence[Target]) -> list[tuple[str | None, list[Target]]]:
    """The job's processes by the mount table they see; the root too, as chroot makes another one of the same."""
    places: dict[tuple[object, object], list[Target]] = {}
    for target in targets:
        if target.relation != "ancestor":
            place = (proc.link(target.pid, "ns", "mnt"), proc.link(target.pid, "root"))
            places.setdefault(place, []).append(target)
    return [(place[0] if isinstance(place[0], str) else None, found) for place, found in places.items()]


def _topmost(mounts: Iterable[MountLine]) -> list[MountLine]:
    """A later mount on the same path hides the earlier one."""
    return list({mount.path: mount for mount in mounts}.values())


def _used_paths(proc: ProcFS, targets: Sequence[Target], view: View) -> Iterator[str]:
    """Absolute paths of everything the job has open, was given, or stands in."""
    yield from ALWAYS
    yield from (path for path in view.logs if path.startswith("/"))
    for target in targets:
        cwd = proc.link(target.pid, "cwd")
        here = cwd if isinstance(cwd, str) else "/"
        yield here
        found = descriptors.links(proc, target.pid)
        links = (link for _, link in found) if not isinstance(found, Unread) else ()
        yield from (link.removesuffix(DELETED) for link in links if link.startswith("/"))
        env = view.env_names.get(target.pid, {})
        yield from (env[name] for name in _TEMPORARY if env.get(name, "").startswith("/"))
        named = (*named_paths.in_arguments(target.argv), *named_paths.in_environment(env, env.get("HOME", "")))
        yield from (posixpath.normpath(posixpath.join(here, one.path)) for one in named)


def _chosen(seen: Sequence[MountLine], used: set[str]) -> tuple[list[MountLine], int]:
    """The mounts that matter, remote ones first, those in use before the others; and how many were left out."""
    remote = sorted((mount for mount in seen if not mount.is_local), key=lambda mount: mount.path not in used)
    local = [mount for mount in seen if mount.is_local and mount.path in used]
    chosen = [*remote[:MOST_REMOTE], *local[:MOST_LOCAL]]
    return chosen, len(remote) + len(local) - len(chosen)


# --- asking ---


def _ask(proc: ProcFS, target: Target, mounts: Sequence[MountLine]) -> list[Told]:
    """All at once, each remote mount by a process of its own: many dead ones cost one limit."""
    remote = [mount for mount in mounts if not mount.is_local and mount.kind != _AUTOMOUNT]
    local = [mount for mount in mounts if mount.is_local]
    groups = [*([mount] for mount in remote), *([local] if local else [])]
    answers = ask_all([partial(_ask_as_target, proc.root, target, group) for group in groups], 2 * _ANSWER_S)
    told: dict[int, Told] = {}
    for group, answer in zip(groups, answers):
        missing = Told(stalled=answer.timed_out, refused=str(answer.error or ""))
        for mount, one in zip(group, answer.value or [missing] * len(group)):
            told[mount.mount_id] = one
    return [told.get(mount.mount_id, Told()) for mount in mounts]


def _ask_as_target(proc: str, target: Target, mounts: Sequence[MountLine]) -> list[Told]:
    """As the job's user and below its root. As root we would get an answer of the kernel's own for a FUSE mount that
    belongs to another user, without anybody having been asked."""

    def work(confined: Confined) -> Iterator[Told]:
        for mount in mounts:
            yield _statvfs(confined, mount.path)

    told: list[Told] = []
    for one in run_as_target(target, work, proc=proc, limit_s=_ANSWER_S):
        if isinstance(one, Told):
            told.append(one)
        elif one.reason == "timeout":
            told.append(Told(stalled=True, seconds=_ANSWER_S, left_running=one.left_running))
        else:
            told.append(Told(refused=one.message))
    return told + [Told(refused="not asked, as one before it did not answer")] * (len(mounts) - len(told))


def _statvfs(confined: Confined, path: str) -> Told:
    began = time.monotonic()
    try:
        found = confined._resolve(path)
        try:
            size = os.fstatvfs(found)
            seconds = time.monotonic() - began
            own = quota.of_user(found, os.geteuid(), path)
        finally:
            os.close(found)
    except OSError as error:
        return Told(error=error.errno or errno.EIO, seconds=time.monotonic() - began)
    sizes = (size.f_blocks * size.f_frsize, size.f_bavail * size.f_frsize, size.f_files, size.f_favail)
    return Told(sizes, seconds, quota=own)


# --- telling ---


def _row(mount: MountLine, told: Told, namespace: str | None) -> Mount:
    size, free, inodes, inodes_free = told.sizes or (None, None, None, None)
    may_not = told.error in (errno.EACCES, errno.EPERM)  # the kernel's word, not the server's
    return Mount(
        mount.path,
        kind=mount.kind,
        source=mount.source,
        options=mount.options,
        device=mount.device,
        mnt_namespace=namespace,
        network=mount.is_network,
        asked=told.was_asked,
        answers=None if may_not or not told.was_asked else not told.stalled,
        answer_s=None if told.seconds is None else round(told.seconds, 4),
        size=size,
        free=free,
        inodes=inodes,
        inodes_free=inodes_free,
    )


def _gaps(target: Target, mounts: Sequence[MountLine], told: Sequence[Told], left_out: int) -> Iterator[Gap]:
    if not mounts:
        message = f"the mounts of pid {target.pid} may not be seen"
        yield Gap("denied", message, access.hint_when_denied({target.uid}), process_id(target.pid), ("mounts",))
    if left_out:
        message = f"{left_out} mounts were left out; {MOST_REMOTE} remote and {MOST_LOCAL} local ones are asked"
        yield Gap("partial", message, tables=("mounts",))
    for mount, one in zip(mounts, told):
        if one.stalled:
            left = f"; pid {one.left_running} is left waiting there" if one.left_running else ""
            message = f"{mount.path} ({mount.kind} of {mount.source}) did not answer within {_ANSWER_S:g} s{left}"
            yield Gap("timeout", message, target=mount.path)
        elif one.error and one.error not in (errno.EACCES, errno.EPERM):
            yield Gap("error", f"{mount.path}: {os.strerror(one.error)}", target=mount.path)
    refused = [mount.path for mount, one in zip(mounts, told) if one.refused]
    if refused:
        why = next(one.refused for one in told if one.refused)
        yield Gap(
            "denied",
            f"{len(refused)} mounts could not be asked as the job's user ({', '.join(refused[:5])}): {why}",
            access.hint_when_denied({target.uid}),
            process_id(target.pid),
            ("mounts",),
        )

