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


@pytest.mark.parametrize(
    "head",
    [
        "",
        "#!/usr/bin/env python3\n# -*- coding: latin-1 -*-\n# a caf\xe9\n",
        "from __future__ import annotations\n",
        '#!/usr/bin/env python3\n"""What it\n\ndoes."""\n\nfrom __future__ import (\n    annotations,\n)\nfrom __future__ import division; x = 1\n',
        "'what it does'; x = (\n    1)\n",
        "'only this'",
    ],
    ids=["plain", "interpreter and encoding", "future", "docstring and futures", "semicolon", "no line end"],
)
def test_a_script_gets_the_lines_where_they_may_stand(tmp_path, head):
    tail = "" if head == "'only this'" else "import threading as t\nprint(t is threading, flatline_mark.__doc__)\n"
    (tmp_path / "job.py").write_bytes((head + tail).encode("latin-1"))
    done = subprocess.run([sys.executable, "-m", "flatline", "snippet", "job.py"], cwd=tmp_path, capture_output=True, timeout=60, check=True)
    (tmp_path / "marked.py").write_bytes(done.stdout)
    assert SNIPPET.encode() in done.stdout
    assert done.stdout.startswith(b"#!/usr/bin/env python3\n") == head.startswith("#!")
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "marked.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.stderr, ran.stdout.startswith("True ")) == ("", bool(tail))


def test_what_is_no_script_is_refused_with_a_line(tmp_path):
    (tmp_path / "job.py").write_text("def (\n")
    for name, why in (("job.py", "invalid syntax"), ("none.py", "No such file or directory")):
        done = subprocess.run([sys.executable, "-m", "flatline", "snippet", name], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, why in done.stderr) == (2, "", True), done.stderr


def test_the_command_prints_it():
    done = subprocess.run([sys.executable, "-m", "flatline", "snippet"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == SNIPPET
