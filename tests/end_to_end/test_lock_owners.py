"""From really blocked threads to the edge that is drawn: whom each one waits for, and how sure that is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from flatline.analyzer.case import FactStore, case_of
from flatline.analyzer.derive import derive
from flatline.analyzer.merge import merge_rows
from flatline.collector.probes.futexes import Futexes
from flatline.collector.probes.interface import Facts
from flatline.collector.probes.processes import Processes
from flatline.collector.probes.stacks import Stacks
from job_view import target_of, view_of
from programs import FIXTURES, pythons, real_python, wait_until

from flatline.bundle.facts import process_id, thread_id

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
FUTEX = "98 " if os.uname().machine == "aarch64" else "202 "


# --- programs ---


@pytest.fixture(scope="module")
def native_locks(tmp_path_factory) -> Path:
    program = tmp_path_factory.mktemp("native") / "native_locks"
    source = FIXTURES / "stuck" / "native_locks.c"
    subprocess.run(["cc", "-O1", "-pthread", "-o", program, source], check=True, timeout=60)
    return program


@pytest.fixture
def native(native_locks, start):
    """`native(how)` -> (pid that is stuck, thread that has the lock, all pids of the program)."""

    def begin(how: str):
        process = start([native_locks, how], stdout=subprocess.PIPE, text=True)
        stuck, holder = map(int, process.stdout.readline().split())
        sleeps_on_futex(stuck)
        return stuck, holder, tree(process.pid)

    return begin


@pytest.fixture
def python(start, tmp_path):
    """`python(code)` runs it until it prints a line, which is returned; then its main thread sleeps on a futex."""

    def begin(code: str, *, interpreter: str = sys.executable, wrapper=(), **env: str):
        program = tmp_path / "program.py"
        program.write_text(code)
        process = start([*wrapper, interpreter, program], stdout=subprocess.PIPE, text=True, env={**os.environ, **env})
        return process.pid, process.stdout.readline().split()

    return begin


def sleeps_on_futex(pid: int, tid: int | None = None) -> None:
    """Until a thread has been in one and the same futex call for a while."""
    line = Path(f"/proc/{pid}/task/{tid or pid}/syscall")
    seen: list[str] = []

    def stays() -> bool:
        seen.append(line.read_text())
        return len(seen) > 3 and len(set(seen[-3:])) == 1 and seen[-1].startswith(FUTEX)

    wait_until(stays, what=f"thread {tid or pid} waits")


def tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in tree(int(child)))]


# --- from a job to its edges ---


class Judged:
    def __init__(self, *pids: int, stacks: bool = False) -> None:
        first, *others = pids
        targets = [target_of(first), *(target_of(pid, relation="descendant") for pid in others)]
        probes = [Processes(), Futexes(), *([Stacks()] if stacks else [])]
        tables = defaultdict(list)
        for probe in probes:
            for item in probe.gather(view_of(*targets, window_s=0.3, samples=2)):
                for table, rows in item.tables.items() if isinstance(item, Facts) else ():
                    tables[table] += [replace(row, artefact=item.path, pointer=f"/tables/{table}/{n}")
                                      for n, row in enumerate(rows)]  # fmt: skip
        self.store = FactStore(merge_rows(tables))
        self.derived = derive(case_of(self.store))

    def edges(self, pid: int, tid: int | None = None):
        return [e for e in self.store.rows("wait_edges") if e.waiter == f"thread:{thread_id(pid, tid or pid)}"]

    def edge(self, pid: int, tid: int | None = None):
        (edge,) = self.edges(pid, tid)
        return edge

    def futex(self, pid: int, tid: int | None = None):
        (row,) = [row for row in self.store.rows("futexes") if row.thread == thread_id(pid, tid or pid)]
        return row


def facts_of(edge):
    return edge.awaited, edge.strength, edge.owner


# --- locks of glibc ---


@needs_cc
@pytest.mark.parametrize("how", ["mutex", "recursive", "adaptive", "robust", "inheriting", "reader", "writer"])
def test_a_native_lock_is_held_by_the_thread_that_memory_names(how, native, left_as_found):
    stuck, holder, pids = native(how)
    left_as_found(stuck)
    judged = Judged(*pids)
    assert facts_of(judged.edge(stuck)) == (f"thread:{thread_id(stuck, holder)}", "proven", "thread")
    assert "which is held by its thread" in judged.edge(stuck).text
    expected = {"inheriting": "pi-mutex", "reader": "rwlock", "writer": "rwlock"}.get(how, "mutex")
    assert (judged.futex(stuck).primitive, judged.futex(stuck).owner_tid) == (expected, holder)
    assert judged.futex(stuck).depth == (1 if how == "recursive" else None)


@needs_cc
def test_a_thread_that_ended_with_a_mutex_leaves_it_to_nobody(native):
    stuck, ended, pids = native("dead-owner")
    judged = Judged(*pids)
    assert facts_of(judged.edge(stuck)) == ("nobody:", "proven", "nobody")
    assert f"which thread {ended} held when it ended" in judged.edge(stuck).text
    assert judged.derived.verdict.state == "hung"


@needs_cc
def test_a_mutex_inherited_by_fork_is_nobodys_though_its_owner_lives_in_the_parent(native):
    stuck, holder, pids = native("forked")
    assert Path(f"/proc/{holder}").exists()
    judged = Judged(*pids)
    assert facts_of(judged.edge(stuck)) == ("nobody:", "proven", "nobody")
    assert f"which thread {holder} held when the process was forked" in judged.edge(stuck).text


@needs_cc
def test_a_mutex_in_shared_memory_is_held_by_a_thread_of_another_process(native):
    stuck, holder, pids = native("shared")
    judged = Judged(*pids)
    assert facts_of(judged.edge(stuck)) == (f"thread:{thread_id(holder, holder)}", "proven", "thread")
    row = judged.futex(stuck)
    assert row.mapping.endswith("(deleted)")
    assert row.mapped_by == (process_id(holder),)


@needs_cc
def test_native_locks_taken_crosswise_are_a_proven_cycle(native):
    stuck, other, pids = native("crosswise")
    sleeps_on_futex(stuck, other)
    judged = Judged(*pids)
    assert judged.edge(stuck).awaited == f"thread:{thread_id(stuck, other)}"
    assert judged.edge(stuck, other).awaited == f"thread:{thread_id(stuck, stuck)}"
    (end,) = judged.store.rows("ends")
    assert (end.kind, end.strength) == ("cycle", "proven")
    assert judged.derived.verdict.state == "hung"


@needs_cc
def test_a_mutex_taken_twice_is_held_by_the_one_that_waits(native):
    stuck, _, pids = native("self")
    judged = Judged(*pids)
    assert facts_of(judged.edge(stuck)) == (f"thread:{thread_id(stuck, stuck)}", "proven", "thread")
    assert judged.futex(stuck).owner_state == "self"
    assert judged.store.rows("ends")[0].kind == "cycle"


@needs_cc
def test_pthread_join_names_the_thread(native):
    stuck, joined, pids = native("join")
    judged = Judged(*pids)
    edge = judged.edge(stuck)
    assert (edge.kind, *facts_of(edge)) == ("thread-join", f"thread:{thread_id(stuck, joined)}", "proven", "thread")


@needs_cc
@pytest.mark.parametrize(
    ("how", "primitive"),
    [("condition", "condition"), ("barrier", "barrier"), ("shared-barrier", "barrier"), ("semaphore", "semaphore"),
     ("behind-readers", "rwlock")],
)  # fmt: skip
def test_what_has_no_owner_is_never_held_by_anybody(how, primitive, native):
    stuck, _, pids = native(how)
    judged = Judged(*pids)
    row = judged.futex(stuck)
    assert (row.primitive, row.owner_tid, row.owner_thread) == (primitive, None, None)
    assert row.owner_state in ("none", "unknown")
    assert "held by" not in judged.edge(stuck).text
    assert not judged.edge(stuck).awaited.startswith("thread:")


# --- locks of Python ---

HANDLER = """
import logging, threading, time
log, got = logging.getLogger(), threading.Event()
log.addHandler(logging.StreamHandler())
def hold():
    with log.handlers[0].lock:
        got.set()
        time.sleep(600)
