"""How a job is, as far as one look at a queue, a listing, a trace or a counter tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from flatline.analyzer.derive import derive
from flatline.analyzer.derive.looks import told_by_looks, told_by_stacks
from flatline.analyzer.findings import Verdict
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.judge.samples import sample_store

PODS = "NAME          READY   STATUS    RESTARTS   AGE\nfit-0         {ready}     {state}   0          42m\n"
POD = """\
Name:             fit-0
Namespace:        ml
Node:             <none>
Status:           Pending
Containers:
  fit:
    Image:      registry.example/fit:1
Events:
  Type     Reason            Age    From               Message
  ----     ------            ----   ----               -------
  Warning  FailedScheduling  5m     default-scheduler  0/6 nodes are available: 6 Insufficient nvidia.com/gpu.
"""
QUEUE = """\
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
             81234       gpu      fit      ana {state}       {time}      8 {reason}
"""
CONTAINERS = """\
CONTAINER ID   IMAGE     COMMAND           CREATED       STATUS                     PORTS     NAMES
0a1b2c3d4e5f   fit:1     "python fit.py"   2 hours ago   {status}             fit
"""
PS = """\
USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
ana         4242  3.0  1.0 123456 65432 pts/0    {state}   10:00   0:10 python fit.py
"""
TRACE = """\
[pid  2146] 11:52:08 accept4(27,  <unfinished ...>
[pid  2173] 11:52:08 recvfrom(29,  <unfinished ...>
"""
GIT = "Receiving objects: 100% (8/8), 2.07 MiB | 1.12 MiB/s, done.\nUpdating files:  17% (90/520)"


def verdict_of(tmp_path: Path, text: str) -> Verdict:
    (tmp_path / "pasted.txt").write_text(text)
    with open_case([tmp_path]) as case:
        return derive(case).verdict


LOOKS = {
    "a pod that is pending": ("waiting", PODS.format(ready="0/1", state="Pending")),
    "a pod that no node can take": ("waiting", POD),
    "a pod whose image has not come": ("waiting", PODS.format(ready="0/1", state="ContainerCreating")),
    "a pod that ends again and again": ("crashed", PODS.format(ready="0/1", state="CrashLoopBackOff")),
    "a container that has ended with a status": ("crashed", CONTAINERS.format(status="Exited (1) 5 minutes ago")),
    "a container that has done its work": ("unknown", CONTAINERS.format(status="Exited (0) 5 minutes ago")),
    "a job in the queue": ("waiting", QUEUE.format(state="PD", time="0:00", reason="(Resources)")),
    "a trace in which all wait for peers": ("waiting", TRACE),
    "a stack that sleeps": ("waiting", "#0  time_sleep ()\n#31 THPFunction_apply ()\n"),
    "git that checks out": ("waiting", GIT),
    "a process that the listing shows as stopped": ("hung", PS.format(state="T ")),
    "a trace of what nobody takes": ("hung", 'strace: Process 2146 attached\nwrite(2, "step 9"..., 6'),
    "a trace of what is taken": ("unknown", 'strace: Process 2146 attached\nwrite(2, "step 9"..., 6) = 6\nbrk(NULL) = 0x55\n'),
    "a pod that runs": ("unknown", PODS.format(ready="1/1", state="Running")),
    "a job that runs": ("unknown", QUEUE.format(state="R ", time="9:01", reason="n[1-8]")),
    "one listing with a process in the kernel": ("unknown", PS.format(state="D+")),
    "git that is done": ("unknown", "Updating files: 100% (520/520), done.\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOKS)
def test_one_look_tells_that_somebody_waits_and_never_that_nothing_will_end_it(tmp_path: Path, name: str) -> None:
    state, text = LOOKS[name]
    verdict = verdict_of(tmp_path, text)
    assert verdict.state == state, verdict.because


def test_a_list_in_which_another_job_runs_says_nothing_of_this_one() -> None:
    rows = [{"kind": "slurm", "job": "1", "state": "PENDING"}, {"kind": "slurm", "job": "2", "state": "RUNNING"}]
    store, _ = sample_store({"scheduler": rows})
    assert list(told_by_looks(store)) == []


def test_a_thread_that_stands_in_its_own_code_speaks_against_a_wait_for_somebody_outside() -> None:
    threads = [
        {"pid": 5, "tid": 5, "syscall": {"name": "accept", "args": [3]}},
        {"pid": 5, "tid": 6, "stack": ["fit.py:9 step"]},
    ]
    store, _ = sample_store({"threads": threads, "processes": [{"pid": 5}]})
    assert list(told_by_looks(store)) == []
    store, _ = sample_store({"threads": threads[:1], "processes": [{"pid": 5}]})
    assert [told.state for told in told_by_looks(store)] == ["waiting"]


@pytest.mark.parametrize(("fd", "states"), [(0, ["waiting"]), (7, [])])
def test_a_read_of_standard_input_waits_for_somebody_outside(fd: int, states: list[str]) -> None:
    threads = [{"pid": 5, "tid": 5, "syscall": {"name": "read", "args": [fd], "fd": fd}}]
    store, _ = sample_store({"threads": threads, "processes": [{"pid": 5}]})
    assert [told.state for told in told_by_looks(store)] == states


@pytest.mark.parametrize(("lost", "state"), [(73508, ["degraded"]), (4, [])])
def test_a_network_port_that_loses_packets_degrades_a_job_that_says_no_more(lost: int, state: list[str]) -> None:
    ports = [{"host": "h1", "device": "mlx5_2", "counters": {"local_ack_timeout_err": lost}}]
    store, _ = sample_store({"rdma_ports": ports})
    assert [told.state for told in told_by_looks(store)] == state


DUMP = 'Thread {pid} (active): "MainThread"\n    {frame}\n    main (fit.py:9)\n'


@pytest.mark.parametrize(
    ("frames", "states"),
    [
        (["barrier (torch/distributed/distributed_c10d.py:3683)"], ["hung"]),
        (["synchronize (torch/cuda/__init__.py:566)"], ["hung"]),
        (["encode (tokens.py:40)"], []),
        (["barrier (torch/distributed/distributed_c10d.py:3683)", "encode (tokens.py:40)"], []),
    ],
    ids=["for the other ranks", "for the GPU", "at work", "one rank is at work"],
)
def test_who_uses_a_processor_to_wait_is_not_at_work(tmp_path: Path, frames: list[str], states: list[str]) -> None:
    text = "".join(DUMP.format(pid=40 + n, frame=frame) for n, frame in enumerate(frames))
    (tmp_path / "dump.txt").write_text(text)
    with open_case([tmp_path]) as case:
        derive(case)
        told = told_by_stacks(case.store)
    assert [told.state for told in [told] if told is not None] == states


KERNEL = "#0  0x00007f5cd3140cc1 in sgemm_avx2_kernel () from libmkl_avx2.so\n#1  0x00007f5cd9810c25 in sgemm () from libmkl.so\n"
HELPER = ("    wait (threading.py:331)\n    wait (threading.py:629)\n    run (tqdm/_monitor.py:60)\n"
          "    _bootstrap (threading.py:1002)\n")  # fmt: skip
CUT = (
    "#{n}  _PyEval_EvalFrameDefault () at Python/ceval.c:3110\n#{more}  _PyFunction_FastCallKeywords () at call.c:433\n"
)


@pytest.mark.parametrize(
    "text",
    ['Thread 41 (idle): "Thread-1"\n' + HELPER, CUT.format(n=9, more=10), KERNEL],
    ids=["that rests", "that is cut off above the interpreter", "that computes"],
)
def test_a_stack_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "dump.txt").write_text(text)
    with open_case([tmp_path]) as case:
        derive(case)
        assert told_by_stacks(case.store) is None
