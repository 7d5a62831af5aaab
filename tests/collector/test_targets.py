"""Facts about which processes a job consists of; the trees are real ones."""

from __future__ import annotations

import json
import os
import pickle
import pty
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from flatline.collector.job.jobtree import own_pids, tree
from flatline.collector.job.learning import LearnProbe
from flatline.collector.job.targets import JobTree, TargetsProbe, find_processes, with_argv
from flatline.collector.linux.patience import Patience
from flatline.collector.linux.procfs import ProcFS, Unread
from flatline.collector.probes.interface import Gap, Result, View
from programs import kill_tree, wait_until

from flatline.errors import NoTargetError

METHODS = """
import multiprocessing, sys, time
def work(ready):
    ready.set(); time.sleep(600)
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        ready = context.Event()
        context.Process(target=work, args=(ready,)).start()
        ready.wait(60)
    print("ready", flush=True)
    time.sleep(600)
"""
SLEEP = "import os, time; os.write(1, b'ready\\n'); time.sleep(600)"  # one write: two programs may share the pipe
ASK = """
import json, sys
from flatline.collector.probes.interface import Result, View
from flatline.collector.job.targets import TargetsProbe
pids, names = json.loads(sys.argv[1]), json.loads(sys.argv[2])
items = TargetsProbe(pids=tuple(pids), names=tuple(names)).gather(View(targets=()))
found = [item.value for item in items if isinstance(item, Result)][-1]
targets, notes = getattr(found, "targets", ()), getattr(found, "notes", (str(found),))
print(json.dumps([{t.pid: t.relation for t in targets}, notes]))
"""


def ask(probe) -> list:
    return list(probe.gather(View(targets=(), own_pids=())))


def job_of(*pids: int, names: tuple[str, ...] = ()) -> JobTree:
    value = [item.value for item in ask(TargetsProbe(pids=pids, names=names)) if isinstance(item, Result)][-1]
    if isinstance(value, NoTargetError):
        raise value
    return value


def asked_elsewhere(*pids: int, names: tuple[str, ...] = ()) -> tuple[dict[int, str], list[str]]:
    """Relations and notes, asked by a process of its own: what descends from the collector is never evidence."""
    asker = [sys.executable, "-c", ASK, json.dumps(pids), json.dumps(names)]
    ran = subprocess.run(asker, capture_output=True, text=True, timeout=60, check=True)
    relations, notes = json.loads(ran.stdout)
    return {int(pid): relation for pid, relation in relations.items()}, notes


def started(start, argv, **options) -> subprocess.Popen:
    process = start(argv, stdout=subprocess.PIPE, **options)
    assert process.stdout.readline().strip() == b"ready"
    return process


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def test_the_tree_holds_forked_spawned_and_served_children_with_their_roles(start, tmp_path):
    (tmp_path / "job.py").write_text(METHODS)
    job = started(start, [sys.executable, tmp_path / "job.py"])
    targets = job_of(job.pid).targets
    assert targets[0].pid == job.pid
    assert targets[0].relation == "target"
    below = [t for t in targets if t.relation == "descendant"]
    roles = sorted(t.role for t in below)
    assert roles == ["other", "pool-worker", "pool-worker", "pool-worker", "resource-tracker"]
    assert [t.start_ticks for t in below] == sorted(t.start_ticks for t in below)
    assert all(t.is_python and t.argv and t.age_s >= 0 for t in below)


def test_a_pid_in_the_middle_brings_the_whole_job(start, tmp_path):
    (tmp_path / "job.py").write_text(METHODS)
    job = started(start, [sys.executable, tmp_path / "job.py"])
    worker = children(job.pid)[0]
    relations = {t.pid: t.relation for t in job_of(worker).targets}
    assert relations[worker] == "target"
    assert relations[job.pid] == "ancestor"
    assert set(children(job.pid)) <= set(relations)


def test_whichever_process_is_named_the_job_and_the_roles_are_the_same(start, tmp_path):
    (tmp_path / "job.py").write_text(METHODS)
    job = started(start, [sys.executable, tmp_path / "job.py"])
    found = [{t.pid: t.role for t in job_of(pid).targets} for pid in (job.pid, *children(job.pid))]
    assert all(one == found[0] for one in found)