thread = threading.Thread(target=hold, name="holder")
thread.start()
got.wait()
print(thread.native_id, flush=True)
log.error("this waits for the handler")
"""


@pytest.mark.parametrize(("version", "interpreter"), pythons())
def test_the_lock_of_a_logging_handler_is_held_by_the_thread_that_its_rlock_names(version, interpreter, python, left_as_found):
    pid, (holder,) = python(HANDLER, interpreter=interpreter)
    sleeps_on_futex(pid)
    left_as_found(pid)
    judged = Judged(pid)
    assert facts_of(judged.edge(pid)) == (f"thread:{thread_id(pid, int(holder))}", "proven", "thread")
    row = judged.futex(pid)
    assert (row.primitive, row.depth, row.owner_state) == ("python-rlock", 1, "alive")


CROSSWISE = """
import threading
a, b, ready = threading.RLock(), threading.RLock(), threading.Barrier(2)
def other():
    with b:
        ready.wait()
        with a:
            pass
thread = threading.Thread(target=other, name="other")
thread.start()
with a:
    ready.wait()
    print(thread.native_id, flush=True)
    with b:
        pass
"""


TWICE = """
import threading, time
lock, got = threading.RLock(), threading.Event()
def hold():
    with lock, lock:
        got.set()
        time.sleep(600)
