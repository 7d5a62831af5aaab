"""Recordings of host tools beside hung jobs: the facts in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from flatline.analyzer.intake.blocks import Block
from parsing import blocks_of, rows_of

from flatline.bundle.facts import Fd, Limit, Mount, Process, Scheduler, Socket, Thread

PASTED = Path(__file__).parents[3] / "fixtures" / "pasted"


def block(name: str, kind: str) -> Block:
    return next(b for b in blocks_of((PASTED / name).read_text()) if b.kind == kind)


def test_a_hung_torchrun_job_by_ps_with_wchan():
    rows = {p.pid: p for p in rows_of(block("ps/wchan-torchrun.txt", "ps"), Process)}
    assert (rows[7].role, rows[10].ppid, rows[24].ppid) == ("launcher", 7, 10)
    threads = {t.pid: t for t in rows_of(block("ps/wchan-torchrun.txt", "ps"), Thread)}
    assert (threads[10].wchan, threads[10].state) == ("futex_do_wait", "S")


def test_the_threads_of_a_hung_torchrun_job():
    found = block("ps/threads-torchrun.txt", "ps")
    assert (len(rows_of(found, Process)), len(rows_of(found, Thread))) == (7, 26)
    assert {p.pid for p in rows_of(found, Process) if p.role == "dataloader-worker"} == {24, 26}


def test_a_stopped_process():
    (process,) = rows_of(block("ps/stopped.txt", "ps"), Process)
    assert (process.state, process.pid, process.is_python) == ("T", 143, True)


def test_the_processes_of_ray_are_all_there():
    assert len(rows_of(block("ps/ray.txt", "ps"), Process)) == 21


def test_open_files():
    found = block("lsof/plain.txt", "lsof")
    (process,) = rows_of(found, Process)
    assert (process.pid, process.cwd, process.exe) == (102, "/workspace", "/opt/python-3.10.13/bin/python3.10")
    assert {fd.kind for fd in rows_of(found, Fd)} >= {"pipe", "socket"}


@pytest.mark.parametrize("name", ["ss/tanp.txt", "ss/tanpoi.txt"])
def test_sockets_of_two_ranks(name: str):
    found = block(name, "ss")
    assert len(rows_of(found, Socket)) == 13
    assert {fd.process for fd in rows_of(found, Fd)} >= {"h1/10", "h1/11", "h1/24", "h1/26"}


def test_file_systems_and_limits():
    shm = next(row for row in rows_of(block("df/hT.txt", "df"), Mount) if row.path == "/dev/shm")
    assert (shm.kind, shm.size) == ("tmpfs", 24 << 30)
    assert next(row.inodes for row in rows_of(block("df/i.txt", "df"), Mount) if row.path == "/") == 16777216
    limits = {row.name: row for row in rows_of(block("ulimit/low.txt", "ulimit"), Limit)}
    assert limits["locked memory"].soft == 64 * 1024


def test_a_queue_and_a_job_that_waits():
    states = {row.job: (row.state, row.reason) for row in rows_of(block("slurm/squeue-long.txt", "squeue"), Scheduler)}
    assert (states["2"], states["1"]) == (("PENDING", "Dependency"), ("RUNNING", None))
    (job,) = rows_of(block("slurm/scontrol-job.txt", "scontrol-job"), Scheduler)
    assert (job.job, job.state, job.reason) == ("2", "PENDING", "Dependency")