def test_a_scripts_other_programs_belong_beside(start, tmp_path):
    script = tmp_path / "run.sh"
    script.write_text(f"{sys.executable} -c \"{SLEEP}\" &\n{sys.executable} -c \"{SLEEP}\" &\nwait\n")
    shell = start(["bash", script], stdout=subprocess.PIPE)
    assert [shell.stdout.readline().strip() for _ in range(2)] == [b"ready", b"ready"]
    first, second = children(shell.pid)
    relations = {t.pid: t.relation for t in job_of(first).targets}
    assert relations[first] == "target"
    assert relations[second] == "sibling"
    assert relations[shell.pid] == "ancestor"


def test_ranks_started_elsewhere_are_found_by_their_rendezvous(start):
    """Two terminals, or a dead launcher: nothing but the environment joins them."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(40000 + os.getpid()), "WORLD_SIZE": "2", "PATH": os.defpath}

    def rank(number: str, **other: str) -> int:
        script = f"{sys.executable} -c \"{SLEEP}\"; true"
        shell = start(["sh", "-c", script], stdout=subprocess.PIPE, env={**meeting, "RANK": number, **other})
        assert shell.stdout.readline().strip() == b"ready"
        return children(shell.pid)[0]

    first, second, stranger, twin = rank("0"), rank("1"), rank("1", MASTER_PORT="1"), rank("0")
    relations, notes = asked_elsewhere(first)
    assert relations[first] == "target"
    assert relations[second] == "sibling"
    assert not {stranger, twin} & set(relations)
    assert f"pid {second}" in notes[0]


def test_jobs_that_one_program_starts_are_told_apart_by_where_their_ranks_meet(start):
    """A sweep starts its jobs as a launcher starts its ranks."""
    rank = ("import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', sys.argv[1]]); child.wait()", SLEEP)
    driver = f"""
import os, subprocess, sys
for port, rank in (("40001", "0"), ("40001", "1"), ("40002", "0"), ("40002", "1")):
    env = {{**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "RANK": rank}}
    subprocess.Popen([sys.executable, "-c", *{rank!r}], env=env)
