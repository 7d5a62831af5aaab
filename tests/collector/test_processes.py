"""Facts about processes and threads over a window; the processes are real ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flatline.collector.job.learning import LearnProbe
from flatline.collector.job.targets import TargetsProbe
from flatline.collector.linux.procfs import ProcFS
from flatline.collector.linux.tasks import spread
from flatline.collector.probes import processes as module
from flatline.collector.probes.interface import Facts, Gap, Milestone, Result, Target, View
from flatline.collector.probes.processes import Processes
from programs import wait_until

SLEEP = "import time; print('ready', flush=True); time.sleep(600)"


def started(start, code: str, *, wrapper: tuple[str, ...] = (), **options) -> subprocess.Popen:
    process = start([*wrapper, sys.executable, "-c", code], stdout=subprocess.PIPE, **options)
    assert process.stdout.readline().strip() == b"ready"
    return process


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def view_of(*pids: int, window_s: float = 0.2, samples: int = 2, seconds: float = 30) -> View:
    results = [i.value for i in TargetsProbe(pids=pids).gather(View(targets=())) if isinstance(i, Result)]
    targets = results[-1].targets
    env: dict[int, dict[str, str]] = {}
    for item in LearnProbe().gather(View(targets=targets)):
        if isinstance(item, Result):
            env.update(item.value)
    now = time.monotonic_ns()
    return View(
        targets=targets,
        begin_ns=now,
        window_s=window_s,
        samples=samples,
        deadline_ns=now + int(seconds * 1e9),
        env_names=env,
    )


class Gathered:
    """What the probe yielded, merged as the reader does it: a later row replaces the one with its id."""

    def __init__(self, view: View) -> None:
        self.items = list(Processes().gather(view))
        facts = [item for item in self.items if isinstance(item, Facts)]
        self.paths = [item.path for item in facts]
        self.processes = {row.pid: row for item in facts for row in item.tables.get("processes", ())}
        self.threads = {row.tid: row for item in facts for row in item.tables.get("threads", ())}
        self.samples = [row for item in facts for row in item.tables.get("thread_samples", ())]
        self.process_samples = [row for item in facts for row in item.tables.get("process_samples", ())]
        self.gaps = [item for item in self.items if isinstance(item, Gap)]


def test_the_first_pass_is_sent_before_the_window_begins(start):
    job = started(start, SLEEP)
    items = Processes().gather(view_of(job.pid, window_s=60, samples=3))
    sent = []
    for item in items:
        sent.append(item)
        if isinstance(item, Milestone):
            break
    assert [item.path for item in sent if isinstance(item, Facts)] == ["samples/processes.0.jsonl", "facts/processes.json"]


def test_the_library_a_thread_waits_in_is_told_even_when_no_time_is_left_between_the_rounds(start):
    jobs = [started(start, SLEEP) for _ in range(3)]
    found = Gathered(view_of(*(job.pid for job in jobs), window_s=0))
    assert all(found.threads[job.pid].syscall.library for job in jobs)


def test_a_sleeping_process_and_where_it_waits(start):
    job = started(start, SLEEP, env={"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "PATH": os.defpath})
    wait_until(lambda: ProcFS().text(job.pid, "wchan") not in ("", "0"), what="the job sleeps")
    found = Gathered(view_of(job.pid))
    process, thread = found.processes[job.pid], found.threads[job.pid]
    assert (process.rank, process.local_rank, process.world_size, process.role) == (3, 1, 8, "rank")
    assert (process.state, process.is_python, process.environ_state) == ("S", True, "read")
    assert process.python == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert process.exe
    assert (process.cwd, process.root) == (os.getcwd(), "/")
    assert process.argv[1:] == ("-c", SLEEP)
    assert (process.session, process.pgrp, process.tty) == (job.pid, job.pid, "none")
    assert process.pid_namespace.startswith("pid:[")
    assert thread.syscall.name in ("clock_nanosleep", "select", "pselect6")
    assert thread.syscall.timed is True
    assert ".so" in (thread.syscall.library or "")
    assert (thread.is_main, thread.rank, thread.relation) == (True, 3, "target")
    assert [s.sample for s in found.samples if s.thread == thread.id] == [0, 1]
    assert found.paths == ["samples/processes.0.jsonl", "facts/processes.json", "samples/processes.1.jsonl", "facts/threads.1.json"]
    assert not found.gaps


def test_a_read_names_its_descriptor(start):
    job = started(start, "import os; r, w = os.pipe(); print('ready', flush=True); os.read(r, 1)")
    wait_until(lambda: str(ProcFS().text(job.pid, "syscall")).startswith("0 "), what="the job reads")
    call = Gathered(view_of(job.pid)).threads[job.pid].syscall
    assert (call.name, call.path.split(":")[0]) == ("read", "pipe")


def test_a_busy_thread_is_looked_at_often(start):
    job = started(start, "import os; print('ready', flush=True)\nwhile True: os.sched_yield()")
    found = Gathered(view_of(job.pid, window_s=1.0))
    seen = found.threads[job.pid].syscalls_seen
    assert sum(seen.values()) == module.BURSTS
    assert set(seen) & {"running", "sched_yield"}
    before, after = [s for s in found.samples if s.thread == found.threads[job.pid].id]
    assert after.user_ms + after.system_ms > before.user_ms + before.system_ms


def test_a_zombie_tells_how_it_ended(start):
    code = (
        "import os,signal,time\n"
        "for end in (lambda: os._exit(3), lambda: os.kill(os.getpid(), signal.SIGKILL)):\n"
        "    if os.fork() == 0: end()\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    job = started(start, code)
    children = children_of(job.pid)
    wait_until(lambda: all(ProcFS().stat(p).state == "Z" for p in children), what="both children have ended")
    found = Gathered(view_of(job.pid))
    assert [found.processes[pid].exit_status for pid in children] == [3, -9]
    assert {found.processes[pid].state for pid in children} == {"Z"}


def test_a_stopped_process_tells_by_which_signal(start):
    """Field 52 holds it as long as the parent has not asked; this test's process never asks with WUNTRACED."""
    job = started(start, SLEEP)
    os.kill(job.pid, signal.SIGSTOP)
    wait_until(lambda: ProcFS().stat(job.pid).state == "T", what="the job stops")
    process = Gathered(view_of(job.pid)).processes[job.pid]
    assert (process.state, process.stop_signal) == ("T", signal.SIGSTOP)


