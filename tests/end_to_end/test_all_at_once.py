"""Everything that can hold a collector up, at once: it ends in time, with all that can be had, and names what it left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from faults.stalling_fuse import StallingMount, stalling_mount, wait_for_state, why_not_here
from other_users import environment_for_others, python_for_others
from programs import FIXTURES, wait_until

pytestmark = [
    pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "-"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may look at every process there is"),
]

DEADLINES_S = (7, 21, 63)
"""Each must hold. What can be had within the first depends on the host: one that is so busy that starting Python takes
most of it gets another try."""
MARK = "FLATLINE_TEST_RUN"
"""In the environment of a collect and all it starts: so what it leaves is found, whoever has adopted it."""
TOOLS = ("nvidia-smi", "py-spy", "pystack", "gdb", "dmesg", "scontrol", "quota", "lsof", "git", "df")
CALLER = """
import os, sys
said, *command = sys.argv[1:]
open(said, "w").close()
sys.stdin.readline()
collect = os.fork()
if not collect:
    os.execv(command[0], command)
os.waitid(os.P_PID, collect, os.WEXITED | os.WNOWAIT)
waited = open(f"/proc/{collect}/schedstat").read().split()[1]
open(said, "w").write(waited)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(collect, 0)[1]))
"""
"""Starts a collect when told to, in the folder where it stands, and writes down for how many ns that one was ready to run
and had no processor (proc(5), schedstat)."""
JOB = """
import os, subprocess, sys, time
print("epoch 0, step 41, loss 2.07", flush=True)
log = open("train.log", "a")
print("epoch 0", file=log, flush=True)
shard = open("data/shard-000.bin", "rb", buffering=0)
reader = os.fork()
open(f"{sys.argv[1]}.{'trainer' if reader else 'reader'}", "w").close()
while not os.path.exists(f"{sys.argv[1]}.go"):
    time.sleep(0.02)
if reader:
    subprocess.Popen(["./script.py"])  # the exec does not come back, and vfork(2) keeps us in D until it does
else:
    os.read(shard.fileno(), 65536)
