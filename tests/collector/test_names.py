"""Whose job it is and where it runs: learnt before anything is written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import zipfile

import pytest
from flatline.collector.job.names import host_names, users

KEY = "four words for us"


def test_the_full_name_of_the_host_is_taken_from_its_own_list(tmp_path):
    own = os.uname().nodename
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n10.0.0.3 {own}.hpc.example {own} # us\n10.0.0.4 other.hpc.example other\n")
    assert list(host_names(hosts)) == [own, f"{own}.hpc.example"]


def test_a_host_without_such_a_list_has_the_name_that_the_kernel_tells(tmp_path):
    assert list(host_names(tmp_path / "none")) == [os.uname().nodename]


def test_only_the_users_of_the_job_are_learnt(tmp_path):
    passwd = tmp_path / "passwd"
    passwd.write_text(
        "karomin:x:4711:50:Karo Min,Room 3,,:/home/karomin:/bin/bash\nother:x:4712:50::/home/other:/bin/sh\nbroken\n"
    )
    assert list(users([4711], passwd)) == [("user", "karomin"), ("person", "Karo Min")]


@pytest.fixture
def job(tmp_path):
    """A program of karomin's on gpubox-9 that sleeps, and writes of itself into a log named after the host."""
    log = tmp_path / "karomin-gpubox-9.log"
    code = "import os,time; open(os.environ['LOG'],'w').write('/home/karomin/x on gpubox-9, 10.1.2.3:29500 127.0.0.1:1\\n'); print(flush=True); time.sleep(600)"
    env = {**os.environ, "USER": "karomin", "HOSTNAME": "gpubox-9", "MASTER_ADDR": "10.1.2.3", "LOG": str(log)}
    process = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process.pid, log
    process.kill()
    process.wait()
    process.stdout.close()


def _collect(pid, log, folder, *more):
    folder.mkdir()
    args = [
        sys.executable,
        "-m",
        "flatline",
        "collect",
        "--pid",
        str(pid),
        "--log",
        str(log),
        "--window",
        "0.5",
        "--quiet",
    ]
    done = subprocess.run([*args, "-o", f"{folder}/", *more], capture_output=True, text=True, timeout=120, check=False)
    return done, [path for path in folder.iterdir() if path.suffix == ".zip"]


def _members(bundle):
    with zipfile.ZipFile(bundle) as opened:
        return {name: opened.read(name).decode() for name in opened.namelist()}


def test_bundles_of_one_case_agree_on_pseudonyms_and_hold_no_name(job, tmp_path):
    pid, log = job
    logs = []
    for name in ("one", "two"):
        done, bundles = _collect(
            pid, log, tmp_path / name, "--case-key", KEY, "--keep-map", str(tmp_path / f"{name}.json")
        )
        assert len(bundles) == 1, done.stderr
        members = _members(bundles[0])
        for path, text in members.items():
            for hidden in ("karomin", "gpubox-9", "10.1.2.3", KEY):
                assert hidden not in text, path
                assert hidden not in path
        logs += [text for path, text in members.items() if "-user-" in path and "-host-" in path]
    assert len(logs) == 2, "a log is named after what it was named after, hidden"
    assert logs[0] == logs[1]
    assert logs[0].startswith("/home/⟪user·")
    assert logs[0].endswith("127.0.0.1:1\n")
    translations = json.loads((tmp_path / "one.json").read_text())
    assert {"karomin", "gpubox-9", "10.1.2.3"} <= set(translations.values())
    assert stat.S_IMODE((tmp_path / "one.json").stat().st_mode) == 0o600


def test_without_a_key_two_bundles_have_nothing_in_common(job, tmp_path):
    pid, log = job
    maps = []
    for name in ("one", "two"):
        _collect(pid, log, tmp_path / name, "--keep-map", str(tmp_path / f"{name}.json"))
        maps.append(json.loads((tmp_path / f"{name}.json").read_text()))
    assert set(maps[0].values()) & set(maps[1].values()) >= {"karomin", "gpubox-9"}
    assert not set(maps[0]) & set(maps[1])


def test_an_earlier_map_is_never_replaced(job, tmp_path):
    pid, log = job
    earlier = tmp_path / "map.json"
    earlier.write_text("{}")
    done, bundles = _collect(pid, log, tmp_path / "out", "--keep-map", str(earlier))
    assert done.returncode == 2
    assert "is there already" in done.stderr
    assert not bundles
    assert earlier.read_text() == "{}"
