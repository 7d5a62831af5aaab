"""The accelerators are seen through the real pynvml and a stand-in of the driver's library; nothing that hangs holds us."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from flatline.collector.gpu import stuck
from flatline.collector.linux.procfs import ProcFS
from flatline.collector.probes.gpu import Gpus
from job_view import artefacts, gaps, rows, target_of, view_of
from programs import FIXTURES, wait_until

from flatline.bundle.reader import open_bundle

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
GPU = FIXTURES / "gpu"
MIB = 1 << 20


@pytest.fixture(scope="session")
def library(nvml_standin):
    return nvml_standin()


@pytest.fixture
def job(start):
    return start(["sleep", "600"]).pid


@pytest.fixture
def gather(job, tmp_path, killed):
    """Run the probe in a process whose loader finds the stand-in, and whose PATH holds nothing but `tools`."""

    def run(state="healthy", *, library=None, tools=None, library_s=30.0, tool_s=30.0, proc="/proc", window_s=0.2, **env):
        paths = [str(tools)] if tools else []
        env = {**os.environ, "NVML_STATE": state, "PATH": ":".join([*paths, "/usr/bin", "/bin"]), **env}
        if library:
            env["LD_LIBRARY_PATH"] = str(library)
        out = tmp_path / "items"
        argv = [sys.executable, GPU / "gathers.py", job, out, library_s, tool_s, proc, window_s]
        subprocess.run(list(map(str, argv)), env=env, check=True, timeout=120)
        items = pickle.loads(out.read_bytes())
        killed.extend(row.stuck_pid for row in rows(items, "tool_runs") if row.outcome != "not-started" and row.stuck_pid)
        return items

    return run


@pytest.fixture
def killed():
    """Pids that the test leaves running on purpose: killed at its end."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        for send in (os.killpg, os.kill):
            try:
                send(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


@pytest.fixture
def tools(tmp_path):
    """`tools(name=script)` puts shell scripts of these names into a folder."""

    def make(**scripts: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        for name, script in scripts.items():
            path = folder / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        return folder

    return make


def driver_of(items):
    (row,) = rows(items, "gpu_drivers")
    return row


def limits_of(pid):
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    score = Path(f"/proc/{pid}/oom_score_adj").read_text()
    return [line for line in limits if line.startswith(("Max cpu time", "Max data size"))], score


def run_of(items, tool):
    (row,) = [row for row in rows(items, "tool_runs") if row.tool == tool]
    return row


def stand_in_proc(folder: Path, **files: str) -> str:
    """A /proc with the real processes' files, and a driver's folder of our own."""
    for name in os.listdir("/proc"):
        if name != "driver":
            (folder / name).symlink_to(f"/proc/{name}")
    for name, text in files.items():
        path = folder / "driver" / "nvidia" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Wed Jan  1 00:00:00 UTC 2025\n"
INFORMATION = """Model: \t\t NVIDIA A40
IRQ:   \t\t 120
GPU UUID: \t GPU-ab5e0000-1111-4222-8333-444455556666
Bus Type: \t PCIe
Bus Location: \t 0000:86:00.0
Device Minor: \t 3
"""


# --- through the library ---


def test_healthy_devices_are_told_in_full(gather, library):
    items = gather(library=library)
    first, second = rows(items, "gpus")
    assert (first.vendor, first.name, first.bus_id, first.minor) == ("nvidia", "NVIDIA Stand-In 80GB", "00000000:3b:00.0", 0)
    assert (first.memory, first.used, first.utilisation, second.utilisation) == (81920 * MIB, 40000 * MIB, 100.0, 0.0)
    assert (first.power, first.power_limit, first.clock, first.clock_max, first.temperature) == (123.456, 700.0, 1410, 1980, 45.0)
    assert (first.compute_mode, second.compute_mode, first.mig, second.mig) == ("default", "exclusive-process", False, True)
    assert (first.persistence, first.ecc, first.ecc_uncorrected, first.retired_pages, first.remapped_rows) == (True, True, 0, 0, 1)
    assert (first.throttle, first.errors, first.lost, first.driver, first.cuda) == ((), (), False, "535.129.03", "12.2")
    driver = driver_of(items)
    assert (driver.state, driver.source, driver.module, driver.library) == ("ok", "nvml", "535.129.03", "535.129.03")
    assert run_of(items, "nvml").outcome == "ok"
    assert gaps(items) == []


def test_samples_are_taken_over_the_window(gather, library):
    before = time.monotonic_ns()
    items = gather(library=library, window_s=0.6)
    samples = rows(items, "gpu_samples")
    assert [(row.gpu, row.sample) for row in samples] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert samples[-1].mono_ns - before >= 0.6e9, "the last one is taken when the window ends"
    assert {(row.utilisation, row.used, row.power, row.clock) for row in samples if row.gpu == 0} == {
        (100.0, 40000 * MIB, 123.456, 1410)
    }


def test_whose_memory_it_is(gather, library, job):
    stranger, nobody = os.getpid(), 4_194_303
    items = gather("taken", library=library, NVML_PROCESSES=f"{job}:100,{stranger}:70000,{nobody}:5000")
    found = {row.pid: row for row in rows(items, "gpu_processes")}
    assert (found[job].in_job, found[job].process, found[job].name) == (True, f"h1/{job}", "sleep")
    assert (found[stranger].in_job, found[stranger].process, found[stranger].memory) == (False, None, 70000 * MIB)
    assert (found[nobody].in_job, found[nobody].name) == (None, None)
    assert {(row.gpu, row.type) for row in found.values()} == {(0, "compute")}


def test_a_sick_device(gather, library):
    gpu = rows(gather("sick", library=library), "gpus")[0]
    assert (gpu.ecc_uncorrected, gpu.retired_pages, gpu.repair_pending) == (12, 2, True)
    assert gpu.throttle == ("sw-thermal", "hw-thermal")


def test_a_lost_device_does_not_hide_the_other(gather, library):
    items = gather("lost", library=library)
    first, second = rows(items, "gpus")
    assert (first.lost, first.used) == (False, 40000 * MIB)
    assert (second.lost, second.errors, second.used, second.index) == (True, ("GPU is lost",), None, 1)
    assert (driver_of(items).state, driver_of(items).message) == ("device-lost", "GPU 1: GPU is lost")


def test_a_driver_without_devices(gather, library):
    items = gather("none", library=library)
    assert (driver_of(items).state, rows(items, "gpus")) == ("no-devices", [])


@pytest.mark.parametrize(("state", "told"), [("mismatch", "version-mismatch"), ("no-driver", "not-loaded")])
def test_a_library_that_cannot_begin_says_why(gather, library, state, told):
    items = gather(state, library=library)
    assert (driver_of(items).state, driver_of(items).source) == (told, "nvml")
    assert run_of(items, "nvml").outcome == "error"
    (gap,) = gaps(items)
    assert (gap.status, "gpus" in gap.tables, driver_of(items).message in gap.message) == ("error", True, True)


def test_a_driver_of_2018_tells_what_it_can(gather, nvml_standin):
    items = gather("taken", library=nvml_standin("-DOLD"), NVML_PROCESSES="1:70000")
    first = rows(items, "gpus")[0]
    assert (first.driver, first.used, first.remapped_rows) == ("390.116", 79600 * MIB, None)
    assert [row.pid for row in rows(items, "gpu_processes")] == [1]
    assert (first.errors, gaps(items)) == ((), [])


# --- what hangs ---


def test_a_library_that_hangs_is_evidence_and_no_tool_is_started_after_it(gather, library, tools):
    items = gather("hangs-init", library=library, library_s=1.0, tools=tools(nvidia_smi="echo started > started"))
    assert (driver_of(items).state, driver_of(items).source) == ("hangs", "nvml")
    assert "nvmlInit" in driver_of(items).message
    assert (run_of(items, "nvml").outcome, run_of(items, "nvml").stuck_pid) == ("timeout", None)
    assert run_of(items, "nvidia-smi").outcome == "not-started"
    assert [gap.status for gap in gaps(items)] == ["timeout"]
    assert artefacts(items) == []


def test_a_binding_that_does_not_come_back_says_nothing_of_the_driver(gather, library, tools, tmp_path):
    """It lies where flatline is installed, which may be a mount that has stopped answering."""
    (tmp_path / "pynvml.py").write_text("import signal\nsignal.pause()\n")
    smi = tools(nvidia_smi="echo No devices were found")
    items = gather(library=library, library_s=1.0, tools=smi, PYTHONPATH=str(tmp_path))
    assert "hangs" not in {row.state for row in rows(items, "gpu_drivers")}
    assert "pynvml does not answer" in run_of(items, "nvml").message
    assert {row.outcome for row in rows(items, "tool_runs") if row.tool != "nvml"} == {"ok"}
    assert artefacts(items)[0].content == b"No devices were found\n"


def test_a_library_that_does_not_obey_is_left_and_named_never_killed(gather, library, monkeypatch):
    items = gather("deaf", library=library, library_s=1.0)
    run = run_of(items, "nvml")
    assert run.outcome == "left-running"
    assert ProcFS().stat(run.stuck_pid).state == "S"
    assert f"pid {run.stuck_pid} is left running" in gaps(items)[0].message
    monkeypatch.setattr(stuck, "OLD_S", -1.0)
    assert run.stuck_pid not in {tool.pid for tool in stuck.find(ProcFS())}
    monkeypatch.setattr(stuck, "OURS_OLD_S", -1.0)
    assert run.stuck_pid in {tool.pid for tool in stuck.find(ProcFS())}, "the next collect knows it"


def test_what_was_told_before_a_device_hangs_is_kept(gather, library):
    items = gather("hangs-device", library=library, library_s=1.0)
    assert [row.index for row in rows(items, "gpus")] == [0]
    assert (driver_of(items).state, "GPU 1" in driver_of(items).message) == ("hangs", True)


def test_samples_before_a_hang_are_kept(gather, library):
    items = gather("hangs-sample", library=library)
    assert len(rows(items, "gpus")) == 2
    assert [(row.gpu, row.sample) for row in rows(items, "gpu_samples")] == [(0, 0)]
    assert driver_of(items).state == "hangs"


def test_a_tool_that_ignores_sigterm_is_left_and_the_next_is_not_begun(gather, library, tools):
    """What the library had told stays, and its samples go on meanwhile."""
    script = "trap '' TERM\necho begun\nwhile :; do sleep 0.1; done"
    items = gather(library=library, tool_s=1.0, tools=tools(nvidia_smi=script))
    run = run_of(items, "nvidia-smi")
    assert (run.outcome, run.stuck_pid is not None, run.message) == ("left-running", True, "nvidia-smi")
    assert [(item.path, item.content) for item in artefacts(items)] == [("raw/nvidia-smi.txt", b"begun\n")]
    assert (driver_of(items).state, driver_of(items).source) == ("hangs", "nvidia-smi")
    assert (len(rows(items, "gpus")), len(rows(items, "gpu_samples"))) == (2, 6)


def test_a_tool_that_floods_is_cut(gather, tools):
    items = gather(tools=tools(nvidia_smi="exec yes nonsense"))
    outcomes = {row.outcome for row in rows(items, "tool_runs") if row.tool == "nvidia-smi"}
    assert "flooded" in outcomes
    assert max(len(item.content) for item in artefacts(items)) <= 4 << 20
    assert rows(items, "gpus") == []


def test_garbage_and_a_bad_exit_are_kept_and_say_nothing(gather, tools):
    items = gather(tools=tools(nvidia_smi="printf '\\377\\000<gpu>|||'; echo oops >&2; exit 9"))
    assert {row.outcome for row in rows(items, "tool_runs") if row.tool == "nvidia-smi"} == {"error"}
    assert artefacts(items)[0].content.endswith(b"oops\n")
    assert (rows(items, "gpus"), driver_of(items).state) == ([], "library-missing")


# --- through the texts ---


def test_without_the_library_the_xml_gives_the_rows(gather, tools):
    script = f'case "$*" in "-q -x") cat {GPU}/smi-418.xml;; "") cat {GPU}/smi-390.txt;; *) echo "GPU0 X";; esac'
    items = gather(tools=tools(nvidia_smi=script))
    assert [row.name for row in rows(items, "gpus")] == ["Tesla V100-PCIE-32GB"] * 2
    assert [row.pid for row in rows(items, "gpu_processes")] == [500, 501]
    assert {item.path for item in artefacts(items)} == {"raw/nvidia-smi.txt", "raw/nvidia-smi.xml", "raw/nvidia-topo.txt"}
    assert (driver_of(items).state, driver_of(items).module) == ("ok", "418.87.01")


def test_when_the_xml_hangs_the_table_gives_the_rows_and_the_driver_hangs_all_the_same(gather, tools):
    script = f'case "$*" in "") cat {GPU}/smi-390.txt;; *) exec sleep 600;; esac'
    items = gather(tools=tools(nvidia_smi=script), tool_s=1.0)
    assert [row.name for row in rows(items, "gpus")] == ["Tesla P40"] * 2
    assert (driver_of(items).state, driver_of(items).module) == ("hangs", "390.116")
    assert [row.message for row in rows(items, "tool_runs")] == ["nvidia-smi", "nvidia-smi -q -x"] + [
        row.message for row in rows(items, "tool_runs") if row.tool == "nvml"
    ]


def test_with_both_the_library_wins_and_the_texts_are_kept(gather, library, tools):
    items = gather(library=library, tools=tools(nvidia_smi=f"cat {GPU}/smi-418.xml"))
    assert {row.name for row in rows(items, "gpus")} == {"NVIDIA Stand-In 80GB"}
    assert len(artefacts(items)) == 3


def test_what_the_tool_complains_of_is_told_in_its_words(gather, tools):
    words = "Failed to initialize NVML: Driver/library version mismatch"
    items = gather(tools=tools(nvidia_smi=f'echo "{words}"; echo "NVML library version: 535.183"; exit 18'))
    driver = driver_of(items)
    assert (driver.state, driver.message, driver.source, driver.library) == (
        "version-mismatch", words, "nvidia-smi", "535.183",
    )  # fmt: skip
    assert [gap.status for gap in gaps(items)] == ["error"]


def test_tools_of_other_vendors(gather, tools):
    amd = f'case "$*" in *--json) cat {GPU}/rocm-smi.json;; *) echo table;; esac'
    items = gather(tools=tools(rocm_smi=amd, npu_smi="echo NPU", hl_smi="echo HL", xpu_smi="echo XPU"))
    assert [(row.vendor, row.index, row.utilisation) for row in rows(items, "gpus")] == [("amd", 0, 99.0), ("amd", 1, 0.0)]
    assert {item.path for item in artefacts(items)} == {
        "raw/rocm-smi.txt", "raw/rocm-smi.json", "raw/npu-smi.txt", "raw/hl-smi.txt", "raw/xpu-smi.txt",
    }  # fmt: skip
    assert {(row.vendor, row.state) for row in rows(items, "gpu_drivers")} >= {("amd", "ok"), ("huawei", "unknown")}


def test_amd_smi_names_the_processes(gather, tools, job):
    script = f'test "$1" = process && sed s/4711/{job}/ {GPU}/amd-smi-process.json || cat {GPU}/amd-smi-$1.json'
    items = gather(tools=tools(amd_smi=script))
    (gpu,), (process,) = rows(items, "gpus"), rows(items, "gpu_processes")
    assert (gpu.name, gpu.utilisation) == ("AMD Instinct MI300X", 93.0)
    assert (process.pid, process.in_job, process.memory) == (job, True, int(180.5 * 2**30))


# --- without asking a driver ---


def test_the_kernel_names_the_devices_when_nobody_else_does(gather, tmp_path):
    folder = tmp_path / "proc"
    folder.mkdir()
    files = {"version": VERSION, "gpus__0000:86:00.0__information": INFORMATION}
    items = gather(proc=stand_in_proc(folder, **files))
    (gpu,) = rows(items, "gpus")
    assert (gpu.name, gpu.minor, gpu.bus_id, gpu.driver) == ("NVIDIA A40", 3, "00000000:86:00.0", "535.161.08")
    assert (driver_of(items).module, driver_of(items).gpus, driver_of(items).state) == ("535.161.08", 1, "library-missing")
    assert "NVIDIA A40" in artefacts(items)[0].content


def test_a_host_without_accelerators_is_not_worth_a_word(job):
    items = list(Gpus().gather(view_of(job)))
    if rows(items, "gpu_drivers"):
        pytest.skip("this host has an accelerator")
    assert (gaps(items), artefacts(items), rows(items, "tool_runs"), rows(items, "gpus")) == ([], [], [], [])


def test_a_job_that_asks_for_one_there_is_told(job):
    items = list(Gpus().gather(view_of(job, env_names={job: {"CUDA_VISIBLE_DEVICES": "0,1"}})))
    if rows(items, "gpu_drivers"):
        pytest.skip("this host has an accelerator")
    (gap,) = gaps(items)
    assert (gap.status, f"CUDA_VISIBLE_DEVICES=0,1 of pid {job}" in gap.message) == ("absent", True)
    assert list(Gpus().gather(view_of(job, env_names={job: {"CUDA_VISIBLE_DEVICES": ""}})))[-1] != gap


# --- tools that others left ---


@pytest.fixture
def left_tool(start, tmp_path, monkeypatch):
    """A program called nvidia-smi that runs since longer ago than the limit, which is none here. Of those that other
    tests have started at the same time none is seen."""
    monkeypatch.setattr(stuck, "OLD_S", -1.0)
    old = stuck._old
    monkeypatch.setattr(stuck, "_old", lambda proc: ((p, stat) for p, stat in old(proc) if stat.ppid == os.getpid()))

    def begin(*arguments: str) -> int:
        program = tmp_path / "nvidia-smi"
        if not program.exists():
            source = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n"
            subprocess.run(["cc", "-x", "c", "-o", program, "-"], input=source.encode(), check=True, timeout=60)
        pid = start([program, *arguments]).pid
        wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "nvidia-smi\n", what="it runs")
        return pid

    return begin


def test_a_tool_that_does_not_come_back_is_evidence_and_none_is_started(left_tool, job):
    pid = left_tool()
    items = list(Gpus().gather(view_of(job)))
    runs = [row for row in rows(items, "tool_runs") if row.stuck_pid == pid]
    assert {(row.tool, row.outcome) for row in runs} == {("nvml", "not-started"), ("nvidia-smi", "not-started")}
    driver = next(row for row in rows(items, "gpu_drivers") if row.vendor == "nvidia")
    assert (driver.state, driver.source, f"nvidia-smi (pid {pid})" in driver.message) == ("hangs", "proc", True)
    assert any(gap.status == "skipped" and gap.target == f"h1/{pid}" for gap in gaps(items))


def test_a_tool_that_is_meant_to_go_on_is_not_stuck(left_tool):
    forever = {left_tool("-l", "1"), left_tool("dmon"), left_tool("--loop=5")}
    once = left_tool("-q", "-x")
    found = {tool.pid for tool in stuck.find(ProcFS())}
    assert once in found
    assert not forever & found
    assert once not in {tool.pid for tool in stuck.find(ProcFS(), own_pids=(once,))}


def test_a_young_tool_is_not_stuck(left_tool, monkeypatch):
    monkeypatch.setattr(stuck, "OLD_S", 10.0)
    assert left_tool() not in {tool.pid for tool in stuck.find(ProcFS())}


# --- in a whole collect ---


def test_a_collect_names_a_library_that_hangs_and_keeps_the_rest(library, job, tmp_path, killed):
    bundle = tmp_path / "gpu.flatline.zip"
    env = {**os.environ, "LD_LIBRARY_PATH": str(library), "NVML_STATE": "deaf"}
    argv = [sys.executable, "-m", "flatline", "collect", "--pid", str(job), "-o", str(bundle), "--window", "0.5", "--quiet"]
    began = time.monotonic()
    subprocess.run(argv, env=env, check=False, timeout=120, capture_output=True)
    assert time.monotonic() - began < 60
    with open_bundle(bundle) as reader:
        tables = reader.tables().rows
        entry = next(entry for entry in reader.manifest.ledger if entry.probe == "gpu")
    (run,) = [row for row in tables["tool_runs"] if row.tool == "nvml"]
    killed.append(run.stuck_pid)
    assert run.outcome == "left-running"
    assert any(f"pid {run.stuck_pid} " in left for left in entry.left_running), entry
    assert zipfile.ZipFile(bundle).testzip() is None
    assert ProcFS().stat(run.stuck_pid).state == "S"
    # No limit kills it either, nor the want of memory before others.
    assert limits_of(run.stuck_pid) == limits_of(os.getpid())
    assert target_of(job).name == "sleep"
