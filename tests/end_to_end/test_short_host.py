"""A host that is short of processes, descriptors, memory, tools, rights or time: the bundle holds what can be had there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from control_groups import swap_is_counted
from other_users import environment_for_others, python_for_others
from programs import FIXTURES, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become an ordinary user and to mount")

UNDER = FIXTURES / "faults" / "faulty_host.py"
USER = 47_110
"""Of nobody else on this host: the limit on processes counts all that a user has."""
SLEEPS = "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(600)"


@pytest.fixture
def tmp_path():
    """A folder every user can reach; pytest's own is closed to others, again by each pytest that starts."""
    folder = Path(tempfile.mkdtemp(prefix="flatline-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def collect_under(start, tmp_path: Path):
    """Collect from a Python of an ordinary user under faults; returns the process that ran, and the bundle's path."""
    python, env = python_for_others(), environment_for_others(tmp_path)
    ready = tmp_path / "ready"
    job = start([python, "-c", SLEEPS, ready], user=USER, group=USER, extra_groups=[], cwd="/", stdout=subprocess.DEVNULL)
    wait_until(ready.exists, what="the job runs")

    def run(name: str, *faults: str, through: tuple[str, ...] = ()) -> tuple[subprocess.CompletedProcess[str], Path]:
        bundle = tmp_path / f"{name}.flatline.zip"
        command = [
            *through, sys.executable, UNDER, *faults, "--", python, "-m", "flatline", "collect", "--pid", job.pid, "-o", bundle,
            "--window", 0.2, "--no-attach", "--deadline", 60,
        ]  # fmt: skip
        done = subprocess.run(
            [*map(str, command)], env={**env, "TMPDIR": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True,
            timeout=180, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done, bundle

    return run


def ledger_of(bundle: Path) -> dict[str, dict[str, object]]:
    with zipfile.ZipFile(bundle) as archive:
        assert archive.testzip() is None
        return {entry["probe"]: entry for entry in json.loads(archive.read("manifest.json"))["ledger"]}


def stacks_in(bundle: Path) -> list[str]:
    return [name for name in zipfile.ZipFile(bundle).namelist() if name.startswith("stacks/")]


@pytest.fixture
def jumping_clock(tmp_path: Path) -> Path:
    library = tmp_path / "jumping_clock.so"
    source = FIXTURES / "faults" / "jumping_clock.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def test_what_is_short_costs_little_of_the_evidence(collect_under, jumping_clock: Path) -> None:
    """All at once: each mostly waits. Of the seven processes the job has one, and collect itself two."""
    cases = {
        "processes": ("hide-proc", f"uid={USER}", "processes=7"),
        "everything": ("memory=120", "descriptors=16", "file-size=400", f"clock={jumping_clock}", "no-stdio"),
        "tracing": ("ptrace-kills",),
    }
    with ThreadPoolExecutor(len(cases)) as pool:
        runs = {name: pool.submit(collect_under, name, *faults) for name, faults in cases.items()}
    done, bundle = runs["processes"].result()
    assert done.returncode == 0, done.stderr
    assert not {probe for probe, entry in ledger_of(bundle).items() if entry["status"] == "error"}, done.stderr
    assert stacks_in(bundle)

    done, bundle = runs["everything"].result()
    assert done.returncode == 0
    assert not {probe for probe, entry in ledger_of(bundle).items() if entry["status"] in ("error", "timeout")}
    assert stacks_in(bundle)

    done, bundle = runs["tracing"].result()
    assert done.returncode == 3, "no stack of the job"
    assert "SYS_PTRACE" in str(ledger_of(bundle)["stacks"]["hint"])
    assert "facts/processes.json" in zipfile.ZipFile(bundle).namelist()


def test_without_proc_it_says_so(collect_under) -> None:
    done, bundle = collect_under("none", "no-proc")
    assert done.returncode == 4
    assert "there is no /proc here" in done.stderr
    assert not bundle.exists()


def test_without_any_process_left_it_says_so(collect_under) -> None:
    """Not one probe can be begun: two are allowed, the job and collect."""
    done, bundle = collect_under("none", f"uid={USER}", "processes=1")
    assert done.returncode == 4
    assert "Resource temporarily unavailable" in done.stderr
    assert not bundle.exists()


def test_a_control_group_with_few_processes_costs_little_of_the_evidence(collect_under, control_group) -> None:
    group = control_group("pids", v1={"pids.max": "6"}, v2={"pids.max": "6"})
    done, bundle = collect_under("group", f"uid={USER}", through=group.through)
    assert done.returncode == 0, done.stderr
    assert not {probe for probe, entry in ledger_of(bundle).items() if entry["status"] == "error"}, done.stderr
    assert stacks_in(bundle)


def test_a_control_group_that_refuses_every_further_process_leaves_a_whole_bundle(collect_under, control_group, tmp_path) -> None:
    """From the moment on that the bundle has its first member."""
    group = control_group("pids", v1={"pids.max": "100"}, v2={"pids.max": "100"})
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(collect_under, "group", f"uid={USER}", through=group.through)
        wait_until((tmp_path / "group.flatline.zip.part").exists, what="the bundle is begun", seconds=60)
        group.set("pids.max", "0")
        done, bundle = run.result()
    assert done.returncode in (0, 3), done.stderr
    said = [str(entry["message"]) for entry in ledger_of(bundle).values() if entry["status"] == "error"]
    assert any("its process could not be started: Resource temporarily unavailable" in message for message in said), done.stderr


def test_without_any_tool_in_path_nothing_is_missed_but_what_they_tell(collect_under) -> None:
    done, bundle = collect_under("no-tools", "no-tools")
    assert done.returncode == 3, done.stderr
    ledger = ledger_of(bundle)
    assert {probe for probe, entry in ledger.items() if entry["status"] not in ("ok", "partial")} <= {"stacks"}, ledger
    assert ledger["stacks"]["hint"] == "pip install py-spy"


def test_where_memory_runs_out_a_tool_of_ours_is_ended_and_not_the_job(start, control_group, tmp_path: Path) -> None:
    """Both are in the job's control group, as in its container, and the job is by far the larger one."""
    swap = {"memory.swap.max": "0"} if swap_is_counted() else {}
    group = control_group("memory", v1={"memory.limit_in_bytes": "400M"}, v2={"memory.max": "400M", **swap})
    ready = tmp_path / "ready"
    holds = f"data = bytearray(b'x') * (200 << 20)\n{SLEEPS}"
    job = start([*group.through, sys.executable, "-c", holds, ready])
    wait_until(ready.exists, what="the job holds its memory")
    greedy = [sys.executable, "-c", "data = [bytearray(b'x') * (10 << 20) for _ in range(100)]"]
    (tmp_path / "plan.json").write_text(json.dumps({"commands": [{"name": "greedy", "argv": greedy, "limit_s": 60}]}))
    bundle = tmp_path / "b.flatline.zip"
    collect = [sys.executable, "-m", "flatline", "collect", "--pid", job.pid, "--include", tmp_path / "plan.json",
               "-o", bundle, "--window", 0.2, "--deadline", 60]  # fmt: skip
    done = subprocess.run(
        [*group.through, *map(str, collect)], capture_output=True, text=True, timeout=180, check=False, stdin=subprocess.DEVNULL
    )
    assert job.poll() is None, "the job was killed for what we took"
    assert done.returncode == 0, done.stderr
    assert ledger_of(bundle)["site-greedy"]["status"] != "ok"
