"""Collecting neither ends a job nor tells more of it than the job's user may know."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path

import pytest
from end_to_end_support import Ran, flatline
from programs import open_to_others, wait_until

LEASES = {
    "a write lease on a lock file": """
f = open("x.lock", "w"); f.write("1"); f.flush()
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
""",
    "a write lease on its open log": """
f = open("train.log", "w"); f.write("step 1\\n"); f.flush()
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
""",
    "a watch on its folder": """
f = open("train.log", "w"); f.write("step 1\\n"); f.flush()
folder = os.open(".", os.O_RDONLY)
fcntl.fcntl(folder, fcntl.F_NOTIFY, fcntl.DN_ACCESS | fcntl.DN_CREATE | fcntl.DN_MULTISHOT)
""",
}


@pytest.fixture
def job(start, tmp_path: Path):
    """Start a job in its own folder from the text of its program; returns its process when it says it is ready."""

    def begin(text: str, **options):
        folder = tmp_path / "job"
        folder.mkdir(exist_ok=True)
        program = tmp_path / "job.py"
        program.write_text(f"import fcntl, os, socket, sys, time\n{text}\nopen(sys.argv[1], 'w').close()\ntime.sleep(600)\n")
        ready = tmp_path / "ready"
        process = start([sys.executable, program, ready], cwd=folder, **options)
        wait_until(lambda: ready.exists() or process.poll() is not None, what="the job is ready", seconds=60)
        if process.poll() is not None:
            pytest.skip("this kernel or file system has no such lease or watch")
        return process

    return begin


def collect(pid: int, bundle: Path, *options: object) -> Ran:
    """Take a bundle, which must be had."""
    done = flatline("collect", "--pid", pid, "-o", bundle, "--window", 0.5, *options)
    assert done.code in (0, 3), done.err
    return done


@pytest.mark.parametrize("program", LEASES.values(), ids=LEASES.keys())
def test_a_job_that_a_reader_would_signal_lives_on(job, tmp_path: Path, program: str) -> None:
    """SIGIO ends a process that has not provided for it, and reading a leased file or a watched folder sends one."""
    process = job(program)
    bundle = tmp_path / "b.flatline.zip"
    collect(process.pid, bundle)
    assert process.poll() is None, f"collecting ended the job: {process.returncode}"
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None


def test_it_says_what_was_left_closed(job, tmp_path: Path) -> None:
    """The lease is named in the ledger; a folder that is only open is no reason to leave anything out."""
    process = job(
        "open('first.log', 'w').write('step 1\\n'); folder = os.open('.', os.O_RDONLY)\n"
        "open_log = open('first.log', 'a')\n" + LEASES["a write lease on its open log"]
    )
    bundle = tmp_path / "b.flatline.zip"
    collect(process.pid, bundle)
    with zipfile.ZipFile(bundle) as archive:
        texts = [archive.read(name) for name in archive.namelist() if name.startswith("logs/")]
        listing = archive.read("raw/cwd-listing.txt").decode()
        ledger = json.loads(archive.read("manifest.json"))["ledger"]
    assert texts == [b"step 1\n"]
    assert "train.log" in listing
    logs = next(entry for entry in ledger if entry["probe"] == "logs")
    assert "has a lease: opening it would signal its holder" in logs["message"]


def test_reading_a_file_leaves_its_access_time(job, tmp_path: Path) -> None:
    process = job("log = open('train.log', 'w'); log.write('step 1\\n'); log.flush()")
    log = tmp_path / "job" / "train.log"
    os.utime(log, (1_000_000_000, 1_000_000_000))  # so old that relatime would renew it
    collect(process.pid, tmp_path / "b.flatline.zip")
    assert log.stat().st_atime == 1_000_000_000


# --- a job of an ordinary user, collected by root ---

NOBODY = 65534
SECRET = "the colleague has logged in at noon"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def texts_of(bundle: Path) -> str:
    with zipfile.ZipFile(bundle) as archive:
        return "\n".join(archive.read(name).decode("utf-8", "replace") for name in archive.namelist())


def ledger_of(bundle: Path) -> dict[str, dict[str, str]]:
    with zipfile.ZipFile(bundle) as archive:
        return {entry["probe"]: entry for entry in json.loads(archive.read("manifest.json"))["ledger"]}


@as_root
def test_what_reads_a_jobs_output_does_not_lend_it_its_rights(job, start, tmp_path: Path) -> None:
    """A job can connect its standard output to any daemon; that daemon's own log is none of its business."""
    open_to_others(tmp_path)
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    daemon = tmp_path / "daemon.py"
    daemon.write_text(
        "import os, socket, sys, time\n"
        f"log = open({str(private / 'auth.log')!r}, 'w'); os.fchmod(log.fileno(), 0o600)\n"
        f"log.write({SECRET!r} + chr(10)); log.flush()\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); s.listen()\n"
        "c, _ = s.accept(); time.sleep(600)\n"
    )
    start([sys.executable, daemon, tmp_path / "socket"])
    wait_until((tmp_path / "socket").exists, what="the daemon listens", seconds=60)
    tmp_path.chmod(0o777)
    process = job(
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        f"s = socket.socket(socket.AF_UNIX); s.connect({str(tmp_path / 'socket')!r}); os.dup2(s.fileno(), 1)"
    )
    bundle = tmp_path / "b.flatline.zip"
    collect(process.pid, bundle)
    assert SECRET not in texts_of(bundle)
    logs = ledger_of(bundle)["logs"]
    assert "auth.log" in logs["message"]
    assert "--log" in logs["hint"]


@as_root
def test_a_launcher_of_root_keeps_its_environment_and_source_to_itself(start, tmp_path: Path) -> None:
    """The bundle is the job's user's; what that user may not read of the processes around is not in it."""
    open_to_others(tmp_path)
    tmp_path.chmod(0o777)
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    launcher = private / "launcher.py"
    launcher.write_text(
        "import subprocess\n"
        f"who = dict(user={NOBODY}, group={NOBODY}, extra_groups=[], env={{'MINE': 'of the job'}})\n"
        "child = subprocess.Popen(['/bin/sleep', '600'], **who)\n"
        "open('ready', 'w').write(str(child.pid))\n"
        f"child.wait()  # {SECRET}\n"
    )
    start([sys.executable, launcher], cwd=tmp_path, env={**os.environ, "PLACE_OF_ROOT": SECRET})
    ready = tmp_path / "ready"
    pid = int(wait_until(lambda: ready.exists() and ready.read_text(), what="the job is ready", seconds=60))
    bundle = tmp_path / "b.flatline.zip"
    collect(pid, bundle)
    texts = texts_of(bundle)
    assert SECRET not in texts
    assert "PLACE_OF_ROOT" not in texts
    assert "of the job" in texts
    assert "launcher.py" in texts, "who it is and where it stands is told"
    assert "are another user's" in ledger_of(bundle)["environment"]["message"]


@as_root
def test_of_roots_own_job_everything_is_taken(start, tmp_path: Path) -> None:
    work = "import time, os; open('ready', 'w').write(str(os.getpid())); time.sleep(600)"
    process = start([sys.executable, "-c", work], cwd=tmp_path, env={**os.environ, "PLACE_OF_ROOT": SECRET})
    wait_until(lambda: (tmp_path / "ready").exists(), what="the job is ready", seconds=60)
    bundle = tmp_path / "b.flatline.zip"
    collect(process.pid, bundle)
    assert SECRET in texts_of(bundle)
