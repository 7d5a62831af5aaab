"""A person hides and keeps what they want: with options, in a file, or at the terminal before the bundle is closed."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from end_to_end_support import flatline
from programs import wait_until

PROGRAM = """
import os, sys, time
print("project Nordwind, case-48213, MODE_TOKEN=" + os.environ["MODE_TOKEN"], flush=True)
open("ready", "w").close()
time.sleep(600)
"""


@pytest.fixture
def job(start, tmp_path: Path) -> int:
    (tmp_path / "job.py").write_text(PROGRAM)
    env = {**os.environ, "MODE_TOKEN": "k7Qm2pXv9LwW4d8R", "PROJECT": "Nordwind"}
    with open(tmp_path / "train.log", "w") as log:
        process = start([sys.executable, "job.py"], cwd=tmp_path, stdout=log, stderr=log, env=env)
    wait_until((tmp_path / "ready").exists, what="the job has logged")
    return process.pid


def members(bundle: Path) -> dict[str, str]:
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_what_one_asks_for_is_hidden_and_kept_everywhere(job, tmp_path):
    wishes = tmp_path / "wishes"
    wishes.write_text("hide /case-[0-9]+/\nkeep MODE_TOKEN\n")
    bundle = tmp_path / "b.flatline.zip"
    done = flatline("collect", "--pid", job, "-o", bundle, "--window", 0.5, "--hide", "Nordwind", "--redaction", wishes)
    assert done.code in (0, 3), done.err
    found = members(bundle)
    assert [name for name, text in found.items() if "Nordwind" in text or "case-48213" in text] == []
    log = next(text for name, text in found.items() if name.startswith("logs/"))
    assert "MODE_TOKEN=k7Qm2pXv9LwW4d8R" in log
    assert json.loads(found["redaction.json"])["replacements"]["hidden"] >= 3
    assert json.loads(found["redaction.json"])["artefacts"]


@pytest.mark.parametrize("options", [["--hide", "/(/"], ["--redaction", "/no/such/file"], ["--review"]])
def test_what_makes_no_sense_is_a_usage_error(options, tmp_path):
    done = flatline("collect", "--pid", os.getpid(), "-o", tmp_path / "b.flatline.zip", *options)
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    assert not list(tmp_path.glob("*.zip*"))


def talk(command: list[str], answers: list[str]) -> tuple[int, str]:
    """Run it on a terminal and answer each question; (exit code, all that was shown)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    said, waiting, until = "", list(answers), time.monotonic() + 90
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            more = os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
        if not more:
            break
        said += more
        if said.count("review> ") > len(answers) - len(waiting) and waiting:
            os.write(terminal, waiting.pop(0).encode())
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


def test_at_the_terminal_one_sees_each_artefact_and_hides_more(job, tmp_path):
    bundle = tmp_path / "b.flatline.zip"
    command = [sys.executable, "-m", "flatline", "collect", "--pid", str(job), "-o", str(bundle), "--window", "0.5", "--review"]
    code, said = talk(command, ["?\n", "hide Nordwind\n", "drop 1\n", "hide /(/\n", "1\n", "l\n", "w\n"])
    assert code in (0, 3), said
    assert "k7Qm2pXv9LwW4d8R" not in said
    assert "logs/" in said
    assert "is no regular expression" in said
    assert "left out" in said
    found = members(bundle)
    assert [name for name, text in found.items() if "Nordwind" in text] == []
    for name, text in found.items():
        if name.endswith(".json"):
            json.loads(text)
    assert json.loads(found["manifest.json"])["redaction"] == "complete"
    listed = subprocess.run([sys.executable, "-m", "flatline", "analyze", bundle], capture_output=True, text=True, timeout=90)
    assert listed.returncode in (0, 10, 11), listed.stderr
