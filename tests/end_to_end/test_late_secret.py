"""A secret that is met late is hidden in what was gathered early."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

from end_to_end_support import flatline
from programs import wait_until


def test_a_value_first_met_in_a_log_is_hidden_in_the_stack_and_the_arguments_too(start, tmp_path: Path) -> None:
    """As a plain word of the command line it looks like nothing; only the log tells that its tail is a secret."""
    job = tmp_path / "job.py"
    job.write_text(
        "import sys, time\n"
        "print('password=' + sys.argv[1], flush=True)\n"
        "open('ready', 'w').close()\n"
        "time.sleep(600)\n"
    )
    value = "Qm7pXv2Lk9Wd4Rt8"
    with open(tmp_path / "train.log", "w") as log:
        process = start([sys.executable, job, value], cwd=tmp_path, stdout=log, stderr=log)
    wait_until((tmp_path / "ready").exists, what="the job logs its password")
    bundle = tmp_path / "b.flatline.zip"
    done = flatline("collect", "--pid", process.pid, "-o", bundle, "--window", 1)
    assert done.code in (0, 3), done.err
    with zipfile.ZipFile(bundle) as archive:
        holders = [name for name in archive.namelist() if value.encode() in archive.read(name)]
        manifest = json.loads(archive.read("manifest.json"))
    assert holders == []
    assert manifest["redaction"] == "complete"
