"""The bundle's own place stops answering, before it is written or while it is: collect ends in time, and says where it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from faults.stalling_fuse import stalling_mount, why_not_here
from programs import wait_until

pytestmark = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "-")

DEADLINE_S = 15
LATE_S = 5
"""What starting and ending a process takes on a busy machine."""


@pytest.fixture
def mount():
    with stalling_mount() as running:
        yield running


@pytest.fixture
def collect(start, tmp_path: Path):
    """Begin to collect a sleeping job; returns the process, and a function that waits for it and gives (path, stderr)."""
    sleeper = start(["sleep", "600"])
    begun: list[subprocess.Popen[str]] = []

    def begin(output: Path, *, tmpdir: Path):
        command = [sys.executable, "-m", "flatline", "collect", "--pid", str(sleeper.pid), "-o", str(output), "--deadline", str(DEADLINE_S)]
        began = time.monotonic()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmpdir)}
        )
        begun.append(process)

        def end() -> tuple[Path, str]:
            out, err = process.communicate(timeout=60)
            took = time.monotonic() - began
            assert process.returncode in (0, 3), err
            assert took < DEADLINE_S + LATE_S, err
            return Path(out.strip()), err

        return process, end

    yield begin
    for process in begun:
        process.kill()
        process.wait(20)


def is_whole(bundle: Path) -> bool:
    with zipfile.ZipFile(bundle) as archive:
        return archive.testzip() is None and "manifest.json" in archive.namelist()


def test_neither_the_wanted_place_nor_tmpdir_answers(mount, collect) -> None:
    """Each is asked once, by a process that can be left there; shared memory and /tmp are not on the mount."""
    mount.stall()
    _, end = collect(mount.path / "b.flatline.zip", tmpdir=mount.path / "data")
    bundle, err = end()
    try:
        assert bundle.parent in (Path("/tmp"), Path("/dev/shm"))
        assert is_whole(bundle)
        assert f"{mount.path} does not answer" in err
    finally:
        bundle.unlink()


def test_a_place_that_dies_as_the_bundle_grows_is_left_with_all_that_was_written(mount, collect, tmp_path: Path) -> None:
    _, end = collect(mount.path / "b.flatline.zip", tmpdir=tmp_path)
    wait_until(lambda: "b.flatline.zip.part" in os.listdir(mount.path), what="the spool is there", seconds=60)
    mount.stall()
    bundle, err = end()
    assert bundle == tmp_path / "b.flatline.zip"
    assert is_whole(bundle)
    assert f"{mount.path} does not answer" in err
    with zipfile.ZipFile(bundle) as archive:
        assert archive.namelist()[0] == "bundle.json"
        assert "facts/processes.json" in archive.namelist()
        ledger = json.loads(archive.read("manifest.json"))["ledger"]
    # A move during the very last publication comes too late for the ledger; stderr has told it in any case.
    assert all("does not answer" in entry["message"] for entry in ledger if entry["probe"] == "output")


def test_a_place_that_dies_after_the_early_publication_keeps_that_bundle(mount, collect, tmp_path: Path) -> None:
    """The final name is absent or whole, at every instant and in both places."""
    early = mount.path / "b.flatline.zip"
    _, end = collect(early, tmpdir=tmp_path)
    wait_until(lambda: "b.flatline.zip" in os.listdir(mount.path), what="the bundle is published early", seconds=60)
    mount.stall()
    bundle, _ = end()
    assert bundle == tmp_path / "b.flatline.zip"
    assert is_whole(bundle)
    mount.resume()
    assert is_whole(early)


def test_a_kill_leaves_a_spool_beside_the_final_name(collect, tmp_path: Path) -> None:
    """The process that writes dies with its parent, and lets go of the spool's lock."""
    folder = tmp_path / "out"
    folder.mkdir()
    process, _ = collect(folder / "b.flatline.zip", tmpdir=tmp_path)
    wait_until(lambda: "b.flatline.zip" in os.listdir(folder), what="the bundle is published early", seconds=60)
    process.kill()
    process.wait(20)
    spool = folder / "b.flatline.zip.part"
    saved = tmp_path / "saved.flatline.zip"
    salvage = [sys.executable, "-m", "flatline", "salvage", str(spool), "-o", str(saved)]
    done = subprocess.run(salvage, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert is_whole(saved)
    assert is_whole(folder / "b.flatline.zip")