"""


@dataclass(frozen=True)
class Stuck:
    """A trainer in vfork(2) and its reader, both in D on the mount, which is their folder and holds a log of theirs."""

    pid: int
    reader: int
    mount: StallingMount


@pytest.fixture
def stuck_job(start, tmp_path: Path, left_as_found):
    with stalling_mount() as mount:
        started = tmp_path / "started"
        with open(tmp_path / "stdout.log", "w") as out:
            job = start(
                [sys.executable, "-u", "-c", JOB, started], cwd=mount.path, stdout=out, stderr=out,
                env={**os.environ, "SLURM_JOB_ID": "4242"},
            )  # fmt: skip
        wait_until(lambda: all(Path(f"{started}.{who}").exists() for who in ("trainer", "reader")), what="the job starts")
        reader = int(Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text())
        yield Stuck(job.pid, reader, mount), started
        left_as_found.release(job.pid)
        left_as_found.release(reader)


def misbehaving(folder: Path, *tools: str) -> Path:
    """A folder for PATH in which these are tools at their worst."""
    folder.mkdir()
    for tool in tools:
        script = folder / tool
        script.write_text(f"#!/bin/sh\nexec {sys.executable} {FIXTURES}/faults/stubborn_tool.py\n")
        script.chmod(0o755)
    return folder


class Collect:
    """One collect that begins in the job's folder, its output captured; `finish` lets it begin."""

    def __init__(self, name: str, python: str, deadline_s: int, job: Stuck, folder: Path, env: dict[str, str]) -> None:
        self.deadline_s = deadline_s
        name = f"{name}-{deadline_s}"
        self.mark, self.bundle = f"{os.getpid()}-{name}", folder / f"{name}.flatline.zip"
        self.said = folder / f"{name}.said"
        begin = "import sys; sys.path.pop(0); from flatline.cli import main; sys.exit(main())"
        command = [
            python, "-c", begin, "collect", "--pid", job.pid, "--log", job.mount.path / "train.log",
            "-o", self.bundle, "--deadline", deadline_s,
        ]  # fmt: skip
        self.caller = subprocess.Popen(
            [sys.executable, "-c", CALLER, self.said, *map(str, command)], cwd=job.mount.path,
            env={**env, MARK: self.mark, "TMPDIR": str(folder)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_until(self.said.exists, what="its caller stands in the job's folder")

    def finish(self) -> tuple[float, int, str, str]:
        """Seconds, exit code and what was captured; like subprocess.run, this waits for every holder of the pipes."""
        began = time.monotonic()
        out, err = self.caller.communicate("go\n", timeout=90)
        return time.monotonic() - began, self.caller.returncode, out, err

    def waited_s(self) -> float:
        """How long this host let it wait for a processor, all in all."""
        return int(self.said.read_text()) / 1e9

    def left(self) -> set[int]:
        """What still runs of it."""
        wanted = f"{MARK}={self.mark}".encode()
        return {int(name) for name in filter(str.isdigit, os.listdir("/proc")) if wanted in environ(name).split(b"\0")}


def environ(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def test_all_at_once_and_once_more_without_any_stack(stuck_job, left_as_found, tmp_path: Path) -> None:
    job, started = stuck_job
    worst = {**os.environ, "PATH": f"{misbehaving(tmp_path / 'worst', *TOOLS)}:{os.environ['PATH']}"}
    # Beside this Python there is no py-spy of ours, so that the one in PATH is taken, which never answers.
    elsewhere = environment_for_others(tmp_path)
    elsewhere["PATH"] = f"{tmp_path / 'worst'}:{os.environ['PATH']}"
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else python_for_others()
    rounds = [
        (Collect("ours", sys.executable, seconds, job, tmp_path, worst), Collect("none", python, seconds, job, tmp_path, elsewhere))
        for seconds in DEADLINES_S
    ]
    job.mount.stall()
    Path(f"{started}.go").touch()
    for pid in (job.pid, job.reader):
        wait_for_state(pid, "D")
        left_as_found(pid)
    try:
        for collects in rounds:
            with ThreadPoolExecutor(2) as pool:
                codes = list(pool.map(collected_in_time, collects))
            left_as_found.check()
            if codes == [0, 3] and all(map(has_what_can_be_had, collects)):
                break
        assert codes == [0, 3], "stacks of ours; and none from a py-spy that never answers"
        for collect in collects:
            assert has_what_can_be_had(collect), (collect.bundle, ledger_of(collect))
        assert re.search(r"py-spy gave no answer.*/proc only", ledger_of(collects[1])["stacks"]["message"])
    finally:
        job.mount.resume()
        for pid in (pid for collects in rounds for collect in collects for pid in collect.left()):
            os.kill(pid, signal.SIGKILL)
    # A stop that somebody left pending would show only now.
    for pid in (job.reader, job.pid):
        wait_until(lambda pid=pid: has_ended(pid), what="the job goes on and ends")


def collected_in_time(collect: Collect) -> int:
    """The exit code of one that kept its deadline, wrote a whole bundle, and left nothing but what its ledger names.

    The deadline is a promise in seconds of the wall clock, counted from the start of the program. Nothing is added but
    what no program can help: the time that it was ready to run, and the host ran others.
    """
    took, code, out, err = collect.finish()
    assert took < collect.deadline_s + collect.waited_s(), err
    assert out.strip() == str(collect.bundle), err
    with zipfile.ZipFile(collect.bundle) as archive:
        assert archive.testzip() is None
    left = [text for entry in ledger_of(collect).values() for text in entry["left_running"]]
    named = {int(pid) for text in left for pid in re.findall(r"pid (\d+)", text)}
    wait_until(lambda: collect.left() <= named, what=f"nothing runs but what the ledger names ({left})")
    return code


def has_what_can_be_had(collect: Collect) -> bool:
    """/proc and the log that lies on a disk that answers; where the mount is concerned, the ledger says so."""
    with zipfile.ZipFile(collect.bundle) as archive:
        logs = b"".join(archive.read(each) for each in archive.namelist() if each.startswith("logs/"))
        rows = json.loads(archive.read("facts/processes.json"))["tables"]["processes"]
    states = {row["state"] for row in rows if row["relation"] == "target"}
    refused = str(ledger_of(collect)["logs"])
    return b"epoch 0, step 41, loss 2.07" in logs and states == {"D"} and "train.log" in refused


def ledger_of(collect: Collect) -> dict[str, dict]:
    with zipfile.ZipFile(collect.bundle) as archive:
        return {entry["probe"]: entry for entry in json.loads(archive.read("manifest.json"))["ledger"]}


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
