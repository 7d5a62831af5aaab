"""A pid in a lock file is believed on the host and in the container it was written in, and nowhere else."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from flatline.collector.files.lock_authors import Author, Authors, author_in
from flatline.collector.linux.procfs import ProcFS
from job_view import target_of
from programs import wait_until

from flatline.bundle.facts import File

needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare to make a container"
)


@pytest.mark.parametrize(
    ("content", "pid"),
    [
        ("4242", 4242),
        ("  4242 \n", 4242),
        ("pid: 4242 at noon", 4242),
        ("node7 PID=4242", 4242),
        ('{"pid": 4242, "at": 17}', 4242),
        ("4242\n1700000000.5\n", 4242),
        ("", None),
        ("node7", None),
        ("1700000000.5", None),
        ("123456789012", None),
        ("[" * 10_000, None),
        ('{"pid": true}', None),
    ],
)
def test_the_author_is_read_from_the_usual_spellings(content, pid):
    assert author_in(content) == (None if pid is None else Author(pid))


@pytest.mark.parametrize(
    "content",
    [
        "4242\nnode7.cluster\n",
        "4242\nnode7.cluster\n98765\n",
        "filelock/2\npid=4242\nhost=node7.cluster\nmode=exclusive\n",
        "pid: 4242, hostname: node7.cluster",
        "4242@node7.cluster",
        '{"pid": 4242, "hostname": "node7.cluster"}',
    ],
)
def test_the_host_beside_the_pid_is_read(content):
    assert author_in(content) == Author(4242, "node7.cluster")


def test_the_container_that_filelock_writes_behind_the_host_is_read():
    assert author_in("7\nnode7?pidns-f0000abc\n") == Author(7, "node7", "pid:[4026534588]")


def written(content: str, seen_from: int | None = None, age_s: float = 0.0) -> bool | None:
    authors = Authors(target_of(seen_from or os.getpid()), ProcFS())
    return authors.of(File("/x.lock", kind="lock", content=content, age_s=age_s)).author_alive


@pytest.fixture
def ended() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_an_author_of_this_host_lives_or_has_ended(ended):
    here = socket.gethostname()
    assert written(f"{os.getpid()}\n{here}\n") is True
    assert written(f"{ended}\n{here}\n") is False


def test_a_host_is_the_same_with_and_without_its_domain(ended):
    assert written(f"{ended}\n{socket.gethostname().partition('.')[0]}\n") is False


def test_of_an_author_on_another_host_nothing_is_known(ended):
    assert written(f"{ended}\nnode7\n") is None
    assert written(f"{os.getpid()}\nnode7\n") is None


def test_of_an_author_in_another_pid_namespace_nothing_is_known(ended):
    assert written(f"{ended}\n{socket.gethostname()}?pidns-f1234567\n") is None


def test_a_younger_process_with_the_same_number_is_not_the_author():
    assert written(f"{os.getpid()}\n", age_s=10_000_000.0) is False


@pytest.fixture
def contained(start, tmp_path):
    """A process in PID and UTS namespaces of its own, on a host it knows as node7; our number of it. It has a child, whose
    number there, in the file `child`, is one that nobody here has."""
    free = int(Path("/proc/sys/kernel/pid_max").read_text()) - 20
    code = f"""
import os, socket
socket.sethostname("node7")
open("/proc/sys/kernel/ns_last_pid", "w").write("{free}")
child = os.fork()
if child:
    open("child.part", "w").write(str(child))
    os.rename("child.part", "child")
while True:
    os.wait() if child else os.execvp("sleep", ["sleep", "600"])
"""
    outer = start(["unshare", "--pid", "--uts", "--fork", "--mount-proc", sys.executable, "-c", code], cwd=tmp_path)
    wait_until((tmp_path / "child").exists, what="the container runs")
    return int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0])


@needs_namespaces
def test_the_name_and_the_numbers_of_the_job_s_own_container_count(contained, tmp_path):
    child = (tmp_path / "child").read_text()
    assert written(f"{child}\nnode7\n", seen_from=contained) is True
    assert written("99999999\nnode7\n", seen_from=contained) is False
    assert written(f"{child}\n{socket.gethostname()}\n", seen_from=contained) is None


@needs_namespaces
def test_a_number_that_a_process_in_another_container_has_is_not_said_to_have_ended(contained, tmp_path):
    child = (tmp_path / "child").read_text()
    assert not Path(f"/proc/{child}").exists()
    assert written(f"{child}\n") is None
