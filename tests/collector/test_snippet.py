"""What `flatline snippet` prints runs in every Python, and its file is read as what it is."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest
from programs import pythons, real_python, wait_until

from flatline.commands.snippet import SNIPPET

VERSIONS = sorted({".".join(v.split(".")[:2]) for v, _ in pythons()} - {"2.7", "3.6"}, key=lambda v: tuple(map(int, v.split("."))))


@pytest.mark.parametrize("version", VERSIONS)
def test_marks_errors_and_stacks_come_into_one_file(start, tmp_path, version):
    program = (
        "def feed(): raise KeyError('x')\nt = threading.Thread(target=feed); t.start(); t.join()\n"
        "flatline_mark('train')\ndef train(): threading.Event().wait()\ntrain()\n"
    )
    (tmp_path / "job.py").write_text(SNIPPET + program)
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    process = start([real_python(version), "job.py"], cwd=tmp_path, env=env, stderr=subprocess.DEVNULL)
    file = tmp_path / f"flatline-{process.pid}.txt"
    wait_until(lambda: file.exists() and " train\n" in file.read_text(), what="it is marked", seconds=60)
    process.send_signal(50)
    wait_until(lambda: "in train" in file.read_text(), what="the stacks are printed", seconds=60)
    assert "ended with KeyError('x')" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_no_link_that_another_has_laid_is_followed(tmp_path):
    laid = "import os; os.symlink('mine', 'flatline-%d.txt' % os.getpid())\n"
    (tmp_path / "job.py").write_text(laid + SNIPPET)
    (tmp_path / "mine").write_text("kept")
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "job.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert "OSError: [Errno 40]" in done.stderr
    assert (tmp_path / "mine").read_text() == "kept"


def test_the_command_prints_it():
    done = subprocess.run([sys.executable, "-m", "flatline", "snippet"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == SNIPPET
