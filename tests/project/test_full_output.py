"""Standard output on a full device: one line on standard error, exit code 6, and nothing that was written is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flatline.bundle.reader import open_bundle

GOLDEN = Path(__file__).resolve().parent.parent.parent / "fixtures" / "bundles" / "golden-1.0.flatline.zip"


def on_full_device(*args: object) -> subprocess.CompletedProcess[str]:
    with open("/dev/full", "w") as full:
        return subprocess.run(
            [sys.executable, "-m", "flatline", *map(str, args)],
            stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        )  # fmt: skip


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["analyze", GOLDEN],
        ["analyze", GOLDEN, "--format", "html"],
        ["analyze", GOLDEN, "--format", "json"],
        ["doctor"],
        ["redact", __file__],
        ["rules", "list"],
        ["rules", "show", "output-pipe-full"],
        ["show", "--help"],
        ["show", GOLDEN],
        ["show", GOLDEN, "--json"],
        ["show", GOLDEN, "logs/train.log"],
        ["snippet"],
    ],
    ids=lambda args: " ".join(map(str, args)).replace(str(GOLDEN), "BUNDLE").replace(__file__, "TEXT"),
)
def test_it_is_told_in_one_line(args: list[object]) -> None:
    done = on_full_device(*args)
    line = "flatline: standard output cannot be written: No space left on device; files that were written are there\n"
    assert (done.returncode, done.stderr) == (6, line)


def test_what_a_collect_has_written_is_there(stuck, tmp_path: Path) -> None:
    bundle = tmp_path / "job.flatline.zip"
    done = on_full_device("collect", "--pid", stuck("flock_held"), "-o", bundle, "--window", "1")
    assert done.returncode == 6
    assert done.stderr.count("standard output cannot be written") == 1
    assert "Traceback" not in done.stderr
    with open_bundle(bundle) as reader:
        assert reader.manifest.complete
