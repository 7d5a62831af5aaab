"""Look at paths that the job names as the job's own user, below the job's own root.

A job chooses the file names of its frames, logs, caches and configuration. A collector that runs as root and opens
them reads /etc/shadow for whoever asks. So every such path is opened in a forked child that first becomes the
target's user (ids, groups and, where it is root, no more than its capabilities), resolves names below
/proc/PID/root without ever leaving it, and opens regular files only, without blocking.

The child is disposable: on a dead mount it sits in state D, is killed, not waited for, and named in `ConfineFailed`.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, NoReturn, TypeVar, Union

from . import answers
from .linux import scarcity, unnoticed
from .probes.interface import Target
from .supervision import lifecycle

try:
    import ctypes as _ctypes
except ImportError:  # a Python built without libffi: nothing can be confined, and nothing is read
    _ctypes = None

ctypes: Any = _ctypes
_LIBC: Any = ctypes.CDLL(None, use_errno=True) if ctypes else None
T = TypeVar("T")
Reason = Literal["timeout", "denied", "absent", "error"]

MAX_LINKS = 40
"""What the kernel itself follows in one path (path_resolution(7))."""
REAP_S = 0.2
"""How long a killed child may take to go before it is left behind."""

_O_PATH = getattr(os, "O_PATH", 0o10000000)
_KERNEL_MADE = {0x9FA0, 0x62656572, 0x64626720, 0x74726163, 0x73636673, 0xCAFE4A11, 0x27E0EB, 0x63677270}
"""statfs(2) types of proc, sysfs, debugfs, tracefs, securityfs, bpf and cgroup: below /proc/self the job would name
*our* environment, and some of their "regular" files consume or block when read."""


@dataclass(frozen=True)
class ConfineFailed:
    """The target's paths could not be looked at, or not all of them."""

    reason: Reason
    message: str
    left_running: int | None = None
    """Pid of the child that could not be killed (state D)."""


class NotRegularError(OSError):
    """The path names no ordinary file; `kind` (facts.File.kind, or ``kernel``) says what it is."""

    def __init__(self, kind: str, path: str) -> None:
        super().__init__(errno.EINVAL, f"not a regular file but a {kind}", path)
        self.kind = kind


def run_as_target(
    target: Target, work: Callable[[Confined], Iterator[T]], *, proc: str = "/proc", limit_s: float
) -> Iterator[Union[T, ConfineFailed]]:
    """Run `work` as the target's user in a forked child and yield its values; at most one ConfineFailed, last.

    Values travel pickled: builtins and flatline's dataclasses. What came before the limit is kept.
    """
    if ctypes is None:
        yield ConfineFailed("absent", "this Python has no ctypes, so no path of the job was opened")
        return
    deadline = time.monotonic() + limit_s
    parent = os.getpid()
    try:
        child, reading, writing = scarcity.fork_with_pipe()
    except OSError as refused:
        yield ConfineFailed("error", f"the look at the job's files could not begin: {refused.strerror}")
        return
    if child == 0:
        _be_child(writing, parent, target, work, proc)
    os.close(writing)
    failure = ConfineFailed("error", "the look at the job's files was not finished")
    try:
        for kind, value in answers.receive(reading, deadline):
            if kind != b"V":
                failure = ConfineFailed(*value) if kind == b"E" else None
                break
            yield value
    except TimeoutError:
        failure = ConfineFailed("timeout", f"no answer within {limit_s:g} s; a mount may be dead")
    except (EOFError, OSError, ValueError) as error:
        failure = ConfineFailed("error", f"the look at the job's files ended early: {error}")
    finally:
        os.close(reading)
        left = _kill(child)
    if failure:
        yield replace(failure, left_running=left)


def standpoint(target: Target, proc: str = "/proc") -> tuple[str, ...] | None:
    """What decides how the target's paths read: two targets with the same one can share a child. None: unknown."""
    base = f"{proc}/{target.pid}"
    try:
        places = tuple(os.readlink(f"{base}/{name}") for name in ("ns/mnt", "ns/user", "root", "cwd"))
        status = _status(f"{base}/status")
    except OSError:
        return None
    return (*places, *(status.get(name, "") for name in ("Uid", "Gid", "Groups", "CapEff")))