thread = threading.Thread(target=hold)
thread.start()
got.wait()
print(thread.native_id, flush=True)
lock.acquire()
"""


@pytest.mark.parametrize("version", ["3.13", "3.14"])
def test_an_rlock_knows_how_often_it_was_taken(version, python):
    pid, (holder,) = python(TWICE, interpreter=real_python(version))
    sleeps_on_futex(pid)
    row = Judged(pid).futex(pid)
    assert (row.primitive, row.depth, row.owner_tid) == ("python-rlock", 2, int(holder))


NOBODY_LEFT = """
import threading
lock = threading.Lock()
lock.acquire()
print(0, flush=True)
lock.acquire()
"""


@pytest.mark.parametrize("version", ["3.13", "3.14"])
def test_a_plain_lock_has_no_owner(version, python):
    pid, _ = python(NOBODY_LEFT, interpreter=real_python(version))
    sleeps_on_futex(pid)
    row = Judged(pid).futex(pid)
    assert (row.primitive, row.owner_state, row.note) == ("python-lock", "none", "")


@pytest.mark.parametrize("version", ["3.9", "3.13", "3.14"])
def test_rlocks_taken_crosswise_are_a_proven_cycle(version, python):
    pid, (other,) = python(CROSSWISE, interpreter=real_python(version))
    sleeps_on_futex(pid)
    sleeps_on_futex(pid, int(other))
    judged = Judged(pid, stacks=True)
    assert judged.edge(pid).awaited == f"thread:{thread_id(pid, int(other))}"
    assert [(end.kind, end.strength) for end in judged.store.rows("ends")] == [("cycle", "proven")]


def test_plain_locks_taken_crosswise_are_never_said_to_be_held(python):
    pid, (other,) = python(CROSSWISE.replace("threading.RLock()", "threading.Lock()"))
    sleeps_on_futex(pid)
    sleeps_on_futex(pid, int(other))
    judged = Judged(pid, stacks=True)
    assert judged.futex(pid).primitive == "python-lock"
    assert judged.futex(pid).owner_state == "none"
    for edge in judged.edges(pid) + judged.edges(pid, int(other)):
        assert "held by" not in edge.text
        assert edge.strength != "proven" or edge.owner == "nobody"
    assert judged.derived.verdict.state == "hung"


FORKED = """
import os, threading, time
lock, got = threading.RLock(), threading.Event()
def hold():
    with lock:
        got.set()
        time.sleep(600)
threading.Thread(target=hold).start()
got.wait()
child = os.fork()
if child == 0:
    print(os.getpid(), flush=True)
    with lock:
        pass
os.waitpid(child, 0)
"""


@pytest.mark.parametrize("version", ["3.9", "3.11", "3.13"])
def test_an_rlock_inherited_by_fork_is_nobodys(version, python):
    pid, (child,) = python(FORKED, interpreter=real_python(version))
    sleeps_on_futex(int(child))
    judged = Judged(pid, int(child))
    assert facts_of(judged.edge(int(child))) == ("nobody:", "proven", "nobody")
    assert "when the process was forked" in judged.edge(int(child)).text
    assert judged.futex(int(child)).owner_state == "not-a-thread-of-the-process"


@pytest.mark.parametrize(
    "wait",
    ["threading.Event().wait()", "queue.Queue().get()", "threading.Barrier(2).wait()", "condition.wait()"],
)
@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_events_conditions_queues_and_barriers_of_python_have_no_owner(version, wait, python):
    code = (
        "import queue, threading, time\ncondition = threading.Condition()\ncondition.acquire()\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\nprint(1, flush=True)\n"
    )
    pid, _ = python(code + wait, interpreter=real_python(version))
    sleeps_on_futex(pid)
    judged = Judged(pid)
    assert (judged.futex(pid).owner_state, judged.futex(pid).owner_tid) == ("none", None)
    assert (judged.edge(pid).strength, judged.edge(pid).owner) == ("suggested", "unknown")


# --- locks between processes ---

SHARED = """
import multiprocessing, time
multiprocessing.set_start_method("fork")
lock, got = multiprocessing.Lock(), multiprocessing.Event()
def hold():
    with lock:
        got.set()
        time.sleep(600)