def test_start_methods_and_the_ranks_of_workers(start, tmp_path):
    code = (
        "import multiprocessing as m, time\n"
        "def work(e): e.set(); time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    for name in ('fork', 'spawn'):\n"
        "        c = m.get_context(name); e = c.Event(); c.Process(target=work, args=(e,)).start(); e.wait(60)\n"
        "    print('ready', flush=True); time.sleep(600)\n"
    )
    (tmp_path / "job.py").write_text(code)
    env = {**os.environ, "RANK": "1", "WORLD_SIZE": "2"}
    job = start([sys.executable, tmp_path / "job.py"], stdout=subprocess.PIPE, env=env)
    assert job.stdout.readline().strip() == b"ready"
    found = Gathered(view_of(job.pid))
    workers = {p.start_method: p for p in found.processes.values() if p.role == "pool-worker"}
    assert set(workers) == {"fork", "spawn"}
    assert {p.rank for p in workers.values()} == {1}


def test_a_process_of_another_namespace_has_both_numbers_and_its_waits_are_mapped(start):
    if os.geteuid() != 0:
        pytest.skip("needs root to make a PID namespace")
    code = "import os,time\npid=os.fork()\nif pid==0: time.sleep(600)\nprint('ready',flush=True); os.waitpid(pid,0)"
    outer = started(start, code, wrapper=("unshare", "-pf"))
    (inner,) = children_of(outer.pid)
    wait_until(lambda: "do_wait" in str(ProcFS().text(inner, "wchan")), what="the inner process waits for its child")
    found = Gathered(view_of(inner))
    child = next(p for p in found.processes.values() if p.ppid == inner)
    assert (found.processes[inner].ns_pid, child.ns_pid) == (1, 2)
    assert found.threads[inner].syscall.target_pid == child.pid
    assert found.threads[inner].ns_tid == 1


def test_a_process_that_ends_in_the_window_is_a_gap(start):
    job = started(start, "print('ready', flush=True); input()", stdin=subprocess.PIPE)
    items, view = [], view_of(job.pid, window_s=0.2, samples=2)
    for item in Processes().gather(view):
        items.append(item)
        if isinstance(item, Milestone):
            job.kill()
            job.wait(20)
    (gap,) = [item for item in items if isinstance(item, Gap)]
    assert gap.message == f"process {job.pid} ({view.targets[0].name}) ended during the window"
    assert gap.target == f"h1/{job.pid}"


