"""The job is gone; what it left still makes a bundle, and the bundle a report."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from end_to_end_support import flatline
from programs import wait_until

NO_SUCH_PID = 4_000_000


def names(bundle: Path) -> list[str]:
    with zipfile.ZipFile(bundle) as archive:
        return archive.namelist()


def text(bundle: Path, name: str) -> str:
    with zipfile.ZipFile(bundle) as archive:
        return archive.read(name).decode()


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The folder of a job that has ended."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "train.log").write_text("step 1 loss 2.31\nAPI_TOKEN=kloster-42-Zeppelin\nstep 2 loss 2.07\n")
    (folder / "cache.lock").touch()
    return folder


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """A core dump of a Python that was killed by SIGSEGV: the kernel's, or where it pipes them away gdb's."""
    folder = tmp_path / "dumped"
    folder.mkdir()
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    if not pattern.startswith("core") or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        return core_by_gdb(folder)
    code = "import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)); os.kill(os.getpid(), 11)"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, timeout=60, check=False)
    assert done.returncode == -signal.SIGSEGV
    return wait_until(lambda: next(iter(folder.iterdir()), None), what="the core dump is written")


def core_by_gdb(folder: Path) -> Path:
    if shutil.which("gdb") is None:
        pytest.skip("this host keeps no core dumps, and gdb is not installed")
    code = "import os; os.kill(os.getpid(), 11)"
    look = ["gdb", "-batch", "-nx", "-ex", "run", "-ex", f"generate-core-file {folder}/core"]
    subprocess.run([*look, "--args", sys.executable, "-c", code], stdin=subprocess.DEVNULL, timeout=90, check=True)
    return folder / "core"


def analyzed(bundle: Path) -> dict:
    done = flatline("analyze", bundle, "--format", "json")
    assert done.code in (0, 10, 11), done.err
    return json.loads(done.out)


def test_log_and_folder_make_a_bundle_without_any_process(left: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "gone.flatline.zip"
    done = flatline("collect", "--log", left / "train.log", "--cwd", left, "-o", bundle, "--window", 0.2)
    assert done.code == 0, done.err
    logs = [name for name in names(bundle) if name.startswith("logs/")]
    assert "step 2 loss 2.07" in text(bundle, logs[0])
    assert "kloster" not in text(bundle, logs[0])
    assert "cache.lock" in text(bundle, "raw/given-folder.txt")
    assert json.loads(text(bundle, "manifest.json"))["targets"] == []
    report = analyzed(bundle)
    assert report["verdict"]["state"] == "unknown"
    assert "no thread of the job is in the bundle" in report["verdict"]["because"]
    html = flatline("analyze", bundle, "--format", "html", "-o", tmp_path / "report.html")
    assert html.code in (0, 10, 11), html.err
    assert "train.log" in (tmp_path / "report.html").read_text()


def test_a_pid_that_has_ended_is_made_up_for_by_what_it_left(left: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "gone.flatline.zip"
    done = flatline("collect", "--pid", NO_SUCH_PID, "--log", left / "train.log", "-o", bundle, "--window", 0.2)
    assert done.code == 0, done.err
    assert f"there is no process {NO_SUCH_PID}: only what the job left is taken" in done.err


def test_a_mistaken_pid_is_an_error_all_the_same(left: Path, tmp_path: Path) -> None:
    """A thread's number, or the kernel's: the job is not gone, the person meant another number."""
    done = flatline("collect", "--pid", 2, "--log", left / "train.log", "-o", tmp_path)
    assert done.code == 4
    assert list(tmp_path.glob("*.zip")) == []


def test_nothing_of_what_was_named_is_there(tmp_path: Path) -> None:
    bundle = tmp_path / "gone.flatline.zip"
    done = flatline("collect", "--cwd", tmp_path / "no", "--core", tmp_path / "nor-this", "-o", bundle, "--window", 0.2)
    assert done.code == 3
    assert "there is no such file or folder" in done.err
    assert analyzed(bundle)["verdict"]["state"] == "unknown"


def test_a_core_dump_says_who_died_of_what_and_where(core: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "gone.flatline.zip"
    done = flatline("collect", "--core", core, "-o", bundle, "--window", 0.2)
    assert done.code == 0, done.err
    assert "signal: 11" in text(bundle, "raw/core-1.txt")
    process = json.loads(text(bundle, "facts/core-1.json"))["tables"]["processes"][0]
    assert (process["exit_status"], process["state"], process["relation"]) == (-11, "X", "target")
    report = analyzed(bundle)
    assert report["verdict"]["state"] == "crashed"
    assert "killed by signal 11" in " ".join(report["verdict"]["because"])


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_the_stack_in_a_core_dump_is_in_the_bundle(core: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "gone.flatline.zip"
    assert flatline("collect", "--core", core, "-o", bundle, "--window", 0.2).code == 0
    found = [name for name in names(bundle) if name.startswith("stacks/core-1.")]
    frames = [frame for name in found for frame in json.loads(text(bundle, name))["tables"]["frames"]]
    assert any("kill" in frame["function"] for frame in frames if frame.get("kind") == "native")
    assert any(name.startswith("raw/core-1-") for name in names(bundle))


def test_a_cut_core_dump_is_still_looked_at(core: Path, tmp_path: Path) -> None:
    cut = tmp_path / "core.cut"
    cut.write_bytes(core.read_bytes()[:100])
    bundle = tmp_path / "gone.flatline.zip"
    done = flatline("collect", "--core", cut, "-o", bundle, "--window", 0.2)
    assert done.code == 0, done.err
    assert "the dump was cut" in text(bundle, "raw/core-1.txt")
    assert "remains: partial" in done.err


def test_locals_reach_the_bundle_redacted(start, left_as_found, tmp_path: Path) -> None:
    code = (
        "import threading\n"
        "def train(password, batch):\n"
        "    print('ready', flush=True)\n"
        "    threading.Event().wait()\n"
        "train('kloster-42-' + 'Zeppelin', (1, 2, 3))\n"
    )
    job = start([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert job.stdout.readline()
    pid = job.pid
    left_as_found(pid)
    bundle = tmp_path / "locals.flatline.zip"
    done = flatline("collect", "--pid", pid, "--locals", "-o", bundle, "--window", 0.5)
    assert done.code == 0, done.err
    frames = json.loads(text(bundle, f"stacks/{pid}.all-locals.json"))["tables"]["frames"]
    train = next(frame for frame in frames if frame["function"] == "train")
    assert train["locals"]["batch"] == "(1, 2, 3)"
    assert "Zeppelin" not in text(bundle, f"stacks/{pid}.all-locals.json")
    left_as_found.check()
