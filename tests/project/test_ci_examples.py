"""The examples of docs/ci.md: each is what its service reads, and each command line is one that flatline knows."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from flatline.collector.commands import run as run_command
from kept_jobs import ENV, HUNG, ran, stand_in
from programs import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "docs" / "ci.md").read_text()
MANIFEST: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "ci" / "kubernetes.yaml").read_text())
CONTAINER = MANIFEST["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("version", ["1.28", kubernetes_validate.latest_version()])
def test_the_manifest_is_one_that_kubernetes_takes(version):
    kubernetes_validate.validate(MANIFEST, version, strict=True)


def test_a_field_that_kubernetes_does_not_know_would_be_seen():
    wrong = {**MANIFEST, "spec": {**MANIFEST["spec"], "graceSeconds": 60}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.28", strict=True)


def test_the_handbook_shows_what_is_in_the_manifest():
    block = next(one for one in re.findall(r"```yaml\n(.*?)```", TEXT, re.S) if "terminationGracePeriodSeconds" in one)
    shown, pod = yaml.safe_load(block), MANIFEST["spec"]["template"]["spec"]
    assert shown["command"] == CONTAINER["command"]
    assert shown["volumeMounts"] == CONTAINER["volumeMounts"]
    assert shown["terminationGracePeriodSeconds"] == pod["terminationGracePeriodSeconds"]
    assert [volume["name"] for volume in pod["volumes"]] == [mount["name"] for mount in CONTAINER["volumeMounts"]]


def runs() -> list[str]:
    texts = [TEXT, (ROOT / "docs" / "ci" / "action.yml").read_text().replace("\\\n", " ")]
    lines = [line for text in texts for line in re.findall(r"flatline run [^\n`']*? -- [^\n`'&]+", text)]
    return [*lines, shlex.join(CONTAINER["command"])]


@pytest.mark.parametrize("line", runs())
def test_every_command_line_is_one_that_run_takes(tmp_path, line):
    """With a job of no time, and its own folder for bundles."""
    before = shlex.split(line)[: shlex.split(line).index("--")]
    at = before.index("--bundle-dir")
    values = {"$TIMEOUT": "30m", "$SILENCE": "10m"}
    words = [values.get(word, word) for word in (*before[2:at], *before[at + 2 :])]
    done = ran([sys.executable, "-m", "flatline", "run", *words, "--bundle-dir", str(tmp_path), "--", "sh", "-c", "exit 7"])
    assert done.returncode == 7, done.stderr


def test_there_are_as_many_as_services():
    assert len(runs()) == 5


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a process number 1")
def test_as_the_first_process_of_a_container_it_takes_a_bundle_and_ends_on_sigterm(start, tmp_path):
    """Process 1 dies of no signal that it has no handler for, and orphans of the container come to it."""
    program = f"(sleep 600 & ) ; touch {tmp_path}/ready; exec sleep 600"
    argv = stand_in("run", "--silence", "4", "--bundle-dir", str(tmp_path), "--", "sh", "-c", program)
    process = start(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *argv], env={**ENV, "REPORT": HUNG}, stderr=subprocess.PIPE)
    wait_until((tmp_path / "ready").exists, what="the job is ready", seconds=60)
    (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.8)  # more than a quarter of the silence
    os.kill(int(first), signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert (tmp_path / "made.zip").exists()


def test_the_times_of_the_manifest_leave_the_end_to_flatline():
    command, spec = CONTAINER["command"], MANIFEST["spec"]
    given = run_command.parser_of("run", "", "").parse_args(command[2 : command.index("--")])
    assert given.timeout < spec["activeDeadlineSeconds"]
    assert given.silence < given.timeout
