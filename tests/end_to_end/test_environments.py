"""Jobs in environments that uv and conda made, started by their commands: recorded as any other, and they notice nothing.

uv is the real one, without network. So is conda's code, but its channels cannot be had here: its environment is made by
hand, a prefix of its own with a Python, as conda lays it out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from end_to_end_support import flatline
from programs import ROOT, wait_until
from python_jobs import install, make_prefix

from flatline.bundle.reader import open_bundle

UV = Path(sys.executable).with_name("uv")
CONDA = ROOT / ".make" / "conda" / "bin" / "conda"
RUN = (sys.executable, "-m", "flatline", "run", "--quiet", "--")
JOB = """\
import os, sys
import carrier
print(sys.prefix, carrier.__version__, os.environ.get("OWN_START"), os.environ.get("ACTIVATED"))
print("to the other stream", file=sys.stderr)
sys.exit(7)
"""
HANGS = """\
import flatline, threading
import carrier
with flatline.phase("wait for the carrier"):
    open("ready", "w").close()
    threading.Event().wait()
"""
INLINE = '# /// script\n# requires-python = ">=3.9"\n# dependencies = []\n# ///\n'
PROJECT = '[project]\nname = "job"\nversion = "0"\nrequires-python = ">=3.9"\n'


@dataclass
class Environment:
    """One with a package and a start of its own, and what runs `python` in it."""

    prefix: Path
    folder: Path
    start: tuple[str | Path, ...]
    env: dict[str, str]

    def add(self, site: Path) -> None:
        install(site, "carrier", "1.4", {"carrier/__init__.py": "__version__ = '1.4'\n"})
        (site / "sitecustomize.py").write_text("import os\nos.environ['OWN_START'] = 'its own start'\n")

    def run(self, argv: Sequence[str | Path], program: str = JOB) -> subprocess.CompletedProcess[str]:
        """To its end, below `flatline run`."""
        (self.folder / "job.py").write_text(program)
        return subprocess.run([*RUN, *argv], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=120, check=False)

    def told(self) -> str:
        """What the recorders of all its processes told."""
        return (self.folder / "recorder.log").read_text()


def job_environment(folder: Path, **more: str) -> dict[str, str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("FLATLINE_", "CONDA", "UV_", "VIRTUAL_ENV"))}
    log = {"FLATLINE_RECORDER_LINES": str(folder / "recorder.log"), "TMPDIR": str(folder), "HOME": str(folder)}
    return {**plain, **log, **more}


@pytest.fixture
def uv(tmp_path):
    if not UV.exists():
        pytest.skip("needs uv")
    env = job_environment(tmp_path, UV_CACHE_DIR=str(tmp_path / "cache"), UV_OFFLINE="1", UV_PYTHON=sys.executable)
    made = Environment(tmp_path / "env", tmp_path, (UV, "run", "--no-project", "--python", tmp_path / "env", "--", "python"), env)
    subprocess.run([UV, "venv", "--quiet", "--no-project", "--python", sys.executable, made.prefix], env=env, check=True, timeout=120)
    made.add(next(made.prefix.glob("lib/python3*/site-packages")))
    return made


@pytest.fixture
def conda(tmp_path):
    if not CONDA.exists():
        pytest.skip("needs conda's code: make .make/conda")
    prefix = tmp_path / "env"
    python, site = make_prefix(prefix)
    (prefix / "bin" / "python").symlink_to(python.name)
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / "history").touch()
    (prefix / "conda-meta" / "libcarrier-2.0-h1_0.json").write_text('{"files": []}')
    (prefix / "etc" / "conda" / "activate.d").mkdir(parents=True)
    (prefix / "etc" / "conda" / "activate.d" / "carrier.sh").write_text("export ACTIVATED=by-its-script\n")
    made = Environment(prefix, tmp_path, (CONDA, "run", "--no-capture-output", "-p", prefix, "python"), job_environment(tmp_path))
    made.add(site)
    return made


# --- uv ---


def test_uv_run_in_an_environment_that_uv_made(uv):
    done = uv.run([*uv.start, "job.py"])
    assert (done.returncode, done.stdout, done.stderr) == (7, f"{uv.prefix} 1.4 its own start None\n", "to the other stream\n")
    assert "import-leave carrier 1.4" in uv.told()


def test_uv_run_in_the_environment_that_is_active(uv):
    uv.env |= {"VIRTUAL_ENV": str(uv.prefix)}
    del uv.env["UV_PYTHON"]
    done = uv.run([UV, "run", "--no-project", "--active", "job.py"])
    assert (done.returncode, done.stdout) == (7, f"{uv.prefix} 1.4 its own start None\n")
    assert "import-leave carrier 1.4" in uv.told()


def test_uv_run_of_a_project_makes_its_environment_and_the_job_is_recorded(uv):
    (uv.folder / "pyproject.toml").write_text(PROJECT)
    done = uv.run([UV, "run", "--quiet", "python", "-c", "import sys, flatline\nwith flatline.phase('a'): print(sys.prefix)"])
    assert (done.returncode, done.stdout) == (0, f"{uv.folder}/.venv\n"), done.stderr
    assert "phase-leave a" in uv.told()


def test_uv_run_of_a_script_that_names_its_packages_itself(uv):
    done = uv.run([UV, "run", "--quiet", "--script", "job.py"], INLINE + "import flatline\nwith flatline.phase('a'): raise SystemExit(3)\n")
    assert done.returncode == 3, done.stderr
    assert "phase-leave a" in uv.told()


# --- conda ---


def test_conda_run_activates_the_environment_and_the_job_is_recorded(conda):
    done = conda.run([*conda.start, "job.py"])
    assert (done.returncode, done.stdout) == (7, f"{conda.prefix} 1.4 its own start by-its-script\n")
    assert done.stderr.startswith("to the other stream\n")
    assert "import-leave carrier 1.4" in conda.told()


def test_conda_run_that_keeps_the_output_until_the_end(conda):
    done = conda.run([CONDA, "run", "-p", conda.prefix, "python", "job.py"])
    assert (done.returncode, done.stdout) == (7, f"{conda.prefix} 1.4 its own start by-its-script\n\n")
    assert "import-leave carrier 1.4" in conda.told()


def test_conda_activate_in_a_shell_below_run(conda):
    script = f'eval "$({CONDA} shell.posix hook)"\nconda activate {conda.prefix}\npython job.py\n'
    done = conda.run(["bash", "-c", script])
    assert (done.returncode, done.stdout, done.stderr) == (7, f"{conda.prefix} 1.4 its own start by-its-script\n", "to the other stream\n")
    assert "import-leave carrier 1.4" in conda.told()


# --- and both, when the job hangs ---


@pytest.mark.parametrize("made_by", ["uv", "conda"])
def test_a_hung_job_is_collected_with_the_packages_of_its_environment(made_by, request, start):
    made = request.getfixturevalue(made_by)
    (made.folder / "job.py").write_text(HANGS)
    run = start([*RUN, *made.start, "job.py"], cwd=made.folder, env=made.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until((made.folder / "ready").exists, what="the job hangs", seconds=60)
    bundle = made.folder / "job.flatline.zip"
    done = flatline("collect", "--pid", run.pid, "--window", 1, "-o", bundle)
    assert done.code == 0, done.err
    with open_bundle(bundle) as reader:
        tables = reader.tables().rows
    (phase,) = [row for row in tables["recorder_events"] if row.kind == "phase-open"]
    assert phase.text == "wait for the carrier"
    (job,) = [row for row in tables["processes"] if row.id == phase.process]
    assert job.pid != run.pid
    packages = {row.name: row for row in tables["packages"]}
    assert packages["carrier"].version == "1.4"
    assert packages["carrier"].path.endswith("/site-packages/carrier-1.4.dist-info")
    if made_by == "conda":
        assert packages["libcarrier"].path.endswith("/env/conda-meta/libcarrier-2.0-h1_0.json")