os.wait()
"""
    program = start([sys.executable, "-c", driver], stdout=subprocess.PIPE, env={"PATH": os.defpath})
    assert [program.stdout.readline().strip() for _ in range(4)] == [b"ready"] * 4
    ranks = sorted(children(program.pid))
    below = {pid: children(pid)[0] for pid in ranks}
    relations, notes = asked_elsewhere(ranks[0])
    mine = {ranks[0]: "target", below[ranks[0]]: "descendant", ranks[1]: "sibling", below[ranks[1]]: "sibling"}
    started_here = {*below, *below.values()}
    assert {pid: relation for pid, relation in relations.items() if pid in started_here} == mine
    strangers = ", ".join(map(str, sorted([*ranks[2:], below[ranks[2]], below[ranks[3]]])))
    assert f"of another job: pid {strangers}" in notes[0]
    third = {"PATH": os.defpath, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "40001", "WORLD_SIZE": "2", "RANK": "2"}
    elsewhere = started(start, [sys.executable, "-c", SLEEP], env=third).pid
    relations, notes = asked_elsewhere(ranks[0])
    assert {pid: relation for pid, relation in relations.items() if pid in started_here} == mine, "none comes back with it"
    assert relations[elsewhere] == "sibling"


def test_a_scripts_pipeline_belongs_to_it_whatever_its_programs_are(start):
    """The one who does not read is as much of the job as the one who writes."""
    shell = start(["bash", "-c", f"{sys.executable} -c \"{SLEEP.replace('write(1', 'write(2')}\" | sleep 613; true"],
                  stderr=subprocess.PIPE)  # fmt: skip
    assert shell.stderr.readline().strip() == b"ready"
    program = next(pid for pid in children(shell.pid) if ProcFS().argv(pid)[-1] != "613")
    found = {t.pid: (t.relation, t.is_of_job) for t in job_of(program).targets}
    (sleeper,) = set(children(shell.pid)) - {program}
    assert found == {program: ("target", True), sleeper: ("sibling", True), shell.pid: ("ancestor", True)}


def test_a_persons_pipeline_is_one_job_and_their_other_jobs_are_not(start):
    """An interactive shell gives every pipeline a process group of its own."""
    shell_pid, terminal = pty.fork()
    if shell_pid == 0:
        os.execvp("bash", ["-bash", "--norc", "--noprofile"])
    try:
        os.write(terminal, b"sleep 611 & sleep 612 | cat\n")

        def by_argument() -> dict[str, int]:
            argvs = {pid: ProcFS().argv(pid) for pid in children(shell_pid)}
            return {argv[-1]: pid for pid, argv in argvs.items() if not isinstance(argv, Unread) and argv}

        found = wait_until(lambda: len(by_argument()) == 3 and "bash" not in by_argument() and by_argument(), what="3 jobs")
        relations = {t.pid: t.relation for t in job_of(found["612"]).targets}
        assert relations == {found["612"]: "target", found["cat"]: "sibling", shell_pid: "ancestor"}
        assert not next(t for t in job_of(found["612"]).targets if t.pid == shell_pid).is_of_job
    finally:
        kill_tree(shell_pid)
        os.close(terminal)
        os.waitpid(shell_pid, 0)


def test_a_node_launcher_and_its_shells_are_above_the_program(start, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node.js")
    launch = f"const p = require('child_process').spawn({sys.executable!r}, ['-c', {SLEEP!r}]);\n"
    (tmp_path / "launch.js").write_text(launch + "p.stdout.on('data', () => console.log('ready'));\n")
    shell = started(start, ["sh", "-c", f"{node} launch.js; true"], cwd=tmp_path)
    (launcher,) = children(shell.pid)
    (program,) = children(launcher)
    found = {t.pid: (t.relation, t.role) for t in job_of(program).targets}
    assert found[program] == ("target", "rank")
    assert found[launcher] == ("ancestor", "launcher")
    assert found[shell.pid] == ("ancestor", "shell")


def test_ranks_in_sessions_of_their_own_belong_to_their_launcher(start, tmp_path):
    """torchrun starts every rank in a new session."""
    (tmp_path / "torchrun").write_text(
        "import subprocess, sys, time\n"
        f"code = {SLEEP!r}\n"
        "for rank in '01': subprocess.Popen([sys.executable, '-c', code], start_new_session=True, stdout=subprocess.PIPE).stdout.readline()\n"
        "print('ready', flush=True); time.sleep(600)\n"
    )
    launcher = started(start, [sys.executable, tmp_path / "torchrun"])
    first, second = children(launcher.pid)
    by_pid = {t.pid: t for t in job_of(first).targets}
    assert {first, second, launcher.pid} <= set(by_pid)
    assert by_pid[launcher.pid].role == "launcher"
    assert by_pid[second].role == "rank"


def test_a_worker_whose_launcher_died_is_found_by_its_session(start):
    """The launcher is killed; its two programs live on under another parent."""
    code = (
        "import subprocess, sys, time\n"
        f"code = {SLEEP!r}\n"
        "for _ in '01': subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE).stdout.readline()\n"
        "print('ready', flush=True); time.sleep(600)\n"
    )
    launcher = started(start, [sys.executable, "-c", code])
    first, second = children(launcher.pid)
    launcher.kill()
    launcher.wait(20)
    try:
        relations = {t.pid: t.relation for t in job_of(first).targets}
        assert relations[first] == "target"
        assert relations[second] == "sibling"
    finally:
        for pid in (first, second):
            os.kill(pid, signal.SIGKILL)


def test_neither_the_first_process_nor_the_collector_is_an_ancestor(start):
    job = started(start, [sys.executable, "-c", SLEEP])
    pids = {t.pid for t in job_of(job.pid).targets}
    assert 1 not in pids
    assert os.getpid() not in pids


def test_who_runs_only_flatline_is_no_evidence_but_the_jobs_own_shell_is(start, tmp_path):
    """A script starts the job, then collects from it: the shell stays, the wrapper and the collector go."""
    tool = tmp_path / "flatline"
    tool.write_text(SLEEP)
    script = f"{sys.executable} -c \"{SLEEP}\" & timeout 600 {sys.executable} {tool} collect; wait"
    shell = start(["bash", "-c", script], stdout=subprocess.PIPE)
    assert [shell.stdout.readline().strip() for _ in range(2)] == [b"ready", b"ready"]
    job, wrapper = children(shell.pid)
    (collector,) = children(wrapper)
    proc = ProcFS()
    processes = with_argv(proc, find_processes(proc), (shell.pid, job, wrapper, collector), Patience())
    relations = tree(processes, [job], me=(collector,))
    assert relations[shell.pid] == "ancestor"
    assert not {wrapper, collector} & set(relations)
    assert set(own_pids(processes, (collector,), keep=relations)) >= {wrapper, collector}
    assert shell.pid not in own_pids(processes, (collector,), keep=relations)


def test_a_process_in_a_namespace_of_its_own_is_collected_from_outside(start):
    if os.geteuid() != 0:
        pytest.skip("needs root to make a PID namespace")
    outer = started(start, ["unshare", "-pf", sys.executable, "-c", SLEEP])
    (inner,) = children(outer.pid)
    relations = {t.pid: t.relation for t in job_of(inner).targets}
    assert relations[inner] == "target"
    assert relations[outer.pid] == "ancestor"


# --- errors ---


@pytest.mark.parametrize(
    ("pid", "what"), [(2**22 + 5, "there is no process"), (2, "is a thread of the kernel")], ids=["gone", "kernel"]
)
def test_what_cannot_be_a_target_says_why_and_what_next(pid, what):
    if pid == 2 and isinstance(ProcFS().stat(2), Unread):
        pytest.skip("no kernel threads are visible here (a container)")
    with pytest.raises(NoTargetError, match=what) as failure:
        job_of(pid)
    assert failure.value.next_step
    again = pickle.loads(pickle.dumps(failure.value))
    assert again.lines() == failure.value.lines()


def test_the_number_of_a_thread_names_its_process(start):
    code = "import threading,time; threading.Thread(target=time.sleep, args=(600,)).start(); print('ready', flush=True)"
    job = started(start, [sys.executable, "-c", code])
    tids = wait_until(lambda: [t for t in os.listdir(f"/proc/{job.pid}/task") if t != str(job.pid)], what="two threads")
    with pytest.raises(NoTargetError, match=f"is a thread of process {job.pid}"):
        job_of(int(tids[0]))


def test_a_zombie_leads_to_what_started_it(start):
    code = "import os,time\npid = os.fork()\nif pid == 0: os._exit(3)\nprint('ready', flush=True); time.sleep(600)"
    parent = started(start, [sys.executable, "-c", code])
    (zombie,) = children(parent.pid)
    wait_until(lambda: ProcFS().stat(zombie).state == "Z", what="the child has ended")
    job = job_of(zombie)
    assert {t.pid: t.relation for t in job.targets}[parent.pid] == "target"
    assert job.notes == (
        f"process {zombie} has already ended (exit status 3); its parent {parent.pid} is looked at",
    )


def test_a_name_finds_the_program_and_not_its_children_nor_the_asker(start, tmp_path):
    """The pattern stands in the asker's own command line too."""
    name = f"job_{os.getpid()}_x.py"
    (tmp_path / name).write_text(METHODS)
    job = started(start, [sys.executable, tmp_path / name])
    relations, _ = asked_elsewhere(names=(f"job_{os.getpid()}*",))
    assert [pid for pid, relation in relations.items() if relation == "target"] == [job.pid]
    assert asked_elsewhere(names=("no such program at all",)) == ({}, ["no process matches --name no such program at all"])


