"""Files: a mount that does not answer, a device, a FIFO nobody has opened at its other end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flatline.bundle.facts import Mount, Strength, Thread, WaitEdge

from ..known import PATH_CALLS, READS, WRITES
from ..scene import Scene, host_of_id, innermost_user
from .draw import edge

DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/infiniband", "/dev/dxg", "/dev/accel")
OPENS = re.compile(r"""open\(\s*[rbuf]*["\']([^"\']+)["\']""")
FILE_CALLS = PATH_CALLS | READS | WRITES | {"ioctl", "running"}


def find_mount(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A call on a file system that had not answered when it was asked."""
    call = thread.syscall
    blocked = thread.state == "D" or (thread.liveness == "frozen" and call is not None and call.name in FILE_CALLS)
    if not blocked:
        return
    mount, strength, reason = _mount_waited_for(scene, thread)
    if mount is None:
        return
    silent = mount.answers is False
    server = f" ({mount.kind}, {mount.source})" if mount.kind and mount.source else ""
    does = "does not answer" if silent else "may not answer"
    yield edge(scene, thread, f"mount:{host_of_id(thread.process)}{mount.path}", "mount", strength,
               f"waits for the file system at {mount.path}{server}, which {does}",
               owner="outside" if silent else "unknown", inside_job=None, reason=reason, resource=mount.path,
               rows=(mount,))  # fmt: skip


def find_device(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """A call into a driver that does not return."""
    call = thread.syscall
    path = _path(scene, thread)
    if call is None or path is None or not path.startswith(DEVICES):
        return
    strength: Strength = "proven" if thread.state == "D" or thread.liveness == "frozen" else "strong"
    yield edge(scene, thread, f"device:{host_of_id(thread.process)}{path}", "device", strength,
               f"waits in {call.name} for the device {path}", owner="outside", inside_job=False,
               reason=f"state {thread.state} in {call.name} on {path}", resource=path,
               rows=(scene.fd(thread.process, call.fd),))  # fmt: skip


_IN_FIFO = ("wait_for_partner", "fifo_open")
"""Functions of the kernel in which an open of a FIFO waits."""


def is_in_fifo(scene: Scene, thread: Thread) -> bool:
    """Whether the kernel's own names say that it opens a FIFO: they need no second look."""
    kernel = (thread.wchan, *(frame.function for frame in scene.kernel_stack(thread.id)))
    return any((name or "").startswith(_IN_FIFO) for name in kernel)


def find_fifo_open(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """open(2) on a FIFO returns when somebody opens the other end."""
    call = thread.syscall
    in_fifo = is_in_fifo(scene, thread)
    opens = call is not None and call.name in ("open", "openat", "openat2")
    if not (in_fifo or opens) or thread.liveness not in ("frozen", "unknown"):
        return
    named = [f for f in scene.files.get(thread.process, []) if f.kind == "fifo"]
    if not in_fifo and not named:
        return
    name = named[0].path if len(named) == 1 else _opened(scene, thread)
    node = f"file:{host_of_id(thread.process)}{name}" if name else "unknown:"
    yield edge(scene, thread, node, "fifo-open", "proven" if in_fifo else "strong",
               f"opens {f'the FIFO {name}' if name else 'a FIFO'}, whose other end nobody has opened",
               owner="outside", inside_job=False, resource=name or "a FIFO", rows=named[:1],
               reason=f"blocked in {call.name if call else 'open'}{f' ({thread.wchan})' if in_fifo else ''}",
               )  # fmt: skip


def _opened(scene: Scene, thread: Thread) -> str | None:
    """The name that stands in the line itself: ``open("samples.fifo")``."""
    frame = innermost_user(scene.stack(thread.id))
    line = next((s.text for s in frame.source if s.line == frame.line_no), "") if frame is not None else ""
    quoted = OPENS.search(line)
    return quoted[1] if quoted else None


def find_uninterruptible(scene: Scene, thread: Thread) -> Iterator[WaitEdge]:
    """State D with nothing that says for what."""
    if thread.state != "D" or thread.liveness != "frozen":
        return
    place = f" ({thread.wchan})" if thread.wchan and thread.wchan != "0" else ""
    path = _path(scene, thread)
    on = f" on {path}" if path else ""
    looks = "in every look" if len(scene.samples_of(thread.id)) > 1 else "in the one look there is"
    yield edge(scene, thread, "unknown:", "resource", "strong", f"is in uninterruptible sleep{on}{place}",
               reason=f"the kernel's state D {looks}", resource=path)  # fmt: skip


def _path(scene: Scene, thread: Thread) -> str | None:
    call = thread.syscall
    if call is None:
        return None
    fd = scene.fd(thread.process, call.fd)
    return (fd.path if fd is not None else None) or call.path


def _mount_waited_for(scene: Scene, thread: Thread) -> tuple[Mount | None, Strength, str]:
    path = _path(scene, thread)
    mount = scene.mount_of(thread.process, path)
    if mount is not None and mount.answers is False:
        return mount, "proven", f"blocked on {path}, and statfs on {mount.path} had not returned"
    if mount is not None:
        doubtful = mount.network and mount.answers is not True and thread.state == "D"
        return (mount, "suggested", f"in state D on {path}") if doubtful else (None, "suggested", "")
    return _mount_by_circumstance(scene, thread)


def _mount_by_circumstance(scene: Scene, thread: Thread) -> tuple[Mount | None, Strength, str]:
    """The call names no path: a silent mount that the process works on."""
    call, process = thread.syscall, scene.processes.get(thread.process)
    if call is not None and call.name not in FILE_CALLS:
        return None, "suggested", ""
    silent = [mount for mount in scene.mounts_near(thread.process) if mount.answers is False]
    paths = {process.cwd if process else None, *(fd.path for fd in scene.fds_of(thread.process)),
             *(f.path for f in scene.files.get(thread.process, []))}  # fmt: skip
    used = {mount.path: mount for path in paths if (mount := scene.mount_of(thread.process, path)) in silent and mount}
    if len(used) == 1:
        return next(iter(used.values())), "strong", "it works on a mount whose statfs had not returned"
    if len(silent) == 1 and thread.state == "D":
        return silent[0], "suggested", "in state D while one mount does not answer"
    cwd = scene.mount_of(thread.process, process.cwd if process else None)
    if thread.state == "D" and cwd is not None and cwd.network and cwd.answers is not True:
        return cwd, "suggested", "in state D, its working directory is on a network file system"
    return None, "suggested", ""
