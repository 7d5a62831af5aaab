"""Locks that are only files: libraries that wait for one, and the job's own loops that look, sleep and look again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from flatline.bundle.facts import File, Frame, Thread, WaitEdge

from ..known_wait import KnownWait
from ..scene import Scene, host_of_id
from .draw import called, edge, edge_to_process, seen_in
from .polled import looping_frame

WHILE_THERE = re.compile(
    r"\bwhile\s+(?!not\b)(?:[^#]*\band\s+)?(?:[\w.]+\.)?(?:exists|lexists|isfile|isdir|is_file|is_dir)\("
)
"""A loop that goes on as long as a file is there."""
TAKEN = re.compile(r"\bFileExistsError\b|\bEEXIST\b|\bO_EXCL\b|\bopen\([^)]*,\s*(?:mode=)?[\"']x[bt+]{0,2}[\"']")
"""A loop that makes a file which must not be there yet."""
OWN_LOCK = KnownWait("", (), "lock-file", "lock-file", "waits for the lock file {path}")


def find_lock_loop(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A loop of the job's own around a sleep, and a lock file that is there: named by a local, or the only one of an
    owner that has ended in the folder it works in."""
    frame = looping_frame(scene, thread)
    if frame is None:
        return
    texts = [*(line.text for line in frame.enclosing), *(line.text for line in frame.source)]
    looks = any(WHILE_THERE.search(text) or TAKEN.search(text) for text in texts)
    says_lock = any("lock" in text.lower() for text in (frame.qualname or "", frame.file or "", *texts))
    if looks and (says_lock or _candidates(scene, thread, frame)):
        yield from to_lock_file(scene, thread, OWN_LOCK, frame)


def to_lock_file(scene: Scene, thread: Thread, wait: KnownWait, frame: Frame) -> Iterator[WaitEdge]:
    files = _candidates(scene, thread, frame)
    path = files[0].path if files else _path_in_locals(scene.stack(thread.id))
    holder = _kernel_holder(scene, thread, path, files[0] if files else None)
    if holder is not None:
        yield edge_to_process(scene, thread, holder, "file-lock", "strong",
                              f"tries for the lock on {path}, which {called(scene, holder)} has", resource=path,
                              reason=f"{seen_in(frame)}; the holder is in /proc/locks", rows=(frame, *files[:1]))
    elif files:
        yield _lock_file(scene, thread, wait, files[0], frame)
    else:
        yield edge(scene, thread, f"file:{host_of_id(thread.process)}{path or '/?'}", wait.kind, "suggested",
                   wait.text.format(path=path or "(its path is unknown)"), reason=seen_in(frame), resource=path,
                   rows=(frame,))  # fmt: skip


def _candidates(scene: Scene, thread: Thread, frame: Frame) -> list[File]:
    """What the wait's locals name; else, of a loop of the job's own, a lock file beside it that nobody alive has."""
    named = _lock_files(scene, thread, frame)
    if named or frame.kind != "python" or not frame.is_user:
        return named
    beside = [f for f in scene.files.get(thread.process, []) if f.kind == "lock" and f.why_looked in ("cwd", "cache")]
    left = [f for f in beside if f.exists and f.holders == () and f.author_alive is False]
    return left if len(left) == 1 else []


def _lock_files(scene: Scene, thread: Thread, frame: Frame) -> list[File]:
    """The one the wait itself names first (``wait.path``), then those that are there."""
    files = [f for f in scene.files.get(thread.process, []) if f.kind == "lock" and f.why_looked == "stack"]
    return sorted(files, key=lambda f: (not (f.named_by or "").startswith(f"{frame.function}."), f.exists is not True))


def _kernel_holder(scene: Scene, thread: Thread, path: str | None, file: File | None) -> str | None:
    for rows in scene.locks.values():
        for row in rows:
            same = (file is not None and row.inode == file.inode) or (path is not None and row.path == path)
            if same and not row.waiting and row.owner_process not in (None, thread.process):
                return row.owner_process
    return None


def _lock_file(scene: Scene, thread: Thread, wait: KnownWait, file: File, frame: Frame) -> WaitEdge:
    """Who still lives to remove it? Proven stale only if every process was seen and none has it open or wrote it."""
    text = wait.text.format(path=file.path)
    node = f"file:{host_of_id(thread.process)}{file.path}"
    holders = [h for h in file.holders or () if h != thread.process]
    author = f"{host_of_id(thread.process)}/{file.author_pid}"
    if not holders and file.author_alive and author in scene.processes and author != thread.process:
        holders = [author]
    if holders:
        return edge_to_process(scene, thread, holders[0], wait.kind, "strong",
                               f"{text}, which {called(scene, holders[0], thread)} has", reason=seen_in(frame),
                               resource=file.path, rows=(frame, file))  # fmt: skip
    if file.exists is False or file.holders is None or file.author_alive:
        who = f", written by pid {file.author_pid}, which lives" if file.author_alive else ""
        return edge(scene, thread, node, wait.kind, "suggested", text + who, reason=seen_in(frame), resource=file.path,
                    rows=(frame, file))  # fmt: skip
    elsewhere = _owner_elsewhere(scene, thread, file)
    if elsewhere:
        return edge(scene, thread, node, wait.kind, "strong", text + elsewhere, reason=seen_in(frame),
                    owner="outside", resource=file.path, rows=(frame, file))  # fmt: skip
    exact = scene.all_fds_seen(thread.process) or file.author_alive is False
    ended = f"; its author, pid {file.author_pid}, has ended" if file.author_pid else ""
    return edge(scene, thread, "nobody:", wait.kind, "proven" if exact else "strong",
                f"{text}, which nobody has open{ended}", owner="nobody", inside_job=True,
                reason=f"{seen_in(frame)}; no process has it open", resource=file.path, rows=(frame, file))  # fmt: skip


def _owner_elsewhere(scene: Scene, thread: Thread, file: File) -> str:
    """Half a sentence on who may have the lock without being seen from here; "" when nobody can."""
    if file.author_pid is not None and file.author_alive is None:
        where = f" on {file.author_host}" if file.author_host else ""
        return f", written by pid {file.author_pid}{where}, which cannot be seen from here"
    mount = scene.mount_of(thread.process, file.path)
    shared = mount is not None and mount.network is not False and (mount.network or mount.kind is None)
    on_network = shared and file.author_alive is not False
    return ", which nobody on this host has open; it is on a network file system" if on_network else ""


def _path_in_locals(stack: Sequence[Frame]) -> str | None:
    values = [value for frame in stack[:6] for value in (frame.locals or {}).values()]
    return next((value.strip("'\"") for value in values if "lock" in value.rpartition("/")[2].lower()), None)
