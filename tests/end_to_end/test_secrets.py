"""A real collect leaves no secret anywhere in the bundle: neither in a member nor in a name."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

from end_to_end_support import flatline
from programs import wait_until

PROGRAM = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, sys.argv[1].encode())  # PR_SET_NAME, which keeps fifteen characters
print("step 1", flush=True)
print("password=" + sys.argv[1], file=sys.stderr, flush=True)
print("x" * 470 + " api_key=k7Qm2pXv9LwW4d8Rt5Zs", file=sys.stderr, flush=True)
open("ready", "w").close()
time.sleep(600)
"""
LATE = "Qm7pXv2Lk9Wd+Rt8=Zc4"
HALF = "k7Qm2pXv9"


def test_nothing_is_left_of_a_value_that_is_met_late_nor_of_one_that_a_limit_cuts(start, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(PROGRAM)
    with open(tmp_path / f"a-{LATE}.log", "w") as out, open(tmp_path / "b.log", "w") as err:
        process = start([sys.executable, job, LATE], cwd=tmp_path, stdout=out, stderr=err)
    wait_until((tmp_path / "ready").exists, what="the job has logged")
    bundle = tmp_path / "b.flatline.zip"
    done = flatline("collect", "--pid", process.pid, "-o", bundle, "--window", 1)
    assert done.code in (0, 3), done.err
    with zipfile.ZipFile(bundle) as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist()}
    for beginning in (LATE[:12], "Qm7pXv2Lk9Wd_Rt8", HALF):
        assert [name for name, text in members.items() if beginning in text or beginning in name] == []
    manifest = json.loads(members["manifest.json"])
    assert {entry["path"] for entry in manifest["files"]} <= members.keys()
    texts = {row.get("text") for row in json.loads(members["facts/logs.json"])["tables"]["logs"]} - {None, ""}
    assert texts
    assert texts <= members.keys()


ARGUMENTS = (
    "python t.py --api-key \\\n    {} \\\n    --lr 1",
    "--hub-token\n{}\n--seed\n3\n",
    "export WANDB_API_KEY={}\\\npython t.py\n",
    "args:\n- --client-secret\n- '{}'\n",
    "{{&quot;api_key&quot;: &quot;{}&quot;}}",
    "https://h.test/run?cfg=%7B%22password%22%3A%22{}%22%7D",
)


def test_arguments_of_several_lines_and_escaped_ones_are_redacted_as_text(start, tmp_path: Path) -> None:
    values = [f"Kx{number}3hsnTqw61bdVmZp0q7" for number in range(len(ARGUMENTS))]
    words = [argument.format(value) for argument, value in zip(ARGUMENTS, values)]
    code = "import time; open('ready', 'w').close(); time.sleep(600)"
    process = start([sys.executable, "-c", code, *words], cwd=tmp_path)
    wait_until((tmp_path / "ready").exists, what="the job runs")
    bundle = tmp_path / "b.flatline.zip"
    done = flatline("collect", "--pid", process.pid, "-o", bundle, "--window", 1)
    assert done.code in (0, 3), done.err
    with zipfile.ZipFile(bundle) as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist()}
    assert [(name, value) for name, text in members.items() for value in values if value in text] == []
    assert any("--seed" in text for text in members.values())