def kind_of(mode: int) -> Literal["file", "directory", "fifo", "socket", "device", "link", "other"]:
    """st_mode as facts.File.kind."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISFIFO(mode):
        return "fifo"
    if stat.S_ISSOCK(mode):
        return "socket"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "device"
    return "link" if stat.S_ISLNK(mode) else "other"


def device_of(st_dev: int) -> str:
    """st_dev as ``maj:min``, the spelling of facts and of /proc/PID/mountinfo."""
    return f"{os.major(st_dev)}:{os.minor(st_dev)}"


class Confined:
    """The job's files as the job sees them. Lives only inside `run_as_target`; every method raises OSError.

    Names are resolved one component at a time from directory descriptors, links read and followed by hand: an
    absolute link starts again at the job's root, ``..`` never rises above it. (openat2(2) does this in one call, but
    not before Linux 5.6 and not under older containers' seccomp filters.)
    """

    def __init__(self, root: int, cwd: int, cwd_path: str) -> None:
        self._root = root
        self._cwd = cwd
        self.cwd_path = cwd_path
        """Text of the working directory below the root; ``""`` when it cannot be reached from there."""
        self._folder: int | None = None
        """Inode of the folder in which lies what was resolved last, where that may matter."""

    def open_regular(self, path: str) -> int:
        """A descriptor of a regular file, reading, non-blocking. NotRegularError for anything else, unopened."""
        with _closing(self._resolve(path)) as found:
            kind = kind_of(os.fstat(found).st_mode)
            if kind != "file":
                raise NotRegularError(kind, path)
            if _file_system(found) in _KERNEL_MADE:
                raise NotRegularError("kernel", path)
            return unnoticed.open_file(found, folder=self._folder)

    def folder_of(self, path: str) -> int | None:
        """The inode of the folder in which `path` lies, where that may matter."""
        return self.stat(os.path.dirname(path) or ".").st_ino if unnoticed.watched else None

    def read(self, path: str, offset: int = 0, size: int = 65536) -> bytes:
        """At most `size` bytes from `offset`; a negative offset counts from the end."""
        with _closing(self.open_regular(path)) as opened:
            if offset < 0:
                offset = max(0, os.fstat(opened).st_size + offset)
            return b"".join(chunks(opened, offset, size))

    def stat(self, path: str, *, follow: bool = True) -> os.stat_result:
        """stat(2), or lstat(2) without `follow`."""
        with _closing(self._resolve(path, follow=follow)) as found:
            return os.fstat(found)

    def access(self, path: str, mode: int) -> bool:
        """Whether the job may do `mode` (os.R_OK, os.W_OK, os.X_OK) there."""
        return self.access_error(path, mode) == 0

    def access_error(self, path: str, mode: int) -> int:
        """0 if the job may do `mode` there, else the errno of access(2): EACCES, EROFS, EPERM …"""
        with _closing(self._resolve(path)) as found:
            refused = _LIBC.access(_by_number(found).encode(), mode) != 0
            return ctypes.get_errno() if refused else 0

    def getxattr(self, path: str, name: str) -> bytes:
        """An extended attribute; ENODATA when there is none of this name."""
        with _closing(self._resolve(path)) as found:
            return os.getxattr(_by_number(found), name)

    def listdir(self, path: str, limit: int) -> list[str]:
        """At most `limit` names, in the order of the directory."""
        with _closing(self._open_folder(path)) as opened, os.scandir(opened) as entries:
            return [entry.name for entry in islice(entries, limit)]

    def scan(self, path: str, limit: int) -> dict[str, os.stat_result]:
        """At most `limit` names with lstat(2) of each, for much less than as many calls of `stat`."""
        with _closing(self._open_folder(path)) as opened, os.scandir(opened) as entries:
            return {entry.name: found for entry in islice(entries, limit) if (found := _look(entry))}

    def readlink(self, path: str) -> str:
        """What the link says; EINVAL when it is none."""
        with _closing(self._resolve(path, follow=False)) as found:
            return os.readlink("", dir_fd=found)

    def absolute(self, path: str) -> str:
        """`path` seen from the job's root; a relative one stays so when the working directory is out of reach."""
        return path if path.startswith("/") or not self.cwd_path else f"{self.cwd_path.rstrip('/')}/{path}"

    def _open_folder(self, path: str) -> int:
        with _closing(self._resolve(path)) as found:
            return unnoticed.open_folder(found)

    def _resolve(self, path: str, *, follow: bool = True) -> int:
        """An O_PATH descriptor: nothing is opened yet, so no FIFO waits and no device wakes."""
        if not path or "\0" in path:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        pending = _components(path)
        walked = [self._root if path.startswith("/") else self._cwd]
        links = 0
        try:
            while pending:
                name = pending.pop()
                if name == "..":
                    pending += self._rise(walked)
                    continue
                found = _step(walked[-1], name, last=not pending)
                walked.append(found)
                if not stat.S_ISLNK(os.fstat(found).st_mode) or not (pending or follow):
                    continue
                links += 1
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                text = os.readlink("", dir_fd=found)
                os.close(walked.pop())
                pending += _components(text)
                if text.startswith("/"):
                    _close_all(walked)
                    walked = [self._root]
            self._folder = os.fstat(walked[-2]).st_ino if unnoticed.watched and len(walked) > 1 else None
            return os.dup(walked[-1])
        except UnicodeEncodeError:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), ascii(path)) from None
        finally:
            _close_all(walked)

    def _rise(self, walked: list[int]) -> list[str]:
        """One directory up; above the working directory the way is known as text only, which is returned."""
        if len(walked) > 1:
            os.close(walked.pop())
            return []
        if walked[0] == self._root:
            return []
        if not self.cwd_path:
            raise OSError(errno.ENOENT, "the working directory is outside the job's root")
        walked[0] = self._root
        return _components(os.path.dirname(self.cwd_path))


