"""Whoever calls collect gets a bundle: with its streams closed, twice in one second, or interrupted at the worst moment."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

COLLECT = [sys.executable, "-m", "flatline", "collect", "--window", "0.5"]


@pytest.fixture
def sleeper(start) -> str:
    return str(start(["sleep", "600"]).pid)


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", "<&- >&- 2>&-"])
def test_a_caller_that_has_closed_a_stream_gets_a_bundle(sleeper: str, tmp_path: Path, closed: str) -> None:
    """And nothing that is meant for a person gets into a file that has got the stream's number."""
    bundle = tmp_path / "b.flatline.zip"
    line = f'exec "$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *COLLECT, "--pid", sleeper, "-o", bundle], capture_output=True, timeout=90, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    assert b"Traceback" not in done.stderr
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None


def test_two_collects_in_one_second_into_one_folder_write_two_bundles(sleeper: str, tmp_path: Path) -> None:
    both = [
        subprocess.Popen([*COLLECT, "--pid", sleeper, "-o", f"{tmp_path}/"], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [one.communicate(timeout=90)[0].strip() for one in both]
    assert len(set(said)) == 2
    assert sorted(map(str, tmp_path.glob("*.flatline.zip"))) == sorted(said)


def test_a_folder_whose_name_is_no_text_is_printed_as_it_is(sleeper: str, tmp_path: Path) -> None:
    """The path on standard output is for a script, which must find the bundle there."""
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(folder)
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    command = [*COLLECT, "--pid", sleeper, "-o", folder + b"/b.flatline.zip"]
    done = subprocess.run(command, capture_output=True, timeout=90, check=False, env=strict)
    assert done.returncode in (0, 3), done.stderr
    assert done.stdout == folder + b"/b.flatline.zip\n"
    assert os.path.exists(done.stdout.rstrip())


INTERRUPTED = """
import os, signal, sys
class AtImport:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, AtImport())
from flatline.cli import main
sys.exit(main(["collect"]))
"""


@pytest.mark.parametrize("module", ["flatline.collector.commands", "flatline.redaction", "flatline.collector.job.choice"])
def test_a_ctrl_c_during_the_imports_ends_with_one_line(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, module], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "flatline: interrupted\n")
