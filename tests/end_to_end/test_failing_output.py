"""A disk that is full, broken, over its quota or suddenly read-only costs nothing that was gathered."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from end_to_end_support import Ran, flatline
from faults.stalling_fuse import stalling_mount, why_not_here

pytestmark = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "-")

KIB = 1 << 10
EARLY = 2 * KIB
"""Bytes that the first members do not fit into."""
MIDDLE = 24 * KIB
"""Bytes that some do, but not all."""
FAULTS = {
    "a full disk": (errno.ENOSPC, EARLY),
    "a quota that is used up": (errno.EDQUOT, MIDDLE),
    "a disk that breaks": (errno.EIO, MIDDLE),
    "a file system made read-only": (errno.EROFS, MIDDLE),
}


@dataclass(frozen=True)
class Written:
    """What came of one collect whose place refused."""

    done: Ran
    tmpdir: Path
    left_whole: bool
    """Whether what stands under the final name in the place that refused, if anything does, is a whole bundle."""


def collected_into(fault: str, pid: int, tmpdir: Path) -> Written:
    refuses, room = FAULTS[fault]
    tmpdir.mkdir()
    with stalling_mount(refuses=refuses, room=room) as mount:
        done = flatline(
            "collect", "--pid", pid, "-o", mount.path / "b.flatline.zip", "--window", 0.2,
            "--no-attach", "--deadline", 120, env={**os.environ, "TMPDIR": str(tmpdir)},
        )  # fmt: skip
        left = [path for path in mount.path.iterdir() if path.name.endswith(".zip")]
        return Written(done, tmpdir, all(zipfile.ZipFile(path).testzip() is None for path in left))


def test_what_a_place_refuses_goes_elsewhere_with_all_that_it_had_taken(start, tmp_path: Path) -> None:
    """All at once: each mostly waits."""
    job = start(["sleep", "600"])
    with ThreadPoolExecutor(len(FAULTS)) as pool:
        runs = {fault: pool.submit(collected_into, fault, job.pid, tmp_path / fault) for fault in FAULTS}
    for fault, run in runs.items():
        assert_nothing_lost(fault, run.result())


def assert_nothing_lost(fault: str, result: Written) -> None:
    assert result.done.code in (0, 3), (fault, result.done.err)
    bundle = Path(result.done.out.strip())
    assert bundle == result.tmpdir / "b.flatline.zip", (fault, result.done.err)
    assert os.strerror(FAULTS[fault][0]) in result.done.err, fault
    assert result.left_whole, fault
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None, fault
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["complete"], fault
    assert not [entry["cut"] for entry in manifest["ledger"] if entry["cut"]], (fault, "nothing was left out")
    assert not list(result.tmpdir.glob("*.part")), fault
