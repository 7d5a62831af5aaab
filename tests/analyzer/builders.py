"""Small scenes built by hand: processes, what their threads did over the window, and what they hold."""

from __future__ import annotations

from dataclasses import replace

from flatline.analyzer.case import FactStore, case_of
from flatline.analyzer.derive import derive
from flatline.analyzer.derive.scene import Scene

from flatline.bundle.facts import (
    Fd,
    Frame,
    Host,
    Log,
    LogSample,
    Process,
    ProcessSample,
    Syscall,
    Thread,
    ThreadSample,
    process_id,
    thread_id,
)

WINDOW_S = 4.0
FUTEX_FOR_EVER = Syscall("futex", 202, (0x7F00, 0x189, 0, 0), timed=False)
SLEEP = Syscall("clock_nanosleep", 230, timed=True)
USER, LIB = "/job/train.py", "/usr/lib/python3.11"


class Job:
    """Collects rows; every row gets a place in a made-up member, so that evidence can be followed."""

    def __init__(self):
        self.tables = {}
        self.add("hosts", Host("h1", machine="x86_64", processes_fds_unseen=0))

    def add(self, table, row):
        rows = self.tables.setdefault(table, [])
        rows.append(replace(row, artefact="facts/made.json", pointer=f"/tables/{table}/{len(rows)}"))
        return rows[-1]

    def without(self, *tables):
        """As if no probe could have filled them."""
        for table in tables:
            self.tables.pop(table, None)
        return self

    def process(self, pid, ppid=1, *, relation="descendant", threads=1, **known):
        known = {"state": "S", "is_python": True, "age_s": 600.0, "name": "python", "sig_caught": (2,), **known}
        return self.add("processes", Process(process_id(pid), "h1", pid, ppid=ppid, relation=relation,
                                             threads_total=threads, **known))

    def thread(self, pid, tid=None, *, state="S", syscall=None, wchan=None, cpu=(0, 0, 0), system=(0, 0, 0),
               switches=(0, 0, 0), stacks=(), name=None, owns_gil=None, looks=3, seen=None):
        """`cpu`, `system` and `switches` are what has grown by each look; `stacks` one stack, or one for each."""
        tid = tid or pid
        row = Thread(thread_id(pid, tid), process_id(pid), pid, tid, name=name or ("MainThread" if tid == pid else None),
                     is_main=tid == pid, state=state, syscall=syscall, wchan=wchan, syscalls_seen=seen)
        row = self.add("threads", row)
        for look in range(looks):
            self.add("thread_samples", ThreadSample(
                row.id, look, int(look * WINDOW_S / 2 * 1e9), state=state, wchan=wchan,
                syscall=None if syscall is None else f"{syscall.nr} 0x0", user_ms=cpu[look], system_ms=system[look],
                voluntary=switches[look], involuntary=0))
        if stacks and isinstance(stacks[0], tuple):
            stacks = [list(stacks)] * looks
        for look, frames in enumerate(stacks):
            self._stack(row.id, look, frames, name=name, owns_gil=owns_gil)
        return row

    def _stack(self, thread, look, frames, **whole):
        for depth, (file, function, line, *source) in enumerate(frames):
            self.add("frames", Frame(thread, look, depth, function, file=file, line_no=line,
                                     is_user=file.startswith("/job"), source=tuple(source), thread_name=whole["name"],
                                     owns_gil=whole["owns_gil"]))

    def pipe(self, inode, reader=None, writer=None):
        """`reader` and `writer` are (pid, descriptor)."""
        ends = [(reader, writer, "read"), (writer, reader, "write")]
        for own, other, mode in ends:
            if own is not None:
                peers = () if other is None else (process_id(other[0]),)
                self.add("fds", Fd(process_id(own[0]), own[1], "pipe", f"pipe:[{inode}]", inode, mode=mode, peers=peers))

    def io(self, pid, wchar=(0, 0, 0), rchar=(0, 0, 0), rss=(0, 0, 0), stored=0):
        """`stored` has been written to a disk by the last look."""
        for look in range(3):
            self.add("process_samples", ProcessSample(process_id(pid), look, int(look * WINDOW_S / 2 * 1e9),
                                                      wchar=wchar[look], rchar=rchar[look], rss=rss[look],
                                                      write_bytes=stored if look == 2 else 0))

    def log(self, pid, *, age_s=None, sizes=(), path="/job/train.log"):
        self.add("logs", Log("file", "file", path, process=process_id(pid), writers=(process_id(pid),),
                             last_write_age_s=age_s))
        for look, size in enumerate(sizes):
            self.add("log_samples", LogSample(path, look, look, size))

    @property
    def store(self):
        return FactStore(self.tables)

    def derived(self):
        """(what was derived, the store it filled)"""
        store = self.store
        return derive(case_of(store)), store

    def edges(self, pid, tid=None):
        _, store = self.derived()
        return [e for e in store.rows("wait_edges") if e.waiter == f"thread:{thread_id(pid, tid or pid)}"]

    def edge(self, pid, tid=None):
        (edge,) = self.edges(pid, tid)
        return edge

    def judged(self, pid, tid=None):
        _, store = self.derived()
        return store.by_id("threads")[thread_id(pid, tid or pid)]

    def scene(self):
        return Scene(self.store)


def reads(fd, path=None):
    return Syscall("read", 0, (fd,), fd=fd, path=path)


def writes(fd, path=None):
    return Syscall("write", 1, (fd,), fd=fd, path=path)


def waits_for_child(pid):
    return Syscall("wait4", 61, (pid & 0xFFFFFFFF,), target_pid=pid, timed=False)