# --- what blocks ---


def test_a_command_line_that_does_not_answer_costs_only_itself(start, monkeypatch):
    job = started(start, [sys.executable, "-c", SLEEP])
    never, real = threading.Event(), ProcFS.argv
    monkeypatch.setattr(ProcFS, "argv", lambda self, pid: never.wait() if pid == job.pid else real(self, pid))
    begin = time.monotonic()
    items = ask(TargetsProbe(pids=(job.pid,)))
    never.set()
    assert time.monotonic() - begin < 20
    (job_tree,) = [item.value for item in items if isinstance(item, Result)][-1:]
    assert job_tree.targets[0].argv == ()
    assert any(isinstance(item, Gap) and "1 command lines did not answer" in item.message for item in items)


def test_environments_are_learnt_one_by_one(start, monkeypatch):
    jobs = [started(start, [sys.executable, "-c", SLEEP], env={"RANK": rank, "PATH": os.defpath}) for rank in "01"]
    never, real = threading.Event(), ProcFS.environ
    monkeypatch.setattr(ProcFS, "environ", lambda self, pid: never.wait() if pid == jobs[0].pid else real(self, pid))
    targets = job_of(*(job.pid for job in jobs)).targets
    items = list(LearnProbe().gather(View(targets=targets)))
    never.set()
    learnt: dict[int, dict[str, str]] = {}
    for item in items:
        if isinstance(item, Result):
            learnt.update(item.value)
    assert jobs[0].pid not in learnt
    assert learnt[jobs[1].pid]["RANK"] == "1"
