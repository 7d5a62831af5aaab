"""Jobs whose environment nobody would make so large, or whose names nobody would give, leave a bundle like any other."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path

from end_to_end_support import flatline
from programs import wait_until

ODD = "odd \n name \x1b[31m\x1b]0;t\x07 \u202e \U0001f600 '\"$(true)`"
PASSWORD = "korrekt-Pferd-9-Batterie"
LARGE = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_STACK, (1 << 26, resource.getrlimit(resource.RLIMIT_STACK)[1]))
os.environ.update({f"FILLER_{number}": "x" * 99_980 for number in range(50)})
os.environ["JOB_PASSWORD"] = sys.argv[1]
os.execv(sys.argv[2], sys.argv[2:])
"""
"""A quarter of the stack's limit is what arguments and environment may take (execve(2))."""
LOGS = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, b"\\x1b[2J\\n\\xf0\\x9f\\x98\\x80", 0, 0, 0)
log = open(sys.argv[1] + ".log", "w")
print("step 1, as", sys.argv[2], file=log, flush=True)
time.sleep(600)
"""


def test_a_secret_at_the_end_of_five_megabytes_of_environment_is_hidden(start, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    start([sys.executable, "-c", LARGE, PASSWORD, sys.executable, "-c", LOGS, tmp_path / "job", PASSWORD], cwd=tmp_path)
    wait_until(lambda: log.exists() and log.read_text(), what="the job logs")
    # It was the argument of what became the job; now only its environment names it as a password.
    bundle = collected(job_with(log), tmp_path)
    with zipfile.ZipFile(bundle) as archive:
        assert not [name for name in archive.namelist() if PASSWORD.encode() in archive.read(name)]
        texts = b"".join(archive.read(name) for name in archive.namelist() if name.startswith("logs/"))
    assert b"step 1, as " in texts


def test_names_that_nobody_would_give_stand_in_the_bundle_and_steer_no_terminal(start, tmp_path: Path) -> None:
    folder = tmp_path / ODD
    folder.mkdir()
    log = folder / f"{ODD}.log"
    start([sys.executable, "-c", LOGS, ODD, ODD], cwd=folder)
    wait_until(lambda: log.exists() and log.read_text(), what="the job logs")
    pid = job_with(log)
    bundle = collected(pid, tmp_path)
    with zipfile.ZipFile(bundle) as archive:
        rows = json.loads(archive.read("facts/processes.json"))["tables"]["processes"]
        logs = {name: archive.read(name) for name in archive.namelist() if name.startswith("logs/")}
        manifest = json.loads(archive.read("manifest.json"))
    entries = [entry for entry in manifest["files"] if entry["path"] in logs]
    (row,) = [row for row in rows if row["pid"] == pid]
    assert row["argv"][-1] == ODD
    assert row["name"] == "\\x1b[2J\\x0a\U0001f600"
    assert any(b"step 1, as odd" in data for data in logs.values()), manifest["ledger"]
    assert all(name.isprintable() and name.isascii() for name in logs)
    assert any("odd" in entry["original_path"] and "name" in entry["original_path"] for entry in entries)
    for form in ("text", "md", "html"):
        told = flatline("analyze", bundle, "--format", form)
        assert told.code in (0, 10, 11), told.err
        assert "\x1b" not in told.out
        assert "\u202e" not in told.out


def job_with(log: Path) -> int:
    """Who has it open."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if any(os.path.samefile(f"/proc/{name}/fd/{fd}", log) for fd in os.listdir(f"/proc/{name}/fd")):
                return int(name)
        except OSError:
            continue
    raise AssertionError(f"nobody has {log} open")


def collected(pid: int, tmp_path: Path) -> Path:
    """The bundle; nothing went wrong in it, though a busy host may have let something run late."""
    bundle = tmp_path / "b.flatline.zip"
    done = flatline("collect", "--pid", pid, "-o", bundle, "--window", 0.2, "--deadline", 90)
    assert done.code == 0, done.err
    assert "\x1b" not in done.err
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None
        ledger = json.loads(archive.read("manifest.json"))["ledger"]
    assert not [entry for entry in ledger if entry["status"] == "error"], ledger
    return bundle