class _closing:
    """A descriptor that is closed at the end of the block."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _components(path: str) -> list[str]:
    """The names of a path, last first: a stack to pop from."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _step(parent: int, name: str, *, last: bool) -> int:
    flags = _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    if not last:
        try:
            return os.open(name, flags | os.O_DIRECTORY, dir_fd=parent)  # O_DIRECTORY wakes an automount
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
    return os.open(name, flags, dir_fd=parent)


def _look(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:  # gone since its folder was read
        return None


def _close_all(walked: list[int]) -> None:
    """Close what was walked through, but not where it began."""
    for descriptor in walked[1:]:
        os.close(descriptor)


def _by_number(descriptor: int) -> str:
    """Reopens the very file an O_PATH descriptor stands for, whatever its name means by now."""
    return f"/proc/self/fd/{descriptor}"


def _file_system(descriptor: int) -> int:
    """statfs(2) f_type."""
    buffer = (ctypes.c_long * 64)()
    if _LIBC.fstatfs(descriptor, buffer) != 0:
        raise OSError(ctypes.get_errno(), "fstatfs")
    return buffer[0] & 0xFFFFFFFF


def chunks(descriptor: int, offset: int, size: int) -> Iterator[bytes]:
    """At most `size` bytes of an open file from `offset` on, a mebibyte at a time; its position stays."""
    while size > 0:
        chunk = os.pread(descriptor, min(size, 1 << 20), offset)
        if not chunk:
            return
        yield chunk
        offset += len(chunk)
        size -= len(chunk)


# --- the child: from the collector's rights to the target's ---


def _be_child(
    out: int, parent: int, target: Target, work: Callable[[Confined], Iterator[Any]], proc: str
) -> NoReturn:
    """Never returns into the collector's code, whatever happens.

    What the probe holds is let go first: a child that cannot be killed must not keep its pipe to the supervisor open.
    """
    try:
        lifecycle.reset_signals()
        lifecycle.close_descriptors(keep=(0, 1, 2, out))
        confined = _become(target, proc)
        lifecycle.die_with_parent(parent)  # here, because a change of user takes it back
        for value in work(confined):
            answers.send(out, b"V", value)
        answers.send(out, b".", None)
    except PermissionError as error:
        _last_words(out, ("denied", error.strerror or str(error)))
    except (FileNotFoundError, ProcessLookupError) as error:
        _last_words(out, ("absent", error.strerror or str(error)))
    except BaseException as error:  # noqa: BLE001  a forked child must not unwind into its parent's frames
        _last_words(out, ("error", f"{type(error).__name__}: {error}"))
    finally:
        os._exit(0)


def _become(target: Target, proc: str) -> Confined:
    """Open the target's root and working directory, then be its user for good.

    All is read through one descriptor of /proc/PID, which never means another process that got the same pid.
    """
    base = os.open(f"{proc}/{target.pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if _start_ticks(base) != target.start_ticks:
        raise ProcessLookupError(errno.ESRCH, f"pid {target.pid} is another process by now")
    root = os.open("root", _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=base)
    cwd = os.open("cwd", _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=base)
    cwd_path = _below(os.readlink("root", dir_fd=base), os.readlink("cwd", dir_fd=base))
    same_users = os.readlink("ns/user", dir_fd=base) == os.readlink("/proc/self/ns/user")
    status = _parse_status(_read_at(base, "status"))
    _take_ids(status)
    _take_capabilities(int(status["CapEff"], 16) if same_users else 0)
    return Confined(root, cwd, cwd_path)


def _take_ids(status: dict[str, str]) -> None:
    """The ids that decide about files: fsuid and fsgid, the last of the four in status."""
    uid, gid = int(status["Uid"].split()[3]), int(status["Gid"].split()[3])
    groups = [int(group) for group in status.get("Groups", "").split()]
    same_user = os.getresuid() == (uid, uid, uid)
    if same_user and os.geteuid() != 0:
        return  # nothing to give up, and no right to take another group
    if same_user and os.getresgid() == (gid, gid, gid) and set(os.getgroups()) == set(groups):
        return  # root of a namespace that forbids setgroups
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _take_capabilities(wanted: int) -> None:
    """capset(2) to no more than the target has, so that its root is no stronger here than at home.

    Then PR_SET_DUMPABLE 0, because the target's user must not look into this copy of the collector.
    """
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    _check(_LIBC.capget(header, data), "capget")
    low, high = wanted & 0xFFFFFFFF, wanted >> 32
    for index, mask in enumerate((low, low, 0, high, high, 0)):  # effective, permitted, inheritable; twice 32 bits
        data[index] &= mask
    _check(_LIBC.capset(header, data), "capset")
    _check(_LIBC.prctl(4, 0, 0, 0, 0), "PR_SET_DUMPABLE")


def _check(result: int, call: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), call)


def _below(root: str, path: str) -> str:
    """`path` as text below `root`, both as /proc links print them; ``""`` when it is not below, or deleted."""
    if path.endswith(" (deleted)"):
        return ""
    if root == "/":
        return path if path.startswith("/") else ""
    if path == root:
        return "/"
    return path[len(root) :] if path.startswith(root + "/") else ""


def _start_ticks(base: int) -> int:
    """Field 22 of stat; the name before it may hold spaces and parentheses."""
    return int(_read_at(base, "stat").rpartition(")")[2].split()[19])


def _read_at(base: int, name: str) -> str:
    with _closing(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=base)) as opened:
        return b"".join(chunks(opened, 0, 1 << 16)).decode("utf-8", "replace")


def _status(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8", errors="replace") as lines:
        return _parse_status(lines.read())


def _parse_status(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def _last_words(out: int, failure: tuple[Reason, str]) -> None:
    try:
        answers.send(out, b"E", failure)
    except OSError:  # the parent has gone
        pass


def _kill(child: int) -> int | None:
    """SIGKILL and a short wait. The pid when it did not go: a child in D is left behind, never waited for."""
    give_up = time.monotonic() + REAP_S
    while True:
        try:
            os.kill(child, signal.SIGKILL)
            if os.waitpid(child, os.WNOHANG)[0] == child:
                return None
        except (ProcessLookupError, ChildProcessError):
            return None
        if time.monotonic() > give_up:
            return child
        time.sleep(0.005)
