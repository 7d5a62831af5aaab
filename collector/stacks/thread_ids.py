"""Which kernel thread a Python thread is.

py-spy names it only from Python 3.11 on, and then as the target's own PID namespace numbers it. Before that it knows
``pthread_self`` alone; the C library keeps the thread's id in the structure that points to.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence

from flatline.bundle.facts import process_id, thread_id
from flatline.texts.stack_lines import RawThread

from ..linux import grandchild
from ..linux.procfs import ProcFS, Unread

TID_OFFSETS: Mapping[str, int] = {"x86_64": 720, "aarch64": 208}
"""Of ``tid`` in glibc's struct pthread. Believed only when the number there is a thread of the process."""


def identify(proc: ProcFS, pid: int, threads: Sequence[RawThread], known: dict[int, int]) -> dict[int, int]:
    """pthread -> our thread id, of those that can be told. What had to be read from memory is added to `known`."""
    ours = numbering(proc, pid)
    named = {t.pthread: t.os_thread_id for t in threads if t.os_thread_id is not None}
    unknown = [t.pthread for t in threads if t.os_thread_id is None and t.pthread not in known]
    if unknown:
        answer = grandchild.ask(lambda: by_memory(proc, pid, unknown), 0.5)
        known.update(answer.value or {})
    numbers = {**known, **named}
    tids = {pthread: ours[number] for pthread, number in numbers.items() if number in ours}
    main = main_thread(threads)
    if main is not None and pid not in tids.values():
        tids.setdefault(main.pthread, pid)
    return tids


def row_id(pid: int, tid: int | None, thread: RawThread) -> str:
    """The thread's id in facts; one whose number is not known goes by its pthread."""
    return thread_id(pid, tid) if tid else f"{process_id(pid)}/pthread-{thread.pthread:#x}"


def numbering(proc: ProcFS, pid: int) -> dict[int, int]:
    """Thread ids as the process numbers them -> as we do; last field of NSpid of every task. Empty: it is gone."""
    tids = proc.numbers(pid, "task")
    if isinstance(tids, Unread):
        return {}
    if not is_namespaced(proc, pid):
        return {tid: tid for tid in tids}
    return {_inner(proc, pid, tid): tid for tid in tids}


def is_namespaced(proc: ProcFS, pid: int) -> bool:
    """Whether the process has its own numbers: then py-spy also looks up its threads' states under wrong ones."""
    status = proc.status(pid)
    return not isinstance(status, Unread) and len(status.get("NSpid", "").split()) > 1


def _inner(proc: ProcFS, pid: int, tid: int) -> int:
    status = proc.status(pid, tid)
    numbers = [] if isinstance(status, Unread) else status.get("NSpid", "").split()
    return int(numbers[-1]) if numbers else tid


def by_memory(proc: ProcFS, pid: int, pthreads: Iterable[int], machine: str | None = None) -> dict[int, int]:
    """pthread_self -> thread id in the target's numbering, read from its memory. May block on the mmap lock.

    Empty without ptrace rights and on machines whose layout is not known.
    """
    offset = TID_OFFSETS.get(machine or os.uname().machine)
    if offset is None:
        return {}
    try:
        memory = os.open(proc.path(pid, "mem"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        found = {pthread: _number_at(memory, pthread + offset) for pthread in pthreads}
    finally:
        os.close(memory)
    return {pthread: tid for pthread, tid in found.items() if tid}


def _number_at(memory: int, address: int) -> int:
    try:
        return struct.unpack("=i", os.pread(memory, 4, address))[0]
    except (OSError, OverflowError, struct.error):
        return 0


def main_thread(threads: Iterable[RawThread]) -> RawThread | None:
    """The main thread where nothing but its looks tell: its name, or that it runs a module, or that it is alone."""
    listed = list(threads)
    for thread in listed:
        if thread.name == "MainThread":
            return thread
    modules = [thread for thread in listed if thread.frames and thread.frames[-1].name == "<module>"]
    if len(modules) == 1:
        return modules[0]
    return listed[0] if len(listed) == 1 else None
