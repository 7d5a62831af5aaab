"""Python itself lies on a mount that stops answering, as on a file server: ours, in the middle of a collect, or the job's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from end_to_end_support import flatline
from faults.stalling_fuse import StallingMount, stalling_mount, why_not_here
from other_users import environment_for_others
from programs import FIXTURES, wait_until

pytestmark = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "-")

DEADLINE_S = 40
"""For all that can be had, on a host that is busy; whether it holds is the matter of test_all_at_once.py."""
LATE = """
import os, sys

def listen(event, arguments):
    if event == "os.fork":
        listen.forked = True
    if listen.forked and event == "import":
        frame, files = sys._getframe(1), []
        while frame is not None:
            files.append(frame.f_code.co_filename)
            frame = frame.f_back
        if not any(file.endswith(("pynvml.py", "gpu/nvml.py")) for file in files):
            os.write(2, f"LATE {arguments[0]} {files[:5]}\\n".encode())
listen.forked = False
sys.addaudithook(listen)
from flatline.cli import main
sys.exit(main())
"""


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[StallingMount]:
    """Our Python, and flatline with what it needs, on a mount; it answers yet."""
    environment_for_others(tmp_path)
    with stalling_mount(mirrors={"python": Path(sys.base_prefix), "site": tmp_path / "site"}) as made:
        yield made


def python_of(mount: StallingMount) -> tuple[Path, dict[str, str]]:
    """The interpreter as it lies there, and its environment."""
    inside = mount.path / "python"
    env = {**os.environ, "LD_LIBRARY_PATH": str(inside / "lib"), "PYTHONPATH": str(mount.path / "site")}
    return inside / "bin" / Path(sys.executable).resolve().name, env


def contents(bundle: Path) -> tuple[dict[str, dict], list[str]]:
    """The ledger by probe, and the names of all members."""
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None
        return {entry["probe"]: entry for entry in json.loads(archive.read("manifest.json"))["ledger"]}, archive.namelist()


def test_our_own_python_stops_answering_in_the_middle(mount: StallingMount, stuck, left_as_found, tmp_path: Path) -> None:
    """All that is needed of it was had before: its code, its modules; and py-spy is taken from elsewhere."""
    pid = stuck("thread_deadlock")
    left_as_found(pid)
    bundle = tmp_path / "b.flatline.zip"
    python, env = python_of(mount)
    collect = subprocess.Popen(
        [python, "-m", "flatline", "collect", "--pid", str(pid), "-o", bundle, "--deadline", str(DEADLINE_S), "--window", "1"],
        env={**env, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, cwd=tmp_path, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: collect.poll() is not None or bundle.with_name(f"{bundle.name}.part").exists(), what="the bundle is begun", seconds=60)
    mount.stall()
    try:
        out, err = collect.communicate(timeout=3 * DEADLINE_S)
    finally:
        mount.resume()
        collect.kill()
    left_as_found.check()
    assert (collect.returncode, out.strip()) == (0, str(bundle)), err
    ledger, names = contents(bundle)
    assert {"facts/processes.json"} <= set(names)
    assert any(name.startswith("stacks/") for name in names)
    assert {probe for probe, entry in ledger.items() if entry["status"] in ("error", "timeout")} <= {"deep-stacks"}, ledger


def test_nothing_is_imported_once_there_are_children(stuck, tmp_path: Path) -> None:
    """An import asks the file system. What NVIDIA's library needs is imported where nobody waits for it."""
    pid = stuck("thread_deadlock")
    bundle = tmp_path / "b.flatline.zip"
    done = subprocess.run(
        [sys.executable, "-c", LATE, "collect", "--pid", str(pid), "--locals", "-o", bundle, "--window", "1"],
        capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "LATE" not in done.stderr


def test_the_jobs_python_lies_on_a_dead_mount(mount: StallingMount, start, left_as_found, tmp_path: Path) -> None:
    """No stack can be had, as py-spy reads the interpreter's symbols; everything that /proc tells is there."""
    python, env = python_of(mount)
    ready = tmp_path / "ready"
    with open(tmp_path / "out.log", "w") as out:
        job = start([python, FIXTURES / "stuck" / "thread_deadlock.py"], env={**env, "READY": str(ready)}, cwd=tmp_path, stdout=out, stderr=out)
    wait_until(lambda: ready.exists() and ready.read_text(), what="the job is stuck", seconds=60)
    left_as_found(job.pid)
    mount.stall()
    bundle = tmp_path / "b.flatline.zip"
    try:
        done = flatline("collect", "--pid", job.pid, "-o", bundle, "--deadline", DEADLINE_S, "--window", "1")
        left_as_found.check()
        assert done.code == 0, done.err  # of what started it, which is this Python, there are stacks
        ledger, names = contents(bundle)
        assert {"facts/processes.json", "facts/mounts.json"} <= set(names)
        assert f"no stack of pid {job.pid}: py-spy gave no answer" in ledger["stacks"]["message"], ledger["stacks"]
        assert str(mount.path) in str(ledger["mounts"]), ledger["mounts"]
        assert "state Z)" not in str([entry["left_running"] for entry in ledger.values()]), "what is left is more than a zombie"
    finally:
        mount.resume()