def want():
    with lock:
        pass
holder = multiprocessing.Process(target=hold)
holder.start()
got.wait()
waiter = multiprocessing.Process(target=want)
waiter.start()
print(holder.pid, waiter.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("version", ["3.9", "3.11", "3.13"])
def test_a_lock_of_multiprocessing_is_with_the_process_that_counts_it_taken(version, python):
    pid, said = python(SHARED, interpreter=real_python(version))
    holder, waiter = map(int, said)
    sleeps_on_futex(waiter)
    judged = Judged(pid, holder, waiter, stacks=True)
    assert judged.futex(waiter).held_by == (process_id(holder),)
    assert set(judged.futex(waiter).mapped_by) == {process_id(pid), process_id(holder)}
    assert facts_of(judged.edge(waiter)) == (f"process:{process_id(holder)}", "strong", "process")
    assert "held by" not in judged.edge(waiter).text


def test_a_lock_of_multiprocessing_whose_holder_was_killed_is_nobodys_but_not_proven(python):
    pid, said = python(SHARED)
    holder, waiter = map(int, said)
    sleeps_on_futex(waiter)
    os.kill(holder, signal.SIGKILL)
    wait_until(lambda: Path(f"/proc/{holder}/stat").read_text().rpartition(")")[2].split()[0] == "Z", what="it has ended")
    judged = Judged(pid, waiter, stacks=True)
    assert judged.futex(waiter).held_by == ()
    assert facts_of(judged.edge(waiter)) == ("nobody:", "strong", "nobody")
    assert "its holder has ended" in judged.edge(waiter).text


def test_a_worker_that_is_idle_before_the_lock_of_its_queue_is_idle(python):
    code = (
        "import multiprocessing, time\nmultiprocessing.set_start_method('fork')\npool = multiprocessing.Pool(3)\n"
        "pool.map(abs, range(9))\nprint(*[p.pid for p in pool._pool], flush=True)\ntime.sleep(600)"
    )
    pid, workers = python(code)
    wait_until(lambda: all("futex" in wchan(int(w)) or "pipe" in wchan(int(w)) for w in workers), what="all are idle")
    judged = Judged(pid, *map(int, workers), stacks=True)
    edges = [edge for worker in workers for edge in judged.edges(int(worker))]
    assert {(edge.kind, edge.awaited) for edge in edges} == {("worker", f"process:{process_id(pid)}")}


def wchan(pid: int) -> str:
    return Path(f"/proc/{pid}/wchan").read_text()


# --- where numbers and rights differ ---


@needs_cc
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a PID namespace")
def test_in_a_pid_namespace_of_its_own_memory_has_other_numbers(native_locks, start):
    if subprocess.run(["unshare", "-pf", "true"], capture_output=True, timeout=20).returncode:
        pytest.skip("PID namespaces cannot be made here")
    process = start(["unshare", "-pf", native_locks, "mutex"], stdout=subprocess.PIPE, text=True)
    inner, holder = map(int, process.stdout.readline().split())
    pid = tree(process.pid)[-1]
    sleeps_on_futex(pid)
    judged = Judged(pid)
    other = next(int(t) for t in os.listdir(f"/proc/{pid}/task") if int(t) != pid)
    assert (inner, judged.futex(pid).owner_tid) == (1, holder)
    assert facts_of(judged.edge(pid)) == (f"thread:{thread_id(pid, other)}", "proven", "thread")


@needs_cc
def test_with_another_c_library_the_owner_is_unknown(native, monkeypatch):
    from flatline.collector.waits import glibc

    monkeypatch.setattr(glibc, "is_known", lambda maps, machine: False)
    stuck, _, pids = native("mutex")
    judged = Judged(*pids)
    assert (judged.futex(stuck).primitive, judged.futex(stuck).owner_state) == ("unknown", "unknown")
    assert "C library not recognised" in judged.futex(stuck).note
    assert (judged.edge(stuck).strength, judged.edge(stuck).owner) == ("suggested", "unknown")
    assert "C library not recognised" in judged.store.rows("ends")[0].why


@needs_cc
def test_where_memory_may_not_be_read_the_chain_is_cut_and_says_why(native, monkeypatch):
    from flatline.collector.waits import reading

    def refused(proc, pid):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(reading, "Memory", refused)
    stuck, _, pids = native("mutex")
    judged = Judged(*pids)
    assert judged.edge(stuck).strength == "suggested"
    (end,) = judged.store.rows("ends")
    assert end.kind == "cut"
    assert "its memory may not be read" in end.why
    assert judged.derived.verdict.state != "healthy"