def test_a_reused_number_is_never_mixed_up(start):
    job = started(start, SLEEP)
    view = view_of(job.pid)
    stranger = Target(job.pid, view.targets[0].start_ticks - 5, 1, 0, "old", "target", "rank", True, 9.0)
    found = Gathered(View(**{**view.__dict__, "targets": (stranger,)}))
    assert not found.processes
    assert not found.samples
    assert "now belongs to another process" in found.gaps[0].message


def test_threads_beyond_the_limit_are_counted_and_said(start, monkeypatch):
    code = (
        "import threading\nstop=threading.Event()\n"
        "for _ in range(9): threading.Thread(target=stop.wait).start()\nprint('ready', flush=True)\nstop.wait()"
    )
    job = started(start, code)
    monkeypatch.setattr(module, "MAX_TASKS_OF_PROCESS", 4)
    found = Gathered(view_of(job.pid))
    process = found.processes[job.pid]
    assert (process.threads_total, process.threads_read) == (10, 4)
    assert any(gap.message == "4 of 10 threads were read" for gap in found.gaps)
    assert found.threads[job.pid].is_main


def test_on_a_host_too_busy_for_all_threads_the_main_one_is_read(start, monkeypatch):
    code = f"import threading, time\nfor _ in range(9): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n{SLEEP}"
    job = started(start, code)
    monkeypatch.setattr(module, "ROUND_S", 0.0)
    found = Gathered(view_of(job.pid))
    process = found.processes[job.pid]
    assert (process.threads_total, process.threads_read) == (10, 1)
    assert any(gap.message == "1 of 10 threads were read" for gap in found.gaps)
    assert found.threads[job.pid].is_main


def test_the_threads_read_are_the_main_one_and_some_of_every_part():
    assert spread(range(1, 101), 1, 5) == [1, 2, 26, 51, 76]
    assert spread(range(1, 4), 1, 5) == [1, 2, 3]
    assert spread(range(1, 101), 1, 0) == []
    assert spread([], 1, 5) == []


def test_rounds_that_no_longer_fit_are_left_out_and_said(start):
    job = started(start, SLEEP)
    found = Gathered(view_of(job.pid, samples=3, seconds=0.01))
    assert found.paths[:2] == ["samples/processes.0.jsonl", "facts/processes.json"]
    assert any("rounds were left out for lack of time" in gap.message for gap in found.gaps)


AS_ANOTHER = """
import json, os, sys, time
from flatline.collector.probes.interface import Facts, Gap, Result, View
from flatline.collector.probes.processes import Processes
from flatline.collector.job.targets import TargetsProbe
if "nobody" in sys.argv:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
found = [i.value for i in TargetsProbe(pids=(int(sys.argv[1]),)).gather(View(targets=())) if isinstance(i, Result)][-1]
now = time.monotonic_ns()
view = View(targets=found.targets[:1], begin_ns=now, window_s=0.1, samples=2, deadline_ns=now + 60 * 10**9)
items = list(Processes().gather(view))
facts = next(i for i in items if isinstance(i, Facts) and i.path == "facts/processes.json")
(p,), (t,) = facts.tables["processes"], facts.tables["threads"]
gaps = [(i.status, i.message, i.hint) for i in items if isinstance(i, Gap)]
print(json.dumps([p.state, p.exe, p.environ_state, p.start_method, t.wchan, t.syscall, t.cpu_ms is not None, gaps]))
"""


@pytest.mark.parametrize(
    ("wrapper", "who", "help_line"),
    [
        ((), "nobody", "run it with sudo, or as the user the job runs as"),
        (("setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"), "root", "--cap-add SYS_PTRACE"),
    ],
    ids=["nobody", "root-without-ptrace"],
)
def test_without_rights_states_remain_and_one_gap_says_what_would_help(start, wrapper, who, help_line):
    """What the kernel refuses is unknown, and never "not waiting"; one gap for all of it, with the way out."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    job = started(start, SLEEP)
    command = [*wrapper, sys.executable, "-c", AS_ANOTHER, str(job.pid), who]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    state, exe, environ, method, wchan, call, has_cpu, gaps = json.loads(ran.stdout)
    assert (state, exe, environ, method, wchan, call, has_cpu) == ("S", None, "denied", "unknown", None, None, True)
    ((status, message, hint),) = gaps
    assert status == "denied"
    assert message == f"io, syscall, wchan of 1 processes are refused (pid {job.pid})"
    assert help_line in hint
