"""What packages, limits, disks, devices and the environment decide: from a real program to the cause, by the commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from control_groups import swap_is_counted
from end_to_end_support import cause_of
from programs import FIXTURES, wait_until

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts, or makes a control group")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private")


@pytest.fixture
def begin(start, tmp_path: Path):
    """Start fixtures/evidence/NAME.py with arguments, `through` another command, and wait until it is ready; its pid."""

    def run(name: str, *arguments: object, through: tuple[str, ...] = (), **env: str) -> int:
        ready = tmp_path / "ready"
        path = os.pathsep.join(filter(None, [env.pop("PYTHONPATH", ""), str(FIXTURES / "stuck")]))
        environment = {**os.environ, "READY": str(ready), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **env}
        with open(tmp_path / "job.out", "w") as out:
            program = [*through, sys.executable, "-u", FIXTURES / "evidence" / f"{name}.py", *arguments]
            start(program, cwd=tmp_path, env=environment, stdout=out, stderr=out)
        return int(wait_until(lambda: ready.exists() and ready.read_text().strip(), what=f"{name} is ready", seconds=60))

    return run


@pytest.fixture
def installed(tmp_path: Path):
    """A folder of installed packages that stand in for real ones; `installed(name, version, files, recorded=…)` adds one."""
    folder = tmp_path / "site"
    folder.mkdir()

    def add(name: str, version: str, files: dict[str, str] | None = None, recorded: str = "") -> Path:
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "RECORD").write_text(recorded)
        for path, text in (files or {}).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder

    return add


def named(report: dict) -> tuple[str | None, str | None]:
    """(rule, cause) of the diagnosis."""
    finding = next((f for f in report["findings"] if f["role"] == "root-cause"), {})
    return finding.get("rule"), finding.get("cause")


@needs_root
@pytest.mark.parametrize(
    ("does", "flag", "rule"),
    [("fills_disk", "--output", "disk-full"), ("writes_read_only", "--output", "log-path-unwritable")],
)
def test_a_thread_that_could_not_write(does: str, flag: str, rule: str, begin, diagnose, tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    report, _ = diagnose(begin("waits", does, flag, folder, through=OWN_MOUNTS), window=1)
    assert named(report) == (rule, rule), report["findings"]


def test_a_thread_that_may_open_no_more_files(begin, diagnose) -> None:
    report, _ = diagnose(begin("waits", "opens_many"), window=1)
    assert named(report) == ("open-files-limit", "resource-limit")


@needs_root
def test_a_job_that_may_make_no_more_threads(control_group, begin, diagnose) -> None:
    group = control_group("pids", v1={"pids.max": "12"}, v2={"pids.max": "12"})
    report, _ = diagnose(begin("waits", "starts_many_threads", through=group.through), window=1)
    assert named(report) == ("process-limit", "resource-limit")


def test_a_variable_that_was_not_handed_over(begin, diagnose) -> None:
    report, _ = diagnose(begin("waits", "reads_variable"), window=1)
    assert named(report) == ("env-var-missing", "env-var-missing")
    assert "TRAIN_DATA_ROOT" in report["findings"][0]["title"]


def test_an_argument_that_is_not_there_and_the_log_says_so(begin, diagnose) -> None:
    report, _ = diagnose(begin("waits", "reads_settings", "--settings", "runs/first/settings.yaml"), window=1)
    assert named(report) == ("path-missing-in-log", "config-path-missing")


def test_a_package_with_a_file_missing(begin, diagnose, installed) -> None:
    site = installed("xformers", "0.0.27", {"xformers/__init__.py": "from xformers import _C\n"},
                     "xformers/__init__.py,,24\nxformers/_C.so,,123456\n")  # fmt: skip
    report, _ = diagnose(begin("waits", "imports", "xformers", PYTHONPATH=str(site)), window=1)
    assert named(report) == ("package-broken", "broken-package")
    assert "_C.so: missing" in report["findings"][0]["title"]


def test_a_module_that_is_not_installed(begin, diagnose) -> None:
    report, _ = diagnose(begin("waits", "imports", "no_such_module_at_all"), window=1)
    assert named(report) == ("package-missing", "broken-package")


NUMPY = "raise ImportError('A module that was compiled using NumPy 1.x cannot be run in NumPy 2.1.0')\n"
NMS = "raise RuntimeError('operator torchvision::nms does not exist')\n"


def test_a_torch_that_is_too_old_for_this_numpy(begin, diagnose, installed) -> None:
    installed("torch", "2.2.1")
    site = installed("numpy", "2.1.0", {"numpy_user.py": NUMPY})
    report, _ = diagnose(begin("waits", "imports", "numpy_user", PYTHONPATH=str(site)), window=1)
    assert named(report) == ("numpy-mismatch", "version-mismatch")


def test_a_torchvision_of_another_torch(begin, diagnose, installed) -> None:
    installed("torch", "2.6.0")
    site = installed("torchvision", "0.19.0", {"torchvision_user.py": NMS})
    report, _ = diagnose(begin("waits", "imports", "torchvision_user", PYTHONPATH=str(site)), window=1)
    assert named(report) == ("version-mismatch", "version-mismatch")


@needs_torch
@needs_root
def test_a_shared_memory_that_holds_no_batch(begin, diagnose) -> None:
    report, _ = diagnose(begin("loader_shm_small", through=OWN_MOUNTS), window=1)
    assert named(report) == ("shm-too-small", "shm-too-small")


@needs_root
def test_a_worker_that_the_kernel_killed_for_memory(control_group, begin, diagnose) -> None:
    swap = {"memory.swap.max": "0"} if swap_is_counted() else {}
    group = control_group("memory", v1={"memory.limit_in_bytes": "160M"}, v2={"memory.max": "160M", **swap})
    report, _ = diagnose(begin("pool_oom_killed", through=group.through), window=1)
    assert named(report) == ("oom-killed", "oom-killed")


@needs_root
def test_a_quota_that_is_too_small_for_its_threads(control_group, begin, diagnose) -> None:
    group = control_group(
        "cpu", v1={"cpu.cfs_period_us": "20000", "cpu.cfs_quota_us": "2000"}, v2={"cpu.max": "2000 20000"}
    )
    report, _ = diagnose(begin("quota_small", through=group.through), window=2)
    assert (report["verdict"]["state"], *named(report)) == ("degraded", "cpu-throttled", "cpu-throttled")


@needs_torch
def test_a_job_that_runs_on_the_cpu_instead(begin, diagnose) -> None:
    report, _ = diagnose(begin("trains_on_cpu", "--device", "cuda"), window=1)
    assert (report["verdict"]["state"], *named(report)) == ("degraded", "cpu-fallback", "cpu-fallback")


def test_a_job_that_was_told_to_use_the_cpu_is_healthy(begin, diagnose) -> None:
    if find_spec("torch") is None:
        pytest.skip("needs torch")
    report, _ = diagnose(begin("trains_on_cpu", "--device", "cpu"), window=1)
    assert (report["verdict"]["state"] in ("healthy", "slow"), cause_of(report)) == (True, None)


def test_a_wrapper_whose_child_has_ended_with_a_traceback(begin, diagnose) -> None:
    report, _ = diagnose(begin("child_crashed"), window=1)
    assert (report["verdict"]["state"], *named(report)) == ("crashed", "crashed", "crashed")


@needs_cc
def test_two_openmp_runtimes_and_the_main_thread_in_one_of_them(begin, diagnose) -> None:
    report, _ = diagnose(begin("openmp_twice"), window=1)
    assert named(report) == ("two-openmp-runtimes", "library-conflict")


# --- with a library in the place of the driver's ---


@pytest.fixture
def driver(tmp_path: Path, monkeypatch):
    """`driver(state)`: what collects from now on finds the stand-in of NVIDIA's library."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")

    def use(state: str, **env: str) -> None:
        source = FIXTURES / "gpu/nvml_standin.c"
        library = tmp_path / "libnvidia-ml.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", library, source], check=True, timeout=60)
        for name, value in {"LD_LIBRARY_PATH": str(tmp_path), "NVML_STATE": state, **env}.items():
            monkeypatch.setenv(name, value)

    return use


OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB."
NO_GPU = "RuntimeError: No CUDA GPUs are available"


def test_another_process_has_the_gpu(begin, diagnose, driver, start) -> None:
    other = start(["sleep", "600"]).pid
    pid = begin("waits_for_gpu", OUT_OF_MEMORY)
    driver("taken", NVML_PROCESSES=f"{other}:60000")
    report, _ = diagnose(pid, window=1)
    assert named(report) == ("gpu-memory-taken", "gpu-memory-taken")


def test_the_job_alone_has_filled_the_gpu(begin, diagnose, driver) -> None:
    pid = begin("waits_for_gpu", OUT_OF_MEMORY)
    driver("taken", NVML_PROCESSES=f"{pid}:79000")
    report, _ = diagnose(pid, window=1)
    assert named(report) == ("gpu-memory-exhausted", "gpu-memory-exhausted")


def test_the_gpu_is_full_of_pieces(begin, diagnose, driver) -> None:
    pid = begin("waits_for_gpu", OUT_OF_MEMORY, "Of it 12.50 GiB is reserved by PyTorch but unallocated.")
    driver("taken", NVML_PROCESSES=f"{pid}:79000")
    report, _ = diagnose(pid, window=1)
    assert named(report) == ("gpu-memory-fragmented", "gpu-memory-exhausted")


def test_a_driver_that_is_too_old_for_the_framework(begin, diagnose, driver, installed) -> None:
    site = installed("torch", "2.9.0+cu130")
    told = "RuntimeError: The NVIDIA driver on your system is too old (found version 12020)."
    pid = begin("waits_for_gpu", told, PYTHONPATH=str(site))
    driver("healthy")
    report, _ = diagnose(pid, window=1)
    assert named(report) == ("driver-too-old", "version-mismatch")


def test_the_drivers_halves_differ(begin, diagnose, driver) -> None:
    pid = begin("waits_for_gpu", NO_GPU)
    driver("mismatch")
    report, _ = diagnose(pid, window=1)
    assert named(report) == ("driver-library-mismatch", "version-mismatch")


def test_the_launcher_has_hidden_the_gpus(begin, diagnose) -> None:
    report, _ = diagnose(begin("waits_for_gpu", NO_GPU, CUDA_VISIBLE_DEVICES="-1"), window=1)
    assert named(report) == ("device-not-visible", "device-not-visible")
