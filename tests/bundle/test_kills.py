"""SIGKILL at any instant: the final name is absent or a valid bundle, and every acknowledged member is saved."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from bundle_bytes import GOLDEN

from flatline.bundle.format import FIRST_PASS_SUFFIX, PART_SUFFIX
from flatline.bundle.reader import open_bundle
from flatline.bundle.salvage import salvage
from flatline.bundle.spool import NEW_SUFFIX, sweep

PROGRAM = GOLDEN.parent.parent / "writes_bundle.py"
MESSAGES = 65
"""Lines the program prints in all."""


def killed_writer(final: Path, seed: int) -> list[str]:
    """Start a writer, kill it at a moment that `seed` chooses; the lines it said before it died."""
    rng = random.Random(seed)
    process = subprocess.Popen([sys.executable, PROGRAM, final, str(seed)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = [process.stdout.readline() for _ in range(rng.randrange(1, MESSAGES))]
        moment = time.monotonic() + rng.random() * 0.004
        while time.monotonic() < moment:
            pass
    finally:
        process.kill()
        said += process.stdout.readlines()
        process.stdout.close()
        process.wait(20)
    return [line.strip() for line in said if line.endswith("\n")]


@pytest.mark.parametrize("seed", range(64))
def test_killed_anywhere(seed, tmp_path):
    final = tmp_path / "job.flatline.zip"
    said = killed_writer(final, seed)
    published = [int(line.split()[1]) for line in said if line.startswith("published")]
    if published or final.exists():
        assert_valid(final, members=published[-1] if published else 0)
    if "finished" in said:
        assert not sweep(tmp_path)
        return
    for left in tmp_path.iterdir():
        assert left == final or left.name.endswith(PART_SUFFIX)
    spool = final.with_name(final.name + PART_SUFFIX)
    if not spool.exists():  # killed between the removal of the spool and saying so
        assert_valid(final, members=61)
        return
    assert sweep(tmp_path) == [spool]
    for left in tmp_path.glob("*" + NEW_SUFFIX):
        assert left.stat().st_size == 0  # may be a living writer's, not locked yet; a minute later it is not
        os.utime(left, (0, 0))
    assert sweep(tmp_path) == [spool]
    assert not [left for left in tmp_path.iterdir() if left.name.endswith(NEW_SUFFIX)]
    assert_salvaged(salvage(spool), said)


def assert_valid(bundle: Path, members: int) -> None:
    with zipfile.ZipFile(bundle) as other:
        assert other.testzip() is None
    with open_bundle(bundle) as reader:
        assert not reader.truncated
        assert not reader.notes
        assert len(reader.manifest.files) >= members
        for entry in reader.manifest.files:
            assert hashlib.sha256(reader.read(entry.path)).hexdigest() == entry.sha256


def assert_salvaged(bundle: Path, said: list[str]) -> None:
    assert bundle.name.endswith(FIRST_PASS_SUFFIX)
    acknowledged = [line.split()[1:] for line in said if line.startswith("member")]
    with open_bundle(bundle) as reader:
        assert reader.manifest.redaction == "first pass only"
        assert reader.manifest.ended_by == "salvaged"
        assert not reader.manifest.complete
        for name, digest in acknowledged:
            assert hashlib.sha256(reader.read(name)).hexdigest() == digest
